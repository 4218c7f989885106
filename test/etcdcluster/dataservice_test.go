// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package etcdcluster_test

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/test/harness"
)

// A DataService with an etcd becomes ready with it, and a service of the user's own connects with the certificate in its
// container. Nothing of the data is lost when etcd is taken out of the spec, or with the DataService.
func TestInADataService(t *testing.T) {
	s := newScene(t)
	op := s.start()
	began := time.Now()
	s.CreateReady(s.NewPlatform(withService))
	t.Logf("the DataService is ready after %s", time.Since(began))
	s.ready(1)
	if owner := metav1.GetControllerOf(s.get()); owner == nil || owner.Name != platform {
		t.Errorf("the controller of the EtcdCluster is %v", owner)
	}
	s.WaitsFor("reports", isVoting)
	c := s.asService()
	defer c.Close()
	s.Until("the service writes", func() error {
		ctx, cancel := context.WithTimeout(s.Ctx, 3*time.Second)
		defer cancel()
		_, err := c.Put(ctx, "of-the-service", "a")
		return err
	})
	s.write()
	cluster := s.get().Status.ClusterID

	// The whole spec is the DataService's: what somebody writes is put back, once, and then there is rest.
	planned, err := yaml.Marshal(s.get().Spec)
	s.Must(err)
	s.change(`{replicas: 3, paused: true, maintenance: {defragThreshold: "0%"}, networkPolicy: {enabled: true}, config: {log-level: debug}, podTemplate: {metadata: {labels: {a: b}}}}`)
	s.Until("the spec is put back", func() error {
		now, err := yaml.Marshal(s.get().Spec)
		if err == nil && string(now) != string(planned) {
			err = fmt.Errorf("it is\n%s\nnot\n%s", now, planned)
		}
		return err
	})
	s.ready(1)
	s.Ready(platform)
	mark := op.Mark()
	s.Pass(5 * time.Second)
	if sent := op.Since(mark, harness.Sent.WritesObject); len(sent) > 0 {
		t.Errorf("at rest: %v", sent)
	}

	s.ChangePlatform("{paused: true}")
	s.Eventually("etcd is paused, too", func() bool { return s.get().Spec.Paused })
	s.Become("{paused: false}")
	s.ready(1)

	s.Become("{etcd: null, additionalServices: null}")
	s.gone()
	s.Become(withService)
	s.ready(1)
	s.holds()
	s.DeletePlatform()
	s.gone()
	s.CreateReady(s.NewPlatform(withService))
	s.ready(1)
	s.holds()
	s.isCluster(cluster)
}

// A member that does not answer makes the DataService not ready, and its status names etcd and says what etcd's own says. What
// uses etcd goes on as it is.
func TestEtcdIsNotReady(t *testing.T) {
	harness.Long(t)
	s := newScene(t)
	s.start()
	s.CreateReady(s.NewPlatform(withService))
	s.ready(1)
	if c := s.Component("etcd"); c.Kind != "Managed" || c.Ready != 1 || c.Desired != 1 || c.Phase != dsv1.PhaseRunning {
		t.Errorf("the status says %+v", c)
	}
	s.Must(s.Kill(s.pod(0).Name, syscall.SIGSTOP, "etcd"))
	s.Until("it is told", func() error {
		child := s.get().Status
		if c := s.Component("etcd"); c.Phase == dsv1.PhaseRunning || !strings.Contains(c.Message, "EtcdCluster "+name) || !strings.Contains(c.Message, child.Message) {
			return fmt.Errorf("the DataService says %+v, etcd %s", c, child.Message)
		}
		return nil
	})
	if harness.Lookup[*appsv1.Deployment](s.Journal, "reports") == nil {
		t.Error("the service is gone")
	}
	s.Must(s.Kill(s.pod(0).Name, syscall.SIGCONT, "etcd"))
	s.Ready(platform)
	s.ready(1)
}

// etcd moves elsewhere and back: what the operator ran stays until the other answers, and its data for good.
func TestElsewhereAndBack(t *testing.T) {
	harness.Long(t)
	s := newScene(t)
	s.start()
	s.CreateReady(s.NewPlatform(withService))
	s.ready(1)
	s.write()
	s.ChangePlatform(`{etcd: {kind: ThirdParty, tls: null, replicas: null, thirdParty: {url: "http://192.0.2.1:2379,192.0.2.2:2379", checkCMD: "exit 1"}}}`)
	s.AwaitsThirdParty("etcd")
	s.ready(1)
	s.Become(`{etcd: {thirdParty: {checkCMD: "exit 0"}}}`)
	s.gone()
	if env, _ := s.given(); env["ETCD_ENDPOINTS"] != "http://192.0.2.1:2379,http://192.0.2.2:2379" {
		t.Errorf("the service is told of %s", env["ETCD_ENDPOINTS"])
	}
	s.Become(`{etcd: {kind: Managed, thirdParty: null, replicas: 1, tls: {mode: Auto}}}`)
	s.ready(1)
	s.holds()
	s.asService().Close()
}

// An EtcdCluster of that name which is somebody else's is left alone, and the status names it.
func TestSomebodyElsesEtcdCluster(t *testing.T) {
	harness.Long(t)
	s := newScene(t)
	s.start()
	s.create("{replicas: 1, paused: true, tls: {mode: Auto}}")
	before := s.get()
	s.Create(s.NewPlatform(withService))
	s.Stalls("ObjectConflict", "EtcdCluster "+name)
	s.DeletePlatform()
	s.Eventually("the DataService is gone", func() bool { return s.DataService(platform) == nil })
	now := s.get()
	if now.UID != before.UID || now.Generation != before.Generation || len(now.OwnerReferences) > 0 || now.DeletionTimestamp != nil {
		t.Errorf("it was changed: %+v", now)
	}
}
