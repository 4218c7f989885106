// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/object"
)

// strict is a client of an API server that asks for resource versions to exist also of an apply, as
// it does for UIDs. It may end before its first patch.
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

// Where applying does not create, objects are created all the same, also by an operator that ends
// halfway, and what the plan no longer says is taken out of them as out of others.
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
				usual := usualManagers(t, gvk.Kind)
				a := New(&strict{Client: operator}, apiReader, ownTypes, ownVersion)
				ds, objects := oneOfEach(t, newNamespace(t))
				planned := withMore(objects[gvk.Kind])
				if ends {
					_, err := applied(t, New(&strict{operator, true}, apiReader, ownTypes, ownVersion), ownerOf(ds), planned)
					assert.ErrorContains(t, err, "the operator has ended")
					await(t, fetch(t, planned))
					assert.Equal(t, mustApply(t, a, ownerOf(ds), planned).Action, Corrected)
				} else {
					assert.Equal(t, mustApply(t, a, ownerOf(ds), planned).Action, Created)
				}
				await(t, fetch(t, planned))
				atRest(t, a, ds, planned)
				assert.Equal(t, mustApply(t, a, ownerOf(ds), objects[gvk.Kind]).Action, Updated)

				live := fetch(t, planned)
				assert.DeepEqual(t, live.GetLabels(), objects[gvk.Kind].GetLabels())
				assert.Assert(t, !restoring(live))
				assert.Equal(t, managersText(t, ds, live), usual)
			})
		}
	}
}

// usualManagers is who owns which fields of an object that an apply created with more than it has now.
func usualManagers(t *testing.T, kind string) string {
	t.Helper()
	ds, objects := oneOfEach(t, newNamespace(t))
	a := New(operator, apiReader, ownTypes, ownVersion)
	mustApply(t, a, ownerOf(ds), withMore(objects[kind]))
	mustApply(t, a, ownerOf(ds), objects[kind])
	return managersText(t, ds, fetch(t, objects[kind]))
}

// managersText is who owns which fields, whichever DataService it is.
func managersText(t *testing.T, ds *dsv1.DataService, obj *unstructured.Unstructured) string {
	t.Helper()
	text, err := json.Marshal(managers(obj))
	assert.NilError(t, err)
	return strings.ReplaceAll(string(text), string(ds.UID), "(uid)")
}

// withMore returns an earlier form of a planned object, with a label more.
func withMore(planned *unstructured.Unstructured) *unstructured.Unstructured {
	earlier := planned.DeepCopy()
	labels := earlier.GetLabels()
	labels["more"] = "yes"
	earlier.SetLabels(labels)
	annotations := earlier.GetAnnotations()
	annotations[object.AnnotationDigest] = "earlier"
	earlier.SetAnnotations(annotations)
	return earlier
}

// An object that somebody deletes again and again is created again less and less often.
func TestAnObjectThatIsDeletedAgainAndAgainIsContested(t *testing.T) {
	t.Parallel()
	a, ds, planned := running(t, "{proxy: {}, mysql: {}, eureka: {}}", "ConfigMap/proxy")
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	a.contests.now = func() time.Time { return now }
	remove := func() {
		assert.NilError(t, user.Delete(t.Context(), fetch(t, planned)))
		awaitGone(t, planned)
	}
	for range contestFree + 1 {
		remove()
		assert.Equal(t, mustApply(t, a, ownerOf(ds), planned).Action, Created)
	}
	remove()
	traffic.take(ds.Namespace)
	_, err := applied(t, a, ownerOf(ds), planned)
	assert.DeepEqual(t, err, &ContestedError{Kind: "ConfigMap", Name: "proxy", RetryAfter: contestFirst, Deleted: true})
	assert.ErrorContains(t, err, "ConfigMap proxy: somebody keeps deleting it")
	assert.DeepEqual(t, writes(ds.Namespace), []string{})

	// What was not there before is not held up, under another name or in another form.
	mustApply(t, a, ownerOf(ds), pick(t, objectsOf(t, ds), "Service/proxy"))
	other := planned.DeepCopy()
	other.SetAnnotations(map[string]string{object.AnnotationDigest: "other"})
	assert.Equal(t, mustApply(t, a, ownerOf(ds), other).Action, Created)
	remove()

	now = now.Add(contestFirst)
	assert.Equal(t, mustApply(t, a, ownerOf(ds), planned).Action, Created)
}
