// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package object is the vocabulary that everything about objects shares: who
// owns one, its labels and annotations, its digest, and whether it is kept. It
// is the lowest package: it imports nothing of this project, and no client.
package object

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Labels and annotations that the operator relies on.
const (
	// ManagedBy is the value of LabelManagedBy on everything that the operator creates.
	ManagedBy = "d3os-operator"

	// LabelInstance holds the name of the owner.
	LabelInstance = "app.kubernetes.io/instance"
	// LabelKind holds the kind of the owner, as <kind>.<group> in lower case. Objects of a
	// DataService do not carry it: they are older than the label.
	LabelKind = "d3os-product.com.d3os/kind"
	// LabelComponent holds the name of the component, that is of the part of the owner.
	LabelComponent = "app.kubernetes.io/name"
	// LabelManagedBy marks what the operator manages; its cache holds nothing else.
	LabelManagedBy = "app.kubernetes.io/managed-by"
	// LabelPartOf holds the name of the product.
	LabelPartOf = "app.kubernetes.io/part-of"
	// LabelBackup is on what looks after backups, and on its pods. On the CronJob that makes them its value is the component
	// that the data is of; the others have an end such as -verify behind that.
	LabelBackup = "d3os-product.com.d3os/backup"
	// AnnotationDigest holds the digest of an object's desired form.
	AnnotationDigest = "d3os-product.com.d3os/digest"
	// AnnotationWriter holds the version of the operator that wrote an object last. It is no part
	// of a plan: an object is not written because of it alone.
	AnnotationWriter = "d3os-product.com.d3os/operator-version"
	// AnnotationTicket on a pod is the operator's leave for that very pod to start a member of a database without
	// data, or alone. The agent in the pod reads it.
	AnnotationTicket = "d3os-product.com.d3os/ticket"
	// AnnotationRestoredTo on a claim is the moment to which a DataRestore has restored a database to it, in whole. It is
	// prepared then: a DataService can switch to it.
	AnnotationRestoredTo = "d3os-product.com.d3os/restored-to"
	// AnnotationCredentials on a claim names the Secret whose passwords open the database on it, where that is not the one that
	// its name implies.
	AnnotationCredentials = "d3os-product.com.d3os/credentials" //nolint:gosec // a name
	// AnnotationStarted on a DataBackup or a DataRestore is its UID, written before it makes anything. A copy of it, such as the
	// one that a restore of the cluster's objects creates without a status, has another UID.
	AnnotationStarted = "d3os-product.com.d3os/started"
	// AnnotationPolicy is Helm's: an object with the value keep outlives its release.
	AnnotationPolicy = "helm.sh/resource-policy"
	// PolicyKeep is the value of AnnotationPolicy that keeps.
	PolicyKeep = "keep"
)

// domains are those of labels and annotations that mean something to the operator.
var domains = []string{"d3os-product.com.d3os", "redis.middleware.hc.cn", "etcd.database.coreos.com"}

// IsReserved reports whether a label or annotation is of one of the operator's own domains, or below one: users cannot set it.
func IsReserved(key string) bool {
	domain, _, hasDomain := strings.Cut(strings.ToLower(key), "/")
	return hasDomain && slices.ContainsFunc(domains, func(own string) bool { return domain == own || strings.HasSuffix(domain, "."+own) })
}

// ByPolicy is in each message about an object that an admission policy changed.
const ByPolicy = "a policy of the cluster changed"

// LossSince is the loss of everything after a moment, in the words that a consent has to repeat.
func LossSince(moment string) string { return "everything since " + moment }

// OutlivesOwner reports whether an object outlives its owner.
func OutlivesOwner(o *unstructured.Unstructured) bool {
	return o.GetAnnotations()[AnnotationPolicy] == PolicyKeep
}

// Digest is the digest of the plan that an object was made from; empty for an object that the
// operator did not write.
func Digest(o *unstructured.Unstructured) string {
	return o.GetAnnotations()[AnnotationDigest]
}

// Finish gives a planned object its digest annotation and its owner, and returns the digest
// without the number of replicas. Objects that Helm would keep (helm.sh/resource-policy: keep) get
// no owner: they outlive it.
func Finish(o *unstructured.Unstructured, owner Owner) (revision string, err error) {
	digest, revision, err := digestOf(o)
	if err != nil {
		return "", err
	}
	annotations := o.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[AnnotationDigest] = digest
	o.SetAnnotations(annotations)
	if !OutlivesOwner(o) {
		o.SetOwnerReferences([]metav1.OwnerReference{owner.Reference()})
	}
	return revision, nil
}

// Unfinished returns a copy of a planned object as it was before Finish.
func Unfinished(o *unstructured.Unstructured) *unstructured.Unstructured {
	o = o.DeepCopy()
	o.SetOwnerReferences(nil)
	unstructured.RemoveNestedField(o.Object, "metadata", "annotations", AnnotationDigest)
	if len(o.GetAnnotations()) == 0 {
		unstructured.RemoveNestedField(o.Object, "metadata", "annotations")
	}
	return o
}

// FinishAll finishes the objects of one part of an owner, and returns the part's revision: the digest
// of all of them without their numbers of replicas. An object outside the owner's namespace is refused.
func FinishAll(objects []*unstructured.Unstructured, owner Owner) (revision string, err error) {
	var revisions []byte
	for _, o := range objects {
		if o.GetNamespace() != owner.Namespace {
			return "", fmt.Errorf("%s %s is not in namespace %s: charts may only render objects of the %s's own namespace",
				o.GetKind(), o.GetName(), owner.Namespace, owner.Kind)
		}
		revision, err := Finish(o, owner)
		if err != nil {
			return "", err
		}
		if o.GetKind() != "PodDisruptionBudget" { // it comes and goes with the number of pods
			revisions = append(revisions, revision...)
		}
	}
	return Sum(revisions), nil
}

// digestOf returns the digest of an object, and the digest without its number of replicas:
// scaling is not a new revision.
func digestOf(o *unstructured.Unstructured) (digest, revision string, err error) {
	spec, _ := o.Object["spec"].(map[string]any)
	replicas, scaled := spec["replicas"]
	if scaled {
		delete(spec, "replicas")
		defer func() { spec["replicas"] = replicas }()
	}
	data, err := json.Marshal(o.Object) // sorts keys
	if err != nil {
		return "", "", fmt.Errorf("compute the digest of %s %s: %w", o.GetKind(), o.GetName(), err)
	}
	revision = Sum(data)
	if !scaled {
		return revision, revision, nil
	}
	return Sum(fmt.Appendf(data, "%v", replicas)), revision, nil
}

// Sum is the digest of some bytes: 24 characters of their SHA-256.
func Sum(data []byte) string {
	hash := sha256.Sum256(data)
	return hex.EncodeToString(hash[:12])
}
