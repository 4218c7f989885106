// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package store_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/cmd/agent/internal/rig"
	"d3os.com/d3os-operator/cmd/agent/internal/store"
	"d3os.com/d3os-operator/internal/contract"
)

// Some stores accept requests only in a certain form. Objects with one part and with several parts are written, read and swept in such
// stores.
func TestPeculiarStores(t *testing.T) {
	isUpload := func(r *http.Request) bool { return r.Method == http.MethodPut }
	begins := func(r *http.Request) bool {
		return isUpload(r) && r.URL.Query().Get("uploadId") == "" || r.Method == http.MethodPost && r.URL.Query().Has("uploads")
	}
	isRole := func(o *store.S3Options) { o.AccessKey, o.SecretKey, o.IsRole = "", "", true }
	shortLived := func(r *http.Request) (int, string) {
		if !strings.Contains(r.Header.Get("Authorization"), "Credential=short-lived/") || r.Header.Get("X-Amz-Security-Token") != "session" {
			return http.StatusForbidden, "AccessDenied"
		}
		return 0, ""
	}
	for name, c := range map[string]struct {
		set     func(*testing.T, *store.S3Options)
		refuses func(*http.Request) (int, string)
	}{
		"Object Lock": {nil, func(r *http.Request) (int, string) {
			if isUpload(r) && r.Header.Get("Content-MD5") == "" {
				return http.StatusBadRequest, "InvalidRequest"
			}
			return 0, ""
		}},
		"encryption is required": {func(_ *testing.T, o *store.S3Options) { o.Encryption = "AES256" }, func(r *http.Request) (int, string) {
			if begins(r) && r.Header.Get("X-Amz-Server-Side-Encryption") != "AES256" {
				return http.StatusForbidden, "AccessDenied"
			}
			return 0, ""
		}},
		"encryption with a key of the store": {func(_ *testing.T, o *store.S3Options) { o.Encryption, o.KMSKey = "aws:kms", "backups" }, func(r *http.Request) (int, string) {
			if begins(r) && (r.Header.Get("X-Amz-Server-Side-Encryption") != "aws:kms" || r.Header.Get("X-Amz-Server-Side-Encryption-Aws-Kms-Key-Id") != "backups") {
				return http.StatusForbidden, "AccessDenied"
			}
			return 0, ""
		}},
		"a session token": {func(_ *testing.T, o *store.S3Options) { o.Token = "token" }, func(r *http.Request) (int, string) {
			if r.Header.Get("X-Amz-Security-Token") != "token" {
				return http.StatusForbidden, "InvalidToken"
			}
			return 0, ""
		}},
		"no conditions": {nil, func(r *http.Request) (int, string) {
			if r.Header.Get("If-None-Match") != "" {
				return http.StatusNotImplemented, "NotImplemented"
			}
			return 0, ""
		}},
		"no list of uploads": {nil, func(r *http.Request) (int, string) {
			if r.Method == http.MethodGet && r.URL.Query().Has("uploads") {
				return http.StatusNotImplemented, "NotImplemented"
			}
			return 0, ""
		}},
		"a service account (IRSA)":             {func(t *testing.T, o *store.S3Options) { isRole(o); o.STS = sts(t) }, shortLived},
		"a service account (EKS Pod Identity)": {func(t *testing.T, o *store.S3Options) { isRole(o); podIdentity(t) }, shortLived},
	} {
		t.Run(name, func(t *testing.T) {
			b := rig.NewBucket(t)
			b.Refuses = c.refuses
			o := b.Options()
			if c.set != nil {
				c.set(t, &o)
			}
			s, err := store.NewS3(t.Context(), o)
			assert.NilError(t, err)
			for _, size := range []int{10, 11 << 20} {
				assert.NilError(t, s.Put(t.Context(), "a/object", bytes.NewReader(content(size))))
				got, err := store.ReadAll(t.Context(), s, "a/object")
				if err != nil || !bytes.Equal(got, content(size)) {
					t.Fatalf("%d bytes: %d are read: %v", size, len(got), err)
				}
			}
			assert.NilError(t, s.Create(t.Context(), "a/once", []byte("one")))
			if err := s.Create(t.Context(), "a/once", []byte("two")); !errors.Is(err, store.ErrExists) {
				t.Errorf("creating an existing object: %v", err)
			}
			assert.NilError(t, s.Replace(t.Context(), "a/once", []byte("two")))
			infos, err := s.List(t.Context(), "a/")
			assert.NilError(t, err)
			assert.Equal(t, len(infos), 2)
			_, err = s.Sweep(t.Context(), "a/")
			assert.NilError(t, err)
			assert.NilError(t, s.Delete(t.Context(), "a/object"))
		})
	}
}

// sts starts a server that exchanges a service account's token for credentials. It sets the environment of a pod with such a service
// account.
func sts(t *testing.T) string {
	t.Helper()
	t.Setenv("AWS_WEB_IDENTITY_TOKEN_FILE", token(t))
	t.Setenv("AWS_ROLE_ARN", "arn:aws:iam::1:role/backups")
	return answers(t, func(r *http.Request) bool {
		return r.FormValue("Action") == "AssumeRoleWithWebIdentity" && r.FormValue("WebIdentityToken") == "projected" && r.FormValue("RoleArn") == "arn:aws:iam::1:role/backups"
	}, `<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>short-lived</AccessKeyId><SecretAccessKey>secret</SecretAccessKey>`+
		`<SessionToken>session</SessionToken><Expiration>2099-01-01T00:00:00Z</Expiration></Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>`)
}

// podIdentity starts a server like the agent that EKS runs on nodes. It sets the environment of a pod that gets credentials from that
// server.
func podIdentity(t *testing.T) {
	t.Helper()
	t.Setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", token(t))
	t.Setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", answers(t, func(r *http.Request) bool { return r.Header.Get("Authorization") == "projected" },
		`{"AccessKeyId": "short-lived", "SecretAccessKey": "secret", "Token": "session", "Expiration": "2099-01-01T00:00:00Z"}`))
}

func token(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "token")
	assert.NilError(t, os.WriteFile(file, []byte("projected"), 0o600))
	return file
}

// answers starts a server that answers the requests for which accepts returns true, and refuses all others.
func answers(t *testing.T, accepts func(*http.Request) bool, answer string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !accepts(r) {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		_, _ = fmt.Fprint(w, answer)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// The error for a service account without credentials differs from the error for a store that does not answer. It does not contain the
// token.
func TestServiceAccountWithoutCredentials(t *testing.T) {
	o := rig.NewBucket(t).Options()
	o.AccessKey, o.SecretKey, o.IsRole = "", "", true
	sts(t)
	for want, url := range map[contract.Reason]string{
		contract.ReasonStoreDenied:      answers(t, func(*http.Request) bool { return false }, ""),
		contract.ReasonStoreUnreachable: "http://127.0.0.1:1",
	} {
		o.STS = url
		_, err := store.NewS3(t.Context(), o)
		assert.Equal(t, contract.ReasonOf(err), want)
		assert.ErrorContains(t, err, "service account")
		assert.Assert(t, !strings.Contains(err.Error(), "projected"), "%v", err)
	}
}
