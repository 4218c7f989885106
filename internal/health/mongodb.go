// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"cmp"
	"fmt"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/json"
)

// annotationMongoDBApplied holds the spec that MongoDB's operator applied last. MongoDB's operator writes the annotation after the
// status gets the phase Running. This package reads the annotation, because the status has no observedGeneration. See recordedMongoDB
// for the fields that the annotation lacks.
const annotationMongoDBApplied = "mongodb.com/v1.lastSuccessfulConfiguration"

// ReasonPodsNotReady reports that the status of the resource is good, but its pods are not ready or have an older spec.
const ReasonPodsNotReady = "PodsNotReady"

// isMongoDB reports whether MongoDB's operator reconciles an object. The status of such an object has a phase and no conditions.
func isMongoDB(object *unstructured.Unstructured) bool {
	return object.GetKind() == "MongoDBCommunity"
}

// NeedsPods reports whether only the pods show the present state of an object. The pods show whether an active run of a cron job is
// held (see HeldRun). If MongoDB's operator has stopped, the status of its resource is outdated.
func NeedsPods(object *unstructured.Unstructured) bool { return IsActive(object) || isMongoDB(object) }

// addMongoDB judges a MongoDBCommunity by its phase, by the spec that was applied last, and by its pods. pods is nil if they were not read.
func (s *State) addMongoDB(object *unstructured.Unstructured, pods []*corev1.Pod) {
	members, _, _ := unstructured.NestedInt64(object.Object, "spec", "members")
	current, _, _ := unstructured.NestedInt64(object.Object, "status", "currentMongoDBMembers")
	phase, _, _ := unstructured.NestedString(object.Object, "status", "phase")
	message, _, _ := unstructured.NestedString(object.Object, "status", "message")
	s.Desired, s.Ready = int32(members), int32(min(current, members)) //nolint:gosec // at most 50
	if pods != nil {
		s.Ready = min(s.Desired, currentPods(object, pods))
	}
	report := func(set func(Culprit, string), reason, message string) {
		s.unsettle(false)
		culprit := Culprit{Kind: object.GetKind(), Name: object.GetName(), Reason: reason, Message: message}
		set(culprit, fmt.Sprintf("%s %s: %s: %s", culprit.Kind, culprit.Name, reason, message))
	}
	switch {
	case object.GetDeletionTimestamp() != nil:
		report(s.hint, ReasonTerminating, "it is being deleted")
	case phase == "":
		report(s.hint, ReasonNotObserved, "MongoDB's operator has not reported on it: MongoDB's operator must run and watch this namespace")
	case phase == "Failed" && message != "":
		report(s.problem, phase, Essence(message))
	case phase == "Failed": // after a conflict with another writer, there is no message
		report(s.hint, phase, "MongoDB's operator tries again")
	case phase != "Running" && pods != nil && len(pods) == 0:
		report(s.hint, phase, fmt.Sprintf("no pod exists: does service account %s exist (docs/mongodb.md, Before you start)? `kubectl describe statefulset %s` shows the reason",
			accountOf(object), object.GetName()))
	case phase != "Running":
		report(s.hint, phase, Essence(message))
	case current != members:
		report(s.hint, ReasonNotObserved, fmt.Sprintf("the replica set has %d of %d members", current, members))
	case !isAppliedMongoDB(object):
		report(s.hint, ReasonNotObserved, "MongoDB's operator has not applied the latest spec yet")
	case s.Ready < s.Desired:
		report(s.hint, ReasonPodsNotReady, fmt.Sprintf("%d of %d pods are ready and have the latest spec", s.Ready, s.Desired))
	}
}

// accountOf returns the service account of the pods: the account in the spec, or the default account of MongoDB's operator.
func accountOf(object *unstructured.Unstructured) string {
	account, _, _ := unstructured.NestedString(object.Object, "spec", "statefulSet", "spec", "template", "spec", "serviceAccountName")
	return cmp.Or(account, "mongodb-database")
}

// currentPods counts the pods that are ready and have the labels of the pod template in the spec. One label is the template's revision.
func currentPods(object *unstructured.Unstructured, pods []*corev1.Pod) (current int32) {
	labels, _, _ := unstructured.NestedStringMap(object.Object, "spec", "statefulSet", "spec", "template", "metadata", "labels")
	for _, pod := range pods {
		has := true
		for name, value := range labels {
			has = has && pod.Labels[name] == value
		}
		if c := condition(pod, corev1.PodReady); has && c != nil && c.Status == corev1.ConditionTrue && pod.DeletionTimestamp == nil {
			current++
		}
	}
	return current
}

// isAppliedMongoDB reports whether the present spec is the last spec that MongoDB's operator applied.
func isAppliedMongoDB(object *unstructured.Unstructured) bool {
	var applied map[string]any
	text := object.GetAnnotations()[annotationMongoDBApplied]
	if err := json.UnmarshalCaseSensitivePreserveInts([]byte(text), &applied); err != nil {
		return false
	}
	spec, _, _ := unstructured.NestedMap(object.Object, "spec")
	return reflect.DeepEqual(recordedMongoDB(spec), recordedMongoDB(applied))
}

// recordedMongoDB returns the part of a spec that MongoDB's operator records. That operator writes {} for each of three fields, regardless
// of their content, and adds empty fields.
func recordedMongoDB(spec map[string]any) any {
	for _, name := range []string{"statefulSet", "additionalMongodConfig", "additionalConnectionStringConfig"} {
		delete(spec, name)
	}
	return withoutEmpty(spec)
}

// withoutEmpty removes zero values, empty maps and empty lists, and returns nil if nothing remains. Numbers in the result are of type float64.
func withoutEmpty(value any) any {
	switch v := value.(type) {
	case map[string]any:
		kept := map[string]any{}
		for name, below := range v {
			if below = withoutEmpty(below); below != nil {
				kept[name] = below
			}
		}
		if len(kept) > 0 {
			return kept
		}
	case []any:
		kept := make([]any, len(v)) // an empty item keeps its place
		for i := range v {
			kept[i] = withoutEmpty(v[i])
		}
		if len(kept) > 0 {
			return kept
		}
	case int64:
		return withoutEmpty(float64(v))
	case float64, string, bool:
		if !reflect.ValueOf(v).IsZero() {
			return v
		}
	}
	return nil
}
