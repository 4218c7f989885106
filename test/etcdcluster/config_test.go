// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package etcdcluster_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// begins waits until the status says something first.
func (s *scene) begins(text string) {
	s.Helper()
	s.Until("the status begins with "+text, func() error {
		if says := s.get().Status.Message; !strings.HasPrefix(says, text) {
			return errors.New(says)
		}
		return nil
	})
}

// authority returns the certificate of the members' authority; nil for none.
func (s *scene) authority() []byte {
	ca := &corev1.Secret{}
	if client.IgnoreNotFound(suite.API.Get(s.Ctx, client.ObjectKey{Namespace: s.Namespace, Name: name + "-ca"}, ca)) != nil {
		return nil
	}
	return ca.Data["peer-ca.crt"]
}

// A change of tls.mode is refused before anything changes. A version that does not exist, in every pod, is corrected by the right one,
// though no member answers. A parked cluster whose authorities are deleted comes back with new keys. The data is there each time.
func TestWrongSettingsAndBack(t *testing.T) {
	s := newScene(t)
	s.start()
	const voters = 3
	s.create("{replicas: 3, tls: {mode: Auto}}")
	s.ready(voters)
	s.write()
	s.change("{replicas: 0}")
	s.Until("parked", s.isParked)
	s.change("{tls: {mode: 'Off'}}")
	s.change("{replicas: 3}")
	s.begins("spec.tls.mode cannot change to Off: the cluster was formed with https addresses")
	if pods := s.pods(); len(pods) > 0 {
		t.Errorf("%d pods were made with another mode", len(pods))
	}
	s.change("{replicas: 0}")
	s.change("{tls: {mode: Auto}}")
	s.change("{replicas: 3}")
	s.ready(voters)
	s.holds()

	s.change("{version: 3.6.99}")
	s.Until("a pod has the version that there is not", func() error { return s.pulls(1) })
	for _, pod := range s.pods() {
		s.Must(client.IgnoreNotFound(suite.API.Delete(s.Ctx, pod)))
	}
	s.Until("every pod has it", func() error { return s.pulls(voters) })
	s.begins(name + "-0: ")
	s.change("{version: null}")
	s.ready(voters)
	s.holds()

	s.change("{replicas: 0}")
	s.Until("parked", s.isParked)
	old := s.authority()
	s.Must(suite.API.Delete(s.Ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: name + "-ca"}}))
	s.Until("the authorities are others", func() error {
		if now := s.authority(); now == nil || bytes.Equal(now, old) {
			return errors.New("they are as before")
		}
		return nil
	})
	s.change("{replicas: 3}")
	s.ready(voters)
	s.encrypted()
	s.holds()
}

// pulls returns why not so many pods wait for an image, or nil.
func (s *scene) pulls(want int) error {
	found := 0
	for _, pod := range s.pods() {
		for _, c := range pod.Status.ContainerStatuses {
			if c.Name == "etcd" && c.State.Waiting != nil && strings.Contains(c.State.Waiting.Reason, "Pull") {
				found++
			}
		}
	}
	if found < want {
		return fmt.Errorf("%d pods wait for an image", found)
	}
	return nil
}
