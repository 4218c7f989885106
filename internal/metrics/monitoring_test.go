// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// These tests compare alerts, runbooks, dashboard, metrics and docs with one another. test/alerts shows that alerts fire for real faults.

package metrics_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"gotest.tools/v3/assert"
	"k8s.io/apimachinery/pkg/types"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/yaml"

	"d3os.com/d3os-operator/internal/metrics"
)

// runbooks is the end of the address of the page that has a section for each alert. test/bundle checks the start of the
// address.
const runbooks = "/blob/main/docs/runbooks.md#"

type rule struct {
	Alert, Expr, For    string
	Labels, Annotations map[string]string
}

func file(t *testing.T, path ...string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(append([]string{"../.."}, path...)...))
	assert.NilError(t, err)
	return text
}

// groups returns the spec of the rules as JSON, and the rules of its first group.
func groups(t *testing.T) (plain []byte, rules []rule) {
	t.Helper()
	var object struct{ Spec json.RawMessage }
	assert.NilError(t, yaml.Unmarshal(file(t, "config", "prometheus", "rules.yaml"), &object))
	var spec struct{ Groups []struct{ Rules []rule } }
	assert.NilError(t, json.Unmarshal(object.Spec, &spec))
	return object.Spec, spec.Groups[0].Rules
}

// Every alert has a link to its section of the runbooks, and every section belongs to an alert.
func TestEveryAlertHasItsRunbook(t *testing.T) {
	t.Parallel()
	var sections []string
	parts := map[string]string{}
	for part := range strings.SplitSeq(string(file(t, "docs", "runbooks.md")), "\n## ") {
		title, text, _ := strings.Cut(part, "\n")
		if !strings.HasPrefix(title, "# ") {
			sections = append(sections, title)
			parts[title] = text
		}
	}
	_, rules := groups(t)
	var alerts []string
	for _, rule := range rules {
		alerts = append(alerts, rule.Alert)
		assert.Assert(t, strings.HasSuffix(rule.Annotations["runbook_url"], runbooks+strings.ToLower(rule.Alert)), rule.Alert)
		for _, what := range []string{"**Meaning.**", "**Impact.**", "**Look.**", "**Mitigation.**"} {
			assert.Assert(t, strings.Contains(parts[rule.Alert], what), "docs/runbooks.md: %s lacks %s", rule.Alert, what)
		}
		assert.Assert(t, slices.Contains([]string{"critical", "warning", "info"}, rule.Labels["severity"]), rule.Alert)
	}
	assert.DeepEqual(t, sections, alerts)
}

// caseFiles are the files with the test cases of alert rules.
var caseFiles = []string{"rules.test.yaml", "rules.days.test.yaml"}

// Each alert fires in at least one test case.
func TestEveryAlertHasACase(t *testing.T) {
	t.Parallel()
	_, rules := groups(t)
	var all string
	for _, name := range caseFiles {
		all += string(file(t, "internal", "metrics", "testdata", name))
	}
	for _, rule := range rules {
		assert.Assert(t, strings.Contains(all, `alertname="`+rule.Alert+`"`), "%s fires in no case of the tests of rules", rule.Alert)
	}
}

// promtool runs the rules over the series of the cases.
func TestRules(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("make suite-alerts runs it: it needs promtool")
	}
	folder := os.Getenv("PROMETHEUS")
	assert.Assert(t, folder != "", "PROMETHEUS is not the folder of promtool: make test sets it")
	plain, _ := groups(t)
	dir := t.TempDir()
	assert.NilError(t, os.WriteFile(filepath.Join(dir, "rules.yaml"), plain, 0o600))
	for _, name := range caseFiles {
		assert.NilError(t, os.WriteFile(filepath.Join(dir, name), file(t, "internal", "metrics", "testdata", name), 0o600))
	}
	for _, args := range [][]string{{"check", "rules", "rules.yaml"}, {"test", "rules", "rules.test.yaml", "rules.days.test.yaml"}} {
		promtool := exec.CommandContext(t.Context(), filepath.Join(folder, "promtool"), args...)
		promtool.Dir = dir
		out, err := promtool.CombinedOutput()
		assert.NilError(t, err, string(out))
	}
}

// foreign lists the metrics of other programs: Kubernetes' client, controller-runtime, Go, Prometheus itself.
var foreign = []string{
	"ALERTS", "controller_runtime_reconcile_errors_total", "controller_runtime_reconcile_time_seconds_bucket", "go_gc_gomemlimit_bytes",
	"leader_election_master_status", "process_resident_memory_bytes", "rest_client_requests_total", "up", "workqueue_depth",
}

var metricName = regexp.MustCompile(`\b([a-zA-Z_]+)\s*(?:\{|\[)|\b((?:dataservice|rediscluster|etcdcluster|mysqlcluster|d3os_operator)_[a-z_]+)\b`)

// Each metric that an alert or a panel uses exists.
func TestEveryMetricExists(t *testing.T) {
	t.Parallel()
	known := map[string]bool{}
	for _, name := range foreign {
		known[name] = true
	}
	described := make(chan *prometheus.Desc, 1000)
	for _, kind := range []string{"DataService", "RedisCluster", "EtcdCluster", "MySQLCluster"} {
		s := metrics.SeriesOf(kind)
		s.Describe(described)
		s.TimeToReady.Describe(described)
	}
	for _, c := range []prometheus.Collector{metrics.Writes, metrics.SkippedWrites, metrics.DriftCorrections, metrics.StatusWrites} {
		c.Describe(described)
	}
	close(described)
	metrics.Redis.Set(types.NamespacedName{Namespace: "a", Name: "b"}, 1, map[string]int{"master": 1}, 0) // the metric has no series before the first cluster
	quoted := regexp.MustCompile(`fqName: "([a-z_]+)"`)
	for d := range described {
		name := quoted.FindStringSubmatch(d.String())[1]
		known[name], known[name+"_bucket"] = true, true
	}
	families, err := ctrlmetrics.Registry.Gather()
	assert.NilError(t, err)
	for _, family := range families {
		known[family.GetName()] = true
	}
	_, rules := groups(t)
	var exprs []string
	for _, rule := range rules {
		exprs = append(exprs, rule.Expr)
	}
	var board struct {
		Panels []struct{ Targets []struct{ Expr string } }
	}
	assert.NilError(t, json.Unmarshal(file(t, "config", "prometheus", "dashboard.json"), &board))
	for _, panel := range board.Panels {
		for _, target := range panel.Targets {
			exprs = append(exprs, target.Expr)
		}
	}
	assert.Assert(t, len(exprs) > 40)
	used := map[string]bool{}
	for _, expr := range exprs {
		for _, found := range metricName.FindAllStringSubmatch(regexp.MustCompile(`"[^"]*"`).ReplaceAllString(expr, `""`), -1) {
			name := found[1] + found[2]
			used[name] = true
			assert.Assert(t, known[name], "%s: the metric %s does not exist", expr, name)
		}
	}
	for _, name := range foreign {
		assert.Assert(t, used[name], "no alert and no panel uses %s: remove it from foreign", name)
	}
}

// docs/operations.md documents every metric of the operator, under the metric's name without the prefix of the kind.
func TestEveryMetricIsDocumented(t *testing.T) {
	t.Parallel()
	docs := string(file(t, "docs", "operations.md"))
	described := make(chan *prometheus.Desc, 1000)
	metrics.SeriesOf("DataService").Describe(described)
	for _, c := range []prometheus.Collector{metrics.Writes, metrics.SkippedWrites, metrics.DriftCorrections, metrics.StatusWrites} {
		c.Describe(described)
	}
	close(described)
	for d := range described {
		name := regexp.MustCompile(`fqName: "([a-z_0-9]+)"`).FindStringSubmatch(d.String())[1]
		name = strings.TrimPrefix(name, "dataservice_") // other kinds have the same metrics with another prefix
		assert.Assert(t, strings.Contains(docs, name+"`") || strings.Contains(docs, name+"{"), "docs/operations.md does not list %s", name)
	}
}
