// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package mysql

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/cmd/agent/contract"
)

// taken notes orders.
type taken struct {
	orders []string
	err    error
}

func (k *taken) note(format string, args ...any) error {
	k.orders = append(k.orders, fmt.Sprintf(format, args...))
	return k.err
}
func (k *taken) State(context.Context) (State, error)         { return State{Server: "uuid"}, nil }
func (k *taken) Promise(_ context.Context, epoch int64) error { return k.note("promise %d", epoch) }
func (k *taken) Heartbeat(_ context.Context, o Order) error   { return k.note("heartbeat %v", o) }
func (k *taken) Demote(_ context.Context, o Order) error      { return k.note("demote %v", o) }
func (k *taken) Follow(_ context.Context, o Order, s Source, acknowledge bool) error {
	return k.note("follow %v %v %v", o, s, acknowledge)
}

func (k *taken) Serve(_ context.Context, o Order, demands int, voters, others []int) error {
	return k.note("serve %v %d %v %v", o, demands, voters, others)
}

// authority makes certificates.
type authority struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	assert.NilError(t, err)
	a := &authority{key: key, cert: &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}}
	der, err := x509.CreateCertificate(rand.Reader, a.cert, a.cert, &key.PublicKey, key)
	assert.NilError(t, err)
	a.cert, err = x509.ParseCertificate(der)
	assert.NilError(t, err)
	return a
}

func (a *authority) issue(t *testing.T, name string) (cert, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	assert.NilError(t, err)
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{SerialNumber: big.NewInt(2), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{name},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}}, a.cert, &private.PublicKey, a.key)
	assert.NilError(t, err)
	secret, err := x509.MarshalECPrivateKey(private)
	assert.NilError(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: secret})
}

// client has a certificate of a name, or none.
func (a *authority) client(t *testing.T, server *authority, name string) *http.Client {
	t.Helper()
	pool := x509.NewCertPool()
	pool.AddCert(server.cert)
	config := &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: pool, ServerName: "mysql-0"}
	if name != "" {
		pair, err := tls.X509KeyPair(a.issue(t, name))
		assert.NilError(t, err)
		config.Certificates = []tls.Certificate{pair}
	}
	return &http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
}

func (a *authority) write(t *testing.T, folder string) {
	t.Helper()
	cert, key := a.issue(t, "mysql-0")
	assert.NilError(t, errors.Join(os.WriteFile(filepath.Join(folder, "tls.crt"), cert, 0o600), os.WriteFile(filepath.Join(folder, "tls.key"), key, 0o600),
		os.WriteFile(filepath.Join(folder, "ca.crt"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw}), 0o600)))
}

// Only the operator gives orders, and only to the start and the data that it observed.
func TestAPI(t *testing.T) {
	t.Parallel()
	folder, ours, others := t.TempDir(), newAuthority(t), newAuthority(t)
	ours.write(t, folder)
	k := &taken{}
	s := httptest.NewUnstartedServer(&API{Instance: "i1", Orders: k})
	s.TLS, s.Config.ErrorLog = TLS(folder), log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	send := func(c *http.Client, method, path, body string) (int, Answer, error) {
		request, err := http.NewRequestWithContext(t.Context(), method, s.URL+path, strings.NewReader(body))
		assert.NilError(t, err)
		response, err := c.Do(request)
		if err != nil {
			return 0, Answer{}, err
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		assert.NilError(t, err)
		var answer Answer
		_ = json.NewDecoder(bytes.NewReader(text)).Decode(&answer) // some errors are plain text
		return response.StatusCode, answer, nil
	}
	operator, member := ours.client(t, ours, Operator), ours.client(t, ours, "mysql-1")
	for name, c := range map[string]*http.Client{"no certificate": ours.client(t, ours, ""), "another authority": others.client(t, ours, Operator)} {
		if code, _, err := send(c, "GET", "/state", ""); err == nil {
			t.Errorf("%s: %d", name, code)
		}
	}
	code, answer, err := send(member, "GET", "/state", "")
	assert.NilError(t, err)
	if code != 200 || answer.Instance != "i1" || answer.State == nil || answer.State.Server != "uuid" {
		t.Errorf("%d %+v", code, answer)
	}
	const for1 = `"instance":"i1","server":"uuid","epoch":4,"revision":9`
	for _, c := range []struct {
		client             *http.Client
		method, path, body string
		code               int
		reason             contract.Reason
		order              string
	}{
		{operator, "POST", "/promise", "{" + for1 + "}", 200, "", "promise 4"},
		{operator, "POST", "/follow", "{" + for1 + `,"source":{"ordinal":1,"host":"h","port":3306},"acknowledge":true}`, 200, "", "follow {4 9} {1 h 3306} true"},
		{operator, "POST", "/serve", "{" + for1 + `,"demands":1,"cutVoters":[1],"cutOthers":[2]}`, 200, "", "serve {4 9} 1 [1] [2]"},
		{operator, "POST", "/heartbeat", "{" + for1 + "}", 200, "", "heartbeat {4 9}"},
		{operator, "POST", "/demote", "{" + for1 + "}", 200, "", "demote {4 9}"},
		{member, "POST", "/promise", "{" + for1 + "}", 403, "", ""},
		{operator, "GET", "/promise", "", 405, "", ""},
		{operator, "POST", "/state", "{" + for1 + "}", 404, "", ""},
		{operator, "POST", "/promise", `{"instance":"i0","server":"uuid","epoch":4,"revision":9}`, 409, contract.ReasonRefused, ""},
		{operator, "POST", "/promise", `{"instance":"i1","server":"other","epoch":4,"revision":9}`, 409, contract.ReasonRefused, ""},
		{operator, "POST", "/promise", `{"instance":"i1","epoch":4,"revision":9}`, 409, contract.ReasonRefused, ""},
		{operator, "POST", "/promise", "{" + for1 + `,"force":true}`, 409, contract.ReasonUsage, ""},
		{operator, "POST", "/promise", `{"server":"` + strings.Repeat("x", maxRequest) + `"}`, 409, contract.ReasonUsage, ""},
	} {
		k.orders = nil
		code, answer, err := send(c.client, c.method, c.path, c.body)
		assert.NilError(t, err)
		if code != c.code || answer.Reason != c.reason || strings.Join(k.orders, ";") != c.order {
			t.Errorf("%s %s %.80s: %d %+v %v", c.method, c.path, c.body, code, answer, k.orders)
		}
	}
	k.err = contract.Errorf(contract.ReasonBusy, "busy")
	if code, answer, err = send(operator, "POST", "/promise", "{"+for1+"}"); err != nil || code != 409 || answer.Reason != contract.ReasonBusy || answer.Message != "busy" || answer.State == nil {
		t.Errorf("%d %+v %v", code, answer, err)
	}

	// Another authority replaces the certificates: they are used without a restart.
	others.write(t, folder)
	if _, _, err := send(others.client(t, others, "mysql-1"), "GET", "/state", ""); err != nil {
		t.Error(err)
	}
	if code, _, err := send(others.client(t, others, Operator), "POST", "/heartbeat", "{"+for1+"}"); err != nil || code != 409 {
		t.Error(code, err)
	}
	if _, _, err := send(operator, "GET", "/state", ""); err == nil {
		t.Error("the former authority's certificates are still taken")
	}
}
