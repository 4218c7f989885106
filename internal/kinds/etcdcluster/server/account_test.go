// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"errors"
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"gotest.tools/v3/assert"
)

// A member that answers and refuses the operator is no member that does not answer.
func TestAuthenticationOfEtcdIsNamed(t *testing.T) {
	t.Parallel()
	s := New(Options{})
	for _, err := range []error{rpctypes.ErrUserEmpty, rpctypes.ErrGRPCUserEmpty} {
		assert.Assert(t, needsAccount(err))
		assert.Assert(t, strings.HasPrefix(s.describe(err), "etcd's own authentication is on"))
	}
	assert.Assert(t, !needsAccount(errors.New("connection refused")))
}
