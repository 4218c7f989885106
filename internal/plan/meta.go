// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Labels and annotations that the operator relies on.
const (
	// LabelInstance holds the name of the DataService.
	LabelInstance = "app.kubernetes.io/instance"
	// LabelComponent holds the name of the component.
	LabelComponent = "app.kubernetes.io/name"
	// LabelManagedBy marks what the operator manages; its cache sees nothing else.
	LabelManagedBy = "app.kubernetes.io/managed-by"
	// LabelPartOf holds the name of the product.
	LabelPartOf = "app.kubernetes.io/part-of"
	// AnnotationDigest holds the digest of an object's desired form.
	AnnotationDigest = "d3os-product.com.d3os/digest"
	// AnnotationWriter holds the version of the operator that wrote an object last. It is no part
	// of a plan: an object is not written because of it alone.
	AnnotationWriter = "d3os-product.com.d3os/operator-version"
	// AnnotationPolicy is Helm's: an object with the value keep outlives its release.
	AnnotationPolicy = "helm.sh/resource-policy"
	// PolicyKeep is the value of AnnotationPolicy that keeps.
	PolicyKeep = "keep"
)

// Kept tells whether an object outlives its DataService.
func Kept(object *unstructured.Unstructured) bool {
	return object.GetAnnotations()[AnnotationPolicy] == PolicyKeep
}

// Digest is the digest of the plan that an object was made from; empty for one of somebody else's.
func Digest(object *unstructured.Unstructured) string {
	return object.GetAnnotations()[AnnotationDigest]
}

// digestOf returns the digest of an object, and the digest without its number of replicas:
// scaling is not a new revision.
func digestOf(object *unstructured.Unstructured) (digest, revision string, err error) {
	spec, _ := object.Object["spec"].(map[string]any)
	replicas, scaled := spec["replicas"]
	if scaled {
		delete(spec, "replicas")
		defer func() { spec["replicas"] = replicas }()
	}
	data, err := json.Marshal(object.Object) // sorts keys
	if err != nil {
		return "", "", fmt.Errorf("compute the digest of %s %s: %w", object.GetKind(), object.GetName(), err)
	}
	revision = sum(data)
	if !scaled {
		return revision, revision, nil
	}
	return sum(fmt.Appendf(data, "%v", replicas)), revision, nil
}

func sum(data []byte) string {
	hash := sha256.Sum256(data)
	return hex.EncodeToString(hash[:12])
}
