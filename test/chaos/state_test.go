// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build chaos

package chaos_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/test/chaos/oracle"
	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/harness/stage"
)

// kinds are the compared kinds of a namespace.
var kinds = append([]schema.GroupVersionKind{
	dsv1.GroupVersion.WithKind(dsv1.Kind), corev1.SchemeGroupVersion.WithKind("Pod"),
}, object.Kinds...)

// lists returns an empty list of each kind, for journals.
func lists() []client.ObjectList {
	var all []client.ObjectList
	for _, gvk := range kinds {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
		all = append(all, list)
	}
	return all
}

// past is the history of a namespace.
type past struct {
	read    int                                   // length of the part of the journal that was read
	lives   map[string]map[types.UID]bool         // kind/name -> UIDs of the objects that had this name
	secrets map[string]*unstructured.Unstructured // last seen versions
	rotten  []string                              // forbidden events that happened
}

// catchUp reads the events since the last call.
func (p *past) catchUp(j *harness.Journal) {
	changes := j.Since(p.read)
	p.read += len(changes)
	for _, c := range changes {
		obj := c.Object.(*unstructured.Unstructured)
		if p.lives[c.ID] == nil {
			p.lives[c.ID] = map[types.UID]bool{}
		}
		p.lives[c.ID][obj.GetUID()] = true
		if obj.GetKind() != "Secret" {
			continue
		}
		if before := p.secrets[c.ID]; before != nil && rotated(before, obj) {
			p.rotten = append(p.rotten, c.ID+": a generated value was replaced by another")
		}
		p.secrets[c.ID] = obj
	}
}

// rotated reports whether a generated password changed while clients used the password.
func rotated(before, after *unstructured.Unstructured) bool {
	if after.GetKind() != "Secret" || before.GetUID() != after.GetUID() || after.GetLabels()["app.kubernetes.io/managed-by"] == "" {
		return false
	}
	was, _, _ := unstructured.NestedStringMap(before.Object, "data")
	is, _, _ := unstructured.NestedStringMap(after.Object, "data")
	for key, value := range was {
		if now, there := is[key]; there && !equality.Semantic.DeepEqual(now, value) {
			return true
		}
	}
	return false
}

// state returns the state of the namespace. The state contains the forbidden events. With history, it also contains the number of
// objects that had each name, and the numbers of rollouts.
func (s *scene) state(history bool) oracle.State {
	var objects []*unstructured.Unstructured
	for _, object := range s.All() {
		objects = append(objects, object.(*unstructured.Unstructured))
	}
	state, err := oracle.Of(s.Namespace, objects)
	if err != nil {
		s.Error(err)
		return nil
	}
	s.past.catchUp(s.Journal)
	for _, what := range s.past.rotten {
		state["Never/"+what] = true
	}
	if !history {
		return state
	}
	for _, obj := range objects {
		if rollout := obj.GetAnnotations()[oracle.AnnotationRollout]; rollout != "" {
			state["Lives/rollouts of "+obj.GetKind()+"/"+obj.GetName()] = rollout
		}
	}
	for id, uids := range s.past.lives {
		if _, is := state[id]; is {
			state["Lives/"+id] = fmt.Sprint(len(uids))
		}
	}
	return state
}

// The oracle reports a wrong state, a replaced password, and an operator that writes endlessly.
func TestOracleFinds(t *testing.T) {
	t.Parallel()
	sc := scenarioOf("create")
	base := sc.without(t)
	s := newStage(t)
	op := s.start()
	sc.act(s)
	if err := s.ends(op, base.end, true); err != nil {
		t.Fatal(err)
	}

	// This writer reverts each write of the operator, so the operator writes endlessly.
	fight, give := context.WithCancel(s.Ctx)
	var fighter sync.WaitGroup
	fighter.Go(func() {
		for fight.Err() == nil {
			_ = api.Delete(fight, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "proxy", Namespace: s.Namespace}})
		}
	})
	s.Until("an endless writer is found", func() error {
		_, err := s.quiet(op, stare, true)
		return stage.Unless(err != nil && strings.Contains(err.Error(), "still writes"), fmt.Sprint("it is not: ", err))
	})
	give()
	fighter.Wait()
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "proxy", Namespace: s.Namespace}}
	s.Until("the object that was deleted last is back", func() error {
		return api.Get(s.Ctx, client.ObjectKeyFromObject(config), config)
	})

	s.stop(op)
	s.Must(api.Patch(s.Ctx, config, client.RawPatch(types.MergePatchType, []byte(`{"data":{"stray":"x"}}`))))
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "mysql-dataservice-credentials", Namespace: s.Namespace}}
	s.Must(api.Patch(s.Ctx, secret, client.RawPatch(types.MergePatchType, []byte(`{"data":{"password":"b3RoZXI="}}`))))
	s.Until("the broken end state is found", func() error {
		diff := oracle.Diff(base.end, s.state(true))
		for _, part := range []string{"ConfigMap/proxy", "stray", "a generated value was replaced"} {
			if !strings.Contains(diff, part) {
				return fmt.Errorf("%q is missing in %q", part, diff)
			}
		}
		return nil
	})
}

// table counts the results of the cases.
type table struct {
	mu     sync.Mutex
	lines  map[string]*line // by scenario and mode
	missed []string         // cases in which the awaited write did not happen
}

type line struct{ cases, passed, failed, missed, crashes int }

// count counts a case when the case ends. The case calls miss if its awaited write did not happen.
func (t *table) count(test *testing.T, scenario, mode string, crash bool) (miss func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.lines[scenario+"\t"+mode]
	if l == nil {
		l = &line{}
		t.lines[scenario+"\t"+mode] = l
	}
	l.cases++
	missed := false
	test.Cleanup(func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		switch {
		case test.Failed():
			l.failed++
		case missed:
			l.missed++
			t.missed = append(t.missed, test.Name())
		default:
			l.passed++
			if crash {
				l.crashes++
			}
		}
	})
	return func() { missed = true }
}

// sum returns the sum of all lines.
func (t *table) sum() (sum line) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, l := range t.lines {
		sum = line{sum.cases + l.cases, sum.passed + l.passed, sum.failed + l.failed, sum.missed + l.missed, sum.crashes + l.crashes}
	}
	return sum
}

// String returns the table. "Not met" counts runs in which the write to crash at did not happen: runs differ in the number of status writes
// and of writes repeated after a conflict. The end states of these runs were still compared.
func (t *table) String() string {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\nSCENARIO\tMODE\tCASES\tPASSED\tFAILED\tNOT MET")
	row := func(name string, l line) {
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\n", name, l.cases, l.passed, l.failed, l.missed)
	}
	for _, name := range slices.Sorted(maps.Keys(t.lines)) {
		row(name, *t.lines[name])
	}
	row("all\t", t.sum())
	_ = w.Flush()
	for _, name := range t.missed {
		fmt.Fprintln(&text, "not met:", name)
	}
	return text.String()
}
