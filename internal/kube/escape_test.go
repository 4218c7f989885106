// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"bytes"
	"io"
	"net/http"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

func TestEscape(t *testing.T) {
	for _, c := range []struct {
		name        string
		contentType types.PatchType
		body, want  string
	}{
		{"an apply without such characters", types.ApplyYAMLPatchType, `{"a":"é\n\u2028 🙂"}`, `{"a":"é\n\u2028 🙂"}`},
		{"an apply with them", types.ApplyYAMLPatchType, "{\"a\x7f\":\"b\u0085c\uffff\"}", `{"a\u007f":"b\u0085c\uffff"}`},
		{"another patch", types.MergePatchType, "{\"a\":\"\x7f\"}", "{\"a\":\"\x7f\"}"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var sent string
			transport := Escape(roundTripper{do: func(r *http.Request) (*http.Response, error) {
				body, err := io.ReadAll(r.Body)
				succeed(t, err)
				again, err := readBody(r) // as after a redirection or a broken connection
				succeed(t, err)
				if again != string(body) || r.ContentLength != int64(len(body)) {
					t.Errorf("sent %q, announced %d bytes, would be sent again as %q", body, r.ContentLength, again)
				}
				sent = string(body)
				return &http.Response{}, nil
			}})
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPatch, "https://cluster", bytes.NewReader([]byte(c.body)))
			succeed(t, err)
			r.Header.Set("Content-Type", string(c.contentType))
			_, err = transport.RoundTrip(r) //nolint:bodyclose // it has none
			succeed(t, err)
			if sent != c.want {
				t.Errorf("sent %q, want %q", sent, c.want)
			}
		})
	}
}
