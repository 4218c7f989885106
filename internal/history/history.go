// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package history keeps the specs that a resource had, as ControllerRevisions.
// It is pure: it says what to write and what to drop.
package history

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"d3os.com/d3os-operator/internal/object"
)

const (
	// Label holds the UID of the resource whose history a ControllerRevision is part of. Those of
	// StatefulSets and DaemonSets do not carry it.
	Label = "d3os-product.com.d3os/history-of"
	// annotationReady holds the latest generation that had been ready when a revision was written.
	annotationReady = "d3os-product.com.d3os/ready-generation"
	// Limit is how many revisions are kept; the last good one is kept besides.
	Limit = 10
	// maxSize bounds what one spec may take, in bytes: ten of each DataService are in the API server's store.
	maxSize = 256 << 10
	// Masked stands in the place of a password.
	Masked = "(masked)"
)

// Revision is a spec that a resource had.
type Revision struct {
	// Number is the generation that the spec was.
	Number int64
	// Ready is the latest generation that had been ready when this one was accepted; 0 for none.
	Ready int64
	Spec  map[string]any
	// Version is that of the operator that accepted the spec.
	Version string
	Time    metav1.Time
	// Name is the ControllerRevision's.
	Name string
}

// stored is what a ControllerRevision holds: enough of the resource to be read as one.
type stored struct {
	APIVersion string         `json:"apiVersion"`
	Kind       string         `json:"kind"`
	Spec       map[string]any `json:"spec"`
}

// New returns the ControllerRevision of a spec that was accepted. Its name is the same each time, so that
// creating it again does no harm, and no other resource's: it has part of the owner's UID. It is nil for a
// spec that is too large to be kept.
func New(owner object.Owner, generation, ready int64, spec any) (*appsv1.ControllerRevision, error) {
	data, err := json.Marshal(spec)
	if err != nil {
		return nil, fmt.Errorf("keep the spec of %s: %w", owner.Name, err)
	}
	content := stored{APIVersion: owner.GroupVersion().String(), Kind: owner.Kind}
	if err := json.Unmarshal(data, &content.Spec); err != nil {
		return nil, fmt.Errorf("keep the spec of %s: %w", owner.Name, err)
	}
	mask(content.Spec)
	if data, err = json.Marshal(content); err != nil {
		return nil, fmt.Errorf("keep the spec of %s: %w", owner.Name, err)
	}
	if len(data) > maxSize {
		return nil, nil
	}
	annotations := map[string]string{}
	if ready > 0 {
		annotations[annotationReady] = fmt.Sprint(ready)
	}
	revision := &appsv1.ControllerRevision{
		Revision: generation,
		Data:     runtime.RawExtension{Raw: data},
	}
	revision.Namespace, revision.Name = owner.Namespace, name(owner, generation)
	revision.Labels = map[string]string{Label: string(owner.UID)}
	revision.Annotations = annotations
	revision.OwnerReferences = []metav1.OwnerReference{owner.Reference()}
	return revision, nil
}

func name(owner object.Owner, generation int64) string {
	uid, _, _ := strings.Cut(string(owner.UID), "-")
	return fmt.Sprintf("%s-%s-%d", owner.Name, uid, generation)
}

// NumberOf is the number of a revision of which nothing but the metadata is known; its name ends with it.
func NumberOf(revision metav1.Object) int64 {
	text := revision.GetName()
	var number int64
	_, _ = fmt.Sscan(text[strings.LastIndex(text, "-")+1:], &number) // no other name carries the label
	return number
}

// mask replaces passwords, wherever they are. Names of Secrets and keys stay.
func mask(value any) {
	switch value := value.(type) {
	case map[string]any:
		for key, field := range value {
			if text, ok := field.(string); ok && key == "password" && text != "" {
				value[key] = Masked
			}
			mask(field)
		}
	case []any:
		for _, item := range value {
			mask(item)
		}
	}
}

// Read returns the revision that a ControllerRevision holds.
func Read(r *appsv1.ControllerRevision) (*Revision, error) {
	content := stored{}
	if err := json.Unmarshal(r.Data.Raw, &content); err != nil {
		return nil, fmt.Errorf("read revision %s: %w", r.Name, err)
	}
	revision := &Revision{Number: r.Revision, Spec: content.Spec, Version: r.Annotations[object.AnnotationWriter], Time: r.CreationTimestamp, Name: r.Name}
	_, _ = fmt.Sscan(r.Annotations[annotationReady], &revision.Ready) // none is 0
	return revision, nil
}

// Good returns the generations that are known to have been ready. ready is the one that the status names.
func Good(revisions []*Revision, ready int64) map[int64]bool {
	good := map[int64]bool{}
	for _, r := range revisions {
		good[r.Ready] = true
	}
	good[ready] = true
	delete(good, 0)
	return good
}

// Numbered is a revision, or its metadata, with its number.
type Numbered struct {
	Name   string
	Number int64
}

// Surplus returns the revisions that are to be dropped: all but the latest Limit, and but the one of the
// generation that was ready last.
func Surplus(all []Numbered, ready int64) []Numbered {
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b Numbered) int { return cmp.Compare(b.Number, a.Number) })
	var surplus []Numbered
	for i, r := range all {
		if i >= Limit && r.Number != ready {
			surplus = append(surplus, r)
		}
	}
	return surplus
}
