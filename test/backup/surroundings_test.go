// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package backup_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	backupv1 "d3os.com/d3os-operator/api/backup/v1alpha1"
	etcdv1 "d3os.com/d3os-operator/api/etcd/v1alpha1"
	redisv1 "d3os.com/d3os-operator/api/redis/v1alpha1"
	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/backup"
	"d3os.com/d3os-operator/test/databasetest/etcdtest"
	redis "d3os.com/d3os-operator/test/databasetest/redistest"
	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/harness/emulator"
	"d3os.com/d3os-operator/test/harness/stage"
)

var (
	redisKind = redisv1.GroupVersion.WithKind(redisv1.Kind)
	etcdKind  = etcdv1.GroupVersion.WithKind(etcdv1.Kind)
)

// surrounding is a cluster with a certain policy: a row of testdata/surroundings.yaml.
type surrounding struct {
	Name    string   `json:"name"`
	Objects []fields `json:"objects"`
	// Workloads reports whether the policy changes Deployments and not only pods.
	Workloads bool `json:"workloads"`

	Each     fields `json:"each"`
	Sample   fields `json:"sample"`
	Redis    fields `json:"redis"`
	Etcd     fields `json:"etcd"`
	Database fields `json:"database"`
}

// Each row defines a policy of the cluster, and fields of the resources. With the policy and the fields, the sample
// becomes ready, real servers form a RedisCluster and an EtcdCluster, and a real database is backed up and restored.
// docs/install.md names the fields.
func TestSurroundings(t *testing.T) {
	harness.Long(t)
	var rows []surrounding
	if err := harness.ReadYAML("test/backup/testdata/surroundings.yaml", &rows); err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		t.Run(row.Name, func(t *testing.T) {
			t.Parallel()
			row.works(t)
		})
	}
}

func (row *surrounding) works(t *testing.T) {
	t.Helper()
	s := newReal(t, (*realScene).everyServer)
	row.surround(s.Stage)
	s.start()
	s.Must(suite.API.Create(s.Ctx, row.kind(s.Stage, redisKind, fields{"replicas": 6, "repository": "redis"}, row.Redis)))
	s.Must(suite.API.Create(s.Ctx, row.kind(s.Stage, etcdKind, fields{"replicas": 3, "storage": "1Gi"}, row.Etcd)))
	s.Create(archived("db", row.Database))

	simulated := suite.New(t) // the sample's programs do not exist here
	row.surround(simulated)
	simulated.Start()
	sample := harness.Sample(row.Sample)
	for component := range sample.Object["spec"].(fields) {
		if spec, is := sample.Object["spec"].(fields)[component].(fields); is && component != "defaults" {
			harness.Merge(spec, row.Each)
		}
	}
	simulated.CreateReady(harness.With(sample))

	s.Ready(platform)
	s.back(name)
	s.has(name, backupv1.PhaseSucceeded, backupv1.ReasonSucceeded)
	s.restore(rehearsal, nil)
	s.comes(rehearsal, backupv1.PhasePrepared, backupv1.ReasonPrepared)
	for _, kind := range []schema.GroupVersionKind{redisKind, etcdKind} {
		o := row.kind(s.Stage, kind, fields{}, nil)
		s.Until(kind.Kind+" is ready", func() error { return row.isReady(s.Stage, o) })
		s.Must(suite.API.Patch(s.Ctx, o, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"podTemplate":{"metadata":{"annotations":{"example.com/change":"1"}}}}}`))))
		s.Until(kind.Kind+" has replaced its pods", func() error { return errors.Join(row.isReady(s.Stage, o), row.hasChanged(s.Stage, o)) })
	}
}

// surround creates the objects of the row.
func (row *surrounding) surround(s *stage.Stage) {
	s.Helper()
	data, err := json.Marshal(row.Objects)
	s.Must(err)
	var objects []fields
	s.Must(json.Unmarshal([]byte(strings.ReplaceAll(string(data), "NAMESPACE", s.Namespace)), &objects))
	for _, fields := range objects {
		o := &unstructured.Unstructured{Object: fields}
		if o.GetKind() == "Namespace" {
			data, err := json.Marshal(o)
			s.Must(err)
			s.Must(suite.API.Patch(s.Ctx, o, client.RawPatch(types.MergePatchType, data)))
			continue
		}
		if namespaced, err := suite.API.IsObjectNamespaced(o); err == nil && namespaced {
			o.SetNamespace(s.Namespace)
		}
		s.Must(suite.API.Create(s.Ctx, o))
	}
	s.Until("the surrounding is in force", func() error { return row.isInForce(s) })
}

// kind returns a resource with the row's fields.
func (row *surrounding) kind(s *stage.Stage, kind schema.GroupVersionKind, spec, more fields) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: fields{"spec": spec}}
	o.SetGroupVersionKind(kind)
	o.SetNamespace(s.Namespace)
	o.SetName(strings.ToLower(kind.Kind))
	return harness.With(o, more)
}

// isInForce returns nil if the row's policy is in effect: the API server refuses or changes a pod without the row's
// fields. If Workloads is true, the API server must also change a Deployment.
func (row *surrounding) isInForce(s *stage.Stage) error {
	const image = "example/probe:v1"
	spec := corev1.PodSpec{
		Containers:      []corev1.Container{{Name: "probe", Image: image}},
		SecurityContext: &corev1.PodSecurityContext{RunAsUser: ptr.To[int64](1)},
	}
	in, labels := metav1.ObjectMeta{Namespace: s.Namespace, Name: "probe"}, map[string]string{"is": "probe"}
	pod := &corev1.Pod{ObjectMeta: in, Spec: spec}
	if err := suite.API.Create(s.Ctx, pod, client.DryRunAll); err == nil && len(pod.Spec.Containers) == 1 && pod.Spec.Containers[0].Image == image {
		return errors.New("a pod is admitted unchanged")
	}
	work := &appsv1.Deployment{ObjectMeta: in, Spec: appsv1.DeploymentSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: spec},
	}}
	if err := suite.API.Create(s.Ctx, work, client.DryRunAll); row.Workloads && (err != nil || work.Spec.Template.Spec.Containers[0].Image == image) {
		return fmt.Errorf("a Deployment is admitted unchanged: %w", err)
	}
	return nil
}

// isReady returns nil if a resource is ready in its present generation, and otherwise the reason. If a policy rewrites
// workloads, the status must report the policy.
func (row *surrounding) isReady(s *stage.Stage, o *unstructured.Unstructured) error {
	s.Must(suite.API.Get(s.Ctx, client.ObjectKeyFromObject(o), o))
	status, _, _ := unstructured.NestedMap(o.Object, "status")
	message := fmt.Sprint(status["message"])
	if status["phase"] != "Running" || status["observedGeneration"] != o.GetGeneration() {
		return fmt.Errorf("the phase is %v: %v: %s", status["phase"], status["reason"], message)
	}
	return stage.Unless(strings.Contains(message, "a policy of the cluster changed") == row.Workloads, message)
}

// hasChanged returns an error that names a pod of a cluster that still lacks the new annotation, or nil.
func (row *surrounding) hasChanged(s *stage.Stage, o *unstructured.Unstructured) error {
	pods := 0
	for _, pod := range harness.Every[*corev1.Pod](s.Journal) {
		if !strings.HasPrefix(pod.Name, o.GetName()+"-") {
			continue
		}
		if pods++; pod.Annotations["example.com/change"] == "" {
			return errors.New(pod.Name + " is there")
		}
	}
	return stage.Unless(pods >= 3, fmt.Sprintf("%d pods", pods))
}

// everyServer adds three images to the emulator: Redis, etcd, and a container that never ends. Each image also exists
// under its name in a mirror.
func (s *realScene) everyServer(o *emulator.Options) {
	server := func(find func(string) (string, error), name string) string {
		path, err := find(name)
		s.Must(err)
		return path
	}
	o.Nodes, o.Names = 3, true
	o.Images["redis"] = emulator.Image{Executables: map[string]string{
		"redis-server": server(redis.Program, "redis-server"), "redis-cli": server(redis.Program, "redis-cli"),
		"redis-check-aof": server(redis.Program, "redis-check-aof"),
	}}
	o.Images["gcr.io/etcd-development/etcd"] = emulator.Image{Executables: map[string]string{"etcd": server(etcdtest.Program, etcdtest.V36)}}
	o.Images["example/mesh"] = emulator.Image{Entrypoint: []string{"/bin/sleep", "infinity"}}
	for name, image := range maps.Clone(o.Images) {
		o.Images["mirror.example/"+name] = image
	}
}

// scheduled creates the Job that the CronJob for backups would create now.
func (s *scene) scheduled(name string) *batchv1.Job {
	s.Helper()
	cron := harness.Lookup[*batchv1.CronJob](s.Journal, "db-backup")
	job := (&backup.Source{Name: cron.Name, UID: cron.UID, Template: cron.Spec.JobTemplate}).Job(name, s.Namespace)
	s.Must(suite.API.Create(s.Ctx, job))
	return job
}

// healthy waits until the DataService's condition BackupHealthy has a status and a reason, and returns the condition's message.
func (s *scene) healthy(status metav1.ConditionStatus, reason string) (message string) {
	s.Helper()
	s.Until(fmt.Sprintf("BackupHealthy is %s: %s", status, reason), func() error {
		ds := harness.Lookup[*dsv1.DataService](s.Journal, platform)
		c := meta.FindStatusCondition(ds.Status.Conditions, backupv1.ConditionBackupHealthy)
		if c != nil {
			message = c.Message
		}
		return stage.Unless(c != nil && c.Status == status && c.Reason == reason, fmt.Sprintf("it is %+v", c))
	})
	return message
}

// The DataBackup and the condition BackupHealthy report within a minute that a Job does not start because a quota refuses its pod.
// BackupHealthy also reports a suspended Job.
func TestJobsThatCannotStartSayWhy(t *testing.T) {
	harness.Long(t)
	s := newScene(t)
	s.start()
	s.declare()
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "no-pods"}}
	quota.Spec.Hard = corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}
	s.Must(suite.API.Create(s.Ctx, quota))
	s.back(name)
	b := s.has(name, backupv1.PhaseRunning, backupv1.ReasonPodNotStarting)
	s.scheduled("by-schedule")
	for _, message := range []string{b.Status.Message, s.healthy(metav1.ConditionFalse, backupv1.ReasonPodNotStarting)} {
		if at := strings.Index(message, "exceeded quota: no-pods"); at < 0 || at > 60 {
			t.Errorf("the quota is not named immediately: %s", message)
		}
	}
	s.Must(suite.API.Delete(s.Ctx, quota))
	s.has(name, backupv1.PhaseSucceeded, backupv1.ReasonSucceeded)
	s.healthy(metav1.ConditionTrue, backupv1.ReasonBackupSucceeded)

	job := s.scheduled("suspended")
	s.Must(suite.API.Patch(s.Ctx, job, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"suspend":true}}`))))
	if message := s.healthy(metav1.ConditionFalse, backupv1.ReasonPodNotStarting); !strings.Contains(message, "Job suspended does not start: it is suspended") {
		t.Error(message)
	}
	s.Must(suite.API.Patch(s.Ctx, job, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"suspend":false}}`))))
	s.healthy(metav1.ConditionTrue, backupv1.ReasonBackupSucceeded)
}

// A container that never ends, such as one that a mesh adds, does not change the result of a backup. It does not prevent the next
// backup: the operator deletes the Job of the CronJob.
func TestASidecarThatNeverEnds(t *testing.T) {
	harness.Long(t)
	s := newScene(t)
	s.start()
	sidecar := fields{"name": "istio-proxy", "image": "example/agent:v1", "command": []any{"/agent", "proxy"}}
	s.declare(fields{"mysql": fields{"backup": fields{"podTemplate": fields{"spec": fields{"containers": []any{sidecar}}}}}})
	s.back(name)
	b := s.has(name, backupv1.PhaseSucceeded, backupv1.ReasonSucceeded)
	if !strings.Contains(b.Status.Message, "its pod does not end, because of istio-proxy") || b.Status.ID == "" {
		t.Errorf("status %+v", b.Status)
	}
	job := s.scheduled("by-schedule")
	s.healthy(metav1.ConditionTrue, backupv1.ReasonBackupSucceeded)
	s.Eventually("the Job is deleted", func() bool { return harness.Lookup[*batchv1.Job](s.Journal, job.Name) == nil })
	s.healthy(metav1.ConditionTrue, backupv1.ReasonBackupSucceeded)
	if own := harness.Lookup[*batchv1.Job](s.Journal, name); own == nil || ptr.Deref(own.Spec.Suspend, false) {
		t.Errorf("the DataBackup's Job is %+v", own)
	}
}
