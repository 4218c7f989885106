// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	"d3os.com/d3os-operator/config/crd"
	"d3os.com/d3os-operator/internal/kube"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/test/apiserver"
)

// kubeVersion is what charts are rendered for.
const kubeVersion = "v1.36.0"

// ownVersion is that of the operator whose Applier is tested.
const ownVersion = "1.2.3"

// ownTypes know the schemas of the operator's own kinds.
var ownTypes = func() *Types {
	types, err := NewTypes(crd.Files)
	if err != nil {
		panic(err)
	}
	return types
}()

var (
	operator  client.Client // cached, as the operator's
	apiReader client.Reader // uncached; its requests count as the operator's
	user      client.Client // somebody else, uncached
	traffic   = &recorder{byNamespace: map[string][]call{}}
)

func TestMain(m *testing.M) {
	apiserver.Main(m, []string{"../../config/crd/bases"}, func(cfg *rest.Config) (stop func(), err error) {
		if user, err = client.New(cfg, client.Options{}); err != nil {
			return nil, err
		}
		return startOperatorClient(cfg)
	})
}

// startOperatorClient sets up the operator's client and cache as its manager does.
func startOperatorClient(cfg *rest.Config) (context.CancelFunc, error) {
	recorded := rest.CopyConfig(cfg)
	recorded.Wrap(func(next http.RoundTripper) http.RoundTripper { return recording{traffic, next} })
	kinds := slices.Concat(object.Kinds, object.Resources)
	c, err := cluster.New(recorded, func(o *cluster.Options) {
		o.Cache = kube.CacheOptions(kinds, nil, time.Hour, kube.NewRefusals())
		o.Client.Cache = &client.CacheOptions{Unstructured: true, EnableReadYourWritesConsistency: ptr.To(true)}
	})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	if err := kube.AddIndexes(ctx, c.GetFieldIndexer(), kinds); err != nil {
		cancel()
		return nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Start(ctx) }()
	if !c.GetCache().WaitForCacheSync(ctx) {
		cancel()
		return nil, fmt.Errorf("fill the cache: %w", <-ended)
	}
	operator, apiReader = c.GetClient(), c.GetAPIReader()
	return func() {
		cancel()
		if err := <-ended; err != nil {
			fmt.Fprintln(os.Stderr, "the cache ended with:", err)
		}
	}, nil
}

// call is one request of the operator's.
type call struct {
	method, path, body string
}

// recorder remembers every request to a namespace.
type recorder struct {
	mu          sync.Mutex
	byNamespace map[string][]call
}

// take returns the requests since the last call.
func (r *recorder) take(namespace string) []call {
	r.mu.Lock()
	defer r.mu.Unlock()
	taken := r.byNamespace[namespace]
	delete(r.byNamespace, namespace)
	return taken
}

// recording is the way to the API server past a recorder.
type recording struct {
	*recorder

	next http.RoundTripper
}

func (t recording) RoundTrip(r *http.Request) (*http.Response, error) {
	_, rest, ok := strings.Cut(r.URL.Path, "/namespaces/")
	if !ok { // the informers watch all namespaces
		return t.next.RoundTrip(r)
	}
	var body []byte
	if r.GetBody != nil {
		again, err := r.GetBody()
		if err != nil {
			return nil, err
		}
		if body, err = io.ReadAll(again); err != nil {
			return nil, err
		}
	}
	namespace, rest, _ := strings.Cut(rest, "/")
	t.mu.Lock()
	t.byNamespace[namespace] = append(t.byNamespace[namespace], call{r.Method, rest, string(body)})
	t.mu.Unlock()
	return t.next.RoundTrip(r)
}
