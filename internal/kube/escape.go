// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"fmt"
	"io"
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"d3os.com/d3os-operator/internal/render"
)

// Escape returns a transport that rewrites the JSON of server-side applies: it escapes characters that JSON allows unescaped. The API
// server reads the JSON of an apply as YAML. YAML refuses some of these characters (DEL, U+FFFF) and reads others as line breaks
// (U+0085).
func Escape(next http.RoundTripper) http.RoundTripper {
	return roundTripper{next, func(r *http.Request) (*http.Response, error) {
		if r.Header.Get("Content-Type") != string(types.ApplyYAMLPatchType) || r.GetBody == nil {
			return next.RoundTrip(r)
		}
		body, err := readBody(r)
		if err != nil {
			return nil, fmt.Errorf("read the body of %s %s: %w", r.Method, r.URL.Path, err)
		}
		escaped := render.Escape(body)
		if escaped == body {
			return next.RoundTrip(r)
		}
		_ = r.Body.Close() // the request is sent with another body
		r = r.Clone(r.Context())
		r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(escaped)), nil }
		r.Body, _ = r.GetBody()
		r.ContentLength = int64(len(escaped))
		return next.RoundTrip(r)
	}}
}

// readBody reads a copy of a request's body.
func readBody(r *http.Request) (string, error) {
	body, err := r.GetBody()
	if err != nil {
		return "", err
	}
	defer func() { _ = body.Close() }() // the body is in memory
	text, err := io.ReadAll(body)
	return string(text), err
}
