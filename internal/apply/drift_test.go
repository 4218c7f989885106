// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"d3os.com/d3os-operator/internal/object"
)

// A planned field that another writer has changed gets its planned value again.
func TestDriftIsCorrected(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		id     string
		change change
	}{
		"replicas":            {"Deployment/proxy", setting(int64(0), "spec", "replicas")},
		"image":               {"Deployment/proxy", inContainer(setting("evil", "image"))},
		"value of a variable": {"Deployment/proxy", func(_ *testing.T, o map[string]any) { find(items(container(o), "env"), nameKey, "TZ")["value"] = "UTC" }},
		"container removed": {"Deployment/proxy", func(t *testing.T, o map[string]any) {
			set(t, o, []any{container(o)}, "spec", "template", "spec", "containers")
		}},
		"variable removed":       {"Deployment/proxy", inContainer(removing("env"))},
		"probe removed":          {"Deployment/proxy", inContainer(removing("livenessProbe"))},
		"probe edited":           {"Deployment/proxy", inContainer(setting(int64(99), "readinessProbe", "failureThreshold"))},
		"resources":              {"Deployment/proxy", inContainer(setting("3Gi", "resources", "limits", "memory"))},
		"security":               {"Deployment/proxy", inContainer(setting(true, "securityContext", "allowPrivilegeEscalation"))},
		"capabilities":           {"Deployment/proxy", inContainer(setting([]any{"NET_ADMIN"}, "securityContext", "capabilities", "drop"))},
		"pod annotation removed": {"Deployment/proxy", removing("spec", "template", "metadata", "annotations", "checksum/config")},
		"volume removed": {"Deployment/proxy", func(_ *testing.T, o map[string]any) {
			unstructured.RemoveNestedField(o, "spec", "template", "spec", "volumes")
			delete(container(o), "volumeMounts")
		}},
		"update strategy": {"Deployment/proxy", setting(map[string]any{"type": "Recreate"}, "spec", "strategy")},
		"source of a volume": {"Deployment/proxy", func(_ *testing.T, o map[string]any) {
			volume := items(o, "spec", "template", "spec", "volumes")[0]
			name := volume["name"]
			clear(volume)
			volume["name"], volume["hostPath"] = name, map[string]any{"path": "/etc"}
		}},
		"label removed":            {"Deployment/proxy", removing("metadata", "labels", object.LabelPartOf)},
		"instance label edited":    {"Deployment/proxy", setting("other", "metadata", "labels", object.LabelInstance)},
		"managed-by label removed": {"Deployment/proxy", removing("metadata", "labels", object.LabelManagedBy)},
		"managed-by label edited":  {"ConfigMap/proxy", setting("other", "metadata", "labels", object.LabelManagedBy)},
		"owner reference removed":  {"Deployment/proxy", removing("metadata", "ownerReferences")},
		"configuration edited":     {"ConfigMap/proxy", setting(map[string]any{"application.yml": "server: {}\n"}, "data")},
		"configuration removed":    {"ConfigMap/proxy", removing("data")},
		"password edited":          {"Secret/mysql-dataservice-credentials", setting("b3RoZXI=", "data", "password")},
		"selector widened":         {"Service/proxy", setting(map[string]any{"all": "pods"}, "spec", "selector")},
		"selector narrowed":        {"Service/proxy", setting("none", "spec", "selector", "more")},
		"target port":              {"Service/proxy", func(_ *testing.T, o map[string]any) { items(o, "spec", "ports")[0]["targetPort"] = int64(1) }},
		"type of the service":      {"Service/proxy", setting("LoadBalancer", "spec", "type")},
		"replicas of a set":        {"StatefulSet/mysql-dataservice", setting(int64(2), "spec", "replicas")},
		"claim retention":          {"StatefulSet/mysql-dataservice", setting("Delete", "spec", "persistentVolumeClaimRetentionPolicy", "whenDeleted")},
		"peer widened": {"NetworkPolicy/proxy", func(t *testing.T, o map[string]any) {
			set(t, items(items(o, "spec", "ingress")[0], "from")[0], map[string]any{}, "namespaceSelector")
		}},
		"digest removed": {"Service/proxy", removing("metadata", "annotations", object.AnnotationDigest)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, planned := running(t, "{networkPolicy: {enabled: true, allowFrom: [{podSelector: {}}]}, proxy: {replica: 1, sidecars: [{name: logs, image: logs}]}, mysql: {}, eureka: {}}", test.id)
			before := fetch(t, planned)
			edited := edit(t, planned, test.change)
			assert.Assert(t, edited.GetResourceVersion() != before.GetResourceVersion(), "the edit changed nothing")

			want := Corrected
			if name == "digest removed" {
				want = Updated
			}
			assert.Equal(t, p.apply(planned).Action, want)
			after := fetch(t, planned)
			for _, obj := range []*unstructured.Unstructured{before, after} {
				obj.SetManagedFields(nil)
				obj.SetResourceVersion("")
				obj.SetGeneration(0)
			}
			assert.DeepEqual(t, after, before)
			p.atRest(planned)
		})
	}
}

// Entries that another writer adds are removed if they change what the pods run.
func TestForeignEntriesAreRemoved(t *testing.T) {
	t.Parallel()
	variables := map[string]string{"variable": "JAVA_TOOL_OPTIONS", "variable of a set": "MYSQL_ALLOW_EMPTY_PASSWORD"}
	for name, test := range map[string]struct {
		id  string
		add change
	}{
		"variable":                 {"Deployment/proxy", inContainer(adding(map[string]any{"name": "JAVA_TOOL_OPTIONS", "value": "-javaagent:evil.jar"}, "env"))},
		"variable of a set":        {"StatefulSet/mysql-dataservice", inContainer(adding(map[string]any{"name": "MYSQL_ALLOW_EMPTY_PASSWORD", "value": "1"}, "env"))},
		"file":                     {"ConfigMap/mysql-dataservice", setting("x", "data", "zz.cnf")},
		"binary file":              {"ConfigMap/mysql-dataservice", setting(map[string]any{"zz.cnf": "eA=="}, "binaryData")},
		"key of a Secret":          {"Secret/mysql-dataservice-credentials", setting("eA==", "data", "more")},
		"port":                     {"Service/proxy", adding(map[string]any{"name": "debug", "port": int64(5005), "protocol": "TCP"}, "spec", "ports")},
		"port of another protocol": {"Service/proxy", adding(map[string]any{"name": "udp", "port": int64(9094), "protocol": "UDP"}, "spec", "ports")},
		"variables from a Secret":  {"Deployment/proxy", inContainer(setting([]any{map[string]any{"secretRef": map[string]any{"name": "x"}}}, "envFrom"))},
		"command":                  {"Deployment/proxy", inContainer(setting([]any{"evil"}, "command"))},
		"hook":                     {"Deployment/proxy", inContainer(setting(map[string]any{"exec": map[string]any{"command": []any{"evil"}}}, "lifecycle", "postStart"))},
		"privileges":               {"Deployment/proxy", inContainer(setting([]any{"NET_ADMIN"}, "securityContext", "capabilities", "add"))},
		"network of the node":      {"Deployment/proxy", setting(true, "spec", "template", "spec", "hostNetwork")},
		"service account":          {"Deployment/proxy", setting("admin", "spec", "template", "spec", "serviceAccountName")},
		"user of a container":      {"Deployment/proxy", inContainer(setting(int64(0), "securityContext", "runAsUser"))},
		"group of a container":     {"Deployment/proxy", inContainer(setting(int64(0), "securityContext", "runAsGroup"))},
		"user of all containers":   {"Deployment/proxy", setting(int64(0), "spec", "template", "spec", "securityContext", "runAsUser")},
		"user of a database":       {"StatefulSet/mysql-dataservice", setting(int64(0), "spec", "template", "spec", "securityContext", "runAsUser")},
		"name of a node":           {"Deployment/proxy", setting("a", "spec", "template", "spec", "nodeName")},
		"host alias": {"Deployment/proxy", setting([]any{map[string]any{"ip": "192.0.2.1", "hostnames": []any{"mysql"}}},
			"spec", "template", "spec", "hostAliases")},
		"DNS servers": {"Deployment/proxy", func(t *testing.T, o map[string]any) {
			set(t, o, "None", "spec", "template", "spec", "dnsPolicy")
			set(t, o, map[string]any{"nameservers": []any{"192.0.2.53"}}, "spec", "template", "spec", "dnsConfig")
		}},
		"DNS search domain":               {"Deployment/proxy", setting(map[string]any{"searches": []any{"example.com"}}, "spec", "template", "spec", "dnsConfig")},
		"another runtime":                 {"Deployment/proxy", setting("kata", "spec", "template", "spec", "runtimeClassName")},
		"supplemental groups":             {"StatefulSet/mysql-dataservice", setting([]any{int64(0)}, "spec", "template", "spec", "securityContext", "supplementalGroups")},
		"sysctls":                         {"Deployment/proxy", setting([]any{map[string]any{"name": "kernel.shm_rmid_forced", "value": "1"}}, "spec", "template", "spec", "securityContext", "sysctls")},
		"SELinux label":                   {"Deployment/proxy", setting(map[string]any{"level": "s0:c1"}, "spec", "template", "spec", "securityContext", "seLinuxOptions")},
		"SELinux label of a container":    {"Deployment/proxy", inContainer(setting(map[string]any{"level": "s0:c1"}, "securityContext", "seLinuxOptions"))},
		"seccomp profile":                 {"Deployment/proxy", inContainer(setting(map[string]any{"type": "Unconfined"}, "securityContext", "seccompProfile"))},
		"AppArmor profile":                {"Deployment/proxy", setting(map[string]any{"type": "Unconfined"}, "spec", "template", "spec", "securityContext", "appArmorProfile")},
		"AppArmor profile of a container": {"Deployment/proxy", inContainer(setting(map[string]any{"type": "Unconfined"}, "securityContext", "appArmorProfile"))},
		"block device in a container": {"Deployment/proxy", func(t *testing.T, o map[string]any) {
			adding(map[string]any{"name": "disk", "persistentVolumeClaim": map[string]any{"claimName": "disk"}}, "spec", "template", "spec", "volumes")(t, o)
			inContainer(adding(map[string]any{"name": "disk", "devicePath": "/dev/disk"}, "volumeDevices"))(t, o)
		}},
		"shared process namespace": {"Deployment/proxy", setting(true, "spec", "template", "spec", "shareProcessNamespace")},
		"path of the node": {"Deployment/proxy", func(t *testing.T, o map[string]any) {
			adding(map[string]any{"name": "etc", "hostPath": map[string]any{"path": "/etc"}}, "spec", "template", "spec", "volumes")(t, o)
			inContainer(adding(map[string]any{"name": "etc", "mountPath": "/host"}, "volumeMounts"))(t, o)
		}},
		"path of the node, in no container": {"StatefulSet/mysql-dataservice",
			adding(map[string]any{"name": "etc", "hostPath": map[string]any{"path": "/etc"}}, "spec", "template", "spec", "volumes")},
		"files in a container": {"CronJob/tick", func(t *testing.T, o map[string]any) {
			pod, _, err := unstructured.NestedFieldNoCopy(o, "spec", "jobTemplate", "spec", "template", "spec")
			assert.NilError(t, err)
			adding(map[string]any{"name": "more", "configMap": map[string]any{"name": "x"}}, "volumes")(t, pod.(map[string]any))
			adding(map[string]any{"name": "more", "mountPath": "/app"}, "volumeMounts")(t, items(pod.(map[string]any), "containers")[0])
		}},
		"suspended Jobs":                {"CronJob/tick", setting(true, "spec", "jobTemplate", "spec", "suspend")},
		"external address of a Service": {"Service/proxy", setting([]any{"192.0.2.1"}, "spec", "externalIPs")},
		// The plan owns all fields of the operator's own resources: see TestUnplannedFieldsOfAResource.
		"setting of a resource": {"RedisCluster/redis", setting("1gb", "spec", "config", "maxmemory")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, planned := running(t, "{proxy: {}, mysql: {}, eureka: {}, redis: {name: redis, config: {maxmemory-policy: allkeys-lru}}, "+
				"cronJobs: [{name: tick, image: a, schedule: '@daily'}]}", test.id)
			before := fetch(t, planned)
			edit(t, planned, test.add)
			result := p.apply(planned)
			assert.Equal(t, result.Action, Corrected)
			assert.Equal(t, strings.Join(result.Variables, " "), variables[name])
			assert.Equal(t, len(traffic.take(p.ds.Namespace)), 1)
			after := fetch(t, planned)
			for _, part := range []string{"data", "binaryData", "spec"} {
				assert.DeepEqual(t, after.Object[part], before.Object[part])
			}
			await(t, after) // the operator's cache may lag behind the operator's own update: see kube.NewClient
			p.atRest(planned)
		})
	}
}

// Additions of other writers are kept if they do not change a planned container. Examples are a sidecar with its volumes, annotations and
// labels.
func TestWelcomeAdditionsStay(t *testing.T) {
	t.Parallel()
	p, planned := running(t, "{proxy: {}, mysql: {}, eureka: {}}", "Deployment/proxy")
	added := edit(t, planned, func(t *testing.T, o map[string]any) {
		adding(map[string]any{
			"name": "sidecar", "image": "mesh", "env": []any{map[string]any{"name": "A", "value": "b"}},
			"volumeMounts": []any{map[string]any{"name": "run", "mountPath": "/run/node"}},
		}, "spec", "template", "spec", "containers")(t, o)
		adding(map[string]any{"name": "run", "hostPath": map[string]any{"path": "/run", "type": ""}}, "spec", "template", "spec", "volumes")(t, o)
		adding(map[string]any{"name": "certs", "emptyDir": map[string]any{}}, "spec", "template", "spec", "volumes")(t, o)
		set(t, o, "1", "metadata", "annotations", "deployment.kubernetes.io/revision")
		set(t, o, "data", "metadata", "labels", "team")
		set(t, o, "now", "spec", "template", "metadata", "annotations", "kubectl.kubernetes.io/restartedAt")
	})
	p.atRest(planned)

	// These additions are also kept when the plan changes.
	p.ds.Spec.Proxy.Image = "registry.example.com/proxy:v2"
	assert.Equal(t, p.apply(p.planned("Deployment/proxy")).Action, Updated)
	after := fetch(t, planned)
	container(added.Object)["image"] = "registry.example.com/proxy:v2"
	assert.DeepEqual(t, after.Object["spec"], added.Object["spec"])
	assert.Equal(t, after.GetLabels()["team"], "data")
	assert.Equal(t, after.GetAnnotations()["deployment.kubernetes.io/revision"], "1")
}

// If a user sets fields of an Ingress or an autoscaler that the spec does not set, these fields are kept, also when the
// plan changes.
func TestAdditionsToAnIngressAndAnAutoscalerStay(t *testing.T) {
	t.Parallel()
	const spec = "{mysql: {}, eureka: {}, web: {autoscaling: {min: 1, max: %d, cpu: 70}, ingress: {host: h%d.example.com}}}"
	service := map[string]any{"name": "other", "port": map[string]any{"number": int64(80)}}
	pace := map[string]any{"scaleDown": map[string]any{"stabilizationWindowSeconds": int64(60)}}
	for name, test := range map[string]struct {
		id    string
		value any
		path  []string
	}{
		"default back end": {"Ingress/web", map[string]any{"service": service}, []string{"spec", "defaultBackend"}},
		"certificate":      {"Ingress/web", []any{map[string]any{"secretName": "tls"}}, []string{"spec", "tls"}},
		"pace":             {"HorizontalPodAutoscaler/web", pace, []string{"spec", "behavior", "scaleDown"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, planned := running(t, fmt.Sprintf(spec, 3, 3), test.id)
			added := edit(t, planned, setting(test.value, test.path...))
			p.atRest(planned)
			p.declare(fmt.Sprintf(spec, 4, 4))
			assert.Equal(t, p.apply(p.planned(test.id)).Action, Updated)
			want, _, err := unstructured.NestedFieldNoCopy(added.Object, test.path...)
			assert.NilError(t, err)
			got, _, err := unstructured.NestedFieldNoCopy(fetch(t, planned).Object, test.path...)
			assert.NilError(t, err)
			assert.DeepEqual(t, got, want)
		})
	}
}

// An Ingress keeps its paths to foreign Services, such as the path of cert-manager's HTTP-01 solver. (While a
// certificate is issued, that path is the first one.) An edit of the planned path is corrected. A restarted operator
// writes nothing.
func TestForeignPathsOfAnIngressStay(t *testing.T) {
	t.Parallel()
	const spec, id = "{mysql: {}, eureka: {}, web: {ingress: {host: h%d.example.com}}}", "Ingress/web"
	path := func(path, service string) map[string]any {
		return map[string]any{"path": path, "pathType": "ImplementationSpecific",
			"backend": map[string]any{"service": map[string]any{"name": service, "port": map[string]any{"number": int64(8089)}}}}
	}
	solver := path("/.well-known/acme-challenge/token", "cm-acme-http-solver")
	rules := func(o *unstructured.Unstructured) []map[string]any { return items(o.Object, "spec", "rules") }
	p, planned := running(t, fmt.Sprintf(spec, 1), id)
	before := items(rules(fetch(t, planned))[0], "http", "paths")[0]
	foreign := map[string]any{"host": "other.example.com", "http": map[string]any{"paths": []any{path("/", "other")}}}
	edit(t, planned, func(t *testing.T, o map[string]any) {
		set(t, items(o, "spec", "rules")[0], []any{solver, before}, "http", "paths")
		adding(foreign, "spec", "rules")(t, o)
	})
	p.atRest(planned)
	p.restart()
	p.atRest(planned)

	edit(t, planned, func(t *testing.T, o map[string]any) {
		changed := runtime.DeepCopyJSON(before)
		changed["path"] = "/edited"
		set(t, items(o, "spec", "rules")[0], []any{solver, changed}, "http", "paths")
	})
	assert.Equal(t, p.apply(planned).Action, Corrected)
	assert.DeepEqual(t, rules(fetch(t, planned)), []map[string]any{
		{"host": "h1.example.com", "http": map[string]any{"paths": []any{solver, before}}}, foreign,
	})

	// If the host changes, the planned path moves to the new host.
	p.declare(fmt.Sprintf(spec, 2))
	planned = p.planned(id)
	assert.Equal(t, p.apply(planned).Action, Updated)
	assert.DeepEqual(t, rules(fetch(t, planned)), []map[string]any{
		{"host": "h1.example.com", "http": map[string]any{"paths": []any{solver}}}, foreign,
		{"host": "h2.example.com", "http": map[string]any{"paths": []any{before}}},
	})

	// If cert-manager removes the solver's path, nothing is corrected. If the operator's cache still shows that path,
	// the apply fails with Conflict, and does not restore the path.
	seen, err := p.Get(t.Context(), planned)
	assert.NilError(t, err)
	edit(t, planned, setting([]any{rules(seen)[2]}, "spec", "rules"))
	p.atRest(planned)
	p.declare(fmt.Sprintf(spec, 3))
	_, err = p.Apply(t.Context(), p.owner(), p.planned(id), seen)
	assert.Assert(t, apierrors.IsConflict(err), "%v", err)
}

// An object that another writer keeps changing or deleting is corrected at growing intervals.
func TestAContestedObjectIsLeftAloneForAWhile(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		disturb func(t *testing.T, planned *unstructured.Unstructured)
		action  Action // action of the correction
		is      bool   // the object exists while it is contested
		text    string
	}{
		"changed": {func(t *testing.T, planned *unstructured.Unstructured) {
			edit(t, planned, setting("v", "data", "more"))
		}, Corrected, true, "ConfigMap proxy: another writer keeps changing"},
		"deleted": {func(t *testing.T, planned *unstructured.Unstructured) {
			assert.NilError(t, user.Delete(t.Context(), fetch(t, planned)))
			awaitGone(t, planned)
		}, Created, false, "ConfigMap proxy: another writer keeps deleting it"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, planned := running(t, "{proxy: {}, mysql: {}, eureka: {}}", "ConfigMap/proxy")
			now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
			p.contests.now = func() time.Time { return now }
			for range ofObjects.free + 1 {
				test.disturb(t, planned)
				assert.Equal(t, p.apply(planned).Action, test.action)
			}
			test.disturb(t, planned)
			traffic.take(p.ds.Namespace)
			result, err := p.try(planned)
			assert.DeepEqual(t, err, &ContestedError{Kind: "ConfigMap", Name: "proxy", RetryAfter: ofObjects.first, Deleted: !test.is})
			assert.ErrorContains(t, err, test.text)
			assert.Equal(t, result.Object != nil, test.is, "an existing object is returned, because the caller assesses its health")
			assert.Equal(t, len(traffic.take(p.ds.Namespace)), 0)

			// Corrections of other objects, and changes of the spec, are not delayed.
			p.apply(p.planned("Service/proxy"))
			other := planned.DeepCopy()
			set(t, other.Object, "other", "metadata", "annotations", object.AnnotationDigest)
			assert.Assert(t, p.apply(other).Action != Unchanged)
			test.disturb(t, other)

			now = now.Add(ofObjects.first)
			assert.Equal(t, p.apply(other).Action, test.action)
		})
	}
}

// If an operator ends between the two writes of a restore, the next operator does the second write.
func TestAnInterruptedRestoreIsFinished(t *testing.T) {
	t.Parallel()
	p, planned := running(t, "{proxy: {}, mysql: {}, eureka: {}}", "Service/proxy")
	before, managers := fetch(t, planned), p.managers(planned)
	edit(t, planned, setting([]any{map[string]any{"name": "http", "port": int64(1234), "protocol": "TCP"}}, "spec", "ports"))
	_, err := p.by(newApplier(&strict{operator, true})).try(planned)
	assert.ErrorContains(t, err, "the operator has ended")

	p.restart()
	await(t, fetch(t, planned))
	assert.Equal(t, p.apply(planned).Action, Corrected)
	after := fetch(t, planned)
	assert.DeepEqual(t, after.Object["spec"], before.Object["spec"])
	assert.DeepEqual(t, after.GetAnnotations(), before.GetAnnotations())
	assert.Equal(t, p.managers(planned), managers)
	p.atRest(planned)
}
