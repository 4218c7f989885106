// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	"gotest.tools/v3/golden"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/platform/values"
	"d3os.com/d3os-operator/internal/render"
)

// backedUp is a DataService with backups to a bucket, point-in-time recovery and checks. Its Service is headless, with a custom port.
const backedUp = `
apiVersion: d3os-product.com.d3os/v1
kind: DataService
metadata:
  name: mysql-backup
  namespace: data
  uid: 11111111-2222-3333-4444-555555555555
spec:
  networkPolicy: {enabled: true}
  mysql:
    port: 3307
    serviceType: Headless
    serverVersion: "8.0"
    backup:
      destination:
        s3: {endpoint: "https://s3.example.com", bucket: backups, credentialsSecret: {name: store}}
      encryption: {recipients: [age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p]}
      schedule: "30 2 * * *"
      pointInTime: {}
      verify: {schedule: "0 5 * * 0", identitySecret: {name: private-key}}
`

// podsIn returns all pod specs in an object.
func podsIn(value any) []map[string]any {
	fields, _ := value.(map[string]any)
	if _, ok := fields["containers"]; ok {
		return []map[string]any{fields}
	}
	var found []map[string]any
	for _, field := range fields {
		found = append(found, podsIn(field)...)
	}
	return found
}

// secretsOf returns the Secrets that a pod mounts.
func secretsOf(pod map[string]any) []string {
	var names []string
	volumes, _ := pod["volumes"].([]any)
	for _, v := range volumes {
		if name, _, _ := unstructured.NestedString(v.(map[string]any), "secret", "secretName"); name != "" {
			names = append(names, name)
		}
	}
	return names
}

// Only backup pods have the credentials of the store. Only pods that read a backup have the private key. Each pod has the password of its
// account. All pods connect to the server at the port of the server's Service, and use the store as the same writer.
func TestBackupsHaveWhatTheyNeedAndNoMore(t *testing.T) {
	t.Parallel()
	const users = "mysql-dataservice-users"
	want := map[string][]string{
		"mysql":         {users}, // the pod of the server creates the accounts
		"mysql-backup":  {"store", users},
		"mysql-prune":   {"store"},
		"mysql-restore": {"store", "mysql-dataservice-credentials", "mysql-dataservice-identity"},
		"mysql-verify":  {"store", "private-key"},
		"mysql-archive": {"store", users},
	}
	objects := withAgent(t, backedUp)
	seen := 0
	for _, o := range objects {
		for _, pod := range podsIn(o.Object["spec"]) {
			label := o.GetLabels()[object.LabelBackup]
			switch label {
			case "":
				label = "mysql"
			case "mysql":
				label = "mysql-backup"
			}
			seen++
			got := secretsOf(pod)
			slices.Sort(got)
			slices.Sort(want[label])
			assert.DeepEqual(t, got, want[label])
			command, _, _ := unstructured.NestedStringSlice(pod["containers"].([]any)[0].(map[string]any), "command")
			for _, argument := range command {
				if server, ok := strings.CutPrefix(argument, "--server="); ok {
					assert.Equal(t, server, "mysql-dataservice:3307", o.GetName())
				}
			}
			if slices.Contains(got, "store") {
				arguments, _, _ := unstructured.NestedStringSlice(pod["containers"].([]any)[0].(map[string]any), "args")
				assert.Assert(t, is.Contains(append(command, arguments...), "--writer=11111111-2222-3333-4444-555555555555"), o.GetName())
			}
		}
	}
	assert.Equal(t, seen, len(want))
}

// withAgent plans a DataService with an image of the agent.
func withAgent(t *testing.T, text string) []*unstructured.Unstructured {
	t.Helper()
	ds, err := Parse([]byte(text))
	assert.NilError(t, err)
	renderer, err := render.New(KubeVersion)
	assert.NilError(t, err)
	none := func(string, string) (*unstructured.Unstructured, error) { return nil, nil }
	objects, err := Planned(ds, NewPlanner(renderer, map[string]string{values.AgentImage: "example/agent:v1"}), NewPreview(), none)
	assert.NilError(t, err)
	return objects
}

// If mysql runs outside of the cluster, the agent in the probe logs in to it, unless the spec sets a check. If the
// password changes, the probe restarts.
func TestTheAgentLogsInElsewhere(t *testing.T) {
	t.Parallel()
	const spec = "apiVersion: d3os-product.com.d3os/v1\nkind: DataService\nmetadata: {name: a, namespace: b}\nspec: {%s: {kind: 3, thirdParty: {url: '%s', %s}}}\n"
	for name, test := range map[string]struct {
		component, url, more string
		want                 bool
	}{
		"mysql":        {"mysql", "mysql://db.example", "username: u, password: p", true},
		"a check":      {"mysql", "mysql://db.example", "username: u, password: p, checkCMD: 'true'", false},
		"another kind": {"uuc", "mysql://db.example", "", false},
		"http":         {"uuc", "http://login.example", "", false},
	} {
		var probe *unstructured.Unstructured
		for _, o := range withAgent(t, fmt.Sprintf(spec, test.component, test.url, test.more)) {
			if o.GetKind() == "Deployment" {
				probe = o
			}
		}
		pod := podsIn(probe.Object["spec"])[0]
		command, _, _ := unstructured.NestedStringSlice(pod["containers"].([]any)[0].(map[string]any), "readinessProbe", "exec", "command")
		assert.Equal(t, slices.Equal(command, []string{"/d3os-agent/agent", "ping"}), test.want, "%s: %q", name, command)
		assert.Equal(t, pod["initContainers"] != nil, test.want, name)
		annotations, _, _ := unstructured.NestedMap(probe.Object, "spec", "template", "metadata", "annotations")
		_, restarts := annotations["checksum/credentials"]
		assert.Equal(t, restarts, test.component == "mysql", "%s: %v", name, annotations)
	}
}

// backup.podTemplate applies to every backup pod, including the archive's pod, whose container has another name. It applies to no pod of
// the database.
func TestPodTemplateOfBackupsReachesTheirPodsAlone(t *testing.T) {
	t.Parallel()
	objects := withAgent(t, backedUp+`      podTemplate:
        spec: {serviceAccountName: backups, containers: [{name: backup, env: [{name: NO_PROXY, value: .svc}]}]}
`)
	seen := 0
	for _, o := range objects {
		for _, pod := range podsIn(o.Object["spec"]) {
			isBackup := o.GetLabels()[object.LabelBackup] != ""
			assert.Equal(t, pod["serviceAccount"] == "backups" && pod["serviceAccountName"] == "backups", isBackup, o.GetName())
			containers := pod["containers"].([]any)
			env, _ := containers[0].(map[string]any)["env"].([]any)
			has := slices.ContainsFunc(env, func(v any) bool { return v.(map[string]any)["name"] == "NO_PROXY" })
			assert.Equal(t, has, isBackup, o.GetName())
			if isBackup {
				seen++
				assert.Equal(t, len(containers), 1, o.GetName())
			}
		}
	}
	assert.Equal(t, seen, 5)
}

// With method Files, the backup pod has a volume like the database's, the configuration of the database, and memory for
// a server. Besides the pod, only the list of accounts changes, and this restarts no pod.
func TestCopiedFilesHaveAVolume(t *testing.T) {
	t.Parallel()
	dumps := withAgent(t, backedUp)
	storage := "      method: Files\n    storage: {size: 30Gi, storageClassName: fast}\n"
	files := withAgent(t, backedUp+storage)
	plain := withAgent(t, backedUp+strings.Replace(storage, "Files", "Dump", 1))
	assert.Equal(t, len(plain), len(files))
	var changed []string
	for i := range plain {
		if !cmp.Equal(plain[i].Object, files[i].Object) {
			changed = append(changed, files[i].GetKind()+" "+files[i].GetName())
		}
	}
	slices.Sort(changed)
	assert.DeepEqual(t, changed, []string{"ConfigMap mysql-dataservice-accounts", "CronJob mysql-dataservice-backup"})
	of := func(objects []*unstructured.Unstructured) map[string]any {
		i := slices.IndexFunc(objects, func(o *unstructured.Unstructured) bool {
			return o.GetKind() == "CronJob" && o.GetName() == "mysql-dataservice-backup"
		})
		return podsIn(objects[i].Object["spec"])[0]
	}
	text, err := json.Marshal(of(files))
	assert.NilError(t, err)
	for _, part := range []string{`"--scratch=/d3os-scratch"`, `"storage":"30Gi"`, `"storageClassName":"fast"`, `"ephemeral"`, `/etc/mysql/conf.d`, `"memory":"1Gi"`} {
		assert.Assert(t, is.Contains(string(text), part))
	}
	text, err = json.Marshal(of(dumps))
	assert.NilError(t, err)
	assert.Assert(t, !strings.Contains(string(text), "scratch"), "%s", text)
}

// inputs returns the DataServices that the tests render, as name -> file.
func inputs(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob("testdata/*.yaml")
	assert.NilError(t, err)
	assert.Assert(t, len(files) > 10, "the inputs are missing")
	found := map[string]string{"sample": "../../../config/samples/d3os-product.com_v1_dataservice.yaml"}
	for _, file := range files {
		found[strings.TrimSuffix(filepath.Base(file), ".yaml")] = file
	}
	return found
}

func objectsOf(t *testing.T, file string) (*dsv1.DataService, []*unstructured.Unstructured) {
	t.Helper()
	data, err := os.ReadFile(file)
	assert.NilError(t, err)
	ds, err := Parse(data)
	assert.NilError(t, err)
	objects, err := Objects(ds, KubeVersion)
	assert.NilError(t, err)
	return ds, objects
}

func TestGolden(t *testing.T) {
	t.Parallel()
	for name, file := range inputs(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			assert.NilError(t, Run([]string{"-f", file, "-namespace", "data"}, nil, &out))
			golden.Assert(t, out.String(), filepath.Join("golden", name+".yaml"))
		})
	}
}

// Every golden file has an input: otherwise unused files would pass unnoticed.
func TestEveryGoldenFileHasAnInput(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/golden/*.yaml")
	assert.NilError(t, err)
	all := inputs(t)
	assert.Equal(t, len(files), len(all))
	for _, file := range files {
		assert.Assert(t, is.Contains(all, strings.TrimSuffix(filepath.Base(file), ".yaml")))
	}
}

// Only one Secret contains a password from the spec. No other object contains it, neither in plain text nor encoded.
func TestPasswordsAreInSecretsAlone(t *testing.T) {
	t.Parallel()
	const password = "distinctive-inline-password"
	_, objects := objectsOf(t, "testdata/mysql-third-party-inline.yaml")
	var holders []string
	for _, obj := range objects {
		text, err := json.Marshal(obj.Object)
		assert.NilError(t, err)
		if strings.Contains(string(text), password) || strings.Contains(string(text), base64.StdEncoding.EncodeToString([]byte(password))) {
			holders = append(holders, obj.GetKind()+"/"+obj.GetName())
		}
	}
	assert.DeepEqual(t, holders, []string{"Secret/mysql-dataservice-third-party"})
}

// A new password in the spec restarts auth, which logs in with the password, but not web.
func TestANewPasswordRestartsItsUsers(t *testing.T) {
	t.Parallel()
	ds, before := objectsOf(t, "testdata/mysql-third-party-inline.yaml")
	ds.Spec.MySQL.ThirdParty.Password = "another"
	after, err := Objects(ds, KubeVersion)
	assert.NilError(t, err)
	assert.Equal(t, len(before), len(after))
	var changed []string
	for i := range before {
		if !cmp.Equal(before[i], after[i]) {
			changed = append(changed, after[i].GetKind()+"/"+after[i].GetName())
		}
	}
	assert.DeepEqual(t, changed, []string{"Secret/mysql-dataservice-third-party", "Deployment/auth"})
}

func TestRunReadsStandardInputAndNamespace(t *testing.T) {
	t.Parallel()
	const text = "apiVersion: d3os-product.com.d3os/v1\nkind: DataService\nmetadata: {name: a}\nspec: {eureka: {}}\n"
	var out bytes.Buffer
	assert.NilError(t, Run([]string{"-namespace", "here"}, strings.NewReader(text), &out))
	assert.Equal(t, strings.Count(out.String(), "\n  namespace: here\n"), 2, out.String())

	out.Reset()
	inFile := strings.Replace(text, "{name: a}", "{name: a, namespace: there}", 1)
	assert.NilError(t, Run([]string{"-namespace", "here"}, strings.NewReader(inFile), &out))
	assert.Equal(t, strings.Count(out.String(), "\n  namespace: there\n"), 2, out.String())
}

func TestRunRefuses(t *testing.T) {
	t.Parallel()
	const ok = "apiVersion: d3os-product.com.d3os/v1\nkind: DataService\nmetadata: {name: a}\nspec: {eureka: {}}\n"
	for name, test := range map[string]struct {
		args  []string
		input string
		want  string
	}{
		"no YAML":           {nil, "a: b: c", "read the DataService in -"},
		"another kind":      {nil, "apiVersion: v1\nkind: Secret\n", "not a d3os-product.com.d3os/v1, Kind=DataService"},
		"no input":          {nil, "", "not a d3os-product.com.d3os/v1, Kind=DataService"},
		"a wrong type":      {nil, strings.Replace(ok, "eureka: {}", "eureka: {port: many}", 1), "cannot unmarshal"},
		"an unknown field":  {nil, strings.Replace(ok, "eureka: {}", "eureka: {replicas: 7}", 1), `unknown field "replicas"`},
		"an unknown kind":   {nil, strings.Replace(ok, "eureka: {}", "eureka: {kind: 7}", 1), "spec.eureka.kind: must be Deployment"},
		"a missing file":    {[]string{"-f", "testdata/none.yaml"}, "", "no such file"},
		"an unknown flag":   {[]string{"-bogus"}, ok, "flag provided but not defined"},
		"no version":        {[]string{"-kube-version", "newest"}, ok, `parse the cluster's version "newest"`},
		"an old Kubernetes": {[]string{"-kube-version", "v1.16.0"}, ok, "the cluster has v1.16.0"},
		"a contradiction":   {nil, strings.Replace(ok, "eureka: {}", "eureka: {dependsOn: [web]}", 1), `spec.eureka.dependsOn: "web" is not declared`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			err := Run(test.args, strings.NewReader(test.input), &out)
			assert.ErrorContains(t, err, test.want)
			assert.Equal(t, out.String(), "")
		})
	}
}
