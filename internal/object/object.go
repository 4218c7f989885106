// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package object defines how the operator identifies its objects: owners, labels, annotations, digests, and retention. It is a low
// package: of this project, it imports only package contract, and it imports no client.
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
	// ManagedBy is the value of LabelManagedBy on every object that the operator creates.
	ManagedBy = "d3os-operator"

	// LabelInstance holds the name of the owner.
	LabelInstance = "app.kubernetes.io/instance"
	// LabelKind holds the kind of the owner, as <kind>.<group> in lower case. Objects of a DataService lack it, because they are older than
	// the label.
	LabelKind = "d3os-product.com.d3os/kind"
	// LabelComponent holds the name of the component, which is a part of the owner.
	LabelComponent = "app.kubernetes.io/name"
	// LabelManagedBy marks the operator's objects; the operator's cache holds only objects with this label.
	LabelManagedBy = "app.kubernetes.io/managed-by"
	// LabelPartOf holds the name of the product.
	LabelPartOf = "app.kubernetes.io/part-of"
	// LabelBackup is set on the CronJobs of backups and on their pods. Its value is the name of the component with the data, with a suffix
	// such as -verify on CronJobs that make no backups.
	LabelBackup = "d3os-product.com.d3os/backup"
	// LabelRevision on pods holds a digest of the pod template that the pods were made from. It is set if no other
	// field of the pods identifies the template.
	LabelRevision = "d3os-product.com.d3os/revision"
	// AnnotationDigest holds the digest of the plan that an object was written from.
	AnnotationDigest = "d3os-product.com.d3os/digest"
	// AnnotationWriter holds the version of the operator that wrote an object last. The annotation is not part of a
	// plan, so another version alone does not cause a write.
	AnnotationWriter = "d3os-product.com.d3os/operator-version"
	// AnnotationTicket on a pod permits the pod to start a member without data, or to start its member as the only member.
	// The operator writes the annotation, and the agent in the pod reads it.
	AnnotationTicket = "d3os-product.com.d3os/ticket"
	// AnnotationAdopt on a MySQLCluster is the mark of a single server's data. The cluster is created from this data. The annotation has no
	// effect once the cluster has data.
	AnnotationAdopt = "d3os-product.com.d3os/adopt"
	// AnnotationRestoredTo on a claim is the time to which a DataRestore restored the database on the claim. It is set when the restore is
	// complete: then a DataService can switch to the claim.
	AnnotationRestoredTo = "d3os-product.com.d3os/restored-to"
	// AnnotationCredentials on a claim names the Secret with the passwords of the claim's database, if the claim's name implies another
	// Secret.
	AnnotationCredentials = "d3os-product.com.d3os/credentials" //nolint:gosec // a name
	// AnnotationReadyBefore on a RedisCluster of a DataService is the time at which a former RedisCluster of the same component was ready. The
	// operator writes it if the data is deleted with the RedisCluster (retention Delete).
	AnnotationReadyBefore = "d3os-product.com.d3os/ready-before"
	// AnnotationContents on a workload contains the digests of the users' Secrets and ConfigMaps that its pods use.
	// The pods lack the annotation, so no pod restarts when the operator first reads a Secret or ConfigMap.
	AnnotationContents = "d3os-product.com.d3os/contents"
	// AnnotationRestart on pods names the contents that changed last. Another value restarts the pods.
	AnnotationRestart = "d3os-product.com.d3os/restarted-for"
	// AnnotationStarted on a DataBackup or a DataRestore holds the UID of that resource. The operator writes it before
	// it creates the first object. A copy of the resource, such as one from a restore of the cluster's objects, has
	// another UID and no status: so the operator detects the copy.
	AnnotationStarted = "d3os-product.com.d3os/started"
	// AnnotationPolicy is an annotation of Helm: an object with the value keep outlives its release.
	AnnotationPolicy = "helm.sh/resource-policy"
	// PolicyKeep is the value of AnnotationPolicy for objects that outlive their release.
	PolicyKeep = "keep"
)

// domains are the domains of the operator's labels and annotations.
var domains = []string{"d3os-product.com.d3os", "redis.middleware.hc.cn", "etcd.database.coreos.com"}

// IsReserved reports whether a label or annotation has one of the operator's domains, or a subdomain: users cannot set it.
func IsReserved(key string) bool {
	domain, _, hasDomain := strings.Cut(strings.ToLower(key), "/")
	return hasDomain && slices.ContainsFunc(domains, func(own string) bool { return domain == own || strings.HasSuffix(domain, "."+own) })
}

// ByPolicy is a part of each message about an object that an admission policy changed.
const ByPolicy = "a policy of the cluster changed"

// LossSince describes the loss of everything after a time, in the words that the user must repeat to accept the loss.
func LossSince(moment string) string { return "everything since " + moment }

// OutlivesOwner reports whether an object outlives its owner.
func OutlivesOwner(o *unstructured.Unstructured) bool {
	return o.GetAnnotations()[AnnotationPolicy] == PolicyKeep
}

// Digest returns the digest of the plan that an object was made from; empty for an object that the operator did not write.
func Digest(o *unstructured.Unstructured) string {
	return o.GetAnnotations()[AnnotationDigest]
}

// Finish sets the digest annotation and the owner of a planned object. It returns the revision: the digest of the
// object without its number of replicas. Objects with helm.sh/resource-policy: keep get no owner, because they outlive
// the owner.
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

// Unfinished returns a copy of a planned object without the changes of Finish.
func Unfinished(o *unstructured.Unstructured) *unstructured.Unstructured {
	o = o.DeepCopy()
	o.SetOwnerReferences(nil)
	unstructured.RemoveNestedField(o.Object, "metadata", "annotations", AnnotationDigest)
	if len(o.GetAnnotations()) == 0 {
		unstructured.RemoveNestedField(o.Object, "metadata", "annotations")
	}
	return o
}

// FinishAll finishes the objects of one part of an owner. It returns the part's revision: the digest of all objects without their numbers
// of replicas. It refuses an object outside the owner's namespace.
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
		if o.GetKind() != "PodDisruptionBudget" { // a PodDisruptionBudget depends on the number of pods
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

// Sum returns the first 24 characters of the SHA-256 of some bytes.
func Sum(data []byte) string {
	hash := sha256.Sum256(data)
	return hex.EncodeToString(hash[:12])
}
