// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"syscall"
	"testing"

	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/internal/contract"
)

// The agent reports the use of the file system. The error about a missing folder names the folder.
func TestVolume(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	ask := func(path, folder string) *httptest.ResponseRecorder {
		answer := httptest.NewRecorder()
		volumeHandler(folder).ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody))
		return answer
	}
	answer := ask(contract.PathState, folder)
	assert.Equal(t, answer.Code, http.StatusOK)
	var use contract.Volume
	assert.NilError(t, json.Unmarshal(answer.Body.Bytes(), &use))
	var fs syscall.Statfs_t
	assert.NilError(t, syscall.Statfs(folder, &fs))
	assert.Equal(t, use.Capacity, int64(fs.Blocks)*fs.Bsize)
	assert.Assert(t, use.Used >= int64(fs.Blocks-fs.Bfree)*fs.Bsize-use.Capacity/100, "what only root may use does not count as used: %+v of %+v", use, fs) // other programs may write to the same file system
	assert.Assert(t, use.Used <= use.Capacity, "%+v", use)

	assert.Equal(t, ask("/livez", folder+"/gone").Code, http.StatusOK)
	answer = ask(contract.PathState, folder+"/gone")
	assert.Equal(t, answer.Code, http.StatusInternalServerError)
	assert.Equal(t, answer.Body.String(), "read the use of "+folder+"/gone: no such file or directory\n")
	assert.Equal(t, reportVolume(nil), exitUsage)
}
