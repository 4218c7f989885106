// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour_test

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
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
	"d3os.com/d3os-operator/test/harness/process"
	"d3os.com/d3os-operator/test/harness/stage"
)

// account creates a ServiceAccount with cluster-wide rules and returns the account's token.
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

// newAccount creates a ServiceAccount and returns the account's token.
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

// elects makes an operator take part in an election in a namespace. The lease is longer than the pauses of a busy machine.
func elects(o *manager.Options, namespace string) {
	o.LeaderElection, o.LeaderElectionNamespace = true, namespace
	o.LeaseDuration, o.RenewDeadline, o.RetryPeriod = patience, patience-time.Minute, 500*time.Millisecond
}

// as configures a client with a token.
func as(cfg *rest.Config, token string) {
	*cfg = *rest.AnonymousClientConfig(cfg)
	cfg.BearerToken = token
}

// Probes answer any client; metrics answer only clients that may read them.
func TestEndpoints(t *testing.T) {
	e := parallel(t)
	metrics, probes := freeAddress(t), freeAddress(t)
	e.Start(func(_ *rest.Config, o *manager.Options) {
		o.MetricsBindAddress, o.MetricsSecure, o.ProbeBindAddress = metrics, true, probes
	})
	e.CreateReady(small())
	for _, path := range []string{"/healthz", "/readyz"} {
		e.Until(path, func() error {
			code, body := fetch(t, "http://"+probes+path, "")
			return stage.Unless(code == http.StatusOK, fmt.Sprint(code, body))
		})
	}
	reader := e.account("reader", e.role("metrics_reader_role.yaml")...)
	stranger := e.account("stranger")
	for who, c := range map[string]struct {
		token string
		codes []int
	}{
		"a client without a token": {"", []int{http.StatusUnauthorized, http.StatusForbidden}},
		// controller-runtime does not distinguish a wrong token from a token that it cannot check
		"a client with a wrong token": {"no.such.token", []int{http.StatusUnauthorized, http.StatusForbidden, http.StatusInternalServerError}},
		"a client without the right":  {stranger, []int{http.StatusForbidden}},
		"a reader":                    {reader, []int{http.StatusOK}},
	} {
		const series = `dataservice_phase{dataservice="dataservice-sample",namespace="`
		err := e.Within(patience, func() error { // the authorizer reads new roles by a watch, so the first requests may fail
			code, body := fetch(t, "https://"+metrics+"/metrics", c.token)
			has := strings.Contains(body, series+e.Namespace+`",phase="Running"} 1`)
			if has && who != "a reader" {
				t.Errorf("%s gets the metrics", who)
			}
			return stage.Unless(slices.Contains(c.codes, code) && has == (who == "a reader"), fmt.Sprint(code, body))
		})
		if err != nil {
			t.Errorf("metrics for %s: %v", who, err)
		}
	}
}

// freeAddress returns an address that no other process uses: the IP address is in a network that this process has claimed.
func freeAddress(t *testing.T) string {
	t.Helper()
	network, err := ownNetwork()
	if err != nil {
		t.Fatal(err)
	}
	return network.Next() + ":8443"
}

var ownNetwork = sync.OnceValues(process.ClaimNetwork)

// fetch gets a page. The code is 0 if the server does not answer.
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
		Timeout:   patience,
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

// grant gives an account of another namespace rights in this namespace.
func (e *env) grant(rules []rbacv1.PolicyRule, to []rbacv1.Subject) {
	e.Helper()
	name := metav1.ObjectMeta{Name: "operator", Namespace: e.Namespace}
	e.Must(api.Create(e.Ctx, &rbacv1.Role{ObjectMeta: name, Rules: rules}))
	e.Must(api.Create(e.Ctx, &rbacv1.RoleBinding{
		ObjectMeta: name, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name.Name}, Subjects: to,
	}))
}

// An operator that OLM installs for some namespaces (OwnNamespace, SingleNamespace or MultiNamespace) has rights only
// in these namespaces, and sends no request about any other namespace. It then reports no missing IngressClass. The short form tests only MultiNamespace, which
// includes the other two.
func TestSomeNamespaces(t *testing.T) {
	for name, c := range map[string]struct{ own, further bool }{
		"own": {own: true}, "single": {further: true}, "multi": {own: true, further: true},
	} {
		t.Run(name, func(t *testing.T) {
			if name != "multi" {
				harness.Long(t)
			}
			home, further, stranger := parallel(t), alone(t), alone(t)
			token := home.newAccount("operator")
			rules, subject := home.rights(), home.subject("operator")
			home.grant(rules, subject) // OLM always creates the Role in the operator's namespace, too
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
				elects(o, home.Namespace)
			})
			ignored := stranger.Create(small())
			for _, target := range targets {
				ds := target.CreateReady(small(published("none")))
				if message := target.componentStatus(ds, "web").Message; message != "" {
					t.Errorf("the operator may not read IngressClasses, and reports: %s", message)
				}
				target.ChangeReady(ds, fields{"web": nil})
			}
			if left := get(stranger, &dsv1.DataService{}, ignored); left.Status.Phase != "" {
				t.Errorf("a DataService elsewhere is %s", left.Status.Phase)
			}
			home.equal("refused", asText(op.Since(0, func(r harness.Sent) bool { return r.Code == http.StatusForbidden || r.Code == http.StatusUnauthorized })), nil)
			home.equal("outside", asText(op.Since(0, func(r harness.Sent) bool {
				discovery := r.Namespace == "" && r.Name == "" && r.Resource != "" && r.Resource[0] == '/'
				election := r.Namespace == home.Namespace && (r.Resource == "leases" || r.Resource == "events")
				own := r.Resource == "selfsubjectaccessreviews" // about the operator's own rights to IngressClasses
				return !discovery && !election && !own && !slices.Contains(watched, r.Namespace)
			})), nil)
		})
	}
}

// A watched namespace without rights does not block other namespaces. The readiness check names the namespace. When the operator gets the
// rights, it restarts with a cache for the namespace; Run does this in one process.
func TestANamespaceWithoutRights(t *testing.T) {
	home, further := parallel(t), alone(t)
	token := home.newAccount("operator")
	rules, subject := home.rights(), home.subject("operator")
	home.grant(rules, subject)
	some := func(cfg *rest.Config, o *manager.Options) {
		as(cfg, token)
		o.WatchNamespaces, o.RightsPoll = []string{home.Namespace, further.Namespace}, 100*time.Millisecond
		elects(o, home.Namespace)
	}
	network, err := process.ClaimNetwork()
	home.Must(err)
	home.Cleanup(func() { home.Must(network.Release()) })
	cfg, options := rest.CopyConfig(config), harness.ManagerOptions("")
	some(cfg, &options)
	options.ProbeBindAddress = network.Next() + ":8081"
	account, err := client.New(cfg, client.Options{Scheme: api.Scheme()})
	home.Must(err)
	home.Until("the operator has its rights", func() error {
		return account.List(home.Ctx, &dsv1.DataServiceList{}, client.InNamespace(home.Namespace))
	})
	op, err := harness.Start(home.Ctx, cfg, options)
	home.Must(err)
	left := further.Create(small())
	home.CreateReady(small())
	if ds := get(further, &dsv1.DataService{}, left); ds.Status.Phase != "" {
		t.Errorf("a DataService where the operator has no rights is %s", ds.Status.Phase)
	}
	home.Until("the readiness names the namespace", func() error {
		response, err := http.Get("http://" + options.ProbeBindAddress + "/readyz/namespaces")
		if err != nil {
			return err
		}
		body, err := io.ReadAll(response.Body)
		return errors.Join(err, response.Body.Close(), harness.Mentions(string(body), further.Namespace))
	})
	further.grant(rules, subject)
	if err := op.Wait(); !errors.Is(err, manager.ErrRights) {
		t.Fatalf("the operator has ended with %v", err)
	}
	home.Start(some)
	further.Ready(left)
}
