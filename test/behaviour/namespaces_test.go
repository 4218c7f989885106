// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour_test

import (
	"net/http"
	"slices"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/manager"
	"d3os.com/d3os-operator/test/harness"
)

// rights are what OLM grants the operator, in the target namespaces and in its own.
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
