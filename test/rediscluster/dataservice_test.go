// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	redisv1 "d3os.com/d3os-operator/api/redis/v1alpha1"
	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/harness/stage"
)

// platform is the name of the DataService of these tests, whose redis is called as the RedisCluster of the others.
const platform = "platform"

// withService is a DataService with a Redis and a service that uses it.
const withService = `{redis: {name: cache, image: redis}, additionalServices: [{name: reports, image: work, command: [sleep, "1000000"], dependsOn: [redis]}]}`

// dataService is a DataService with a spec in YAML.
func dataService(t *testing.T, spec string) *unstructured.Unstructured {
	t.Helper()
	ds := &unstructured.Unstructured{Object: map[string]any{}}
	if err := yaml.Unmarshal([]byte("spec: "+spec), &ds.Object); err != nil {
		t.Fatal(err)
	}
	ds.SetGroupVersionKind(dsv1.GroupVersion.WithKind(dsv1.Kind))
	ds.SetName(platform)
	return ds
}

// patch patches the spec of the DataService (JSON merge patch in YAML), and returns its generation.
func (s *scene) patch(spec string) int64 {
	s.Helper()
	fields := harness.Fields{}
	s.Must(yaml.Unmarshal([]byte(spec), &fields))
	return s.Change(platform, fields)
}

// become patches the spec of the DataService and waits until it is ready.
func (s *scene) become(spec string) {
	s.Helper()
	generation := s.patch(spec)
	s.Until("ready after the change", func() error { return s.IsReady(platform, generation) })
}

// status returns that of the DataService as last seen.
func (s *scene) status() dsv1.DataServiceStatus {
	if ds := s.DataService(platform); ds != nil {
		return ds.Status
	}
	return dsv1.DataServiceStatus{}
}

// component returns what the status says of redis.
func (s *scene) component() dsv1.ComponentStatus {
	for _, c := range s.status().Components {
		if c.Name == "redis" {
			return c
		}
	}
	return dsv1.ComponentStatus{}
}

// asService connects to Redis by what the service has in its environment, and by nothing else.
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

// dial connects to the name of a Service as a pod would: to one of the pods that are ready behind it.
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

// serviceWorks fails the test unless the service can write, and read what it wrote.
func (s *scene) serviceWorks() {
	s.Helper()
	c := s.asService()
	defer c.Close()
	value := time.Now().String()
	s.Until("the service writes", func() error { return c.Set(s.Ctx, "of-the-service", value, 0).Err() })
	got, err := c.Get(s.Ctx, "of-the-service").Result()
	if err != nil || got != value {
		s.Errorf("the service reads %q (%v), not %q", got, err, value)
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

// keptData fails the test unless the data and what opens it are there, and the pods are not.
func (s *scene) keptData() {
	s.Helper()
	s.Until("the pods go", func() error {
		if pods := s.pods(); len(pods) > 0 {
			return fmt.Errorf("%d pods", len(pods))
		}
		if rc := harness.Lookup[*redisv1.RedisCluster](s.Journal, name); rc != nil {
			return errors.New("the RedisCluster is there")
		}
		return nil
	})
	if claims := harness.Every[*corev1.PersistentVolumeClaim](s.Journal); len(claims) != 6 {
		s.Errorf("%d claims are left", len(claims))
	}
	if harness.Lookup[*corev1.Secret](s.Journal, name+"-credentials") == nil || harness.Lookup[*corev1.ConfigMap](s.Journal, name+"-topology") == nil {
		s.Error("the password or the record is gone")
	}
}

// A DataService with a Redis becomes ready with it, and a service of the user's own finds it. It grows without a restart
// of the service, and nothing of its data is lost when it is taken out of the spec, or with the DataService.
func TestInADataService(t *testing.T) {
	s := newScene(t)
	op := s.Start()
	began := time.Now()
	ds := dataService(t, withService)
	s.CreateReady(ds)
	t.Logf("the DataService is ready after %s", time.Since(began))
	s.ready(6)
	if owner := metav1.GetControllerOf(s.get()); owner == nil || owner.Name != platform {
		t.Errorf("the controller of the RedisCluster is %v", owner)
	}
	if c := s.component(); c.Kind != "Managed" || c.Ready != 6 || c.Desired != 6 || c.Phase != dsv1.PhaseRunning {
		t.Errorf("the status says %+v", c)
	}
	s.waitedFor("reports")
	s.serviceWorks()
	s.write()
	s.quiet()

	services := s.podsOf("reports")
	began = time.Now()
	s.become("{redis: {replicas: 8}}")
	t.Logf("8 pods after %s", time.Since(began))
	s.ready(8)
	s.become("{redis: {replicas: 6}}")
	s.ready(6)
	if now := s.podsOf("reports"); now != services {
		t.Errorf("the service was restarted: %s, then %s", services, now)
	}
	s.holds()
	s.removeClaims("data-cache-3-0", "data-cache-3-1")

	s.become("{redis: null, additionalServices: null}")
	s.keptData()
	began = time.Now()
	s.become(withService)
	t.Logf("taken up again after %s", time.Since(began))
	s.ready(6)
	s.holds()

	s.Must(suite.API.Delete(s.Ctx, &dsv1.DataService{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: platform}}))
	s.keptData()
	s.CreateReady(ds)
	s.ready(6)
	s.holds()
	s.serviceWorks()

	op.Stop()
	op = s.Start()
	s.quiet()
	s.asksNothing(op, 35*time.Second) // longer than nodes at rest are left alone
}

// waitedFor fails the test unless no object of a component was made before redis was ready.
func (s *scene) waitedFor(component string) {
	s.Helper()
	ready := false
	for _, c := range s.Since(0) {
		if rc, ok := c.Object.(*redisv1.RedisCluster); ok && rc.Status.Slots == redisv1.Slots && rc.Status.Phase == redisv1.PhaseRunning {
			ready = true
		}
		if c.Object.GetLabels()["app.kubernetes.io/name"] == component && !ready {
			s.Errorf("%s was there before redis was ready", c.ID)
		}
	}
}

// removeClaims deletes claims, as a person does who needs them no more.
func (s *scene) removeClaims(names ...string) {
	s.Helper()
	for _, claim := range names {
		s.Must(suite.API.Delete(s.Ctx, &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: claim}}))
	}
	s.Until("the claims go", func() error {
		for _, claim := range names {
			if harness.Lookup[*corev1.PersistentVolumeClaim](s.Journal, claim) != nil {
				return errors.New(claim + " is there")
			}
		}
		return nil
	})
}

// The whole spec of the RedisCluster is the DataService's; it is paused with the DataService, and a paused DataService
// changes nothing else of it.
func TestChildIsTheDataServices(t *testing.T) {
	s := newScene(t)
	s.Start()
	s.CreateReady(dataService(t, "{redis: {name: cache, image: redis, config: {maxmemory-policy: allkeys-lru}}}"))
	planned := s.get().Spec
	s.change(`{replicas: 8, finalizers: foreground, pause: true, version: 7.2.5, config: {maxmemory-policy: noeviction, timeout: "60"},
		networkPolicy: {enabled: true}, updateStrategy: {type: AutoReceive, pipeline: "10"}, pod: [{labels: {a: b}}]}`)
	s.Until("the spec is put back", func() error { return same(s.get().Spec, planned) })
	s.ready(6)

	s.patch("{paused: true}")
	s.Until("Redis is paused, too", func() error {
		if status := s.status(); !s.get().Spec.Pause || status.Phase != dsv1.PhasePaused || status.Ready != "1/1" {
			return fmt.Errorf("%+v", status)
		}
		return nil
	})
	s.patch("{redis: {replicas: 8}}")
	s.Until("it is seen", func() error {
		if ds := s.DataService(platform); ds.Status.ObservedGeneration != ds.Generation || s.get().Status.Reason != redisv1.ReasonPaused {
			return fmt.Errorf("%+v", ds.Status)
		}
		return nil
	})
	s.quiet()
	if got := s.get().Spec; got.Replicas != 6 {
		t.Errorf("a paused DataService has told Redis to have %d pods", got.Replicas)
	}
	s.become("{paused: false, redis: {replicas: 6}}")
	s.Until("it goes on", func() error { return same(s.get().Spec, planned) })
	s.ready(6)
	for _, e := range s.events("DriftCorrected") {
		if strings.Contains(e, "paused") {
			t.Error(e)
		}
	}
	s.quiet()
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

// Redis moves elsewhere and back: what the operator ran stays until the other answers, and its data for good.
func TestElsewhereAndBack(t *testing.T) {
	s := newScene(t)
	s.Start()
	s.CreateReady(dataService(t, withService))
	s.ready(6)
	s.write()
	// The check fails: what runs stays.
	s.patch(`{redis: {kind: ThirdParty, thirdParty: {url: "redis://192.0.2.1:7000,192.0.2.2:7000", checkCMD: "exit 1"}}}`)
	s.Until("it is said that the other does not answer", func() error {
		if c := s.component(); c.Kind != "ThirdParty" || c.Phase == dsv1.PhaseRunning {
			return fmt.Errorf("%+v", c)
		}
		return nil
	})
	s.ready(6)
	s.serviceWorks() // its new revision waits
	s.become(`{redis: {thirdParty: {checkCMD: "exit 0"}}}`)
	s.keptData()
	for _, v := range harness.Lookup[*appsv1.Deployment](s.Journal, "reports").Spec.Template.Spec.Containers[0].Env {
		if v.Name == "SPRING_REDIS_CLUSTER_NODES" && v.Value != "192.0.2.1:7000,192.0.2.2:7000" {
			t.Errorf("the service is told of %s", v.Value)
		}
	}
	s.become(`{redis: {kind: Managed}}`)
	s.ready(6)
	s.holds()
	s.serviceWorks()
}

// A RedisCluster of that name which is somebody else's is left alone, and so is what carries its name by chance.
func TestSomebodyElsesRedisCluster(t *testing.T) {
	s := newScene(t)
	s.Start()
	s.create("{replicas: 6, repository: redis, pause: true}")
	before := s.get()
	s.Create(dataService(t, "{redis: {name: cache, image: redis}, additionalServices: [{name: reports, image: work, command: [sleep, '1000000']}]}"))
	s.Until("the conflict is told", func() error {
		for _, c := range s.status().Conditions {
			if c.Type == "Stalled" && c.Reason == "ObjectConflict" && strings.Contains(c.Message, "RedisCluster cache") {
				return nil
			}
		}
		return fmt.Errorf("%+v", s.status())
	})
	s.Until("the rest is carried out", func() error {
		if s.podsOf("reports") == "" {
			return errors.New("there is no pod")
		}
		return nil
	})
	if err := same(s.get().Spec, before.Spec); err != nil || len(s.get().OwnerReferences) > 0 {
		t.Errorf("it was changed: %v %v", err, s.get().OwnerReferences)
	}
	s.Must(suite.API.Delete(s.Ctx, &dsv1.DataService{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: platform}}))
	s.Until("the DataService is gone", func() error {
		if s.podsOf("reports") != "" {
			return errors.New("its pod is there")
		}
		return nil
	})
	if s.get().UID != before.UID || s.get().DeletionTimestamp != nil {
		t.Error("it went with the DataService")
	}
}

// A spec that the API server refuses for the RedisCluster changes nothing, and the status names the field.
func TestRefusedByTheChild(t *testing.T) {
	s := newScene(t)
	s.Start()
	s.CreateReady(dataService(t, "{redis: {name: cache, image: redis}}"))
	before := s.get()
	s.patch("{redis: {labels: {redis.middleware.hc.cn/a: b}}, additionalServices: [{name: reports, image: work}]}")
	s.Until("it is told", func() error {
		for _, c := range s.status().Conditions {
			if c.Type == "Stalled" && c.Reason == "InvalidSpec" && strings.Contains(c.Message, "labels of") {
				return nil
			}
		}
		return fmt.Errorf("%+v", s.status())
	})
	if err := same(s.get().Spec, before.Spec); err != nil {
		t.Error(err)
	}
	if harness.Lookup[*appsv1.Deployment](s.Journal, "reports") != nil {
		t.Error("the rest was carried out")
	}
	s.become("{redis: {labels: null}, additionalServices: null}")
}

// events returns what events of a reason say of the DataService.
func (s *scene) events(reason string) []string {
	s.Helper()
	list := &corev1.EventList{}
	s.Must(suite.API.List(s.Ctx, list, client.InNamespace(s.Namespace)))
	var found []string
	for i := range list.Items {
		if e := &list.Items[i]; e.Reason == reason && e.InvolvedObject.Kind == dsv1.Kind {
			found = append(found, e.Message)
		}
	}
	return found
}
