// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/diff"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"d3os.com/d3os-operator/internal/apply"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/render"
)

// marks maps an action to the first character of an object's line.
var marks = map[apply.Action]string{
	apply.Created: "+", apply.Updated: "~", apply.Corrected: "~", apply.Replaced: "!", apply.Deleted: "-", apply.Waiting: ".",
}

// Summary prints a line for each changed object with its fields, and a summary.
func (d *Diff) Summary(style Style) string {
	var out strings.Builder
	for i := range d.Changes {
		out.WriteString(d.Changes[i].line(style))
		for _, f := range d.Changes[i].Fields {
			out.WriteString("    " + f.line() + "\n")
		}
	}
	out.WriteString(d.sum())
	return out.String()
}

// Text prints the changes as unified diffs of the objects.
func (d *Diff) Text(style Style) (string, error) {
	var out strings.Builder
	for i := range d.Changes {
		c := &d.Changes[i]
		out.WriteString(c.line(style))
		if c.Kind == "Secret" || c.after == nil && c.Action != apply.Deleted || c.Action == apply.Deleted {
			for _, f := range c.Fields {
				out.WriteString("    " + f.line() + "\n")
			}
			continue
		}
		text, err := c.unified()
		if err != nil {
			return "", err
		}
		out.WriteString(text)
	}
	out.WriteString(d.sum())
	return out.String(), nil
}

func (c *Change) line(style Style) string {
	action := strings.ToUpper(string(c.Action))
	if c.Action != apply.Replaced && c.Action != apply.Deleted {
		action = strings.ToLower(action)
	}
	mark := marks[c.Action]
	words := []string{c.Note}
	switch {
	case c.Pods == 1:
		words = append(words, "restarts 1 pod")
	case c.Pods > 1:
		words = append(words, fmt.Sprintf("restarts %d pods", c.Pods))
	case c.Starts > 0:
		words = append(words, fmt.Sprintf("starts %d", c.Starts))
	}
	if c.Error != "" {
		mark, action, words = "x", "REFUSED", []string{c.Error}
	}
	text := fmt.Sprintf("%s %-14s %s %s  %s", mark, c.Component, c.Kind, c.Name, action)
	if words = slices.DeleteFunc(words, func(w string) bool { return w == "" }); len(words) > 0 {
		text += "  " + strings.Join(words, ", ")
	}
	if mark == "x" || mark == "!" || mark == "-" {
		text = style.Bad(text)
	}
	return text + "\n"
}

func (f Field) line() string {
	if f.Old == nil && f.New == nil {
		return f.Path
	}
	return fmt.Sprintf("%s: %s -> %s", f.Path, value(f.Old), value(f.New))
}

// value prints a value in one line, and truncates a long value.
func value(v any) string {
	if v == nil {
		return "none"
	}
	if text, ok := v.(string); ok && strings.Contains(text, "\n") {
		return fmt.Sprintf("%d lines", strings.Count(strings.TrimSuffix(text, "\n"), "\n")+1)
	}
	data, err := json.Marshal(v)
	text := strings.Trim(string(data), `"`)
	if err != nil {
		text = fmt.Sprint(v)
	}
	const enough = 60
	if runes := []rune(text); len(runes) > enough {
		return string(runes[:enough]) + "…"
	}
	return text
}

// number prints a count with its noun.
func number(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// sum prints the order in which components change, the restarts, and the effects on data.
func (d *Diff) sum() string {
	var out strings.Builder
	var order []string
	restarts, deleted, data, refused := 0, 0, 0, 0
	restarted := map[string]bool{}
	for i := range d.Changes {
		c := &d.Changes[i]
		if c.Action != apply.Deleted && !slices.Contains(order, c.Component) {
			order = append(order, c.Component)
		}
		if c.Pods > 0 && !restarted[c.Component] {
			restarted[c.Component] = true
			restarts++
		}
		switch {
		case c.Error != "":
			refused++
		case c.Action == apply.Deleted && c.Kind == object.ClaimKind.Kind:
			data++
		case c.Action == apply.Deleted:
			deleted++
		}
	}
	switch {
	case !d.Changed():
		fmt.Fprintf(&out, "nothing changes: %s as planned\n", number(d.Unchanged, "object is", "objects are"))
	default:
		if len(order) > 0 {
			fmt.Fprintf(&out, "order: %s\n", strings.Join(order, " -> "))
		}
		out.WriteString(strings.Join([]string{
			number(len(d.Changes)-deleted-data, "object changes", "objects change") + fmt.Sprintf(", %d stay; ", d.Unchanged) + number(restarts, "component restarts", "components restart"),
			number(deleted, "object is deleted", "objects are deleted"),
			cmp.Or(map[bool]string{true: "no volume is deleted"}[data == 0], number(data, "VOLUME IS DELETED", "VOLUMES ARE DELETED")),
		}, ", ") + "\n")
	}
	if refused > 0 {
		fmt.Fprintf(&out, "%s: the operator would stop there\n", number(refused, "object is REFUSED", "objects are REFUSED"))
	}
	for _, note := range d.Notes {
		out.WriteString("note: " + note + "\n")
	}
	return out.String()
}

func (c *Change) unified() (string, error) {
	before, err := text(c.before)
	if err != nil {
		return "", err
	}
	after, err := text(c.after)
	if err != nil {
		return "", err
	}
	id := c.Kind + "/" + c.Name
	difference := diff.Diff("cluster/"+id, []byte(before), "planned/"+id, []byte(after))
	_, difference, _ = bytes.Cut(difference, []byte("\n")) // the first line only repeats the two names
	return string(difference), nil
}

// noted lists annotations that the operator and the Deployment controller write.
var noted = []string{object.AnnotationDigest, object.AnnotationWriter, "deployment.kubernetes.io/revision"}

// text returns an object as YAML. It omits fields and annotations that the API server, its controllers and the operator write.
func text(o *unstructured.Unstructured) (string, error) {
	if o == nil {
		return "", nil
	}
	o = o.DeepCopy()
	for _, field := range []string{"managedFields", "resourceVersion", "uid", "generation", "creationTimestamp", "ownerReferences"} {
		unstructured.RemoveNestedField(o.Object, "metadata", field)
	}
	for annotation := range o.GetAnnotations() {
		if slices.Contains(noted, annotation) || object.IsNoPrune(annotation) {
			unstructured.RemoveNestedField(o.Object, "metadata", "annotations", annotation)
		}
	}
	if annotations := o.GetAnnotations(); len(annotations) == 0 {
		unstructured.RemoveNestedField(o.Object, "metadata", "annotations")
	}
	unstructured.RemoveNestedField(o.Object, "status")
	data, err := render.YAML(o)
	if err != nil {
		return "", fmt.Errorf("print %s %s: %w", o.GetKind(), o.GetName(), err)
	}
	return string(data), nil
}
