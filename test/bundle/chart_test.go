// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package bundle_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	"d3os.com/d3os-operator/test/cluster"
)

const chartNamespace = "d3os-operator-system"

// chartObjects returns the objects that Helm installs, by kind, namespace and name.
func chartObjects(t *testing.T, settings ...string) map[string]map[string]any {
	t.Helper()
	out, err := helmTemplate(t, chartNamespace, settings...)
	assert.NilError(t, err, out)
	return objectsIn(t, out)
}

func helmTemplate(t *testing.T, namespace string, settings ...string) (string, error) {
	t.Helper()
	arguments := []string{"template", "d3os", "dist/chart", "--namespace", namespace, "--kube-version", "1.30.0"}
	for _, setting := range settings {
		arguments = append(arguments, "--set-json", setting)
	}
	return run(t, cmp.Or(os.Getenv("HELM"), filepath.Join(cluster.Root(), "bin/tools/helm")), arguments...)
}

// kustomized returns the objects that kustomize installs, with the image of the chart, by kind, namespace and name.
func kustomized(t *testing.T, folder string) map[string]map[string]any {
	t.Helper()
	kubectl := filepath.Join(cmp.Or(os.Getenv("KUBEBUILDER_ASSETS"), filepath.Join(cluster.Root(), "bin/tools")), "kubectl")
	out, err := run(t, kubectl, "kustomize", folder)
	assert.NilError(t, err, out)
	version, err := os.ReadFile(filepath.Join(cluster.Root(), "VERSION"))
	assert.NilError(t, err)
	return objectsIn(t, strings.ReplaceAll(out, "controller:latest", "registry-edge.cosmoplat.com/dataservice/d3os-operator:v"+strings.TrimSpace(string(version))))
}

// run runs a command in the root of the repository, and returns its standard output, or its standard error if the command fails.
func run(t *testing.T, name string, arguments ...string) (string, error) {
	t.Helper()
	command := exec.CommandContext(t.Context(), name, arguments...)
	command.Dir = cluster.Root()
	var stderr strings.Builder
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		return stderr.String(), err
	}
	return string(out), nil
}

func objectsIn(t *testing.T, documents string) map[string]map[string]any {
	t.Helper()
	found := map[string]map[string]any{}
	for from := utilyaml.NewYAMLOrJSONDecoder(strings.NewReader(documents), 1<<16); ; {
		object := &unstructured.Unstructured{}
		if err := from.Decode(object); errors.Is(err, io.EOF) {
			return found
		} else if err != nil {
			t.Fatal(err)
		}
		found[strings.Join([]string{object.GetKind(), object.GetNamespace(), object.GetName()}, "/")] = object.Object
	}
}

// With its default values, the chart installs the objects of kustomize except the Namespace. Uninstalling the chart keeps the CRDs.
func TestChartInstallsTheSame(t *testing.T) {
	t.Parallel()
	want, got := kustomized(t, "config/default"), chartObjects(t)
	delete(want, "Namespace//"+chartNamespace)
	for id, object := range got {
		if strings.HasPrefix(id, "CustomResourceDefinition/") {
			annotations := object["metadata"].(map[string]any)["annotations"].(map[string]any)
			assert.Equal(t, annotations["helm.sh/resource-policy"], "keep", id)
			delete(annotations, "helm.sh/resource-policy")
		}
	}
	assert.Assert(t, len(want) > 20)
	assert.DeepEqual(t, got, want)
}

// Each value changes the objects that its documentation names.
func TestChartValues(t *testing.T) {
	t.Parallel()
	small := chartObjects(t, "crd.enable=false", "rbacHelpers.enable=false", "metrics.enable=false", "manager.replicas=1",
		`manager.watchNamespaces=["a","b"]`, `manager.args=["--max-rollouts=2"]`, `manager.env=[{"name":"HTTPS_PROXY","value":"{{ p }}"}]`,
		`manager.image.digest="sha256:`+strings.Repeat("0", 64)+`"`, `manager.tolerations=[{"key":"a"}]`, `relatedImages.MYSQL="mirror/mysql:v1"`)
	assert.DeepEqual(t, slices.Sorted(maps.Keys(small)), []string{
		"ClusterRole//d3os-operator-ingressclass-role", "ClusterRole//d3os-operator-manager-role",
		"ClusterRoleBinding//d3os-operator-ingressclass-rolebinding", "Deployment/" + chartNamespace + "/d3os-operator-controller-manager",
		"Role/" + chartNamespace + "/d3os-operator-leader-election-role",
		"RoleBinding/a/d3os-operator-manager-rolebinding", "RoleBinding/b/d3os-operator-manager-rolebinding",
		"RoleBinding/" + chartNamespace + "/d3os-operator-leader-election-rolebinding", "RoleBinding/" + chartNamespace + "/d3os-operator-manager-rolebinding",
		"ServiceAccount/" + chartNamespace + "/d3os-operator-controller-manager",
	})
	binding := small["RoleBinding/b/d3os-operator-manager-rolebinding"]
	assert.DeepEqual(t, binding["subjects"], []any{map[string]any{"kind": "ServiceAccount", "name": "d3os-operator-controller-manager", "namespace": chartNamespace}})
	pod := small["Deployment/"+chartNamespace+"/d3os-operator-controller-manager"]["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)
	manager := pod["containers"].([]any)[0].(map[string]any)
	assert.DeepEqual(t, manager["args"], []any{"--leader-elect", "--health-probe-bind-address=:8081", "--watch-namespaces=a,b", "--max-rollouts=2"})
	assert.Assert(t, strings.HasSuffix(manager["image"].(string), "/d3os-operator@sha256:"+strings.Repeat("0", 64)))
	env := manager["env"].([]any)
	assert.DeepEqual(t, env[len(env)-1], map[string]any{"name": "HTTPS_PROXY", "value": "{{ p }}"})
	assert.Assert(t, slices.ContainsFunc(env, func(variable any) bool {
		return variable.(map[string]any)["name"] == "RELATED_IMAGE_MYSQL" && variable.(map[string]any)["value"] == "mirror/mysql:v1"
	}))
	assert.DeepEqual(t, pod["tolerations"], []any{map[string]any{"key": "a"}})

	more := chartObjects(t, "crd.keep=false", "prometheus.enable=true", "admission.enable=true")
	for id, object := range kustomized(t, "config/admission") {
		assert.DeepEqual(t, more[id], object)
	}
	for id, object := range kustomized(t, "config/prometheus") { // these objects lack the namespace and the name prefix of config/default
		kind, namespace, name := id[:strings.Index(id, "/")], chartNamespace, id[strings.LastIndex(id, "/")+1:]
		if kind == "ClusterRoleBinding" {
			namespace = ""
		}
		made := more[kind+"/"+namespace+"/d3os-operator-"+name]
		assert.Assert(t, made != nil, id)
		if kind == "PrometheusRule" {
			assert.DeepEqual(t, made["spec"], object["spec"])
		}
	}
	annotations, _, err := unstructured.NestedMap(more["CustomResourceDefinition//dataservices.d3os-product.com.d3os"], "metadata", "annotations")
	assert.NilError(t, err)
	assert.Assert(t, annotations["helm.sh/resource-policy"] == nil)

	for setting, message := range map[string]string{
		`manager.replica=1`: "replica", `manager.watchNamespaces="a,b"`: "watchNamespaces", `manager.image.digest="latest"`: "digest", `crd=true`: "crd",
	} {
		out, err := helmTemplate(t, chartNamespace, setting)
		assert.Assert(t, err != nil, setting)
		assert.Assert(t, strings.Contains(out, message), "%s: %s", setting, out)
	}
}

// The policy for authors exempts the operator's account in config/default, in the chart (any namespace), and in the bundle (suggested
// namespace).
func TestAuthorsPolicyNamesTheOperator(t *testing.T) {
	t.Parallel()
	const policy = "ValidatingAdmissionPolicy//d3os-operator-authors"
	exempted := func(object map[string]any) string {
		conditions, _, err := unstructured.NestedSlice(object, "spec", "matchConditions")
		assert.NilError(t, err)
		for _, condition := range conditions {
			if fields := condition.(map[string]any); fields["name"] == "not-the-operator" {
				_, name, found := strings.Cut(fields["expression"].(string), "request.userInfo.username != ")
				assert.Assert(t, found, "%v", fields["expression"])
				return strings.Trim(name, "'")
			}
		}
		t.Fatal("the policy has no condition for the operator")
		return ""
	}
	account := func(objects map[string]map[string]any, namespace string) string {
		deployment := objects["Deployment/"+namespace+"/d3os-operator-controller-manager"]
		name, _, err := unstructured.NestedString(deployment, "spec", "template", "spec", "serviceAccountName")
		assert.NilError(t, err)
		assert.Assert(t, objects["ServiceAccount/"+namespace+"/"+name] != nil, "%s has no ServiceAccount %q", namespace, name)
		return "system:serviceaccount:" + namespace + ":" + name
	}
	ofKustomize := exempted(kustomized(t, "config/admission")[policy])
	assert.Equal(t, ofKustomize, account(kustomized(t, "config/default"), chartNamespace))
	for _, namespace := range []string{chartNamespace, "elsewhere"} {
		out, err := helmTemplate(t, namespace, "admission.enable=true")
		assert.NilError(t, err, out)
		objects := objectsIn(t, out)
		assert.Equal(t, exempted(objects[policy]), account(objects, namespace))
	}
	bundled := read[csv](t, csvFile)
	assert.Equal(t, ofKustomize, "system:serviceaccount:"+bundled.Annotations["operatorframework.io/suggested-namespace"]+":"+
		bundled.Spec.Install.Spec.Deployments[0].Spec.Template.Spec.ServiceAccountName)
	// The command of SECURITY.md and of config/admission replaces only the namespace in the account's name.
	const sed = "sed 's/:d3os-operator-system:/:NAMESPACE:/'"
	for _, file := range []string{"SECURITY.md", "config/admission/kustomization.yaml"} {
		assert.Assert(t, strings.Contains(string(mustRead(t, file)), sed), file)
	}
	assert.Equal(t, strings.Count(string(mustRead(t, "config/admission/authors.yaml")), ":"+chartNamespace+":"), 1)
}

// Prometheus reads the metrics with a token of an account that may read them. A Secret holds the token. OpenShift refuses a ServiceMonitor
// that names files in Prometheus' container.
func TestPrometheusMayReadMetrics(t *testing.T) {
	t.Parallel()
	const namespace = "elsewhere"
	out, err := helmTemplate(t, namespace, "prometheus.enable=true")
	assert.NilError(t, err, out)
	objects := objectsIn(t, out)
	of := func(id string, path ...string) any {
		t.Helper()
		object, ok := objects[id]
		assert.Assert(t, ok, id)
		value, _, err := unstructured.NestedFieldNoCopy(object, path...)
		assert.NilError(t, err)
		return value
	}
	endpoints := of("ServiceMonitor/"+namespace+"/d3os-operator-controller-manager-metrics-monitor", "spec", "endpoints").([]any)
	assert.Equal(t, len(endpoints), 1)
	endpoint := endpoints[0].(map[string]any)
	assert.Equal(t, endpoint["scheme"], "https")
	text, err := json.Marshal(endpoint)
	assert.NilError(t, err)
	for _, file := range []string{"bearerTokenFile", "caFile", "certFile", "keyFile", "credentialsFile"} {
		assert.Check(t, !strings.Contains(string(text), file), "%s in %s", file, text)
	}
	key, _, err := unstructured.NestedStringMap(endpoint, "authorization", "credentials")
	assert.NilError(t, err)
	assert.Equal(t, key["key"], "token")
	secret := "Secret/" + namespace + "/" + key["name"]
	assert.Equal(t, of(secret, "type"), "kubernetes.io/service-account-token")
	account, _ := of(secret, "metadata", "annotations", "kubernetes.io/service-account.name").(string)
	of("ServiceAccount/"+namespace+"/"+account, "metadata")

	const binding = "ClusterRoleBinding//d3os-operator-prometheus-reader-rolebinding"
	assert.DeepEqual(t, of(binding, "subjects"), []any{map[string]any{"kind": "ServiceAccount", "name": account, "namespace": namespace}})
	role, _ := of(binding, "roleRef", "name").(string)
	assert.DeepEqual(t, of("ClusterRole//"+role, "rules"), []any{map[string]any{"nonResourceURLs": []any{"/metrics"}, "verbs": []any{"get"}}})
}
