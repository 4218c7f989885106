// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package kind_test

import (
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"d3os.com/d3os-operator/internal/kinds"
	"d3os.com/d3os-operator/test/harness"
)

// book is the name of a Notebook, if there is only one.
const book = "book"

func pages() NotebookSpec {
	return NotebookSpec{Title: "one", Pages: map[string]string{"a": "A", "b": "B"}}
}

// A Notebook is created: its objects, then both steps, in order and once; then nothing is written any more.
func TestCreate(t *testing.T) {
	s := newScene(t)
	op := s.start()
	s.create(book, pages())
	s.ready(book)
	s.isOpen(book)
	s.inOrder(book)
	s.written(op, 0, "ConfigMap/book", "ConfigMap/book-a", "ConfigMap/book-b", "PersistentVolumeClaim/data-book-0", "StatefulSet/book")
	s.quiet(op)
}

// written fails the test unless an operator wrote these objects since a mark, and no others.
func (s *scene) written(op *operator, mark int, want ...string) {
	s.Helper()
	if diff := harness.Difference(harness.Objects(op.Since(mark, objects)), want); diff != "" {
		s.Errorf("written: %s", diff)
	}
}

// A change of the spec writes what it touches, and what the steps wrote stays.
func TestUpdate(t *testing.T) {
	s := newScene(t)
	op := s.start()
	s.create(book, pages())
	s.ready(book)
	for _, c := range []struct {
		spec    string
		written []string
	}{
		{"{title: two}", []string{"ConfigMap/book"}},
		{"{pages: {a: again}}", []string{"ConfigMap/book-a"}},
		{"{pages: {a: null, b: null, c: C}}", []string{"ConfigMap/book-a", "ConfigMap/book-b", "ConfigMap/book-c"}},
	} {
		mark := op.Mark()
		s.change(book, c.spec)
		s.ready(book)
		s.written(op, mark, c.written...)
		if status := op.Since(mark, func(r harness.Sent) bool { return r.WritesStatus() }); len(status) != 1 {
			s.Errorf("the status was written %d times: %v", len(status), status)
		}
		s.isOpen(book)
	}
	if s.Object("ConfigMap/book-a") != nil || s.Object("ConfigMap/book-b") != nil {
		s.Error("pages that are not in the spec any more are still there")
	}
	s.inOrder(book)
}

// What somebody changes is put back, and what the steps wrote stays. What a step wrote and somebody removes, is seen to
// be missing, and the step is taken again.
func TestDrift(t *testing.T) {
	s := newScene(t)
	s.start()
	s.create(book, pages())
	s.ready(book)
	title := harness.Lookup[*corev1.ConfigMap](s.Journal, book).DeepCopy()
	for _, patch := range []string{
		`{"data": {"title": "theirs", "more": "theirs"}}`,
		`{"metadata": {"annotations": {"` + markOpen + `": null}}}`,
	} {
		s.Must(suite.API.Patch(s.Ctx, title, client.RawPatch(types.MergePatchType, []byte(patch))))
		s.CatchUp() // the journal shows what was there before, else
		s.Until("put back", func() error {
			live := harness.Lookup[*corev1.ConfigMap](s.Journal, book)
			if len(live.Data) != 1 || live.Data["title"] != "one" || live.Annotations[markOpen] == "" || live.ResourceVersion == title.ResourceVersion {
				return fmt.Errorf("it has %v, %v", live.Data, live.Annotations)
			}
			return nil
		})
		s.isOpen(book)
	}
}

// A spec with a mistake changes nothing; a paused Notebook takes no step.
func TestMistakeAndPause(t *testing.T) {
	s := newScene(t)
	op := s.start()
	s.create(book, NotebookSpec{Pages: map[string]string{"a": "A"}})
	s.hasReason(book, kinds.ReasonInvalidSpec)
	s.written(op, 0)
	s.change(book, "{title: one, paused: true}")
	s.hasReason(book, phasePaused)
	s.written(op, 0)
	s.change(book, "{paused: false}")
	s.ready(book)
	s.change(book, "{paused: true}")
	s.hasReason(book, phasePaused)
	mark := op.Mark()
	s.Must(suite.API.Patch(s.Ctx, harness.Lookup[*corev1.ConfigMap](s.Journal, book).DeepCopy(),
		client.RawPatch(types.MergePatchType, []byte(`{"metadata": {"annotations": {"`+markOpen+`": null}}}`))))
	s.quiet(op)
	s.written(op, mark)
	s.change(book, "{paused: false}")
	s.ready(book)
	s.isOpen(book)
}

// All that a Notebook owns goes with it, but not its volume. A new one of that name finds it formatted, because that is
// observed and not remembered.
func TestDelete(t *testing.T) {
	s := newScene(t)
	op := s.start()
	s.create(book, pages())
	s.ready(book)
	s.remove(op, book)
	claim := s.claim(book)
	if claim == nil || claim.DeletionTimestamp != nil {
		s.Fatal("the volume is gone")
	}
	mark := op.Mark()
	s.create(book, pages())
	s.ready(book)
	s.isOpen(book)
	s.written(op, mark, "ConfigMap/book", "ConfigMap/book-a", "ConfigMap/book-b", "StatefulSet/book")
	s.stop(op)
	n := harness.Lookup[*Notebook](s.Journal, book)
	s.Must(suite.API.Delete(s.Ctx, n.DeepCopyObject().(*Notebook)))
	op = s.start() // which finds it done
	s.gone(n)
	s.quiet(op)
	s.written(op, 0)
	if again := s.claim(book); again.UID != claim.UID {
		s.Errorf("the volume is another: %s, not %s", again.UID, claim.UID)
	}
}

// An operator that hears of the objects' end before it hears of the Notebook's makes none of them anew.
func TestDeletedUnseen(t *testing.T) {
	s := newScene(t)
	op := s.start()
	s.create(book, pages())
	s.ready(book)
	mark := op.Mark()
	op.Hold("notebooks")
	n := harness.Lookup[*Notebook](s.Journal, book)
	s.Must(suite.API.Delete(s.Ctx, n.DeepCopyObject().(*Notebook)))
	s.gone(n)
	s.Until("the operator asks whether the Notebook exists", func() error {
		if len(op.Since(mark, func(r harness.Sent) bool { return r.Verb == "get" && r.Resource == "notebooks" })) == 0 {
			return errors.New("it did not ask")
		}
		return nil
	})
	s.quiet(op)
	op.Release()
	s.gone(n)
	s.quiet(op)
	s.written(op, mark)
}

// remove deletes a Notebook and waits until nothing that it controlled is left, and the operator knows that it is gone.
// The operator writes nothing for that.
func (s *scene) remove(op *operator, name string) {
	s.Helper()
	mark, n := op.Mark(), harness.Lookup[*Notebook](s.Journal, name)
	s.Must(suite.API.Delete(s.Ctx, n.DeepCopyObject().(*Notebook)))
	s.Until("the operator forgets it", func() error {
		err := op.Manager.GetCache().Get(s.Ctx, client.ObjectKeyFromObject(n), &Notebook{})
		if err == nil {
			return errors.New("the operator still knows the Notebook")
		}
		return client.IgnoreNotFound(err)
	})
	s.gone(n)
	s.written(op, mark)
}

// gone waits until a Notebook that was deleted is gone, and all that it controlled.
func (s *scene) gone(n *Notebook) {
	s.Helper()
	name := n.Name
	s.Until("everything owned goes", func() error {
		if s.Object("Notebook/"+name) != nil {
			return errors.New("the Notebook is still there")
		}
		for _, object := range s.All() {
			if metav1.IsControlledBy(object, n) || object.GetName() == name+"-0" {
				return fmt.Errorf("%s is still there", harness.IDOf(object))
			}
		}
		return nil
	})
}
