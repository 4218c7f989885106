// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"k8s.io/apimachinery/pkg/types"
)

func TestEscape(t *testing.T) {
	for name, c := range map[string]struct {
		contentType types.PatchType
		body, want  string
	}{
		"an apply without such characters": {types.ApplyYAMLPatchType, `{"a":"é\n\u2028 🙂"}`, `{"a":"é\n\u2028 🙂"}`},
		"an apply with them":               {types.ApplyYAMLPatchType, "{\"a\x7f\":\"b\u0085c\uffff\"}", `{"a\u007f":"b\u0085c\uffff"}`},
		"another patch":                    {types.MergePatchType, "{\"a\":\"\x7f\"}", "{\"a\":\"\x7f\"}"},
	} {
		transport := Escape(roundTripper{do: func(r *http.Request) (*http.Response, error) {
			body, err := io.ReadAll(r.Body)
			assert.NilError(t, err)
			again, err := readBody(r) // as after a redirection or a broken connection
			assert.NilError(t, err)
			assert.Equal(t, string(body), c.want, name)
			assert.Equal(t, again, c.want, name)
			assert.Equal(t, r.ContentLength, int64(len(body)), name)
			return &http.Response{}, nil
		}})
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPatch, "https://cluster", strings.NewReader(c.body))
		assert.NilError(t, err)
		r.Header.Set("Content-Type", string(c.contentType))
		_, err = transport.RoundTrip(r) //nolint:bodyclose // it has none
		assert.NilError(t, err)
	}
}
