// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	"d3os.com/d3os-operator/config/crd"
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
	recorded.Wrap(func(next http.RoundTripper) http.RoundTripper { return roundTripper{traffic, next} })
	managed := labels.SelectorFromSet(labels.Set{object.LabelManagedBy: object.ManagedBy})
	byObject := map[client.Object]cache.ByObject{}
	kinds := slices.Concat(object.Kinds, object.Resources)
	for _, gvk := range kinds {
		byObject[object.Empty(gvk)] = cache.ByObject{Label: managed, UnsafeDisableDeepCopy: ptr.To(true)}
	}
	c, err := cluster.New(recorded, func(o *cluster.Options) {
		o.Cache = cache.Options{ByObject: byObject, DefaultTransform: cache.TransformStripManagedFields(), ReaderFailOnMissingInformer: true}
		o.Client.Cache = &client.CacheOptions{Unstructured: true, EnableReadYourWritesConsistency: ptr.To(true)}
	})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	for _, gvk := range kinds {
		err := c.GetFieldIndexer().IndexField(ctx, object.Empty(gvk), object.IndexOwner, func(obj client.Object) []string {
			return []string{object.OwnerKey(obj)}
		})
		if err != nil {
			cancel()
			return nil, err
		}
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
	method, path, query, body string
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

type roundTripper struct {
	recorder *recorder
	next     http.RoundTripper
}

func (t roundTripper) RoundTrip(r *http.Request) (*http.Response, error) {
	_, rest, ok := strings.Cut(r.URL.Path, "/namespaces/")
	if !ok { // the informers watch all namespaces
		return t.next.RoundTrip(r)
	}
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
		r = r.Clone(r.Context())
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	namespace, rest, _ := strings.Cut(rest, "/")
	t.recorder.mu.Lock()
	t.recorder.byNamespace[namespace] = append(t.recorder.byNamespace[namespace], call{r.Method, rest, r.URL.RawQuery, string(body)})
	t.recorder.mu.Unlock()
	return t.next.RoundTrip(r)
}

// writes are the requests of the operator's that are no reads.
func writes(namespace string) []string {
	found := []string{}
	for _, r := range traffic.take(namespace) {
		if r.method != http.MethodGet {
			found = append(found, r.method+" "+path.Base(path.Dir(r.path))+"/"+path.Base(r.path))
		}
	}
	return found
}
