// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/manager"
	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/harness/stage"
)

// The threats by a DataService's author; SECURITY.md lists them.

// T1, T5. A command of the resource runs in a pod of the author's namespace, and the operator connects
// to nothing that the resource names.
func TestThreatCommandsAndAddresses(t *testing.T) {
	e := parallel(t)
	trap, err := net.Listen("tcp", "127.0.0.1:0")
	e.Must(err)
	defer func() { _ = trap.Close() }()
	var calls atomic.Int32
	go func() {
		for {
			c, err := trap.Accept()
			if err != nil {
				return
			}
			calls.Add(1)
			_ = c.Close()
		}
	}()
	mark := filepath.Join(t.TempDir(), "command")
	run := "touch " + mark + " $(touch " + mark + ")"
	server, err := url.Parse(config.Host)
	e.Must(err)
	_, hosts := e.startNoting(func(r *http.Request) string { return r.URL.Host })
	e.CreateReady(small(fields{
		"uuc":    fields{"kind": "ThirdParty", "thirdParty": fields{"url": "http://" + trap.Addr().String(), "checkCMD": run}},
		"eureka": fields{"kind": "ThirdParty", "thirdParty": fields{"url": "http://" + trap.Addr().String()}},
		"mysql":  fields{"kind": "ThirdParty", "thirdParty": fields{"url": "mysql://" + trap.Addr().String(), "checkCMD": run}},
		"auth":   fields{"podTemplate": fields{"spec": fields{"containers": []any{fields{"name": "auth", "command": []any{"sh", "-c", run}}}}}},
	}))
	probe := harness.Lookup[*appsv1.Deployment](e.Journal, "uuc-probe")
	if text := fmt.Sprint(probe.Spec.Template.Spec); !strings.Contains(text, mark) {
		t.Error("the command has not even reached the pod")
	}
	if _, err := os.Stat(mark); !os.IsNotExist(err) {
		t.Errorf("the command ran where the operator does: %v", err)
	}
	if n := calls.Load(); n > 0 {
		t.Errorf("the operator connected %d times to an address of the resource", n)
	}
	e.equal("hosts that the operator asked", hosts(), []string{server.Host})
}

// startNoting starts an operator, and notes a text about each of its requests.
func (e *env) startNoting(about func(*http.Request) string) (op *stage.Operator, noted func() []string) {
	e.Helper()
	var all sync.Map
	op = e.Start(func(cfg *rest.Config, _ *manager.Options) {
		cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return harness.Transport(func(r *http.Request) (*http.Response, error) {
				all.Store(about(r), true)
				return next.RoundTrip(r)
			})
		})
	})
	return op, func() (found []string) {
		all.Range(func(text, _ any) bool {
			found = append(found, text.(string))
			return true
		})
		return found
	}
}

// T3, T4. No field of a resource has an effect in another namespace, even for an operator that watches
// both namespaces and has all rights. Forged owners, labels and digests of another namespace have no
// effect.
func TestThreatOtherNamespaces(t *testing.T) {
	e, victim := parallel(t), alone(t)
	mine := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: victim.Namespace, Name: name} }
	secret := &corev1.Secret{ObjectMeta: mine("account"), StringData: map[string]string{"username": "u", "password": "victim-password"}}
	victim.Must(api.Create(e.Ctx, secret))
	forged := &corev1.ConfigMap{ObjectMeta: mine("auth"), Data: map[string]string{"mine": "yes"}}
	forged.Labels = map[string]string{"app.kubernetes.io/instance": sampleName, managedBy: "d3os-operator", "app.kubernetes.io/name": "auth"}
	forged.Annotations = map[string]string{"d3os-product.com.d3os/digest": "x"}
	victim.Must(api.Create(e.Ctx, forged))
	op := e.Start(func(_ *rest.Config, o *manager.Options) { o.WatchNamespaces = []string{e.Namespace, victim.Namespace} })
	victim.Until("the objects are seen", func() error {
		return stage.Unless(victim.Object("ConfigMap/auth") != nil && victim.Object("Secret/account") != nil, "not yet")
	})
	before := versions(victim.All()...)

	elsewhere := fields{"namespace": victim.Namespace, "ownerReferences": []any{fields{
		"apiVersion": "v1", "kind": "ConfigMap", "name": "auth", "uid": string(forged.UID),
	}}}
	name := e.CreateReady(small(fields{
		"auth":  fields{"podTemplate": fields{"metadata": elsewhere}},
		"proxy": fields{"podTemplate": fields{"metadata": elsewhere}},
		"mysql": fields{"kind": "ThirdParty", "thirdParty": fields{
			"url": "mysql://mysql." + victim.Namespace + ".svc:3306", "secretRef": fields{"name": "account"},
		}},
	}))
	e.ChangeReady(name, fields{"auth": fields{"image": "registry.example/auth:v2"}})
	e.remove(name)
	e.CreateReady(small(databaseOnly)) // a ready platform shows that the operator has handled the removal
	victim.CatchUp()
	e.equal("touched in the other namespace", victim.touched(before), nil)
	if now := len(victim.All()); now != len(before) {
		t.Errorf("the other namespace had %d objects and has %d", len(before), now)
	}
	e.equal("requests about the other namespace", asText(op.Since(0, func(r harness.Sent) bool {
		return r.Namespace == victim.Namespace && r.Verb != "list" && r.Verb != "watch"
	})), nil)
}

// T6. The operator lists only its own Secrets, by label. It reads two kinds of other Secrets by name: a Secret that it would write, and the
// account of a database, whose keys the kubelet mounts anyway. It reads, copies and names no other Secret that a resource mentions.
func TestThreatForeignSecrets(t *testing.T) {
	e := parallel(t)
	content := "foreign-" + e.Namespace
	for _, name := range []string{"foreign", "account", "mysql-dataservice-third-party"} {
		e.Must(api.Create(e.Ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: name}, StringData: map[string]string{"username": content, "password": content, "root-password": content},
		}))
	}
	const its = managedBy + "=d3os-operator"
	op, labels := e.startNoting(func(r *http.Request) string {
		if strings.HasSuffix(r.URL.Path, "/secrets") {
			return r.URL.Query().Get("labelSelector")
		}
		return its
	})
	name := e.CreateReady(small(fields{
		"mysql": fields{"credentialsSecret": "account"},
		"auth":  fields{"configFiles": []any{fields{"path": "/etc/foreign", "secret": "foreign"}}, "envFrom": []any{fields{"secretRef": fields{"name": "foreign"}}}},
	}))
	e.equal("requests for it", asText(op.Since(0, func(r harness.Sent) bool { return r.Resource == "secrets" && r.Name == "foreign" })), nil)
	account := asText(op.Since(0, func(r harness.Sent) bool { return r.Resource == "secrets" && r.Name == "account" }))
	e.equal("requests for the account", slices.Compact(account), []string{"get " + e.Namespace + "/secrets/account -> 200"})

	// If a foreign Secret has the name of an operator's Secret, the operator reads it to name the owner, and does not change it.
	e.Change(name, fields{"mysql": fields{"kind": "ThirdParty", "credentialsSecret": nil, "thirdParty": fields{
		"url": "mysql://db.example.org:3306", "username": "app", "password": "other-" + e.Namespace,
	}}})
	e.condition(name, dsv1.ConditionDegraded, metav1.ConditionTrue, dsv1.ReasonObjectConflict, "Secret mysql-dataservice-third-party")
	e.secret(content)
	for _, secret := range harness.Every[*corev1.Secret](e.Journal) {
		own := slices.Contains([]string{"foreign", "account", "mysql-dataservice-third-party"}, secret.Name)
		moved := false
		for _, value := range secret.Data {
			moved = moved || strings.Contains(string(value), content)
		}
		if own != moved {
			t.Errorf("Secret %s: its content has been moved", secret.Name)
		}
	}
	e.equal("labels of the Secrets that the operator asked for", labels(), []string{its})
}

// T7. Pod Security of the namespace applies to the pods of a resource as to pods that its author creates: the platform starts under
// "restricted", and a pod that violates this level is not created.
func TestThreatPrivilegedPods(t *testing.T) {
	e := parallel(t)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: e.Namespace}}
	e.Must(api.Patch(e.Ctx, namespace, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"restricted"}}}`))))
	e.Start()
	name := e.CreateReady(small()) // test/security judges the pods of all components
	for what, spec := range map[string]fields{
		"privileged":  {"containers": []any{fields{"name": "auth", "securityContext": fields{"privileged": true, "allowPrivilegeEscalation": true}}}},
		"hostPath":    {"volumes": []any{fields{"name": "node", "hostPath": fields{"path": "/"}}}},
		"hostNetwork": {"hostNetwork": true, "hostPID": true},
	} {
		e.Change(name, fields{"auth": fields{"podTemplate": fields{"spec": spec}}})
		e.condition(name, dsv1.ConditionDegraded, metav1.ConditionTrue, dsv1.ReasonComponentFailing, "auth", "violates PodSecurity", what)
		e.ChangeReady(name, fields{"auth": fields{"podTemplate": nil}})
	}
	for _, c := range e.Since(0) {
		if p, ok := c.Object.(*corev1.Pod); ok {
			spec, err := json.Marshal(p.Spec)
			e.Must(err)
			for _, breaksOut := range []string{`"privileged":true`, `"hostPath":`, `"hostNetwork":true`} {
				if strings.Contains(string(spec), breaksOut) {
					t.Errorf("Pod %s exists: %s", p.Name, spec)
				}
			}
		}
	}
}

// A password reaches pods only through a Secret. No other object, status, event or log contains the password.
func TestPasswordsStayInSecrets(t *testing.T) {
	e := parallel(t)
	e.Start()
	inline := "plain-" + e.Namespace
	name := e.CreateReady(small(fields{"mysql": fields{"kind": "ThirdParty", "thirdParty": fields{
		"url": "mysql://db.example.org:3306", "username": "app", "password": inline,
	}}}))
	changed := "other-" + e.Namespace
	e.ChangeReady(name, fields{"mysql": fields{"thirdParty": fields{"password": changed}}})
	e.ChangeReady(name, fields{"auth": fields{"image": "registry.example/auth:v2"}, "proxy": nil})
	secret := harness.Lookup[*corev1.Secret](e.Journal, "mysql-dataservice-third-party")
	if string(secret.Data["password"]) != changed {
		t.Error("the password is not in its Secret")
	}
	e.secret(inline, changed)

	e.ChangeReady(name, fields{"mysql": fields{"kind": "StatefulSet", "thirdParty": nil}})
	credentials := harness.Lookup[*corev1.Secret](e.Journal, "mysql-dataservice-credentials")
	platform := harness.Lookup[*corev1.Secret](e.Journal, "dataservice-sample-platform")
	e.secret(string(credentials.Data["password"]), string(credentials.Data["root-password"]),
		string(platform.Data["jwt-secret"]), string(platform.Data["gateway-password"]))
}

// secret expects that only Secrets and the spec contain the passwords.
func (e *env) secret(passwords ...string) {
	e.Helper()
	looked := map[string]bool{}
	for _, c := range e.Since(0) {
		var look any = c.Object
		switch obj := c.Object.(type) {
		case *corev1.Secret:
			continue
		case *dsv1.DataService:
			look = []any{obj.Status, obj.Annotations}
		}
		looked[harness.KindOf(c.Object)] = true
		text, err := json.Marshal(look)
		e.Must(err)
		e.lacks(c.ID, string(text), passwords)
	}
	for _, kind := range []string{"ConfigMap", "Deployment", "Pod", "DataService", "Service", "Event"} {
		if !looked[kind] {
			e.Errorf("no %s was checked", kind)
		}
	}
	e.lacks("the log", suite.Logs.String(), passwords)
}

func (e *env) lacks(where, text string, passwords []string) {
	e.Helper()
	for _, password := range passwords {
		if len(password) < 8 {
			e.Errorf("%q is too short for a password", password)
		}
		if strings.Contains(text, password) || strings.Contains(text, base64.StdEncoding.EncodeToString([]byte(password))) {
			e.Errorf("%s holds a password", where)
		}
	}
}
