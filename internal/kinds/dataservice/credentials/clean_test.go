// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package credentials

import (
	"encoding/base64"
	"testing"

	"gotest.tools/v3/assert"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func unstructuredOf(kind, name string, more map[string]any) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"kind": kind}}
	o.SetName(name)
	for key, value := range more {
		o.Object[key] = value
	}
	return o
}

// Containers get a user's account in their environment without the newline at its end: from a copy, where the Secret has one. What is
// refused is named before anything is made with it, and what already runs with such a value goes on with it.
func TestUserAccountIsCleanInEveryContainer(t *testing.T) {
	t.Parallel()
	const mysql, elsewhere = "{mysql: {credentialsSecret: mine}}", "{mysql: {kind: 3, thirdParty: {url: 'mysql://a', secretRef: {name: mine}}}}"
	const redis, cluster = "{redis: {kind: ThirdParty, thirdParty: {url: 'redis://a', secretRef: {name: mine}}}}", "{redis: {credentialsSecret: mine}}"
	claimed := unstructuredOf("PersistentVolumeClaim", claim, nil)
	runs := unstructuredOf("Deployment", "web", map[string]any{"spec": []any{map[string]any{"valueFrom": map[string]any{"secretKeyRef": map[string]any{"name": "mine"}}}}})
	copied := unstructuredOf("Secret", "mysql-dataservice-clean", nil)
	for name, test := range map[string]struct {
		spec, password string
		live           *unstructured.Unstructured
		want, err      string
	}{
		"clean":                     {mysql, "pw", nil, "mine", ""},
		"a newline":                 {mysql, "pw\n", nil, "mysql-dataservice-clean", ""},
		"a newline elsewhere":       {elsewhere, "pw\n", nil, "mysql-dataservice-clean", ""},
		"a newline of redis":        {redis, "pw\n", nil, "redis-external-clean", ""},
		"a newline of a cluster":    {cluster, "pw\n", nil, "redis-password", ""},
		"a cluster":                 {cluster, "pw", nil, "mine", ""},
		"empty":                     {mysql, "", nil, "", "mysql: the key password of Secret mine is not used: it is empty"},
		"two newlines":              {elsewhere, "pw\n\n", nil, "", "mysql: the key password of Secret mine is not used: it has the control character 0x0a"},
		"made of 0.2.0":             {mysql, "pw\n", claimed, "mine", ""},
		"made of 0.2.0, with a tab": {mysql, "p\tw", claimed, "mine", ""},
		"made of 0.2.0, to restore": {"{mysql: {credentialsSecret: mine, backup: {destination: {claim: {name: c}}}}}", "pw\n", claimed, "", "change that password in the database and in the Secret"},
		"runs since 0.2.0":          {elsewhere, "pw\n", runs, "mine", ""},
		"made with the copy":        {mysql, "pw\n", copied, "mysql-dataservice-clean", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, test.spec)
			f.others = &Users{
				Live: func(string, string) (*unstructured.Unstructured, error) {
					value := func(text string) any { return base64.StdEncoding.EncodeToString([]byte(text)) }
					return unstructuredOf("Secret", "mine", map[string]any{"data": map[string]any{keyRootPassword: value("r"), keyUsername: value("u"), keyPassword: value(test.password)}}), nil
				},
				List: func(kind string) ([]*unstructured.Unstructured, error) {
					if test.live != nil && test.live.GetKind() == kind {
						return []*unstructured.Unstructured{test.live}, nil
					}
					return nil, nil
				},
			}
			if test.live != nil {
				f.live[test.live.GetKind()+"/"+test.live.GetName()] = test.live
			}
			p, err := f.try(NewKeeper())
			if test.err != "" {
				assert.ErrorContains(t, err, test.err)
				return
			}
			assert.NilError(t, err)
			got := p.Credentials.MySQLSecret
			if got == "" {
				got = p.Credentials.RedisSecret
			}
			assert.Equal(t, got, test.want)
			if test.want == "mysql-dataservice-clean" {
				assert.Equal(t, valuesOf(t, p, test.want)[keyPassword], "pw")
			}
		})
	}
}
