// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour_test

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/test/harness"
)

// A password reaches pods through a Secret and is to be read nowhere else: no other object,
// no status, no event, no log.
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

// secret expects no word of these in anything but Secrets and the spec.
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
			e.Errorf("there was no %s to look at", kind)
		}
	}
	e.lacks("the log", suite.Logs.String(), passwords)
}

func (e *env) lacks(where, text string, passwords []string) {
	e.Helper()
	for _, password := range passwords {
		if len(password) < 8 {
			e.Errorf("%q is no password", password)
		}
		if strings.Contains(text, password) || strings.Contains(text, base64.StdEncoding.EncodeToString([]byte(password))) {
			e.Errorf("%s holds a password", where)
		}
	}
}
