// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestTranslateReplacesWholePathsOnly(t *testing.T) {
	p := &Paths{}
	p.Add("/data", "/here/claim")
	p.Add("/data/deep", "/here/deep")
	p.Add("/etc/app.conf", "/here/conf")
	for text, want := range map[string]string{
		"/data":                      "/here/claim",
		"/data/":                     "/here/claim/",
		"dir=/data/x --dir=/data":    "dir=/here/claim/x --dir=/here/claim",
		"/data/deep/x":               "/here/deep/x",
		"/data/deeper":               "/here/claim/deeper",
		"/database":                  "/database",
		"/data2":                     "/data2",
		"/srv/data":                  "/srv/data",
		"my/data":                    "my/data",
		"unix:///data/socket":        "unix:///here/claim/socket",
		"/data:/data/deep,'/data'":   "/here/claim:/here/deep,'/here/claim'",
		"include /etc/app.conf\n#/x": "include /here/conf\n#/x",
		"/etc/app.conf.d":            "/etc/app.conf.d",
		"":                           "",
	} {
		if got := p.Translate(text); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
}

func TestExpand(t *testing.T) {
	env := []corev1.EnvVar{{Name: "A", Value: "1"}, {Name: "B", Value: "$(A)"}, {Name: "A", Value: "2"}}
	for text, want := range map[string]string{
		"$(A)": "2", "x$(B)y": "x$(A)y", "$$(A)": "$(A)", "$(C)": "$(C)", "$A $": "$A $", "$(A": "$(A", "$$$(A)": "$2",
	} {
		if got := Expand(text, env); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
}
