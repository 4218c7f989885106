// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// UnlabelledError reports that a Secret exists without the labels of its owner. The Secret may hold the values that the owner's servers
// use.
type UnlabelledError struct {
	Secret string
	Owner  Owner
}

func (e *UnlabelledError) Error() string {
	labels := maps.Clone(e.Owner.Labels(""))
	delete(labels, LabelComponent)
	set := make([]string, 0, len(labels))
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		set = append(set, name+"="+labels[name])
	}
	return fmt.Sprintf("Secret %s exists, but its labels do not name %s %s, so the operator generates no new Secret: if this Secret has the values that the servers use, "+
		"run kubectl label secret --overwrite -n %s %s %s; if not, restore the Secret from a backup",
		e.Secret, e.Owner.Kind, e.Owner.Name, e.Owner.Namespace, e.Secret, strings.Join(set, " "))
}

// UnseenSecret reads a Secret of the owner from the API server if the cache lacks the Secret, because the Secret may
// have lost the label by which the cache selects objects. It returns the error `lost` if the Secret does not exist, or
// has another owner. It returns an *UnlabelledError if nothing proves that the Secret belongs to the owner.
func UnseenSecret(owner Owner, live Lookup, name string, lost error) (*unstructured.Unstructured, error) {
	if live == nil {
		return nil, lost
	}
	secret, err := live("Secret", name)
	switch {
	case err != nil:
		return nil, err
	case secret == nil:
		return nil, lost
	case owner.Controls(secret):
		return secret, nil
	case metav1.GetControllerOfNoCopy(secret) != nil || OwnerKey(secret) != "" && !owner.Names(secret):
		return nil, lost // the object has another owner
	}
	by := secret.GetLabels()[LabelManagedBy]
	if owner.Names(secret) && (by == "" || by == ManagedBy) && Digest(secret) != "" {
		return secret, nil
	}
	return nil, &UnlabelledError{Secret: name, Owner: owner}
}
