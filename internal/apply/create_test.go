// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"d3os.com/d3os-operator/internal/object"
)

// strict is a client of an API server that never creates an object by an apply with a resource version: it answers
// Conflict. If ends is set, the client fails before its first patch.
type strict struct {
	client.Client

	ends bool
}

func (s *strict) Apply(ctx context.Context, obj runtime.ApplyConfiguration, options ...client.ApplyOption) error {
	if obj.(interface{ GetResourceVersion() string }).GetResourceVersion() != "" {
		return apierrors.NewConflict(corev1.Resource("any"), "any", errors.New("there is none of that resource version"))
	}
	return s.Client.Apply(ctx, obj, options...)
}

func (s *strict) Patch(ctx context.Context, obj client.Object, patch client.Patch, options ...client.PatchOption) error {
	if s.ends {
		return errors.New("the operator has ended")
	}
	return s.Client.Patch(ctx, obj, patch, options...)
}

// If the API server refuses to create an object by an apply with a resource version, the operator creates it by POST. This also succeeds if the
// operator ends between the two writes of Applier.post. A later plan can remove fields that POST wrote.
func TestWhereApplyDoesNotCreate(t *testing.T) {
	t.Parallel()
	for _, ends := range []bool{false, true} {
		for _, gvk := range object.Kinds {
			name := gvk.Kind
			if ends {
				name += ", halfway"
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				usual, objects := oneOfEach(t)
				usual.apply(withMore(t, objects[gvk.Kind]))
				usual.apply(objects[gvk.Kind])
				want := usual.managers(objects[gvk.Kind])

				p, objects := oneOfEach(t)
				p = p.by(newApplier(&strict{Client: operator}))
				planned := withMore(t, objects[gvk.Kind])
				if ends {
					_, err := p.by(newApplier(&strict{operator, true})).try(planned)
					assert.ErrorContains(t, err, "the operator has ended")
					await(t, fetch(t, planned))
					assert.Equal(t, p.apply(planned).Action, Corrected)
				} else {
					assert.Equal(t, p.apply(planned).Action, Created)
				}
				await(t, fetch(t, planned))
				p.atRest(planned)
				assert.Equal(t, p.apply(objects[gvk.Kind]).Action, Updated)

				live := fetch(t, planned)
				assert.DeepEqual(t, live.GetLabels(), objects[gvk.Kind].GetLabels())
				assert.Assert(t, !restoring(live))
				assert.Equal(t, p.managers(planned), want)
			})
		}
	}
}

// managers returns the field managers of a live object, without the time and the DataService's UID.
func (p *platform) managers(like *unstructured.Unstructured) string {
	p.Helper()
	fields := fetch(p.T, like).GetManagedFields()
	for i := range fields {
		fields[i].Time = nil
	}
	text, err := json.Marshal(fields)
	assert.NilError(p, err)
	return strings.ReplaceAll(string(text), string(p.ds.UID), "(uid)")
}

// withMore returns an earlier plan of an object. The earlier plan has one more label.
func withMore(t *testing.T, planned *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	earlier := planned.DeepCopy()
	set(t, earlier.Object, "yes", "metadata", "labels", "more")
	set(t, earlier.Object, "earlier", "metadata", "annotations", object.AnnotationDigest)
	return earlier
}

// ReleaseNodePorts gives a Service another node port, and changes nothing else. If an earlier call was interrupted
// between its two writes, ReleaseNodePorts also removes the additional port that the call has left.
func TestServiceGivesUpANodePort(t *testing.T) {
	t.Parallel()
	p, planned := running(t, "{web: {nodePort: 30996, ports: [{name: a, port: 1234, nodePort: 30995}]}}", "Service/web")
	t.Cleanup(func() { freeNodePorts(t, []*unstructured.Unstructured{planned}) })
	for what, writes := range map[string]int{"a port of its own": 2, "what an earlier call left": 1} {
		p.apply(planned)
		if writes == 1 {
			edit(t, planned, func(_ *testing.T, o map[string]any) {
				ports := items(o, "spec", "ports")
				delete(ports[0], "nodePort")
				ports = append(ports, map[string]any{"name": releasedPrefix + "0", "port": int64(30996), "nodePort": int64(30996)})
				set(t, o, list(ports), "spec", "ports")
			})
		}
		live, err := p.Get(t.Context(), planned)
		assert.NilError(t, err)
		traffic.take(p.ds.Namespace)
		assert.NilError(t, p.ReleaseNodePorts(t.Context(), p.owner(), live, []int64{30996}))
		assert.Equal(t, len(traffic.take(p.ds.Namespace)), writes, what)
		ports, before := items(fetch(t, planned).Object, "spec", "ports"), items(planned.Object, "spec", "ports")
		assert.Equal(t, len(ports), len(before), what)
		for i, port := range ports {
			assert.Equal(t, port["name"], before[i]["name"], what)
			assert.Equal(t, port["nodePort"] == before[i]["nodePort"], before[i]["nodePort"] == int64(30995), what)
			assert.Assert(t, port["nodePort"] != int64(30996) && port["nodePort"] != nil, what)
		}
	}
	p.apply(planned)
	p.atRest(planned)
}

// If another Service of the namespace has the node port, the error names that Service. Services of other namespaces are not read.
func TestTakenNodePortNamesItsHolder(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		port    string
		foreign bool
		says    string
	}{
		"in the same namespace": {"30987", false, "provided port is already allocated: Service holder uses this node port"},
		"in another namespace":  {"30986", true, "provided port is already allocated"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := start(t, "{web: {nodePort: "+test.port+"}}")
			number, err := strconv.ParseInt(test.port, 10, 32)
			assert.NilError(t, err)
			holder := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: p.ds.Namespace, Name: "holder"}, Spec: corev1.ServiceSpec{
				Type: corev1.ServiceTypeNodePort, Ports: []corev1.ServicePort{{Port: 80, NodePort: int32(number)}},
			}}
			if test.foreign {
				holder.Namespace = newNamespace(t)
			}
			assert.NilError(t, user.Create(t.Context(), holder))
			t.Cleanup(func() { assert.NilError(t, user.Delete(context.WithoutCancel(t.Context()), holder)) })
			_, err = p.try(p.planned("Service/web"))
			assert.Assert(t, err != nil && strings.HasSuffix(err.Error(), test.says), "%v", err)
			assert.Assert(t, apierrors.IsInvalid(err))
		})
	}
}

// When an object without an owner is created, it gets the annotations against pruning by GitOps tools. Claim templates
// get them too. The annotations cause no later write.
func TestRetainedObjectsAreNotPruned(t *testing.T) {
	t.Parallel()
	const spec = "{mysql: {}}"
	for _, id := range []string{"Secret/mysql-dataservice-credentials", "StatefulSet/mysql-dataservice"} {
		t.Run(id, func(t *testing.T) {
			t.Parallel()
			p, planned := running(t, spec, id)
			check := func() {
				t.Helper()
				live := fetch(t, planned)
				set := live.GetKind() == "StatefulSet"
				assert.Equal(t, object.LacksNoPrune(live), set, "a StatefulSet is deleted with its owner")
				templates := 0
				eachTemplate(live, func(template *unstructured.Unstructured) {
					templates++
					assert.Assert(t, !object.LacksNoPrune(template), "%v", template.GetAnnotations())
				})
				assert.Equal(t, templates > 0, set)
			}
			check()
			p.atRest(planned)
			p.restart()
			p.atRest(planned)
			p.declare("{mysql: {labels: {team: a}}}")
			changed := p.planned(id)
			if changed.GetKind() == "Secret" {
				changed.SetLabels(map[string]string{object.LabelInstance: "platform", object.LabelManagedBy: object.ManagedBy, "team": "a"})
				annotations := changed.GetAnnotations()
				annotations[object.AnnotationDigest] = "of another plan"
				changed.SetAnnotations(annotations)
			}
			assert.Equal(t, p.apply(changed).Action, Updated)
			check()
			p.atRest(changed)
		})
	}
}

// A user's own annotations about pruning are kept.
func TestDecisionsOfUsersAboutPruningStay(t *testing.T) {
	t.Parallel()
	for has, want := range map[string]string{
		"":                              "Prune=false,Delete=false",
		"Prune=confirm, Delete=confirm": "Prune=confirm, Delete=confirm",
		"ServerSideApply=true":          "ServerSideApply=true,Prune=false,Delete=false",
		"Prune=true":                    "Prune=true,Delete=false",
		"PrunePropagationPolicy=orphan": "PrunePropagationPolicy=orphan,Prune=false,Delete=false",
	} {
		annotations := object.WithoutPrune(nil, map[string]string{"argocd.argoproj.io/sync-options": has})
		assert.Equal(t, annotations["argocd.argoproj.io/sync-options"], want)
		o := &unstructured.Unstructured{}
		o.SetAnnotations(annotations)
		assert.Assert(t, !object.LacksNoPrune(o), "%q", want)
	}
}

// A StatefulSet of an earlier version is not replaced, although its claim templates lack the annotations.
func TestOlderTemplatesStay(t *testing.T) {
	t.Parallel()
	p := start(t, "{mysql: {}}")
	planned := p.planned("StatefulSet/mysql-dataservice")
	old := planned.DeepCopy()
	old.SetResourceVersion("1")
	p.stampVersion(old)
	assert.NilError(t, operator.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(old), client.FieldOwner(FieldManager), client.ForceOwnership))
	p.atRest(planned)
	p.declare("{mysql: {labels: {team: a}}}")
	changed := p.planned("StatefulSet/mysql-dataservice")
	assert.Equal(t, p.apply(changed).Action, Updated)
	p.atRest(changed)
}
