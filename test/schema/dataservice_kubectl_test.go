// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package schema_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/assert"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	dsv1 "d3os.com/d3os-operator/api/v1"
)

// kubectl runs kubectl in a namespace and returns its output and its error.
func kubectl(t *testing.T, namespace, input string, args ...string) (string, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config")
	c := clientcmdapi.NewConfig()
	c.Clusters["a"] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}
	c.AuthInfos["a"] = &clientcmdapi.AuthInfo{ClientCertificateData: config.CertData, ClientKeyData: config.KeyData}
	c.Contexts["a"] = &clientcmdapi.Context{Cluster: "a", AuthInfo: "a", Namespace: namespace}
	c.CurrentContext = "a"
	assert.NilError(t, clientcmd.WriteToFile(*c, file))
	cmd := exec.CommandContext(t.Context(), filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kubectl"), append([]string{"--kubeconfig", file}, args...)...)
	cmd.Stdin = strings.NewReader(input)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// ways are kubectl's forms of apply. docs/services.md documents which fields each form sends.
var ways = map[string][]string{"client-side": nil, "server-side": {"--server-side"}}

// Only server-side apply sends a null in a podTemplate. Both forms send a directive such as $patch.
func TestNullsInAPodTemplate(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ name, given, clientSide string }{
		"in a map":    {"map", "{spec: {securityContext: {runAsUser: null, fsGroup: 3}}}", "{spec: {securityContext: {fsGroup: 3}}}"},
		"in a list":   {"list", "{spec: {containers: [{name: web, livenessProbe: null}]}}", "{spec: {containers: [{name: web}]}}"},
		"a directive": {"directive", "{spec: {containers: [{name: web, securityContext: {$patch: replace, runAsGroup: 3}}]}}", ""},
	}
	var manifests []string
	for _, test := range tests {
		manifests = append(manifests, "apiVersion: d3os-product.com.d3os/v1\nkind: DataService\nmetadata: {name: "+test.name+"}\nspec: {web: {podTemplate: "+test.given+"}}\n")
	}
	for way, flags := range ways {
		namespace := newNamespace(t)
		out, err := kubectl(t, namespace, strings.Join(manifests, "---\n"), append([]string{"apply", "-f", "-"}, flags...)...)
		assert.NilError(t, err, out)
		for name, test := range tests {
			t.Run(name+", "+way, func(t *testing.T) {
				t.Parallel()
				want := test.given
				if way == "client-side" && test.clientSide != "" {
					want = test.clientSide
				}
				live, template := &unstructured.Unstructured{}, map[string]any{}
				live.SetGroupVersionKind(dsv1.GroupVersion.WithKind(dsv1.Kind))
				assert.NilError(t, api.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: test.name}, live))
				found, _, err := unstructured.NestedMap(live.Object, "spec", "web", "podTemplate")
				assert.NilError(t, err)
				assert.NilError(t, yaml.Unmarshal([]byte(want), &template))
				assert.Equal(t, cmp.Diff(template, normal(t, found)), "")
			})
		}
	}
}

// normal returns a value with the types that a YAML decoder produces.
func normal(t *testing.T, value map[string]any) (result map[string]any) {
	t.Helper()
	data, err := yaml.Marshal(value)
	assert.NilError(t, err)
	assert.NilError(t, yaml.Unmarshal(data, &result))
	return result
}

// kubectl diff shows no difference between an applied manifest and the stored object: defaults, and null for unset fields, do not count as
// differences. One kubectl process compares all manifests, because each start costs 0.2 s of processor time.
func TestManifestsAreAtRest(t *testing.T) {
	t.Parallel()
	samples, err := filepath.Glob("../../config/samples/*.yaml")
	assert.NilError(t, err)
	var manifests []string
	for _, file := range samples {
		data, err := os.ReadFile(file)
		assert.NilError(t, err)
		if strings.Contains(string(data), "kind: DataService\n") && filepath.Base(file) != "kustomization.yaml" && filepath.Base(file) != originalSample {
			manifests = append(manifests, dataServiceIn(t, string(data)))
		}
	}
	assert.Assert(t, len(manifests) > 4, "the samples are missing")
	all := strings.Join(manifests, "---\n")
	for way, flags := range ways {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			namespace := newNamespace(t)
			out, err := kubectl(t, namespace, all, append([]string{"apply", "-f", "-"}, flags...)...)
			assert.NilError(t, err, out)
			assert.Equal(t, strings.Count(out, "\n"), len(manifests), out)
			out, err = kubectl(t, namespace, all, append([]string{"diff", "-f", "-"}, flags...)...)
			assert.NilError(t, err, out)
		})
	}
}

// dataServiceIn returns the DataService of a file without its namespace.
func dataServiceIn(t *testing.T, file string) string {
	t.Helper()
	for document := range strings.SplitSeq(file, "\n---\n") {
		o := &unstructured.Unstructured{}
		assert.NilError(t, yaml.Unmarshal([]byte(document), &o.Object))
		if o.GetKind() == dsv1.Kind {
			o.SetNamespace("")
			text, err := yaml.Marshal(o.Object)
			assert.NilError(t, err)
			return string(text)
		}
	}
	t.Fatal("no DataService")
	return ""
}
