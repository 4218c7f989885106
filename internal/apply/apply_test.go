// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/yaml"

	"d3os.com/d3os-operator/config/crd"
	"d3os.com/d3os-operator/internal/kube"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/render"
	"d3os.com/d3os-operator/test/apiserver"
)

// renderings returns functions that render the objects to test: from the sample, from a spec with many settings, and from the charts' ci
// files.
func renderings(t *testing.T) map[string]func(*platform) []*unstructured.Unstructured {
	t.Helper()
	found := map[string]func(*platform) []*unstructured.Unstructured{}
	for _, file := range []string{"../platform/plan/testdata/customised.yaml", "../../config/samples/d3os-product.com_v1_dataservice.yaml"} {
		found[strings.TrimSuffix(filepath.Base(file), ".yaml")] = func(p *platform) []*unstructured.Unstructured {
			p.declareAll(read(p.T, file))
			return p.objects()
		}
	}
	charts, err := filepath.Glob("../../helm-charts/*/ci/*-values.yaml")
	assert.NilError(t, err)
	assert.Assert(t, len(charts) > 10, "the charts' ci files are missing")
	for _, file := range charts {
		chart := filepath.Base(filepath.Dir(filepath.Dir(file)))
		found[chart+"/"+strings.TrimSuffix(filepath.Base(file), "-values.yaml")] = func(p *platform) []*unstructured.Unstructured {
			return renderChart(p, chart, read(p.T, file))
		}
	}
	return found
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	data, err := os.ReadFile(file)
	assert.NilError(t, err)
	return data
}

func renderChart(p *platform, chart string, values []byte) []*unstructured.Unstructured {
	p.Helper()
	v := map[string]any{}
	assert.NilError(p, yaml.Unmarshal(values, &v))
	v["instance"], v["managedBy"] = p.ds.Name, object.ManagedBy
	delete(v, "ownerLabels") // the test's owner is a DataService
	renderer, err := render.New(kubeVersion)
	assert.NilError(p, err)
	rendered, err := renderer.Render(render.Release{Name: p.ds.Name, Namespace: p.ds.Namespace}, []render.Part{{Name: "part", Chart: chart, Values: v}})
	assert.NilError(p, err)
	_, err = object.FinishAll(rendered[0], p.owner())
	assert.NilError(p, err)
	return rendered[0]
}

// Each rendered object is created with one write. After that, a value that the API server fills in or rewrites never counts as a
// difference, even after a restart of the operator.
func TestAtRestNothingIsWrittenOrRead(t *testing.T) {
	t.Parallel()
	all := renderings(t)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := start(t, "{}")
			objects := all[name](p)
			otherNodePorts(objects)
			t.Cleanup(func() { freeNodePorts(t, objects) })
			for _, obj := range objects {
				assert.Equal(t, p.apply(obj).Action, Created, describe(obj))
			}
			assert.Equal(t, len(traffic.take(p.ds.Namespace)), len(objects))
			for range 2 {
				for _, obj := range objects {
					result := p.apply(obj)
					assert.Equal(t, result.Action, Unchanged, describe(obj))
					assert.Equal(t, result.Object.GetName(), obj.GetName())
				}
				p.restart()
			}
			assert.Equal(t, len(traffic.take(p.ds.Namespace)), 0)
		})
	}
}

// lastNodePort counts the node ports that otherNodePorts has used.
var lastNodePort atomic.Int64

// otherNodePorts replaces the node ports of Services by ports that no other test uses.
func otherNodePorts(objects []*unstructured.Unstructured) {
	for _, obj := range objects {
		for _, port := range items(obj.Object, "spec", "ports") {
			if port["nodePort"] != nil {
				port["nodePort"] = 31000 + lastNodePort.Add(1)
			}
		}
	}
}

func freeNodePorts(t *testing.T, objects []*unstructured.Unstructured) {
	for _, obj := range objects {
		if obj.GetKind() == "Service" {
			assert.NilError(t, client.IgnoreNotFound(user.Delete(context.Background(), obj.DeepCopy()))) // t.Context() has ended already
		}
	}
}

// A change of the spec is applied by one write: no intermediate state is rolled out. Kubernetes can make each of these changes in place.
func TestEveryChangeOfTheSpecIsOneWrite(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ before, after, id string }{
		"image, and number of pods": {"{web: {replica: 2}}", "{web: {image: b, replica: 3}}", "Deployment/web"},
		"image, and one variable less": {
			"{eureka: {image: a, env: {A: b}}}", "{eureka: {image: b}}", "Deployment/eureka",
		},
		"port of the workload":       {"{eureka: {}}", "{eureka: {port: 1234}}", "Deployment/eureka"},
		"port of the Service":        {"{eureka: {}}", "{eureka: {port: 1234}}", "Service/eureka"},
		"becomes a third party":      {"{eureka: {}}", "{eureka: {kind: 3, thirdParty: {url: 'http://a.example.com'}}}", "Service/eureka"},
		"is no longer a third party": {"{eureka: {kind: 3, thirdParty: {url: 'http://a.example.com'}}}", "{eureka: {}}", "Service/eureka"},
		"a node port":                {"{eureka: {}}", "{eureka: {nodePort: 30999}}", "Service/eureka"},
		"no node port":               {"{eureka: {nodePort: 30998}}", "{eureka: {}}", "Service/eureka"},
		"a claim's retention":        {"{mysql: {kind: Deployment}}", "{mysql: {kind: Deployment, storage: {retention: Delete}}}", "PersistentVolumeClaim/data-mysql-dataservice-0"},
		"a StatefulSet's retention":  {"{mysql: {}}", "{mysql: {storage: {retention: Delete}}}", "StatefulSet/mysql-dataservice"},
		"a user's script":            {"{mysql: {initScripts: [{name: a}]}}", "{mysql: {initScripts: [{name: b}]}}", "StatefulSet/mysql-dataservice"},
		"fewer resources": {
			"{eureka: {resources: {requests: {cpu: 1}, limits: {cpu: 1}}}}", "{eureka: {resources: {requests: {cpu: 2}}}}", "Deployment/eureka",
		},
		"another host of a third party": {
			"{eureka: {kind: 3, thirdParty: {url: 'http://a.example.com'}}}", "{eureka: {kind: 3, thirdParty: {url: 'http://b.example.com'}}}", "Service/eureka",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, _ := running(t, test.before, test.id)
			p.declare(test.after)
			planned := p.planned(test.id)
			assert.Equal(t, p.apply(planned).Action, Updated)
			assert.Equal(t, len(traffic.take(p.ds.Namespace)), 1)
			p.atRest(planned)

			// The updated object has the same spec as an object that is created from the new plan: no field of the old
			// plan is left.
			got := fetch(t, planned)
			freeNodePorts(t, []*unstructured.Unstructured{planned})
			_, created := running(t, test.after, test.id)
			want := fetch(t, created)
			t.Cleanup(func() { freeNodePorts(t, []*unstructured.Unstructured{created}) })
			for _, ip := range []string{"clusterIP", "clusterIPs"} {
				assert.Equal(t, field(t, got, "spec", ip) != nil, field(t, want, "spec", ip) != nil)
				unstructured.RemoveNestedField(got.Object, "spec", ip)
				unstructured.RemoveNestedField(want.Object, "spec", ip)
			}
			assert.DeepEqual(t, got.Object["spec"], want.Object["spec"])
		})
	}
}

// kubeVersion is the Kubernetes version for rendering charts.
const kubeVersion = "v1.36.0"

// ownVersion is the version of the operator under test.
const ownVersion = "1.2.3"

// ownTypes contains the schemas of the operator's own kinds.
var ownTypes = func() *Types {
	types, err := NewTypes(crd.Files)
	if err != nil {
		panic(err)
	}
	return types
}()

var (
	operator  client.Client // has a cache, as the operator's client does
	apiReader client.Reader // has no cache; traffic records its requests, too
	user      client.Client // client of a user, without a cache
	traffic   = &recorder{byNamespace: map[string][]call{}}
)

func TestMain(m *testing.M) {
	apiserver.Main(m, []string{"../../config/crd/bases", "../../test/behaviour/testdata/mongodbcommunity.yaml", "../../test/behaviour/testdata/httproute.yaml"}, func(cfg *rest.Config) (stop func(), err error) {
		if user, err = client.New(cfg, client.Options{}); err != nil {
			return nil, err
		}
		return startOperatorClient(cfg)
	})
}

// startOperatorClient creates a client and a cache as the operator's manager does.
func startOperatorClient(cfg *rest.Config) (context.CancelFunc, error) {
	recorded := rest.CopyConfig(cfg)
	recorded.Wrap(func(next http.RoundTripper) http.RoundTripper { return recording{traffic, next} })
	kinds := slices.Concat(object.Kinds, object.Optional)
	c, err := cluster.New(recorded, func(o *cluster.Options) {
		o.Cache = kube.CacheOptions(kinds, nil, time.Hour, kube.NewLists())
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
	operator, apiReader = kube.NewClient(c.GetClient(), c.GetAPIReader()), c.GetAPIReader()
	return func() {
		cancel()
		if err := <-ended; err != nil {
			fmt.Fprintln(os.Stderr, "the cache ended with:", err)
		}
	}, nil
}

// call is a request of the operator.
type call struct {
	method, path, body string
}

// recorder records every request to a namespace.
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

// recording is a transport that passes requests to a recorder and to the API server.
type recording struct {
	*recorder

	next http.RoundTripper
}

func (t recording) RoundTrip(r *http.Request) (*http.Response, error) {
	_, rest, ok := strings.Cut(r.URL.Path, "/namespaces/")
	if !ok { // an informer watches all namespaces
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
