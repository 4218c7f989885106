// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"context"
	"encoding/base64"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"d3os.com/d3os-operator/internal/kinds/rediscluster/server"
)

// secretReader reads one Secret with a password, and counts.
type secretReader struct {
	client.Reader
	password string
	reads    int
}

func (r *secretReader) Get(_ context.Context, _ client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	r.reads++
	into.(*unstructured.Unstructured).Object["data"] = map[string]any{keyPassword: base64.StdEncoding.EncodeToString([]byte(r.password))}
	return nil
}

// A password of the user's is used for as long as a server takes it; the Secret is read again only while one refuses it, and
// not all the time.
func TestAccountsOfTheUser(t *testing.T) {
	t.Parallel()
	rc := read(t, "minimal")
	rc.Spec.CredentialsSecret = "mine"
	secret, now := &secretReader{password: "first"}, time.Unix(0, 0)
	a := newAccounts(nil, secret)
	a.now = func() time.Time { return now }
	used := func() server.Access {
		t.Helper()
		access, _, err := a.access(t.Context(), rc)
		assert.NilError(t, err)
		return access
	}
	refused := func(others bool) (stands, differs bool) {
		t.Helper()
		stands, differs, err := a.refused(t.Context(), rc, used(), others)
		assert.NilError(t, err)
		return stands, differs
	}
	assert.Equal(t, used().Password, "first")
	secret.password = "second"
	assert.Equal(t, used().Password, "first")
	assert.Equal(t, secret.reads, 1)

	now = now.Add(readAgain)
	stands, differs := refused(true)
	assert.Assert(t, !stands && differs, "the others take the former one")
	assert.Equal(t, used().Password, "first")
	_, differs = refused(true)
	assert.Assert(t, differs)
	assert.Equal(t, secret.reads, 2, "it was read a moment ago")

	secret.password, now = "first", now.Add(readAgain)
	stands, differs = refused(true)
	assert.Assert(t, stands && !differs, "a new pod takes the one in use")
	stands, _ = refused(true)
	assert.Assert(t, !stands, "it may have been changed since")

	secret.password, now = "second", now.Add(readAgain)
	_, differs = refused(false)
	assert.Assert(t, !differs, "no server takes the former one any more")
	assert.Equal(t, used().Password, "second")
}
