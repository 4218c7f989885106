// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

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
	// Label holds the UID of the resource that a ControllerRevision belongs to. The ControllerRevisions of StatefulSets and DaemonSets lack
	// it.
	Label = "d3os-product.com.d3os/history-of"
	// annotationReady holds the latest generation that was ready before a revision was written.
	annotationReady = "d3os-product.com.d3os/ready-generation"
	// Limit is the number of revisions that are kept, in addition to the last good one.
	Limit = 10
	// maxSize limits the size of one spec in bytes: the API server stores ten specs of each DataService.
	maxSize = 256 << 10
	// Masked replaces a password.
	Masked = "(masked)"
)

// Revision is an earlier spec of a resource.
type Revision struct {
	// Number is the generation of the spec.
	Number int64
	// Ready is the latest generation that had been ready when this revision was accepted; 0 if none had been ready.
	Ready int64
	Spec  map[string]any
	// Version is the version of the operator that accepted the spec.
	Version string
	Time    metav1.Time
	// Name is the name of the ControllerRevision.
	Name string
}

// stored is the data of a ControllerRevision: the parts of the resource that identify and define the resource.
type stored struct {
	APIVersion string         `json:"apiVersion"`
	Kind       string         `json:"kind"`
	Spec       map[string]any `json:"spec"`
}

// NewRevision returns the ControllerRevision of an accepted spec, or nil if the spec is too large. The name of the ControllerRevision is
// the same each time, so that creating it twice does no harm. The name contains a part of the owner's UID, so that no other resource has
// it.
func NewRevision(owner object.Owner, generation, ready int64, spec any) (*appsv1.ControllerRevision, error) {
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

// NumberOf returns the number of a revision from its name, for revisions of which only the metadata was read.
func NumberOf(revision metav1.Object) int64 {
	text := revision.GetName()
	var number int64
	_, _ = fmt.Sscan(text[strings.LastIndex(text, "-")+1:], &number) // all objects with the label have such a name
	return number
}

// mask replaces passwords at any depth. Names of Secrets and keys stay.
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

// Read decodes the revision of a ControllerRevision.
func Read(r *appsv1.ControllerRevision) (*Revision, error) {
	content := stored{}
	if err := json.Unmarshal(r.Data.Raw, &content); err != nil {
		return nil, fmt.Errorf("read revision %s: %w", r.Name, err)
	}
	revision := &Revision{Number: r.Revision, Spec: content.Spec, Version: r.Annotations[object.AnnotationWriter], Time: r.CreationTimestamp, Name: r.Name}
	_, _ = fmt.Sscan(r.Annotations[annotationReady], &revision.Ready) // 0 without the annotation
	return revision, nil
}

// Good returns the generations that were ready: those that the revisions name, and the argument ready.
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

// Surplus returns the revisions to delete: all except the latest Limit revisions and the revision that was ready last.
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
