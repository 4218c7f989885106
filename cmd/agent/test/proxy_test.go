// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package test

import (
	"bytes"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/cmd/agent/internal/rig"
	"d3os.com/d3os-operator/cmd/agent/internal/server"
	"d3os.com/d3os-operator/internal/contract"
)

// Only the proxy resolves the name of the store. With HTTPS_PROXY the store is reachable; with NO_PROXY it is not.
func TestStoreBehindAProxy(t *testing.T) {
	t.Parallel()
	bucket := rig.NewBucket(t)
	secure := httptest.NewTLSServer(bucket.Config.Handler) // has a certificate for example.com
	t.Cleanup(secure.Close)
	tunnels := &atomic.Int64{}
	proxy := httptest.NewServer(tunnel(secure.Listener.Addr().String(), tunnels))
	t.Cleanup(proxy.Close)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw})
	assert.NilError(t, os.WriteFile(ca, text, 0o600))
	for none, want := range map[string]contract.Reason{"": "", ".svc": "", "example.com": contract.ReasonStoreUnreachable} {
		tunnels.Store(0)
		cmd, out := agent(t, server.MariaDB, []string{"HTTPS_PROXY=" + proxy.URL, "NO_PROXY=" + none}, "list", "--s3-endpoint=https://example.com:1", "--s3-bucket=backups", "--s3-path-style", "--s3-ca="+ca, "--report=")
		words := &bytes.Buffer{}
		cmd.Stderr = words
		_ = cmd.Run() // the test reads the result below
		if r := result(t, out); r.Reason != want || (tunnels.Load() > 0) != (want == "") {
			t.Errorf("NO_PROXY=%s: %d tunnels, %+v %s", none, tunnels.Load(), r, words)
		}
	}
}

// tunnel returns a proxy for example.com:1 whose tunnels all end at one address. It counts the tunnels.
func tunnel(address string, count *atomic.Int64) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect || r.Host != "example.com:1" {
			http.Error(w, "no tunnel", http.StatusBadRequest)
			return
		}
		to, err := (&net.Dialer{}).DialContext(r.Context(), "tcp", address)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer to.Close()
		count.Add(1)
		w.WriteHeader(http.StatusOK)
		from, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer from.Close()
		go func() { _, _ = io.Copy(to, from) }() // ends when either side ends
		_, _ = io.Copy(from, to)
	}
}
