// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	redisv1 "d3os.com/d3os-operator/api/redis/v1alpha1"
	"d3os.com/d3os-operator/test/harness"
)

// effect is the effect of a field's change on a running cluster.
type effect string

const (
	rolls   effect = "all pods are replaced"
	lives   effect = "no pod is replaced"
	grows   effect = "a pod is added"
	refused effect = "the API server refuses it"
)

// fieldChanges lists a change of each field of the spec, in order. Each change is kept when the next change is made.
var fieldChanges = []struct {
	field, value string
	effect       effect
}{
	{"pause", "true", lives},
	{"finalizers", "foreground", lives},
	{"updateStrategy.type", "AssignReceive", lives},
	{"updateStrategy.pipeline", "'10'", lives},
	{"updateStrategy.assignStrategies", "[{slots: 10, fromReplicas: cache-0-0}]", lives}, // the field applies only to new shards
	{"storage.size", "20Gi", lives},
	{"storage.autoGrow", "{limit: 50Gi}", rolls},
	{"progressDeadlineSeconds", "3600", lives},
	{"config", "{maxmemory-policy: allkeys-lru}", lives},
	{"networkPolicy.enabled", "true", lives},
	{"networkPolicy.allowFrom", "[{podSelector: {}}]", lives},
	{"networkPolicy.additionalPorts", "[15008]", lives},
	{"restoreFrom", "{destination: {claim: {name: backups}}}", refused}, // the field applies only to new clusters
	{"storage.storageClassName", "other", refused},
	{"credentialsSecret", "other", refused},
	{"tls.enabled", "true", refused},
	{"pod.volumes.type", "nfs", refused},
	{"pod.volumes.persistentVolumeClaimName", "other", refused},
	{"repository", "registry.example.com/redis", rolls},
	{"version", "7.0.16", rolls},
	{"size", "medium", rolls},
	{"antiAffinity", "Hard", rolls},
	{"topologySpreadConstraints", "[{maxSkew: 6, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: ScheduleAnyway}]", rolls},
	{"podTemplate", "{spec: {hostAliases: [{ip: 192.0.2.1, hostnames: [cache]}]}}", rolls},
	{"pod.labels", "{team: data}", rolls},
	{"pod.annotations", "{example.com/team: data}", rolls},
	{"pod.env", "[{name: MAXMEMORY, value: 1gb}]", rolls},
	{"pod.affinity.nodeAffinity", "{preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, preference: {matchExpressions: [{key: a, operator: Exists}]}}]}", rolls},
	{"pod.affinity.podAffinity", "{preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, podAffinityTerm: {topologyKey: kubernetes.io/hostname}}]}", rolls},
	{"pod.affinity.podAntiAffinity", "{preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, podAffinityTerm: {topologyKey: kubernetes.io/hostname}}]}", rolls},
	{"pod.affinity.requiredDuringSchedulingIgnoredDuringExecution", "{nodeSelectorTerms: [{matchExpressions: [{key: HC_Status, operator: Exists}]}]}", rolls},
	{"pod.nodeSelector", "{HC_Status: C}", rolls},
	{"pod.tolerations", "[{key: dedicated, operator: Exists}]", rolls},
	{"pod.priorityClassName", "system-cluster-critical", rolls},
	{"pod.imagePullSecrets", "[{name: registry}]", rolls},
	{"pod.resources", "{requests: {memory: 1Gi}, limits: {memory: 2Gi}}", rolls},
	{"pod.configmap", "settings", rolls},
	{"pod.monitorImage", "exporter:v1", rolls},
	{"pod.initImage", "busybox:1", rolls},
	{"pod.middlewareImage", "registry.example.com/other/redis:7.0.17", rolls},
	{"pod.updateStrategy.type", "OnDelete", lives},
	{"replicas", "7", grows},
	// This change is last, because after it, why correctly reports that no backup exists.
	{"backup", "{destination: {claim: {name: backups}}}", lives},
}

// fieldsOf lists the fields of a Go type of the API and of its nested types. A type of Kubernetes counts as one field.
func fieldsOf(t reflect.Type, path string) (found []string) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		of := f.Type
		if of.Kind() == reflect.Pointer {
			of = of.Elem()
		}
		if of == reflect.TypeFor[[]redisv1.Pod]() {
			of = of.Elem()
		}
		if of.Kind() == reflect.Struct && of.PkgPath() == reflect.TypeFor[redisv1.Pod]().PkgPath() && of != reflect.TypeFor[redisv1.Object]() {
			found = append(found, fieldsOf(of, path+name+".")...)
			continue
		}
		found = append(found, path+name)
	}
	return found
}

// Each field of the API has a row in fieldChanges.
func TestEachFieldHasARow(t *testing.T) {
	var rows []string
	for _, c := range fieldChanges {
		rows = append(rows, c.field)
	}
	fields := fieldsOf(reflect.TypeFor[redisv1.RedisClusterSpec](), "")
	if difference := harness.Difference(rows, fields); difference != "" {
		t.Errorf("the table of changes and the fields of the API differ: %s", difference)
	}
	t.Logf("%d fields", len(fields))
}

// set sets a value, in YAML, at a path of a spec. pod is a list of one item.
func set(t *testing.T, spec map[string]any, path, value string) {
	t.Helper()
	var v any
	if err := yaml.Unmarshal([]byte(value), &v); err != nil {
		t.Fatal(err)
	}
	for at := spec; ; {
		name, rest, more := strings.Cut(path, ".")
		if !more {
			at[name] = v
			return
		}
		path = rest
		if name == "pod" {
			if at[name] == nil {
				at[name] = []any{map[string]any{}}
			}
			at = at[name].([]any)[0].(map[string]any)
			continue
		}
		if at[name] == nil {
			at[name] = map[string]any{}
		}
		at = at[name].(map[string]any)
	}
}

// merge applies a merge patch to the spec of the cluster.
func (s *scene) merge(spec map[string]any) error {
	data, err := json.Marshal(map[string]any{"spec": spec})
	s.Must(err)
	return suite.API.Patch(s.Ctx, &redisv1.RedisCluster{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: name}}, client.RawPatch(types.MergePatchType, data))
}

// Every mutable field is changed while clients write and read. No acknowledged write is lost, no client reads nil, and only the necessary pods
// are replaced.
func TestEachFieldChanges(t *testing.T) {
	harness.FullForm(t, full)
	s := newScene(t)
	s.standing(six)
	spec, pods := map[string]any{}, 6
	for i, c := range fieldChanges {
		if c.effect == refused {
			s.refuses(spec, c.field, c.value)
			continue
		}
		set(t, spec, c.field, c.value)
		if c.effect == grows {
			pods++
		}
		before, began, well := s.uids(), time.Now(), func() {}
		if c.effect == rolls {
			well = s.staysWell()
		}
		ledger := s.keep(fmt.Sprintf("ledger-%d", i))
		s.Must(s.merge(spec))
		if c.field == "pause" {
			s.says("paused")
			spec["pause"] = false
			s.Must(s.merge(spec))
		}
		s.Until("the change is carried out", func() error {
			if left := s.remain(before); c.effect == rolls && left > 0 {
				return fmt.Errorf("%d pods are not replaced yet: %s", left, s.get().Status.Message)
			}
			return s.isReady(pods)
		})
		s.agree(pods)
		well()
		during := fmt.Sprintf("%s: %s, %s", c.field, c.effect, time.Since(began).Round(10*time.Millisecond))
		ledger.Close().Nothing(t, during)
		if left := s.remain(before); c.effect != rolls && left != len(before) {
			t.Errorf("%s: %d of %d pods still exist", during, left, len(before))
		}
	}
	s.holds()
}

// refuses fails the test unless the API server refuses a change.
func (s *scene) refuses(spec map[string]any, field, value string) {
	s.Helper()
	data, err := json.Marshal(spec)
	s.Must(err)
	changed := map[string]any{}
	s.Must(json.Unmarshal(data, &changed))
	set(s.T, changed, field, value)
	if strings.HasPrefix(field, "pod.volumes.persistent") {
		set(s.T, changed, "pod.volumes.type", "nfs")
	}
	if err := s.merge(changed); !apierrors.IsInvalid(err) {
		s.Errorf("%s: the API server answers %v", field, err)
	}
}
