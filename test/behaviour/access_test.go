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

	dsv1 "d3os.com/d3os-operator/api/v1"
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

// as configures a client with a token.
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
		// controller-runtime does not distinguish a wrong token from one that it could not check
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

// freeAddress returns a free address of this machine.
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

// rights returns the rights that OLM grants the operator, in the target namespaces and in the operator's namespace.
func (e *env) rights() []rbacv1.PolicyRule {
	e.Helper()
	var csv struct {
		Spec struct {
			Install struct {
				Spec struct {
					Permissions []struct {
						Rules []rbacv1.PolicyRule `json:"rules"`
					} `json:"permissions"`
				} `json:"spec"`
			} `json:"install"`
		} `json:"spec"`
	}
	e.Must(harness.ReadYAML("bundle/manifests/d3os-operator.clusterserviceversion.yaml", &csv))
	var rules []rbacv1.PolicyRule
	for _, permission := range csv.Spec.Install.Spec.Permissions {
		rules = append(rules, permission.Rules...)
	}
	if len(rules) == 0 {
		e.Fatal("the bundle grants nothing in a namespace")
	}
	return rules
}

// grant gives an account of another namespace rights in this one.
func (e *env) grant(rules []rbacv1.PolicyRule, to []rbacv1.Subject) {
	e.Helper()
	name := metav1.ObjectMeta{Name: "operator", Namespace: e.Namespace}
	e.Must(api.Create(e.Ctx, &rbacv1.Role{ObjectMeta: name, Rules: rules}))
	e.Must(api.Create(e.Ctx, &rbacv1.RoleBinding{
		ObjectMeta: name, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name.Name}, Subjects: to,
	}))
}

// An operator that OLM installs for some namespaces manages these with rights in them alone, and asks for
// nothing elsewhere: OwnNamespace, SingleNamespace and MultiNamespace.
func TestSomeNamespaces(t *testing.T) {
	for name, c := range map[string]struct{ own, further bool }{
		"own": {own: true}, "single": {further: true}, "multi": {own: true, further: true},
	} {
		t.Run(name, func(t *testing.T) {
			home, further, stranger := parallel(t), alone(t), alone(t)
			token := home.newAccount("operator")
			rules, subject := home.rights(), home.subject("operator")
			home.grant(rules, subject) // OLM's Role is always in the operator's own namespace, too
			var targets []*env
			if c.own {
				targets = append(targets, home)
			}
			if c.further {
				further.grant(rules, subject)
				targets = append(targets, further)
			}
			var watched []string
			for _, target := range targets {
				watched = append(watched, target.Namespace)
			}
			op := home.Start(func(cfg *rest.Config, o *manager.Options) {
				as(cfg, token)
				o.WatchNamespaces = watched
				o.LeaderElection, o.LeaderElectionNamespace = true, home.Namespace
				o.LeaseDuration, o.RenewDeadline, o.RetryPeriod = 15*time.Second, 10*time.Second, 500*time.Millisecond
			})
			ignored := stranger.Create(small())
			for _, target := range targets {
				ds := target.CreateReady(small())
				target.ChangeReady(ds, fields{"web": nil})
			}
			if left := get(stranger, &dsv1.DataService{}, ignored); left.Status.Phase != "" {
				t.Errorf("a DataService elsewhere is %s", left.Status.Phase)
			}
			home.equal("refused", asText(op.Since(0, func(r harness.Sent) bool { return r.Code == http.StatusForbidden || r.Code == http.StatusUnauthorized })), nil)
			home.equal("outside", asText(op.Since(0, func(r harness.Sent) bool {
				discovery := r.Namespace == "" && r.Name == "" && r.Resource != "" && r.Resource[0] == '/'
				election := r.Namespace == home.Namespace && (r.Resource == "leases" || r.Resource == "events")
				return !discovery && !election && !slices.Contains(watched, r.Namespace)
			})), nil)
		})
	}
}
