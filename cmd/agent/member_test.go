// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/cmd/agent/internal/rig"
	"d3os.com/d3os-operator/internal/contract"
)

// If the certificate of an etcd member is wrong, the agent ends before it starts etcd. The termination message states the reason.
func TestWrongCertificateHasAReason(t *testing.T) {
	for name, value := range map[string]string{"POD_NAME": "etcd-1", "POD_NAMESPACE": "data", "POD_UID": "uid", "POD_IP": "127.0.0.1"} {
		t.Setenv(name, value)
	}
	folder, certificates := t.TempDir(), t.TempDir()
	rig.NewAuthority(t).Write(t, certificates, "etcd-1")
	assert.NilError(t, os.WriteFile(filepath.Join(certificates, "ca.crt"), []byte("none"), 0o600))
	report := filepath.Join(folder, "report")
	ended := startMember([]string{"etcd", "--volume=" + folder, "--ticket=" + filepath.Join(folder, "ticket"), "--notes=" + folder, "--domain=d", "--peer-tls=" + certificates, "--report=" + report})
	assert.Assert(t, ended != 0)
	text, err := os.ReadFile(report)
	assert.NilError(t, err)
	var said contract.Refusal
	assert.NilError(t, json.Unmarshal(text, &said))
	assert.Equal(t, said.Reason, "CertificateWrong")
	files, err := os.ReadDir(folder)
	assert.NilError(t, err)
	assert.Equal(t, len(files), 1, "startMember wrote to the volume or to the notes")
}
