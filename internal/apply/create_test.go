// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

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

// managers is who owns which fields of a live object, whichever DataService it is, and whenever that was.
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

// withMore returns an earlier form of a planned object, with a label more.
func withMore(t *testing.T, planned *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	earlier := planned.DeepCopy()
	set(t, earlier.Object, "yes", "metadata", "labels", "more")
	set(t, earlier.Object, "earlier", "metadata", "annotations", object.AnnotationDigest)
	return earlier
}
