// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"d3os.com/d3os-operator/internal/metrics"
	"d3os.com/d3os-operator/internal/object"
)

var (
	storageRequest  = []string{"spec", "resources", "requests", "storage"}
	storageCapacity = []string{"status", "capacity", "storage"}
)

// resizeAgain is the default wait before a refused size is requested again (see Applier.RetryRefused). A change of the storage class
// triggers no event.
const resizeAgain = 5 * time.Minute

// Refusal reports that a volume does not get its planned size.
type Refusal struct {
	Claim   *unstructured.Unstructured
	Message string
	Answer  string // error of the API server; empty if Kubernetes did not get the request
	New     bool   // the size was refused in this call, and not in an earlier one
	Pending bool   // the volume has the new size, but its file system does not
	// Again is the time until the next attempt. It is 0 if there is none: the volume cannot shrink, or has the new size already.
	Again time.Duration
}

// resizes records refused sizes, so that reconciling an unchanged owner causes no writes.
type resizes struct {
	refused *lru.Cache // resize -> refusedResize
	again   time.Duration
	now     func() time.Time
}

type resize struct {
	claim types.UID
	size  string
}

type refusedResize struct {
	at              time.Time
	message, answer string
}

func newResizes() *resizes {
	return &resizes{refused: lru.New(4096), again: resizeAgain, now: time.Now}
}

// RetryRefused sets the wait before a refused size of a volume is requested again; 0 means the default of five minutes.
func (a *Applier) RetryRefused(after time.Duration) { a.resizes.again = cmp.Or(after, resizeAgain) }

// FitVolumes resizes the claims of a planned claim or StatefulSet, and returns the planned object with the sizes of its
// claims. A size is refused if the storage class cannot expand volumes, the claim is unbound, or the volume is larger
// than that size. A refused size is a Refusal and not an error, so the other fields are still applied. Kubernetes does
// not change the claim templates of a StatefulSet. So FitVolumes resizes the claims, and Apply replaces the StatefulSet
// without its pods (see replace).
func (a *Applier) FitVolumes(ctx context.Context, owner object.Owner, planned, live *unstructured.Unstructured) (*unstructured.Unstructured, []Refusal, error) {
	switch planned.GetKind() {
	case object.ClaimKind.Kind:
		return a.fitClaim(ctx, owner, planned, live)
	case "StatefulSet":
		return a.fitTemplates(ctx, owner, planned, live)
	}
	return planned, nil, nil
}

func (a *Applier) fitClaim(ctx context.Context, owner object.Owner, planned, live *unstructured.Unstructured) (*unstructured.Unstructured, []Refusal, error) {
	if live == nil || live.GetDeletionTimestamp() != nil {
		return planned, nil, nil
	}
	if err := checkOwner(owner, planned, live); err != nil {
		return nil, nil, err
	}
	size, refusal, err := a.resize(ctx, live, largest(request(planned), grownTo(live)))
	if err != nil {
		return nil, nil, err
	}
	if refusal == nil && isLowered(live, request(planned)) {
		refusal = cannotShrink(live, request(planned))
	}
	return withSize(likeVolume(planned, live), size, storageRequest...), refusals(refusal), nil
}

// likeVolume returns a planned claim with the class and the access modes of the live claim, because Kubernetes cannot
// change them. They differ from the plan if a volume was retained, or restored to another class.
func likeVolume(planned, live *unstructured.Unstructured) *unstructured.Unstructured {
	fitted := planned.DeepCopy()
	spec := fitted.Object["spec"].(map[string]any)
	for _, field := range []string{"storageClassName", "accessModes"} {
		has, isSet, _ := unstructured.NestedFieldCopy(live.Object, "spec", field)
		if _, isPlanned := spec[field]; isPlanned && isSet {
			spec[field] = has
		}
	}
	return fitted
}

func (a *Applier) fitTemplates(ctx context.Context, owner object.Owner, planned, live *unstructured.Unstructured) (*unstructured.Unstructured, []Refusal, error) {
	templates, _, _ := unstructured.NestedSlice(planned.Object, "spec", "volumeClaimTemplates")
	if len(templates) == 0 {
		return planned, nil, nil
	}
	items, err := a.claims(ctx, a.client, owner, planned)
	if err != nil {
		return nil, nil, err
	}
	claims := make([]*unstructured.Unstructured, len(items))
	for i := range items {
		claims[i] = &items[i]
	}
	var all []Refusal
	hasGrown := false
	for i, t := range templates {
		template := &unstructured.Unstructured{Object: t.(map[string]any)}
		own := claimsOf(planned, template, claims)
		grown := grownSize(template, own)
		if grown.Cmp(request(template)) > 0 { // the claims of later pods begin with this size
			hasGrown, templates[i] = true, withSize(template, grown, storageRequest...).Object
		}
		for _, claim := range own {
			size, refusal, err := a.resize(ctx, claim, keptSize(claim, request(template), grown))
			if err != nil {
				return nil, nil, err
			}
			if refusal == nil && isLowered(claim, request(template)) { // the template keeps the enlarged size
				all = append(all, *cannotShrink(claim, request(template)))
			}
			if refusal != nil && !refusal.Pending { // the template keeps its size; a new template gets the claim's size
				templates[i] = withSize(template, templateSize(live, i, size), storageRequest...).Object
			}
			all = append(all, refusals(refusal)...)
		}
	}
	if len(all) == 0 && !hasGrown {
		return planned, nil, nil
	}
	fitted := planned.DeepCopy()
	if err := unstructured.SetNestedSlice(fitted.Object, templates, "spec", "volumeClaimTemplates"); err != nil {
		return nil, nil, fmt.Errorf("set the volumes of %s: %w", describe(planned), err)
	}
	return fitted, all, nil
}

// claimsOf returns the claims of a StatefulSet's template, except those that are being deleted.
func claimsOf(set, template *unstructured.Unstructured, claims []*unstructured.Unstructured) (own []*unstructured.Unstructured) {
	prefix := claimPrefix(template.GetName(), set)
	for _, claim := range claims {
		if strings.HasPrefix(claim.GetName(), prefix) && claim.GetDeletionTimestamp() == nil {
			own = append(own, claim)
		}
	}
	return own
}

// templateSize returns the size in a live StatefulSet's claim template, or fallback if there is no such template.
func templateSize(live *unstructured.Unstructured, i int, fallback resource.Quantity) resource.Quantity {
	if live == nil {
		return fallback
	}
	templates, _, _ := unstructured.NestedSlice(live.Object, "spec", "volumeClaimTemplates")
	if i >= len(templates) {
		return fallback
	}
	return request(&unstructured.Unstructured{Object: templates[i].(map[string]any)})
}

// templateSizes returns the sizes in a StatefulSet's claim templates, in order; "" for other kinds.
func templateSizes(set *unstructured.Unstructured) string {
	if set.GetKind() != "StatefulSet" {
		return ""
	}
	templates, _, _ := unstructured.NestedFieldNoCopy(set.Object, "spec", "volumeClaimTemplates")
	list, _ := templates.([]any)
	sizes := make([]string, len(list))
	for i := range list {
		template, _ := list[i].(map[string]any)
		sizes[i], _, _ = unstructured.NestedString(template, storageRequest...)
	}
	return strings.Join(sizes, " ")
}

func claimPrefix(template string, set *unstructured.Unstructured) string {
	return template + "-" + set.GetName() + "-"
}

// resize sets the size of a claim and returns the resulting size.
func (a *Applier) resize(ctx context.Context, claim *unstructured.Unstructured, want resource.Quantity) (resource.Quantity, *Refusal, error) {
	has, capacity := request(claim), quantity(claim, storageCapacity...)
	if want.Cmp(has) == 0 {
		return has, pendingGrowth(claim), nil
	}
	// A requested size that the volume has never reached may be lowered, but the API server accepts only a size above the size of the volume.
	if want.Cmp(has) < 0 && (capacity.IsZero() || want.Cmp(capacity) <= 0) {
		return has, cannotShrink(claim, want), nil
	}
	return a.patchSize(ctx, claim, withSize(claim, want, storageRequest...), client.MergeFrom(claim), "allow volume expansion in its storage class, or set the size back")
}

// cannotShrink returns the Refusal of a size below the size of a claim.
func cannotShrink(claim *unstructured.Unstructured, want resource.Quantity) *Refusal {
	has := request(claim)
	return &Refusal{Claim: claim, Message: fmt.Sprintf("PersistentVolumeClaim %s stays at %s: a volume cannot shrink to %s", claim.GetName(), has.String(), want.String())}
}

// pendingGrowth returns a Refusal if a claim's volume has the new size, but the volume's file system does not. A storage class without online
// expansion enlarges the file system when a pod mounts the volume.
func pendingGrowth(claim *unstructured.Unstructured) *Refusal {
	condition := conditionOf(claim, corev1.PersistentVolumeClaimFileSystemResizePending)
	if condition == nil {
		return nil
	}
	return &Refusal{Claim: claim, Pending: true, Message: fmt.Sprintf("PersistentVolumeClaim %s gets its new size when its pod starts again (%s): its storage "+
		"class may grow file systems only while no pod uses the volume; if this message stays, delete the pod that uses the claim", claim.GetName(), condition["type"])}
}

// conditionOf returns a condition of a claim if its status is True, or nil.
func conditionOf(claim *unstructured.Unstructured, kind corev1.PersistentVolumeClaimConditionType) map[string]any {
	conditions, _, _ := unstructured.NestedSlice(claim.Object, "status", "conditions")
	for _, c := range conditions {
		if condition, _ := c.(map[string]any); condition["type"] == string(kind) && condition["status"] == string(corev1.ConditionTrue) {
			return condition
		}
	}
	return nil
}

// patchSize patches a claim to a target with another size. remedy is the advice in a Refusal.
func (a *Applier) patchSize(ctx context.Context, claim, target *unstructured.Unstructured, patch client.Patch, remedy string) (resource.Quantity, *Refusal, error) {
	has, want := request(claim), request(target)
	key := resize{claim.GetUID(), want.String()}
	if known, ok := a.resizes.refused.Get(key); ok {
		before := known.(refusedResize)
		if wait := before.at.Add(a.resizes.again).Sub(a.resizes.now()); wait > 0 {
			return has, &Refusal{Claim: claim, Message: before.message, Answer: before.answer, Again: wait}, nil
		}
	}
	err := a.client.Patch(ctx, target, patch, client.FieldOwner(FieldManager))
	if apierrors.IsForbidden(err) || apierrors.IsInvalid(err) {
		refusal := &Refusal{Claim: claim, New: true, Again: a.resizes.again, Answer: err.Error(), Message: fmt.Sprintf(
			"PersistentVolumeClaim %s stays at %s: Kubernetes refuses to resize it to %s (%s); %s",
			claim.GetName(), has.String(), want.String(), apierrors.ReasonForError(err), remedy)}
		a.resizes.refused.Add(key, refusedResize{a.resizes.now(), refusal.Message, refusal.Answer})
		return has, refusal, nil
	}
	if err != nil {
		return has, nil, fmt.Errorf("resize %s to %s: %w", describe(claim), want.String(), err)
	}
	metrics.Writes.WithLabelValues(claim.GetKind(), string(Updated)).Inc()
	return want, nil, nil
}

// keepGrown returns the planned object. If the live claim is larger than planned, the result has the live size: an
// earlier operator may have enlarged a volume that was then retained.
func keepGrown(planned, live *unstructured.Unstructured) *unstructured.Unstructured {
	size, want, capacity := request(live), request(planned), quantity(live, storageCapacity...)
	givenUp := want.Cmp(capacity) > 0 && !capacity.IsZero() // FitVolumes has lowered the claim to this size, which is above the size of the volume
	if planned.GetKind() != object.ClaimKind.Kind || want.Cmp(size) >= 0 || givenUp {
		return planned
	}
	return withSize(planned, size, storageRequest...)
}

func refusals(r *Refusal) []Refusal {
	if r == nil {
		return nil
	}
	return []Refusal{*r}
}

// withSize returns a copy of an object with another size.
func withSize(o *unstructured.Unstructured, size resource.Quantity, path ...string) *unstructured.Unstructured {
	sized := o.DeepCopy()
	_ = unstructured.SetNestedField(sized.Object, size.String(), path...) // cannot fail: the path consists of maps
	return sized
}

func request(claim *unstructured.Unstructured) resource.Quantity {
	return quantity(claim, storageRequest...)
}

// quantity returns the quantity at a path, or zero if there is none.
func quantity(o *unstructured.Unstructured, path ...string) resource.Quantity {
	text, _, _ := unstructured.NestedString(o.Object, path...)
	q, _ := resource.ParseQuantity(text)
	return q
}
