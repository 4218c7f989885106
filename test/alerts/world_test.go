// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build alerts

package alerts_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdv1 "d3os.com/d3os-operator/api/etcd/v1alpha1"
	mysqlv1 "d3os.com/d3os-operator/api/mysql/v1alpha1"
	redisv1 "d3os.com/d3os-operator/api/redis/v1alpha1"
	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/test/cluster"
	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/harness/process"
)

// world is a Prometheus and the replicas of the operator that it scrapes.
type world struct {
	*testing.T

	dir      string
	address  string // of Prometheus
	began    time.Time
	replicas []*replica
	volumes  sync.Map // the kubelet's metrics of volumes, by claim
}

// replica is a process of the operator.
type replica struct {
	*process.Process

	name, address string // name of the replica, and address of its metrics
}

// settings is the format of Prometheus' configuration. The first job has the settings of the ServiceMonitor.
const settings = `
global: {scrape_interval: 2s, scrape_timeout: 2s, evaluation_interval: 1s}
rule_files: [rules.yaml]
scrape_configs:
- job_name: d3os-operator-controller-manager-metrics-service
  scheme: https
  honor_labels: %v
  tls_config: {insecure_skip_verify: true}
  authorization: {credentials_file: token}
  file_sd_configs: [{files: [targets.json], refresh_interval: 1s}]
- job_name: kubelet
  static_configs: [{targets: [%q]}]
`

// newWorld starts a Prometheus with alerts whose durations are divided by shorten.
func newWorld(t *testing.T, shorten int) *world {
	t.Helper()
	w := &world{T: t, dir: t.TempDir(), address: network.Next() + ":9090", began: time.Now()}
	rules := exec.Command("go", "run", ".", "rules", "-plain", "-shorten", strconv.Itoa(shorten))
	rules.Dir = filepath.Join(cluster.Root(), "hack", "monitoring")
	text, err := rules.Output()
	w.must(err)
	var monitor struct {
		Spec struct{ Endpoints []struct{ HonorLabels bool } }
	}
	w.must(harness.ReadYAML("config/prometheus/monitor.yaml", &monitor))
	for file, content := range map[string]string{
		"rules.yaml": string(text), "token": token, "prometheus.yaml": fmt.Sprintf(settings, monitor.Spec.Endpoints[0].HonorLabels, w.kubelet()),
	} {
		w.must(os.WriteFile(filepath.Join(w.dir, file), []byte(content), 0o600))
	}
	w.targets()
	w.run(w.dir, []string{programs.prometheus, "--config.file=prometheus.yaml", "--storage.tsdb.path=data", "--web.listen-address=" + w.address, "--log.level=warn"}, "prometheus")
	w.until("Prometheus answers", func() error {
		_, err := w.ask("query", url.Values{"query": {"vector(1)"}})
		return err
	})
	return w
}

// kubelet serves the metrics of volumes, and returns the address.
func (w *world) kubelet() string {
	s := httptest.NewServer(http.HandlerFunc(func(to http.ResponseWriter, _ *http.Request) {
		w.volumes.Range(func(_, text any) bool {
			fmt.Fprint(to, text)
			return true
		})
	}))
	w.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// fills makes the kubelet report that a volume is nearly full.
func (w *world) fills(namespace, claim string) {
	labels := fmt.Sprintf("{namespace=%q,persistentvolumeclaim=%q}", namespace, claim)
	w.volumes.Store(namespace+"/"+claim, "kubelet_volume_stats_used_bytes"+labels+" 95\nkubelet_volume_stats_capacity_bytes"+labels+" 100\n")
}

// run runs a program until the test ends.
func (w *world) run(dir string, argv []string, name string, env ...string) *process.Process {
	w.Helper()
	out, err := os.Create(filepath.Join(w.dir, name+".log"))
	w.must(err)
	p, err := guard.Start(argv, append(os.Environ(), env...), dir, out)
	w.must(err)
	w.Cleanup(func() {
		p.Kill()
		out.Close()
		if text, err := os.ReadFile(out.Name()); w.Failed() && err == nil {
			w.Logf("the end of %s:\n%s", out.Name(), text[max(0, len(text)-3000):])
		}
	})
	return p
}

// start starts a replica. If args is nil, the replica takes part in leader election.
func (w *world) start(program string, args []string, env ...string) *replica {
	w.Helper()
	ip := network.Next()
	r := &replica{name: fmt.Sprintf("operator-%d", len(w.replicas)), address: ip + ":8443"}
	if args == nil {
		args = []string{"--leader-elect", "--leader-elect-namespace=" + corev1.NamespaceDefault}
	}
	argv := append([]string{program, "--metrics-bind-address=" + r.address, "--health-probe-bind-address=0"}, args...)
	r.Process = w.run(w.dir, argv, r.name, append([]string{"KUBECONFIG=" + suite.Kubeconfig, "TMPDIR=" + w.dir, "RELATED_IMAGE_AGENT=example/agent:v1"}, env...)...)
	w.replicas = append(w.replicas, r)
	w.targets()
	w.until(r.name+" is scraped", func() error { return w.has(`up{pod="` + r.name + `"} == 1`) })
	return r
}

// end ends a replica as Kubernetes does when it deletes the pod, and removes its target.
func (w *world) end(r *replica, kill func()) {
	w.Helper()
	kill()
	<-r.Done
	for i := range w.replicas {
		if w.replicas[i] == r {
			w.replicas[i] = nil
		}
	}
	w.targets()
}

// targets writes the list of replicas for Prometheus, with the labels that a ServiceMonitor sets.
func (w *world) targets() {
	w.Helper()
	type group struct {
		Targets []string          `json:"targets"`
		Labels  map[string]string `json:"labels"`
	}
	groups := []group{}
	for _, r := range w.replicas {
		if r != nil {
			groups = append(groups, group{[]string{r.address}, map[string]string{"namespace": "d3os-operator-system", "pod": r.name}})
		}
	}
	text, err := json.Marshal(groups)
	w.must(err)
	w.must(os.WriteFile(filepath.Join(w.dir, "new"), text, 0o600))
	w.must(os.Rename(filepath.Join(w.dir, "new"), filepath.Join(w.dir, "targets.json")))
}

// series is a time series in an answer of Prometheus.
type series struct {
	Metric map[string]string
	Values [][2]any
}

// ask sends a query to Prometheus, and returns the series of the answer.
func (w *world) ask(path string, values url.Values) ([]series, error) {
	response, err := http.PostForm("http://"+w.address+"/api/v1/"+path, values)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	var answer struct {
		Status, Error string
		Data          struct{ Result json.RawMessage }
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return nil, fmt.Errorf("%s: %w: %s", path, err, text)
	}
	if answer.Status != "success" {
		return nil, fmt.Errorf("%s: %s", values.Get("query"), answer.Error)
	}
	var found []series
	return found, json.Unmarshal(answer.Data.Result, &found)
}

// now returns the present series of an expression.
func (w *world) now(expr string) []series {
	w.Helper()
	found, err := w.ask("query", url.Values{"query": {expr}})
	w.must(err)
	return found
}

// over returns the series of an expression from a given time until now.
func (w *world) over(expr string, since time.Time) []series {
	w.Helper()
	step := max(1, time.Since(since)/time.Second/10000)
	found, err := w.ask("query_range", url.Values{
		"query": {expr}, "step": {fmt.Sprint(int(step))}, "start": {fmt.Sprint(since.Unix())}, "end": {fmt.Sprint(time.Now().Unix())},
	})
	w.must(err)
	return found
}

// has returns nil when an expression has a series at present.
func (w *world) has(expr string) error {
	found, err := w.ask("query", url.Values{"query": {expr}})
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("%s has no series", expr)
	}
	return err
}

// fires waits until an alert fires; with a namespace, until the alert fires for that namespace.
func (w *world) fires(alert, namespace string) {
	w.Helper()
	began := time.Now()
	expr := fmt.Sprintf(`ALERTS{alertname=%q, alertstate="firing"}`, alert)
	if namespace != "" {
		expr = fmt.Sprintf(`ALERTS{alertname=%q, alertstate="firing", namespace=%q}`, alert, namespace)
	}
	w.until(alert+" fires", func() error { return w.has(expr) })
	w.Logf("%s fires after another %s", alert, time.Since(began).Round(time.Second))
}

func (w *world) until(what string, holds func() error) {
	w.Helper()
	never := make(chan struct{})
	if err := harness.Within(patience, 250*time.Millisecond, func() <-chan struct{} { return never }, holds); err != nil {
		w.Fatalf("wait until %s: %v", what, err)
	}
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// namespace creates a namespace that is deleted at the end of the test.
func (w *world) namespace(labels map[string]string) string {
	w.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "alerts-", Labels: labels}}
	w.must(suite.API.Create(w.Context(), namespace))
	w.Cleanup(func() {
		ctx := context.WithoutCancel(w.Context())
		for _, resource := range []client.Object{&dsv1.DataService{}, &redisv1.RedisCluster{}, &etcdv1.EtcdCluster{}, &mysqlv1.MySQLCluster{}} {
			w.must(suite.API.DeleteAllOf(ctx, resource, client.InNamespace(namespace.Name)))
		}
		w.must(client.IgnoreNotFound(suite.API.Delete(ctx, namespace)))
	})
	return namespace.Name
}
