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
	// AnnotationPolicy is Helm's: an object with the value keep outlives its release.
	AnnotationPolicy = "helm.sh/resource-policy"
	// PolicyKeep is the value of AnnotationPolicy that keeps.
	PolicyKeep = "keep"
)

// Kept tells whether an object outlives its DataService.
func Kept(object *unstructured.Unstructured) bool {
	return object.GetAnnotations()[AnnotationPolicy] == PolicyKeep
}

func digestOf(v any) (string, error) {
	if object, ok := v.(*unstructured.Unstructured); ok {
		v = object.Object
	}
	data, err := json.Marshal(v) // sorts keys
	if err != nil {
		return "", fmt.Errorf("compute a digest: %w", err)
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:12]), nil
}

// revisionOf is the digest of a component's objects but for their number of replicas, so that
// scaling is not a new revision.
func revisionOf(objects []*unstructured.Unstructured) (string, error) {
	var parts []string
	for _, object := range objects {
		spec, _ := object.Object["spec"].(map[string]any)
		replicas, scaled := spec["replicas"]
		if !scaled {
			parts = append(parts, object.GetAnnotations()[AnnotationDigest])
			continue
		}
		delete(spec, "replicas")
		digest, err := digestOf(spec)
		spec["replicas"] = replicas
		if err != nil {
			return "", err
		}
		parts = append(parts, digest)
	}
	return digestOf(parts)
}
