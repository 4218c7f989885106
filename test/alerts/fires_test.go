// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build alerts

package alerts_test

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdv1 "d3os.com/d3os-operator/api/etcd/v1alpha1"
	mysqlv1 "d3os.com/d3os-operator/api/mysql/v1alpha1"
	redisv1 "d3os.com/d3os-operator/api/redis/v1alpha1"
	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/test/harness"
)

// alertNames returns the names of the alerts in config/prometheus/rules.yaml.
func alertNames(t *testing.T) []string {
	t.Helper()
	var rules struct {
		Spec struct {
			Groups []struct{ Rules []struct{ Alert string } }
		}
	}
	if err := harness.ReadYAML("config/prometheus/rules.yaml", &rules); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, rule := range rules.Spec.Groups[0].Rules {
		names = append(names, rule.Alert)
	}
	return names
}

// Each alert has a fault in the tables.
func TestEveryAlertHasAFault(t *testing.T) {
	have := slices.Collect(maps.Keys(allFaults()))
	have = append(have, slices.Collect(maps.Keys(operatorFaults))...)
	have = append(have, "D3OSOperatorReconcileErrors") // the faults for the NotObserved alerts cause it
	if diff := harness.Difference(have, alertNames(t)); diff != "" {
		t.Fatal(diff)
	}
}

// Each alert about resources fires for its fault and for no other resource. The alert continues during a change of the leader, and ends
// when the resource is deleted, because a deleted resource has no series. During the test, every panel of the dashboard shows data.
func TestResources(t *testing.T) {
	w := newWorld(t, 600)
	leader := w.start(programs.older, nil)
	w.until("it leads", func() error { return w.has(`leader_election_master_status == 1`) })
	standby := w.start(programs.older, nil)
	refuseStatus(w)
	well := w.namespace(nil)
	w.service(well, service("registry.example/app:v1"))
	places := map[string]string{}
	faults := chosen(t)
	for _, alert := range slices.Sorted(maps.Keys(faults)) {
		labels := map[string]string{}
		if strings.HasSuffix(alert, "NotObserved") {
			labels["refuse"] = "status"
		}
		places[alert] = w.namespace(labels)
		faults[alert](w, places[alert])
	}
	if isWhole(faults) {
		w.fires("D3OSOperatorReconcileErrors", "") // checked first, because retries become rarer with time
	}
	for _, alert := range slices.Sorted(maps.Keys(places)) {
		w.fires(alert, places[alert])
	}

	t.Run("another leader", func(t *testing.T) {
		began := time.Now()
		w.end(leader, func() { _ = leader.Signal(syscall.SIGKILL) })
		w.until("the standby leads", func() error { return w.has(fmt.Sprintf(`leader_election_master_status{pod=%q} == 1`, standby.name)) })
		w.until("a while has passed", func() error {
			if time.Since(began) < 20*time.Second {
				return fmt.Errorf("it has not")
			}
			return nil
		})
		for alert, place := range places {
			if strings.HasSuffix(alert, "NotObserved") || strings.HasSuffix(alert, "Contested") {
				continue // a new leader detects these states again only after a while
			}
			expr := fmt.Sprintf(`ALERTS{alertname=%q, alertstate="firing", namespace=%q}`, alert, place)
			if gap := longestGap(w.over(expr, began), began); gap > 2 {
				t.Errorf("%s is silent for %d s", alert, gap)
			}
		}
	})
	if isWhole(faults) {
		t.Run("panels", func(t *testing.T) { panels(t, w) })
	}
	if found := w.over(fmt.Sprintf(`ALERTS{namespace=%q}`, well), w.began); len(found) > 0 {
		t.Errorf("alerts about healthy resources: %v", found)
	}
	t.Run("nothing is left", func(t *testing.T) {
		for _, place := range places {
			w.must(suite.API.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: place}}))
			for _, resource := range []client.Object{&dsv1.DataService{}, &redisv1.RedisCluster{}, &etcdv1.EtcdCluster{}, &mysqlv1.MySQLCluster{}} {
				w.must(suite.API.DeleteAllOf(t.Context(), resource, client.InNamespace(place)))
			}
		}
		for alert, place := range places {
			expr := fmt.Sprintf(`{__name__=~"(dataservice|rediscluster|etcdcluster|mysqlcluster)_.*", namespace=%q}`, place)
			w.until("no series is left of "+alert, func() error {
				if found := w.now(expr); len(found) > 0 {
					return fmt.Errorf("%d series: %v", len(found), found[0].Metric)
				}
				return nil
			})
			w.until(alert+" ends", func() error {
				if found := w.now(fmt.Sprintf(`ALERTS{namespace=%q}`, place)); len(found) > 0 {
					return fmt.Errorf("%v", found)
				}
				return nil
			})
		}
	})
}

// chosen returns the selected faults: all, or those whose alerts ALERTS_ONLY matches.
func chosen(t *testing.T) map[string]func(*world, string) {
	t.Helper()
	only, err := regexp.Compile(os.Getenv("ALERTS_ONLY"))
	if err != nil {
		t.Fatal(err)
	}
	faults := allFaults()
	maps.DeleteFunc(faults, func(alert string, _ func(*world, string)) bool { return !only.MatchString(alert) })
	return faults
}

func isWhole(faults map[string]func(*world, string)) bool {
	return len(faults) == len(allFaults())
}

// longestGap returns the longest time, in seconds, for which no series had a value. The search begins at since.
func longestGap(found []series, since time.Time) int {
	at := map[int64]bool{}
	for _, s := range found {
		for _, value := range s.Values {
			at[int64(value[0].(float64))] = true
		}
	}
	longest, gap := 0, 0
	for second := since.Unix(); second <= time.Now().Unix()-1; second++ {
		if gap++; at[second] {
			gap = 0
		}
		longest = max(longest, gap)
	}
	return longest
}

// Each alert about the operator fires for its fault.
func TestOperator(t *testing.T) {
	for _, alert := range slices.Sorted(maps.Keys(operatorFaults)) {
		t.Run(alert, func(t *testing.T) {
			w := newWorld(t, 600)
			operatorFaults[alert](w)
			w.fires(alert, "")
		})
	}
}
