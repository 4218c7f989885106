// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	redisv1 "d3os.com/d3os-operator/api/redis/v1alpha1"
	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/harness/stage"
)

// platform is the name of the DataService in these tests. Its redis has the name of the RedisCluster in other tests.
const platform = stage.Platform

// withService is the spec of a DataService with a Redis and a service that uses it.
const withService = `{redis: {name: cache, image: redis}, additionalServices: [{name: reports, image: work, command: [sleep, "1000000"], dependsOn: [redis]}]}`

// status returns the last seen status of the DataService.
func (s *scene) status() dsv1.DataServiceStatus {
	if ds := s.DataService(platform); ds != nil {
		return ds.Status
	}
	return dsv1.DataServiceStatus{}
}

// asService connects to Redis with only the service's environment.
func (s *scene) asService() *redis.ClusterClient {
	s.Helper()
	deployment := harness.Lookup[*appsv1.Deployment](s.Journal, "reports")
	if deployment == nil {
		s.Fatal("the service does not exist")
	}
	env := map[string]string{}
	for _, v := range deployment.Spec.Template.Spec.Containers[0].Env {
		env[v.Name] = v.Value
		if v.ValueFrom != nil && v.ValueFrom.SecretKeyRef != nil {
			secret := &corev1.Secret{}
			s.Must(suite.API.Get(s.Ctx, client.ObjectKey{Namespace: s.Namespace, Name: v.ValueFrom.SecretKeyRef.Name}, secret))
			env[v.Name] = string(secret.Data[v.ValueFrom.SecretKeyRef.Key])
		}
	}
	return redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: strings.Split(env["SPRING_REDIS_CLUSTER_NODES"], ","), Password: env["SPRING_REDIS_PASSWORD"],
		Protocol: 2, DisableIdentity: true, Dialer: s.dial,
	})
}

// dial connects to the name of a Service as a pod would: to one of the Service's ready pods.
func (s *scene) dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	if name, isService := strings.CutSuffix(host, "."+s.Namespace+".svc"); isService {
		service := &corev1.Service{}
		if err := suite.API.Get(ctx, client.ObjectKey{Namespace: s.Namespace, Name: name}, service); err != nil {
			return nil, err
		}
		pods := &corev1.PodList{}
		if err := suite.API.List(ctx, pods, client.InNamespace(s.Namespace), client.MatchingLabelsSelector{Selector: labels.SelectorFromSet(service.Spec.Selector)}); err != nil {
			return nil, err
		}
		for i := range pods.Items {
			if pod := &pods.Items[i]; stage.IsReady(pod) {
				host = pod.Status.PodIP
				break
			}
		}
	}
	return (&net.Dialer{}).DialContext(ctx, network, net.JoinHostPort(host, port))
}

// serviceWorks fails the test unless the service can write a value and read it.
func (s *scene) serviceWorks() {
	s.Helper()
	c := s.asService()
	defer c.Close()
	value := time.Now().String()
	s.Until("the service writes", func() error { return c.Set(s.Ctx, "of-the-service", value, 0).Err() })
	got, err := c.Get(s.Ctx, "of-the-service").Result()
	if err != nil || got != value {
		s.Errorf("the service reads %q (%v), want %q", got, err, value)
	}
}

// podsOf returns the UIDs of the pods of a component.
func (s *scene) podsOf(component string) string {
	var found []string
	for _, pod := range harness.Every[*corev1.Pod](s.Journal) {
		if pod.Labels["app.kubernetes.io/name"] == component && pod.Labels["app.kubernetes.io/instance"] == platform {
			found = append(found, string(pod.UID))
		}
	}
	return strings.Join(found, " ")
}

// keptData fails the test unless the data and its credentials exist, and the pods do not.
func (s *scene) keptData() {
	s.Helper()
	s.Until("the pods go", func() error {
		if pods := s.pods(); len(pods) > 0 {
			return fmt.Errorf("%d pods", len(pods))
		}
		if rc := harness.Lookup[*redisv1.RedisCluster](s.Journal, name); rc != nil {
			return errors.New("the RedisCluster still exists")
		}
		return nil
	})
	if claims := harness.Every[*corev1.PersistentVolumeClaim](s.Journal); len(claims) != 6 {
		s.Errorf("%d claims exist", len(claims))
	}
	if harness.Lookup[*corev1.Secret](s.Journal, name+"-credentials") == nil || harness.Lookup[*corev1.ConfigMap](s.Journal, name+"-topology") == nil {
		s.Error("the password or the record was deleted")
	}
}

// isServing reports whether a change shows a ready Redis.
func isServing(c harness.Change) bool {
	rc, ok := c.Object.(*redisv1.RedisCluster)
	return ok && rc.Status.Slots == redisv1.Slots && rc.Status.Phase == redisv1.PhaseRunning
}

// removeClaims deletes claims that the test does not need any more.
func (s *scene) removeClaims(names ...string) {
	s.Helper()
	for _, claim := range names {
		s.Must(suite.API.Delete(s.Ctx, &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: claim}}))
	}
	for _, claim := range names {
		s.Eventually(claim+" goes", func() bool { return harness.Lookup[*corev1.PersistentVolumeClaim](s.Journal, claim) == nil })
	}
}

func same(got, want redisv1.RedisClusterSpec) error {
	a, err := yaml.Marshal(got)
	if err != nil {
		return err
	}
	b, err := yaml.Marshal(want)
	if err == nil && string(a) != string(b) {
		err = fmt.Errorf("it is\n%s\nnot\n%s", a, b)
	}
	return err
}

// corrects returns the notes of events about corrected objects of the DataService.
func (s *scene) corrects() (found []string) {
	s.Helper()
	for _, e := range s.Events() {
		if e.Reason == "DriftCorrected" && e.Regarding.Kind == dsv1.Kind {
			found = append(found, e.Note)
		}
	}
	return found
}
