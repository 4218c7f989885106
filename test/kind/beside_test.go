// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package kind_test

import (
	"fmt"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/kinds"
	"d3os.com/d3os-operator/test/harness"
)

// owned returns what a resource controls.
func (s *scene) owned(owner client.Object) []string {
	return harness.IDs(slices.DeleteFunc(s.All(), func(o client.Object) bool { return !metav1.IsControlledBy(o, owner) }))
}

// A DataService and a Notebook of the same name, in the same namespace, do not touch each other's objects.
func TestBesideADataService(t *testing.T) {
	s := newScene(t)
	op := s.start()
	twin := harness.Small()
	twin.SetName(book)
	s.create(book, pages())
	s.CreateReady(twin)
	s.ready(book)
	s.isOpen(book)
	platform, notebook := s.DataService(book), harness.Lookup[*Notebook](s.Journal, book)
	theirs, ours := s.owned(platform), s.owned(notebook)
	if len(theirs) < 5 || !slices.Equal(ours, []string{"ConfigMap/book", "ConfigMap/book-a", "ConfigMap/book-b", "StatefulSet/book"}) {
		t.Fatalf("the DataService has %v, the Notebook has %v", theirs, ours)
	}

	mark := op.Mark()
	s.change(book, "{title: two}")
	s.ready(book)
	s.quiet(op)
	s.written(op, mark, "ConfigMap/book")

	mark = op.Mark()
	s.ChangeReady(book, harness.Fields{"auth": harness.Fields{"image": "registry.example/auth:v2"}})
	s.quiet(op)
	s.written(op, mark, "Deployment/auth")

	s.remove(op, book)
	s.quiet(op)
	if now := s.owned(platform); !slices.Equal(now, theirs) {
		t.Errorf("with the Notebook went some of the DataService: it had %v, it has %v", theirs, now)
	}
	s.create(book, pages())
	s.ready(book)
	ours = s.owned(harness.Lookup[*Notebook](s.Journal, book))
	s.Must(suite.API.Delete(s.Ctx, &dsv1.DataService{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: book}}))
	s.Until("the DataService goes", func() error {
		if left := s.owned(platform); len(left) > 0 {
			return fmt.Errorf("%v are still there", left)
		}
		return nil
	})
	s.quiet(op)
	if now := s.owned(harness.Lookup[*Notebook](s.Journal, book)); !slices.Equal(now, ours) {
		t.Errorf("with the DataService went some of the Notebook: it had %v, it has %v", ours, now)
	}
}

// conflicting is the name of a StatefulSet of the sample.
const conflicting = "mysql-dataservice"

// An object of the same name is the other's, and left alone; so is its claim, which has the name of the Notebook's.
func TestConflictWithADataService(t *testing.T) {
	s := newScene(t)
	op := s.start()
	s.CreateReady(harness.Small())
	set := harness.Lookup[*appsv1.StatefulSet](s.Journal, conflicting)
	if set == nil {
		t.Fatalf("there is no such StatefulSet in %v", harness.IDs(s.All()))
	}
	mark := op.Mark()
	s.create(conflicting, NotebookSpec{})
	s.hasReason(conflicting, kinds.ReasonObjectConflict)
	s.quiet(op)
	for _, r := range op.Since(mark, objects) {
		if r.Resource != "configmaps" {
			t.Errorf("%v was written", r)
		}
	}
	now := harness.Lookup[*appsv1.StatefulSet](s.Journal, conflicting)
	if now == nil || now.UID != set.UID || now.Generation != set.Generation {
		t.Errorf("the StatefulSet of the DataService was %v, is %v", set.ObjectMeta, now)
	}
	if claim := s.claim(conflicting); claim == nil || claim.Annotations[markFormatted] != "" {
		t.Errorf("the claim of the DataService is %v", claim)
	}
}
