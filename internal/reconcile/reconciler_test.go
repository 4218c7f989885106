// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	redisv1 "d3os.com/d3os-operator/api/redis/v1alpha1"
	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/config/crd"
	"d3os.com/d3os-operator/internal/apply"
	"d3os.com/d3os-operator/internal/metrics"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/workers"
)

// actor is a kind for tests, without objects. The status's message shows the progress, and its phase the failure.
type actor struct {
	plan    func() // Plan calls it, if set
	parts   []Part // the parts of the plan
	refusal error  // result of Plan
	runs    bool   // servers run, and are maintained if the plan is refused
	observe func(context.Context) (string, error)
	step    func(context.Context) error
	heavy   *Heavy                      // if set, the DataService is large, and needs a turn of this Heavy
	note    func(context.Context) error // runs the note; nil if Decide returns no note
	paused  bool
	decided *int // if set, counts the calls of Decide
}

func (actor) GVK() schema.GroupVersionKind    { return dsv1.GroupVersion.WithKind(dsv1.Kind) }
func (actor) New() *dsv1.DataService          { return &dsv1.DataService{} }
func (a actor) Paused(*dsv1.DataService) bool { return a.paused }
func (actor) Forget(string, string)           {}
func (actor) Summary(ds *dsv1.DataService) Summary {
	return Summary{Phase: string(ds.Status.Phase)}
}
func (a actor) Plan(*dsv1.DataService, Inputs, *string) (*Plan, error) {
	if a.plan != nil {
		a.plan()
	}
	return &Plan{Parts: a.parts}, a.refusal
}

func (a actor) Maintain(*dsv1.DataService, Inputs, *SpecError, *string) (bool, error) {
	return a.runs, nil
}

func (a actor) Decide(*dsv1.DataService, PlanSeen, *string) Decision {
	if a.decided != nil {
		*a.decided++
	}
	decision := Decision{Steps: []Step{{Name: "Act", Do: a.step}}}
	if a.note != nil {
		decision.Notes = []Step{{Name: "Note", Do: a.note}}
	}
	return decision
}

func (a actor) Observe(ctx context.Context, _ *dsv1.DataService, _ PlanSeen, _ Pods, obs *string) (err error) {
	*obs, err = a.observe(ctx)
	return err
}

func (actor) Status(ds *dsv1.DataService, seen Seen[string], _ metav1.Time) {
	ds.Status.Phase = "Working"
	if seen.Observed != nil {
		ds.Status.Message = *seen.Observed
	}
	if seen.Failure != nil {
		ds.Status.Phase, ds.Status.Ready = dsv1.Phase(seen.Failure.Reason+": "+seen.Failure.Message), seen.Failure.Part
	}
}

type held struct{}

func (held) Held() bool { return true }

// reconciling returns a function that reconciles a DataService, and a function that reads the status of the
// DataService. The API server holds no other object. It does not answer if the context has expired.
func reconciling(t *testing.T, a actor) (pass func(context.Context) error, status func() dsv1.DataServiceStatus) {
	t.Helper()
	scheme, ds := runtime.NewScheme(), &dsv1.DataService{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "platform"}}
	assert.NilError(t, dsv1.AddToScheme(scheme))
	if a.heavy != nil {
		ds.Spec, ds.Generation = sized("", heavyBytes).Spec, 1
	}
	c := interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme).WithObjects(ds).WithStatusSubresource(ds).Build(), interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return nil },
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
			if key.Name == "unreadable" {
				return errors.New("m")
			}
			return c.Get(ctx, key, o, options...)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, options ...client.SubResourcePatchOption) error {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return c.SubResource(sub).Patch(ctx, o, p, options...)
		},
	})
	types, err := apply.NewTypes(crd.Files)
	assert.NilError(t, err)
	r := NewReconciler(a, metrics.SeriesOf(t.Name()), Parts{
		Client: c, Engine: NewEngine(c, apply.New(c, c, types, "1.2.3")), Lease: held{}, Recorder: events.NewFakeRecorder(100), Heavy: cmp.Or(a.heavy, NewHeavy()),
	})
	key := client.ObjectKeyFromObject(ds)
	pass = func(ctx context.Context) error {
		_, err := r.Reconcile(ctx, ctrl.Request{NamespacedName: key})
		return err
	}
	return pass, func() dsv1.DataServiceStatus {
		live := &dsv1.DataService{}
		assert.NilError(t, c.Get(t.Context(), key, live))
		return live.Status
	}
}

// If the time of a reconciliation runs out, the status reports this, although the context permits no further request.
func TestOutOfTimeIsReported(t *testing.T) {
	t.Parallel()
	pass, status := reconciling(t, actor{observe: func(ctx context.Context) (string, error) {
		<-ctx.Done()
		return "", ctx.Err()
	}})
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	assert.ErrorIs(t, pass(ctx), context.DeadlineExceeded)
	assert.Equal(t, string(status().Phase), "ObserveFailed: context deadline exceeded")
}

// Progress alone is not written to the status until some time after the last write. If a step fails, the status is
// written, and includes the progress.
func TestAFailingStepReportsProgress(t *testing.T) {
	t.Parallel()
	var progress string
	var broken error
	pass, status := reconciling(t, actor{
		observe: func(context.Context) (string, error) { return progress, nil },
		step:    func(context.Context) error { return broken },
	})
	progress = "one"
	assert.NilError(t, pass(t.Context()))
	assert.Equal(t, status().Message, "one")
	progress, broken = "two", errors.New("no route")
	assert.ErrorIs(t, pass(t.Context()), broken)
	assert.Equal(t, string(status().Phase), "StepFailed: no route (step Act)")
	assert.Equal(t, status().Message, "two")
}

// The failure of a part names the part.
func TestFailureNamesItsPart(t *testing.T) {
	t.Parallel()
	o := object.Empty(object.StatefulSetKind)
	o.SetNamespace("ns")
	o.SetName("unreadable")
	pass, status := reconciling(t, actor{parts: []Part{{Name: "web", Kind: "StatefulSet", Objects: []*unstructured.Unstructured{o}}}})
	assert.ErrorContains(t, pass(t.Context()), "m")
	assert.Equal(t, string(status().Phase), "ApplyFailed: web: StatefulSet unreadable: m")
	assert.Equal(t, status().Ready, "web")
}

// No step of a paused resource is taken. Decide is called once, and its decision is in the status.
func TestPausedTakesNoStep(t *testing.T) {
	t.Parallel()
	decided := 0
	pass, status := reconciling(t, actor{
		decided: &decided, paused: true, observe: func(context.Context) (string, error) { return "seen", nil }, step: func(context.Context) error { return errors.New("taken") },
	})
	assert.NilError(t, pass(t.Context()))
	assert.Equal(t, status().Message, "seen")
	assert.Equal(t, decided, 1)
}

// A note is written in each reconciliation, even if the step fails, the resource is paused, or the spec is refused while
// servers run. If the step does not fail, the status reports the failure of a note.
func TestNotesAreTaken(t *testing.T) {
	t.Parallel()
	refused := errors.New("refused")
	for name, c := range map[string]struct {
		paused     bool
		plan       error
		step, note error
		phase      string
	}{
		"plan error":                 {plan: &SpecError{Reason: ReasonInvalidSpec, Err: refused}, phase: "Working"},
		"refused by a policy":        {plan: &RefusedError{Err: apierrors.NewForbidden(schema.GroupResource{}, "store", refused)}, phase: "Working"},
		"plan and step fail":         {plan: &SpecError{Reason: ReasonInvalidSpec, Err: refused}, step: refused, phase: "StepFailed: refused (step Act)"},
		"step and note succeed":      {phase: "Working"},
		"the step fails":             {step: refused, phase: "StepFailed: refused (step Act)"},
		"the note fails":             {note: refused, phase: "StepFailed: refused (step Note)"},
		"paused":                     {paused: true, step: refused, phase: "Working"},
		"paused, and the note fails": {paused: true, note: refused, phase: "StepFailed: refused (step Note)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			noted := 0
			pass, status := reconciling(t, actor{
				paused: c.paused, observe: func(context.Context) (string, error) { return "seen", nil }, step: func(context.Context) error { return c.step },
				note: func(context.Context) error { noted++; return c.note }, refusal: c.plan, runs: true,
			})
			assert.Equal(t, pass(t.Context()) == nil, c.phase == "Working")
			assert.Equal(t, noted, 1)
			assert.Equal(t, string(status().Phase), c.phase)
		})
	}
}

// If the spec is refused and no server runs, or the plan failed for another reason, nothing is observed.
func TestRefusalWithoutServersEndsThePass(t *testing.T) {
	t.Parallel()
	wrong := errors.New("wrong")
	for phase, a := range map[string]actor{
		"InvalidSpec: wrong":       {refusal: &SpecError{Reason: ReasonInvalidSpec, Err: wrong}},
		"ApplyFailed: wrong":       {refusal: wrong, runs: true},
		"CredentialsFailed: wrong": {refusal: &SecretError{Err: wrong}, runs: true},
	} {
		decided := 0
		a.decided = &decided
		pass, status := reconciling(t, a)
		_ = pass(t.Context()) // the status reports the error
		assert.Equal(t, string(status().Phase), phase)
		assert.Equal(t, decided, 0)
	}
}

// While another large resource has the turn, a large resource is not planned.
func TestALargeResourceWaitsForItsTurn(t *testing.T) {
	t.Parallel()
	none, planned, heavy := func(context.Context) error { return nil }, 0, NewHeavy()
	leave, err := heavy.enter(redisv1.Kind, sized("another", heavyBytes))
	assert.NilError(t, err)
	pass, _ := reconciling(t, actor{
		heavy: heavy, plan: func() { planned++ }, step: none, observe: func(context.Context) (string, error) { return "", nil },
	})
	assert.NilError(t, pass(t.Context()))
	assert.Equal(t, planned, 0)
	leave()
	assert.NilError(t, pass(t.Context()))
	assert.Equal(t, planned, 1)
}

// If a reconciliation or one of its goroutines panics, the status reports the panic, and the operator continues.
func TestPanicsAreReported(t *testing.T) {
	t.Parallel()
	none := func(context.Context) error { return nil }
	inAGroup := func() {
		var group workers.Group
		group.Go(func() { panic("an index out of range") })
		group.Wait()
	}
	pass, status := reconciling(t, actor{plan: inAGroup, step: none})
	assert.NilError(t, pass(t.Context()), "it is tried again after a minute, not at once")
	assert.Equal(t, string(status().Phase), "RenderFailed: the operator cannot plan this spec, and nothing is changed: "+
		"panic: an index out of range: take the last change of the spec back, and report this")
	pass, status = reconciling(t, actor{step: none, observe: func(context.Context) (string, error) { inAGroup(); return "", nil }})
	assert.ErrorContains(t, pass(t.Context()), "an index out of range")
	assert.Equal(t, string(status().Phase), "ApplyFailed: panic: an index out of range")
}

// If the API server refuses a status because it is too large, each attempt records an event. Other errors record no
// event.
func TestAStatusThatIsTooLargeIsAnEvent(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		refusal error
		want    bool
	}{
		"etcd":           {apierrors.NewInternalError(errors.New("etcdserver: request is too large")), true},
		"etcd's client":  {apierrors.NewInternalError(errors.New("rpc error: code = ResourceExhausted desc = trying to send message larger than max (2129920 vs. 2097152)")), true},
		"the API server": {apierrors.NewRequestEntityTooLargeError("limit is 3145728"), true},
		"another error":  {apierrors.NewInternalError(errors.New("etcdserver: request timed out")), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			scheme, ds := runtime.NewScheme(), &dsv1.DataService{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "platform"}}
			assert.NilError(t, dsv1.AddToScheme(scheme))
			refuse := interceptor.Funcs{SubResourcePatch: func(context.Context, client.Client, string, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
				return c.refusal
			}}
			recorder := events.NewFakeRecorder(2)
			r := newReporter(actor{}, interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme).Build(), refuse), recorder, &metrics.Series{})
			for range 2 {
				_, _, err := r.report(t.Context(), ds, Seen[string]{})
				assert.ErrorIs(t, err, c.refusal)
				if c.want {
					assert.Assert(t, strings.HasPrefix(<-recorder.Events, "Warning StatusTooLarge DataService platform has "))
				}
			}
			assert.Equal(t, len(recorder.Events), 0)
		})
	}
}
