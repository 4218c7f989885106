// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"encoding/base64"
	"errors"
	"testing"

	"gotest.tools/v3/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/health"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/platform/component"
	"d3os.com/d3os-operator/internal/platform/plan"
	"d3os.com/d3os-operator/internal/platform/values"
	"d3os.com/d3os-operator/internal/reconcile"
)

// withPassword returns a Secret that owner controls. If owner is nil, the Secret has no owner.
func withPassword(password string, owner *unstructured.Unstructured) *unstructured.Unstructured {
	secret := &unstructured.Unstructured{Object: map[string]any{"data": map[string]any{"password": base64.StdEncoding.EncodeToString([]byte(password))}}}
	if owner != nil {
		secret.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(owner, object.Foreign)})
	}
	return secret
}

// MongoDB is ready when its operator has written the password in use to the connection Secret. No object of the component shows that.
func TestConfirmMongoDB(t *testing.T) {
	t.Parallel()
	resource := object.Empty(object.Foreign)
	resource.SetName("store")
	resource.SetUID("1")
	former := resource.DeepCopy()
	former.SetUID("0")
	const waits = "Secret store-orders-dataservice: NotObserved: MongoDB's operator has not written "
	running := dsv1.DataServiceStatus{Components: []dsv1.ComponentStatus{{Name: "mongodb", Phase: dsv1.PhaseRunning, Revision: "r"}}}
	for name, test := range map[string]struct {
		account, written *unstructured.Unstructured
		fails            error
		planned          string // planned password; "" if there is no Secret
		unsettled        bool
		status           dsv1.DataServiceStatus
		known            *connection
		problem, hint    string
		reads            int
		again            bool
	}{
		"in use":                           {account: withPassword("a", nil), written: withPassword("a", resource), planned: "a", reads: 2},
		"in use, and a newline is cut off": {account: withPassword("a\n", nil), written: withPassword("a", resource), planned: "a", reads: 2},
		"not written":                      {account: withPassword("a", nil), planned: "a", hint: waits + "the connection string yet; if that lasts, restart MongoDB's operator", reads: 2, again: true},
		"a former password":                {account: withPassword("b", nil), written: withPassword("a", resource), planned: "b", hint: waits + "the password of Secret account to this Secret yet; if that lasts, restart MongoDB's operator", reads: 2, again: true},
		"no password":                      {account: withPassword("", nil), written: withPassword("", resource), planned: "a", hint: waits + "the password of Secret account to this Secret yet; if that lasts, restart MongoDB's operator", reads: 2, again: true},
		"without an owner":                 {account: withPassword("a", nil), written: withPassword("a", nil), planned: "a", problem: "Secret store-orders-dataservice: Conflict: it does not belong to MongoDBCommunity store, so it has no connection string: delete the Secret, and restart MongoDB's operator", reads: 2, again: true},
		"of the former resource":           {account: withPassword("a", nil), written: withPassword("a", former), planned: "a", problem: "Secret store-orders-dataservice: Conflict: it does not belong to MongoDBCommunity store, so it has no connection string: delete the Secret, and restart MongoDB's operator", reads: 2, again: true},
		"newer than the plan's":            {account: withPassword("b", nil), written: withPassword("b", resource), planned: "a", reads: 2},
		"no Secret of the user":            {unsettled: true, problem: "Secret account: SecretMissing: it must exist, with a password under the key password", again: true},
		"other objects are not settled":    {planned: "a", unsettled: true},
		"confirmed before":                 {planned: "a", known: &connection{"1", "a"}},
		"confirmed with another password":  {planned: "b", known: &connection{"1", "a"}, status: running, account: withPassword("b", nil), written: withPassword("b", resource), reads: 2},
		"confirmed for another resource":   {planned: "a", known: &connection{"0", "a"}, status: running, account: withPassword("a", nil), hint: waits + "the connection string yet; if that lasts, restart MongoDB's operator", reads: 2, again: true},
		"ready before this process":        {planned: "a", status: running},
		"the Secrets cannot be read":       {planned: "a", fails: errors.New("boom"), reads: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reads := 0
			in := reconcile.Inputs{LookupLive: func(kind, name string) (*unstructured.Unstructured, error) {
				assert.Equal(t, kind, "Secret")
				reads++
				return map[string]*unstructured.Unstructured{"account": test.account, "store-orders-dataservice": test.written}[name], test.fails
			}}
			k := &Kind{}
			ds := &dsv1.DataService{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "a"}, Status: test.status}
			if test.known != nil {
				k.connections.Store(types.NamespacedName{Namespace: "n", Name: "a"}, *test.known)
			}
			c := &plan.Component{Revision: "r", Component: component.Component{Declaration: component.Declaration{MongoDB: &dsv1.MongoDB{Database: "orders"}}, Name: "mongodb", ObjectName: "store"}}
			confirm := k.confirmMongoDB(ds, c, &plan.SecretsPlan{Credentials: values.Credentials{MongoDBSecret: "account"}, MongoDBPassword: test.planned}, in)
			state := health.State{Settled: !test.unsettled}
			again, err := confirm([]*unstructured.Unstructured{nil, resource}, &state)
			assert.Equal(t, err != nil, test.fails != nil)
			assert.Equal(t, again, test.again)
			assert.Equal(t, reads, test.reads)
			assert.Equal(t, state.Problem, test.problem)
			assert.Equal(t, state.Hint, test.hint)
			if isConfirmed := state.Settled && test.fails == nil; isConfirmed { // after a success, another call reads nothing
				again, err = confirm([]*unstructured.Unstructured{resource}, &state)
				assert.NilError(t, err)
				assert.Assert(t, !again && state.Settled)
				assert.Equal(t, reads, test.reads)
			}
		})
	}
}
