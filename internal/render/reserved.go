// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"d3os.com/d3os-operator/internal/object"
)

// helmDomain and checksumDomain are the domains of annotations that charts set.
const helmDomain, checksumDomain = "helm.sh", "checksum"

// LabelKey returns the reasons why a user may not set a label, or none if the user may set it.
func LabelKey(key string) []string {
	switch key {
	case object.LabelComponent, object.LabelInstance, object.LabelManagedBy, object.LabelPartOf:
		return []string{fmt.Sprintf("label %s is the operator's own: choose a name outside app.kubernetes.io", key)}
	}
	if object.IsReserved(key) {
		return []string{reserved("labels", key)}
	}
	return validation.IsQualifiedName(key)
}

// AnnotationKey returns the reasons why a user may not set an annotation, or none if the user may set it.
func AnnotationKey(key string) []string {
	domain, _, _ := strings.Cut(strings.ToLower(key), "/")
	if object.IsReserved(key) || strings.Contains(key, "/") && (domain == helmDomain || domain == checksumDomain) {
		return []string{reserved("annotations", key)}
	}
	return validation.IsQualifiedName(strings.ToLower(key))
}

func reserved(what, key string) string {
	domain, _, _ := strings.Cut(key, "/")
	return fmt.Sprintf("%s of %s are the operator's own: choose another prefix, such as example.com/", what, domain)
}

// CheckClaims refuses labels and annotations of the operator's domains on ephemeral claims of pods, because the operator would treat such
// a claim as its own.
func CheckClaims(path string, pod *corev1.PodSpec) error {
	for i := range pod.Volumes {
		ephemeral := pod.Volumes[i].Ephemeral
		if ephemeral == nil || ephemeral.VolumeClaimTemplate == nil {
			continue
		}
		metadata := ephemeral.VolumeClaimTemplate.ObjectMeta
		at := fmt.Sprintf("%s, volume %q, ephemeral.volumeClaimTemplate.metadata", path, pod.Volumes[i].Name)
		for _, key := range slices.Sorted(maps.Keys(metadata.Labels)) {
			if problems := LabelKey(key); len(problems) > 0 {
				return FieldError(at+".labels", "%s", problems[0])
			}
		}
		for _, key := range slices.Sorted(maps.Keys(metadata.Annotations)) {
			if problems := AnnotationKey(key); len(problems) > 0 {
				return FieldError(at+".annotations", "%s", problems[0])
			}
		}
	}
	return nil
}

// checkOwn refuses a podTemplate that changes, removes or adds the operator's labels or annotations. changed selects
// further keys that the chart sets and that a podTemplate may not change, although users may set such keys elsewhere.
func checkOwn(path, what string, rendered, merged map[string]string, changed func(key string) bool) error {
	path += ".metadata." + what + "s"
	for _, key := range slices.Sorted(maps.Keys(merged)) {
		if _, ok := rendered[key]; !ok && object.IsReserved(key) {
			return FieldError(path, "%s %s is the operator's own and may not be set: remove it from the podTemplate", what, key)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(rendered)) {
		if value, ok := merged[key]; (object.IsReserved(key) || changed(key)) && (!ok || value != rendered[key]) {
			return FieldError(path, "%s %s is the operator's own and may not be changed: remove it from the podTemplate", what, key)
		}
	}
	return nil
}
