// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/health"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/platform/plan"
	"d3os.com/d3os-operator/internal/platform/values"
	"d3os.com/d3os-operator/internal/reconcile"
)

const (
	secretKind = "Secret"
	// passwordKey is the key of the password in the Secrets of an account: the user's Secret, and the Secret of MongoDB's operator.
	passwordKey = "password"
)

// connection identifies a connection Secret that is in use, by the password and the UID of the MongoDBCommunity that owns the Secret.
type connection struct {
	owner    types.UID
	password string
}

// confirmMongoDB returns the check of the Secret with the connection string for services. MongoDB's operator writes this Secret after it
// has set the phase Running, and only logs a failure. So the MongoDBCommunity does not show whether the Secret exists. The check reads from
// the API server until the Secret has the password in use. Then it stops until the password changes.
func (k *Kind) confirmMongoDB(ds *dsv1.DataService, c *plan.Component, secrets *plan.SecretsPlan, in reconcile.Inputs) func([]*unstructured.Unstructured, *health.State) (bool, error) {
	key := types.NamespacedName{Namespace: ds.Namespace, Name: ds.Name}
	account, password := secrets.Credentials.MongoDBSecret, secrets.MongoDBPassword
	return func(live []*unstructured.Unstructured, state *health.State) (again bool, err error) {
		if password == "" {
			state.AddDoubt(health.Culprit{Kind: secretKind, Name: account, Reason: health.ReasonSecretMissing, Message: "it must exist, with a password under the key password"}, true)
			return true, nil
		}
		if !state.Settled {
			return false, nil
		}
		resource := foreign(live)
		found := connection{resource.GetUID(), password}
		known, isKnown := k.connections.Load(key)
		if isKnown && known == found {
			return false, nil
		}
		if isKnown || !isReadyInStatus(ds, c) { // a new process relies on the status
			doubt, isProblem, err := checkConnection(in.LookupLive, resource, values.MongoDBConnection(&c.Component), account)
			if err != nil {
				return false, err
			}
			switch {
			case isProblem:
				state.AddDoubt(doubt, true)
			case doubt != (health.Culprit{}):
				state.AddUnconfirmed(doubt)
			}
			if !state.Settled {
				return true, nil
			}
		}
		k.connections.Store(key, found)
		return false, nil
	}
}

// foreign returns another operator's resource among live objects, or an empty object. live may be nil.
func foreign(live []*unstructured.Unstructured) *unstructured.Unstructured {
	for _, o := range live {
		if o != nil && object.IsForeign(o) {
			return o
		}
	}
	return &unstructured.Unstructured{}
}

// isReadyInStatus reports whether, according to the status, a component runs in its planned revision.
func isReadyInStatus(ds *dsv1.DataService, c *plan.Component) bool {
	if ds.Status.ObservedGeneration != ds.Generation {
		return false
	}
	for _, s := range ds.Status.Components {
		if s.Name == string(c.Name) {
			return s.Phase == dsv1.PhaseRunning && s.Revision == c.Revision
		}
	}
	return false
}

// checkConnection reads the connection Secret of a MongoDBCommunity, and the Secret with the account's password. If the passwords differ,
// it returns the connection Secret as the culprit. isProblem reports whether a user must act.
func checkConnection(lookup object.Lookup, resource *unstructured.Unstructured, name, account string) (culprit health.Culprit, isProblem bool, err error) {
	culprit = health.Culprit{Kind: secretKind, Name: name}
	written, err := lookup(secretKind, name)
	if err != nil {
		return culprit, false, fmt.Errorf("check the connection string of MongoDB: %w", err)
	}
	given, err := lookup(secretKind, account)
	if err != nil {
		return culprit, false, fmt.Errorf("check the password of MongoDB: %w", err)
	}
	const remedy = "; if that lasts, restart MongoDB's operator"
	switch {
	case written == nil:
		culprit.Reason, culprit.Message = health.ReasonNotObserved, "MongoDB's operator has not written the connection string yet"+remedy
		return culprit, false, nil
	case !metav1.IsControlledBy(written, resource):
		culprit.Reason, culprit.Message = health.ReasonConflict, fmt.Sprintf("it does not belong to %s %s, so it has no connection string: delete the Secret, and restart MongoDB's operator",
			resource.GetKind(), resource.GetName())
		return culprit, true, nil
	case passwordOf(written) == "" || passwordOf(written) != passwordOf(given):
		culprit.Reason, culprit.Message = health.ReasonNotObserved, fmt.Sprintf("MongoDB's operator has not written the password of Secret %s to this Secret yet%s", account, remedy)
		return culprit, false, nil
	}
	return health.Culprit{}, false, nil
}

// passwordOf returns the password in a Secret, or "".
func passwordOf(secret *unstructured.Unstructured) string {
	if secret == nil {
		return ""
	}
	password, _, _ := object.PasswordIn(secret, passwordKey) // an invalid value is not a password
	return password
}
