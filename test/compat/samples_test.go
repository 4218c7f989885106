// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package compat_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"d3os.com/d3os-operator/internal/manager"
	"d3os.com/d3os-operator/test/cluster"
	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/harness/stage"
)

// reached lists how far the resources of config/samples/*/ get while simulated pods run no program: the phase, the reason of the condition Ready,
// and the object that the message names if the resource is not ready. The cluster has neither MongoDB's operator nor the storage class fast.
var reached = map[string][3]string{
	"DataService platform":                {"Running", "AllReady", ""},
	"DataBackup before-upgrade":           {"Running", "PodNotStarting", `claim "backups" not found`},
	"DataBackup before-upgrade-of-etcd":   {"Pending", "SourceNotFound", "EtcdCluster my-etcd-cluster"},
	"DataBackup before-upgrade-of-orders": {"Pending", "SourceNotFound", "MySQLCluster orders"},
	"DataRestore rehearsal":               {"Validating", "PodNotStarting", `claim "backups" not found`},
	"AppService nginx-app":                {"Running", "Settled", ""},
	"ModelBox modelbox-sample":            {"Running", "Settled", ""},
	"CronTab my-new-cron-object":          {"Running", "Settled", ""},
	"EtcdCluster my-etcd-cluster":         {"Creating", "Forming", "my-etcd-cluster-0: "},
	"EtcdCluster etcd":                    {"Creating", "Forming", "etcd-0: "},
	"DataService dataservice-etcd":        {"Creating", "ComponentsNotReady", "etcd: EtcdCluster etcd: Forming: etcd-0: "},
	"DataService dataservice-mongodb":     {"Degraded", "ComponentFailing", "install MongoDB's operator"},
	"MySQLCluster my-database":            {"Creating", "", "the agent of member 1"},
	"MySQLCluster orders":                 {"Creating", "Forming", `storageclass.storage.k8s.io "fast" not found`},
	"MySQLCluster invoices-mysql":         {"Creating", "", "the agent of member 1"},
	"DataService dataservice-mysql":       {"Creating", "ComponentsNotReady", "mysql: MySQLCluster invoices-mysql: "},
	"RedisCluster cache":                  {"Creating", "PodsNotReady", "waits for cache-0-0: "},
	"RedisCluster development":            {"Creating", "PodsNotReady", "waits for development-0-0: "},
	"RedisCluster redis":                  {"Creating", "PodsNotReady", "waits for redis-0-0: "},
	"DataService dataservice-redis":       {"Creating", "ComponentsNotReady", "redis: RedisCluster redis: PodsNotReady: waits for redis-0-0: "},
}

// Every sample can be applied to a cluster like that of `make demo`, with the agent's image and in any namespace. It becomes ready, or its message
// names what is missing. test/behaviour tests the samples in config/samples itself.
func testSamples(t *testing.T) {
	e := newEnv(t)
	op := e.Start(asInstalled, func(_ *rest.Config, o *manager.Options) { o.WatchNamespaces = nil })
	files, err := filepath.Glob(filepath.Join(cluster.Root(), "config/samples/*/*.yaml"))
	e.Must(err)
	namespaces := map[string]bool{}
	for _, file := range files {
		namespace := e.Namespace + "-" + filepath.Base(filepath.Dir(file))
		if strings.HasSuffix(file, "etcd/platform.yaml") { // its EtcdCluster has the name of another sample
			namespace += "-platform"
		}
		if !namespaces[namespace] {
			e.must("create", "namespace", namespace)
		}
		namespaces[namespace] = true
		e.must("apply", "--namespace", namespace, "-f", file)
	}
	e.Until("the samples are as far as they get", func() error { return e.haveReached(namespaces) })
	op.Stop()
	for namespace := range namespaces { // other tests need the node ports
		e.must("delete", "services", "--all", "--namespace", namespace)
		e.must("delete", "namespace", namespace, "--wait=false")
	}
}

// haveReached returns the differences from reached in some namespaces, or nil.
func (e *env) haveReached(namespaces map[string]bool) error {
	const kinds = "dataservices,redisclusters,etcdclusters,mysqlclusters,databackups,datarestores,appservices,modelboxes,crontabs"
	seen := 0
	for namespace := range namespaces {
		var list struct{ Items []sampled }
		if err := json.Unmarshal([]byte(e.must("get", kinds, "--namespace", namespace, "-o", "json")), &list); err != nil {
			return err
		}
		for i := range list.Items {
			if err := list.Items[i].hasReached(namespace); err != nil {
				return err
			}
			seen++
		}
	}
	return stage.Unless(seen == len(reached)+1, fmt.Sprintf("%d resources", seen)) // two samples have an EtcdCluster etcd
}

// sampled is a resource with its status.
type sampled struct {
	Kind     string
	Metadata struct{ Name string }
	Status   struct {
		Phase, Message string
		Conditions     []struct{ Type, Reason, Message string }
	}
}

// hasReached returns the difference from the resource's row in reached, or nil.
func (s *sampled) hasReached(namespace string) error {
	id := s.Kind + " " + s.Metadata.Name
	want, found := reached[id]
	if !found {
		return fmt.Errorf("%s in %s has no row", id, namespace)
	}
	reason := ""
	for _, c := range s.Status.Conditions {
		if c.Type == "Ready" {
			reason = c.Reason
		}
	}
	if s.Status.Phase != want[0] || want[1] != "" && reason != want[1] {
		return fmt.Errorf("%s: %s %s: %s", id, s.Status.Phase, reason, s.Status.Message)
	}
	return harness.Mentions(s.Status.Message, want[2])
}
