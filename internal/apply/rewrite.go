// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/lru"

	"d3os.com/d3os-operator/internal/object"
)

// An admission policy may change an object in the operator's write, for example an image or a number of pods. The response to the write has
// the changed values. Another write would not help, so the object keeps the policy's values. The operator writes the object again in three
// cases: its plan changes; a user changes the object; retryRewritten has passed, because the policy may have been removed.

// retryRewritten is the interval at which the operator again writes an object that a policy changed.
const retryRewritten = time.Hour

// Rewrite lists the fields that an admission policy changed in the operator's last write of an object.
type Rewrite struct {
	// Fields are the changed fields: Old is the live value, New the planned one.
	Fields []Field
	// IsNew reports whether this Apply has detected the change for the first time.
	IsNew bool
}

// rewrites records the objects that a policy has changed.
type rewrites struct {
	objects *lru.Cache // UID -> rewritten
	now     func() time.Time
}

type rewritten struct {
	digest          string // digest of the plan
	version         string // specVersion of the object in the response to the write
	resourceVersion string // resource version of the object at the last comparison
	found           string // the changed fields and their values
	fields          []Field
	at              time.Time
}

func newRewrites() *rewrites { return &rewrites{objects: lru.New(4096), now: time.Now} }

// specVersion returns a value that changes with each write of the spec: the generation, if the object has one.
func specVersion(o *unstructured.Unstructured) string {
	if generation := o.GetGeneration(); generation > 0 {
		return fmt.Sprint("generation ", generation)
	}
	return o.GetResourceVersion()
}

// known returns the fields that a policy has changed in the last write of this plan. It returns nil if the plan or the
// live object has changed since that write, or if retryRewritten has passed.
func (a *Applier) known(planned, live *unstructured.Unstructured) (*Rewrite, error) {
	value, ok := a.rewrites.objects.Get(live.GetUID())
	if !ok {
		return nil, nil
	}
	last := value.(rewritten)
	if last.digest != planDigest(planned) || last.version != specVersion(live) || a.rewrites.now().Sub(last.at) > retryRewritten {
		return nil, nil
	}
	if last.resourceVersion != live.GetResourceVersion() { // changes of labels and annotations do not change the generation
		fields, err := a.compare.deviation(planned, live)
		if err != nil || signature(fields) != last.found {
			return nil, err
		}
		last.resourceVersion = live.GetResourceVersion()
		a.rewrites.objects.Add(live.GetUID(), last)
	}
	return &Rewrite{Fields: last.fields}, nil
}

// remember compares the response to a write with the plan, and returns the fields that a policy has changed, or nil.
func (a *Applier) remember(planned, answer *unstructured.Unstructured) (*Rewrite, error) {
	fields, err := a.compare.deviation(planned, answer)
	if err != nil || len(fields) == 0 {
		a.rewrites.objects.Remove(answer.GetUID())
		return nil, err
	}
	found := signature(fields)
	value, ok := a.rewrites.objects.Get(answer.GetUID())
	isNew := !ok || value.(rewritten).found != found
	a.rewrites.objects.Add(answer.GetUID(), rewritten{
		digest: planDigest(planned), version: specVersion(answer), resourceVersion: answer.GetResourceVersion(),
		found: found, fields: fields, at: a.rewrites.now(),
	})
	return &Rewrite{Fields: fields, IsNew: isNew}, nil
}

// planDigest identifies the plan of an object. Unlike Digest, it includes the sizes of claim templates.
func planDigest(planned *unstructured.Unstructured) string {
	return object.Digest(planned) + templateSizes(planned)
}

// deviation returns the fields of a live object that differ from the plan.
func (c *comparer) deviation(planned, live *unstructured.Unstructured) ([]Field, error) {
	planned = keep(planned, live)
	unplanned := hasUnplanned(planned, live)
	same, err := c.contains(live, planned)
	if err != nil || same && !unplanned {
		return nil, err
	}
	bare := &unstructured.Unstructured{Object: maps.Clone(live.Object)}
	metadata, _ := live.Object["metadata"].(map[string]any)
	slim := maps.Clone(metadata)
	delete(slim, "managedFields") // the cache drops them
	bare.Object["metadata"] = slim
	verdict, err := c.outcome(planned, bare, unplanned)
	return verdict.Fields, err
}

func signature(fields []Field) string {
	var text strings.Builder
	for _, f := range fields {
		value, err := json.Marshal(f.Old)
		if err != nil {
			value = []byte(fmt.Sprint(f.Old))
		}
		fmt.Fprintf(&text, "%s=%s\n", f.Path, value)
	}
	return object.Sum([]byte(text.String()))
}

// Note describes the first field that a policy has changed.
func (r *Rewrite) Note(planned *unstructured.Unstructured) string {
	first := r.Fields[0]
	text := fmt.Sprintf("%s %s: %s %s", planned.GetKind(), planned.GetName(), object.ByPolicy, first.Path)
	if isShown(planned, first) {
		text += fmt.Sprintf(" to %s, the operator asked for %s", shown(first.Old), shown(first.New))
	}
	if more := len(r.Fields) - 1; more > 0 {
		text += fmt.Sprintf(" (and %d more)", more)
	}
	return text
}

// isShown reports whether a status may contain the values of a field. The values of Secrets and variables may be passwords.
func isShown(planned *unstructured.Unstructured, field Field) bool {
	return planned.GetKind() != "Secret" && planned.GetKind() != "ConfigMap" && !strings.Contains(field.Path, ".env[")
}

// shownLength bounds the text of one value.
const shownLength = 80

func shown(value any) string {
	if value == nil {
		return "nothing"
	}
	text, err := json.Marshal(value)
	if err != nil || len(text) > shownLength {
		return "another value"
	}
	return string(text)
}
