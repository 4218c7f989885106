// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/lru"

	"d3os.com/d3os-operator/internal/object"
)

// An admission policy may change what the operator asks for, such as an image or a number of pods. The answer to a write shows it.
// To write the same again would change nothing, so the object stays as the policy made it until its plan changes, or
// someone changes it, and after retryRewritten, as the policy may be gone.

// retryRewritten is how long an object stays as a policy made it without another try.
const retryRewritten = time.Hour

// Rewrite is what an admission policy changed in the operator's last write of an object.
type Rewrite struct {
	// Fields have the value found as Old, and the one that was asked for as New.
	Fields []Field
	// IsNew reports whether it was found by this Apply.
	IsNew bool
}

// rewrites remembers which objects are as a policy made them.
type rewrites struct {
	objects *lru.Cache // UID -> rewritten
	now     func() time.Time
}

type rewritten struct {
	digest          string // of the plan
	version         string // of the object, as the write was answered
	resourceVersion string // of the object, as it was compared last
	found           string // the fields and their values
	fields          []Field
	at              time.Time
}

func newRewrites() *rewrites { return &rewrites{objects: lru.New(4096), now: time.Now} }

// specVersion changes with each write of what is declared: the generation, where an object has one.
func specVersion(o *unstructured.Unstructured) string {
	if generation := o.GetGeneration(); generation > 0 {
		return fmt.Sprint("generation ", generation)
	}
	return o.GetResourceVersion()
}

// known returns what a policy changed in a live object that is as the last write of this plan was answered, or nil.
func (a *Applier) known(planned, live *unstructured.Unstructured) (*Rewrite, error) {
	value, ok := a.rewrites.objects.Get(live.GetUID())
	if !ok {
		return nil, nil
	}
	last := value.(rewritten)
	if last.digest != object.Digest(planned)+templateSizes(planned) || last.version != specVersion(live) || a.rewrites.now().Sub(last.at) > retryRewritten {
		return nil, nil
	}
	if last.resourceVersion != live.GetResourceVersion() { // labels and annotations are in no generation
		fields, err := a.compare.deviation(planned, live)
		if err != nil || signature(fields) != last.found {
			return nil, err
		}
		last.resourceVersion = live.GetResourceVersion()
		a.rewrites.objects.Add(live.GetUID(), last)
	}
	return &Rewrite{Fields: last.fields}, nil
}

// remember compares the answer to a write with the plan, and returns how a policy changed it, or nil.
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
		digest: object.Digest(planned) + templateSizes(planned), version: specVersion(answer), resourceVersion: answer.GetResourceVersion(),
		found: found, fields: fields, at: a.rewrites.now(),
	})
	return &Rewrite{Fields: fields, IsNew: isNew}, nil
}

// deviation returns the fields of an object that are not as planned.
func (c *comparer) deviation(planned, live *unstructured.Unstructured) ([]Field, error) {
	planned = keepTemplates(keepGrown(planned, live), live)
	unplanned := hasUnplanned(planned, live)
	same, err := c.contains(live, planned)
	if err != nil || same && !unplanned {
		return nil, err
	}
	bare := &unstructured.Unstructured{Object: make(map[string]any, len(live.Object))}
	for key, value := range live.Object {
		bare.Object[key] = value
	}
	metadata, _ := live.Object["metadata"].(map[string]any)
	slim := make(map[string]any, len(metadata))
	for key, value := range metadata {
		if key != "managedFields" { // the cache has none
			slim[key] = value
		}
	}
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

// Note says which field a policy changed, for people.
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

// isShown reports whether the values of a field may be in a status: those of Secrets and variables may be passwords.
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
