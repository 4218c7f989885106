// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour_test

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"d3os.com/d3os-operator/internal/manager"
	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/harness/stage"
)

// account creates a ServiceAccount with cluster-wide rules and returns a token of it.
func (e *env) account(name string, rules ...rbacv1.PolicyRule) string {
	e.Helper()
	token := e.newAccount(name)
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: e.Namespace + "-" + name}, Rules: rules}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   e.subject(name),
	}
	for _, object := range []client.Object{role, binding} {
		e.Must(api.Create(e.Ctx, object))
	}
	return token
}

// newAccount creates a ServiceAccount and returns a token of it.
func (e *env) newAccount(name string) string {
	e.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: e.Namespace}}
	e.Must(api.Create(e.Ctx, account))
	token := &authenticationv1.TokenRequest{}
	e.Must(api.SubResource("token").Create(e.Ctx, account, token))
	return token.Status.Token
}

func (e *env) subject(account string) []rbacv1.Subject {
	return []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: account, Namespace: e.Namespace}}
}

// role reads the rules of a role in config/rbac.
func (e *env) role(file string) []rbacv1.PolicyRule {
	e.Helper()
	role := &rbacv1.ClusterRole{}
	e.Must(harness.ReadYAML("config/rbac/"+file, role))
	if len(role.Rules) == 0 {
		e.Fatalf("%s has no rules", file)
	}
	return role.Rules
}

// as makes the configuration of whoever has a token.
func as(cfg *rest.Config, token string) {
	*cfg = *rest.AnonymousClientConfig(cfg)
	cfg.BearerToken = token
}

// Probes answer anyone; metrics only those who may read them.
func TestEndpoints(t *testing.T) {
	e := parallel(t)
	metrics, probes := freeAddress(t), freeAddress(t)
	e.Start(func(_ *rest.Config, o *manager.Options) {
		o.MetricsBindAddress, o.MetricsSecure, o.ProbeBindAddress = metrics, true, probes
	})
	e.CreateReady(small())
	for _, path := range []string{"/healthz", "/readyz"} {
		if code, body := fetch(t, "http://"+probes+path, ""); code != http.StatusOK {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
	reader := e.account("reader", e.role("metrics_reader_role.yaml")...)
	stranger := e.account("stranger")
	for who, c := range map[string]struct {
		token string
		codes []int
	}{
		"nobody": {"", []int{http.StatusUnauthorized, http.StatusForbidden}},
		// controller-runtime does not tell a token that is wrong from one that could not be checked
		"a liar":     {"no.such.token", []int{http.StatusUnauthorized, http.StatusForbidden, http.StatusInternalServerError}},
		"a stranger": {stranger, []int{http.StatusForbidden}},
		"a reader":   {reader, []int{http.StatusOK}},
	} {
		var body string
		err := e.Within(patience, func() error { // the authorizer learns of a new role by a watch
			code, text := fetch(t, "https://"+metrics+"/metrics", c.token)
			body = text
			return stage.Unless(slices.Contains(c.codes, code), http.StatusText(code))
		})
		if err != nil {
			t.Errorf("metrics for %s: %v", who, err)
		}
		const series = `dataservice_phase{dataservice="dataservice-sample",namespace="`
		if has := strings.Contains(body, series+e.Namespace+`",phase="Running"} 1`); has != (who == "a reader") {
			t.Errorf("%s sees the metrics: %v", who, has)
		}
	}
}

// freeAddress returns an address of this machine that nobody listens on.
func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().String()
}

// fetch gets a page; code 0 when there is none.
func fetch(t *testing.T, url, token string) (code int, body string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	browser := &http.Client{
		Timeout:   10 * time.Second,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}, // the certificate is self-signed
	}
	response, err := browser.Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = response.Body.Close() }()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(data)
}
