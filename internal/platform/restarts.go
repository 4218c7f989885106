// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/halt"
	"d3os.com/d3os-operator/internal/health"
	"d3os.com/d3os-operator/internal/mysql"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/platform/plan"
	"d3os.com/d3os-operator/internal/reconcile"
)

const (
	// contentsKnown is the time after which a Secret or ConfigMap is read again. No watch covers objects of users.
	contentsKnown = time.Minute
	// maxContents limits the number of objects that are read for one DataService.
	maxContents = 100
	// isAbsent is the digest of an optional object that does not exist.
	isAbsent = "-"
)

// use is a Secret or ConfigMap that pods use.
type use struct {
	kind, name string
	isOptional bool // every reference to the object is optional
}

// usesOf returns the Secrets and ConfigMaps in variables and volumes of a workload's pods, sorted.
func usesOf(workload *unstructured.Unstructured) ([]use, error) {
	template, _, err := unstructured.NestedMap(workload.Object, "spec", "template")
	if err != nil {
		return nil, fmt.Errorf("read the pods of %s %s: %w", workload.GetKind(), workload.GetName(), err)
	}
	pod := &corev1.PodTemplateSpec{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(template, pod); err != nil {
		return nil, fmt.Errorf("read the pods of %s %s: %w", workload.GetKind(), workload.GetName(), err)
	}
	found := map[use]bool{} // key: a use without isOptional; value: true if every reference to the object is optional
	add := func(kind, name string, optional *bool) {
		key, is := use{kind: kind, name: name}, optional != nil && *optional
		if before, known := found[key]; name != "" {
			found[key] = is && (before || !known)
		}
	}
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			addVariables(&containers[i], add)
		}
	}
	for i := range pod.Spec.Volumes {
		addVolume(&pod.Spec.Volumes[i], add)
	}
	var uses []use
	for key, optional := range found {
		key.isOptional = optional
		uses = append(uses, key)
	}
	slices.SortFunc(uses, func(a, b use) int { return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.name, b.name)) })
	return uses, nil
}

func addVariables(c *corev1.Container, add func(kind, name string, optional *bool)) {
	for _, from := range c.EnvFrom {
		if r := from.SecretRef; r != nil {
			add("Secret", r.Name, r.Optional)
		}
		if r := from.ConfigMapRef; r != nil {
			add("ConfigMap", r.Name, r.Optional)
		}
	}
	for _, v := range c.Env {
		if v.ValueFrom == nil {
			continue
		}
		if r := v.ValueFrom.SecretKeyRef; r != nil {
			add("Secret", r.Name, r.Optional)
		}
		if r := v.ValueFrom.ConfigMapKeyRef; r != nil {
			add("ConfigMap", r.Name, r.Optional)
		}
	}
}

func addVolume(v *corev1.Volume, add func(kind, name string, optional *bool)) {
	if s := v.Secret; s != nil {
		add("Secret", s.SecretName, s.Optional)
	}
	if c := v.ConfigMap; c != nil {
		add("ConfigMap", c.Name, c.Optional)
	}
	if v.Projected == nil {
		return
	}
	for _, source := range v.Projected.Sources {
		if s := source.Secret; s != nil {
			add("Secret", s.Name, s.Optional)
		}
		if c := source.ConfigMap; c != nil {
			add("ConfigMap", c.Name, c.Optional)
		}
	}
}

// contents caches the SHA-256 sums of users' Secrets and ConfigMaps. Without the cache, each reconciliation would read
// these objects again. contents is safe for concurrent use.
type contents struct {
	now func() time.Time

	mu    sync.Mutex
	known map[string]content
}

// content holds the sum of one Secret or ConfigMap. The sum is "" if the object does not exist. isOwn reports whether
// the operator manages the object.
type content struct {
	sum   string
	isOwn bool
	err   error
	at    time.Time
}

func newContents() *contents { return &contents{now: time.Now, known: map[string]content{}} }

func (c *contents) read(namespace string, u use, lookup object.Lookup) content {
	id := strings.Join([]string{namespace, u.kind, u.name}, "/")
	c.mu.Lock()
	known, ok := c.known[id]
	c.mu.Unlock()
	if ok && c.now().Sub(known.at) < contentsKnown {
		return known
	}
	live, err := lookup(u.kind, u.name)
	known = content{err: err, at: c.now()}
	if err == nil && live != nil {
		known.isOwn = live.GetLabels()[object.LabelManagedBy] == object.ManagedBy
		known.sum, known.err = sumOf(live)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.known, func(_ string, old content) bool { return known.at.Sub(old.at) >= contentsKnown }) // drop outdated sums, also of deleted DataServices
	c.known[id] = known
	return known
}

func sumOf(o *unstructured.Unstructured) (string, error) {
	data, err := json.Marshal([]any{o.Object["data"], o.Object["binaryData"]}) // sorts keys
	if err != nil {
		return "", fmt.Errorf("compute the sum of %s %s: %w", o.GetKind(), o.GetName(), err)
	}
	sum := sha256.Sum256(data)
	return string(sum[:]), nil
}

// restarts plans restarts of pods after changes of users' Secrets and ConfigMaps.
type restarts struct {
	contents *contents
	ds       *dsv1.DataService
	in       reconcile.Inputs
	key      string                       // key of the digests
	secrets  []*unstructured.Unstructured // Secrets of the plan

	read  map[use]bool // objects that this plan has read
	isAny bool         // true if the revision of a part may change for another reason than a new version of the operator
}

// plan adds to each workload of a part the digests of the Secrets and ConfigMaps that its pods use. If one of these
// objects has changed, plan restarts the pods by a new annotation. Without spec.rollout.restartOnChange, it keeps the
// last annotation, because its removal would restart the pods again.
func (r *restarts) plan(part *reconcile.Part) error {
	if part.Name == mysql.Component {
		return nil
	}
	var causes []string
	objects := slices.Clone(part.Objects)
	for i, o := range objects {
		if !slices.Contains([]string{"Deployment", "StatefulSet", "DaemonSet"}, o.GetKind()) || part.Kind == thirdParty {
			continue
		}
		live, err := r.in.Lookup(o.GetKind(), o.GetName())
		if err != nil {
			return err
		}
		known, cause := annotationsOf(live)
		if r.ds.Spec.Rollout.RestartOnChange {
			r.isAny = r.isAny || live == nil // a deleted workload has lost the cause of its last restart
			if known, cause, err = r.compare(part, o, live, known, cause); err != nil {
				return err
			}
		} else {
			known = nil
		}
		if len(known) == 0 && cause == "" {
			continue
		}
		if objects[i], err = r.annotated(o, known, cause); err != nil {
			return err
		}
		if cause != "" {
			causes = append(causes, cause)
		}
	}
	part.Objects = objects
	if len(causes) > 0 {
		part.Revision = object.Sum([]byte(part.Revision + " " + strings.Join(causes, " ")))
		if part.Restart == "" && r.wasRestarting(part, causes[0]) {
			part.Restart = noteOf(causes[0])
		}
	}
	return nil
}

// compare returns the new digests for a workload, and the cause of the last restart of its pods. If an object was
// deleted or cannot be read, its digest is kept: pods do not restart when the same object comes back.
func (r *restarts) compare(part *reconcile.Part, o, live *unstructured.Unstructured, known map[string]string, cause string) (map[string]string, string, error) {
	if r.contents == nil || r.ds.Spec.Paused || r.ds.Spec.Hibernate {
		return known, cause, nil
	}
	uses, err := usesOf(o)
	if err != nil {
		return nil, "", err
	}
	next := map[string]string{}
	var changed []string
	for _, u := range uses {
		id := u.kind + " " + u.name
		digest, err := r.digest(u)
		if err != nil {
			part.Notes = append(part.Notes, health.Info(fmt.Sprintf("%s cannot be read, so changes of it restart no pod: %s", id, health.Refusal(err.Error()))))
		}
		if digest == "" || digest == isAbsent && known[id] != "" {
			digest = known[id]
		}
		if digest == "" {
			continue
		}
		if next[id] = digest; known[id] != "" && known[id] != digest {
			changed = append(changed, id)
		}
	}
	if len(changed) > 0 && halt.MayRun(live) { // pods that start later use the new contents
		all, err := json.Marshal(next) // sorts keys
		if err != nil {
			return nil, "", fmt.Errorf("compare what the pods of %s %s use: %w", o.GetKind(), o.GetName(), err)
		}
		cause = halt.Few(changed) + " (" + object.Sum(all)[:8] + ")"
		r.isAny, part.Restart = true, noteOf(cause)
	}
	return next, cause, nil
}

// digest returns the digest of a Secret or ConfigMap. It returns "" if the content is unknown, or if the operator
// manages the object.
func (r *restarts) digest(u use) (string, error) {
	sum, err := r.sum(u)
	switch {
	case err != nil || sum == "" && !u.isOptional:
		return "", err
	case sum == "":
		return isAbsent, nil
	case sum == isManaged:
		return "", nil
	}
	mac := hmac.New(sha256.New, []byte(r.key))
	fmt.Fprintf(mac, "%s %s %s", u.kind, u.name, sum)
	return hex.EncodeToString(mac.Sum(nil)[:8]), nil
}

// isManaged replaces the sum of an object that the operator manages: when pods must use a change of such an object, the
// operator restarts them in another way.
const isManaged = "managed"

func (r *restarts) sum(u use) (string, error) {
	for _, secret := range r.secrets { // the operator's copy of a user's Secret
		if u.kind == "Secret" && u.name == secret.GetName() && strings.HasSuffix(u.name, "-clean") {
			return sumOf(secret)
		}
	}
	if own, err := r.in.LookupAny(u.kind, u.name); own != nil || err != nil {
		return isManaged, err
	}
	key := use{kind: u.kind, name: u.name}
	if !r.read[key] && len(r.read) >= maxContents {
		return "", fmt.Errorf("the operator compares at most %d Secrets and ConfigMaps of a DataService", maxContents)
	}
	if r.read == nil {
		r.read = map[use]bool{}
	}
	r.read[key] = true
	found := r.contents.read(r.ds.Namespace, u, r.in.LookupLive)
	if found.isOwn {
		return isManaged, nil
	}
	return found.sum, found.err
}

// annotated returns a copy of a planned workload with the digests and the cause of the last restart.
func (r *restarts) annotated(o *unstructured.Unstructured, known map[string]string, cause string) (*unstructured.Unstructured, error) {
	o = object.Unfinished(o)
	if len(known) > 0 {
		data, err := json.Marshal(known) // sorts keys
		if err != nil {
			return nil, fmt.Errorf("annotate %s %s: %w", o.GetKind(), o.GetName(), err)
		}
		annotations := o.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[object.AnnotationContents] = string(data)
		o.SetAnnotations(annotations)
	}
	if cause != "" {
		if err := unstructured.SetNestedField(o.Object, cause, pathOfRestart...); err != nil {
			return nil, fmt.Errorf("annotate the pods of %s %s: %w", o.GetKind(), o.GetName(), err)
		}
	}
	_, err := object.Finish(o, plan.OwnerOf(r.ds))
	return o, err
}

var pathOfRestart = []string{"spec", "template", "metadata", "annotations", object.AnnotationRestart}

// annotationsOf returns the digests and the cause of the last restart of a live workload. live may be nil.
func annotationsOf(live *unstructured.Unstructured) (known map[string]string, cause string) {
	if live == nil {
		return nil, ""
	}
	if json.Unmarshal([]byte(live.GetAnnotations()[object.AnnotationContents]), &known) != nil {
		known = nil
	}
	cause, _, _ = unstructured.NestedString(live.Object, pathOfRestart...)
	return known, cause
}

func noteOf(cause string) string {
	what, _, _ := strings.Cut(cause, " (")
	return "restarts because of a change of " + what
}

// wasRestarting reports whether the status shows that a part restarts for the given cause.
func (r *restarts) wasRestarting(part *reconcile.Part, cause string) bool {
	return slices.ContainsFunc(r.ds.Status.Components, func(c dsv1.ComponentStatus) bool {
		return c.Name == part.Name && inWork(c.Phase) && c.Message == noteOf(cause)
	})
}
