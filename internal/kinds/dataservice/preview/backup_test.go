// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package preview

import (
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"d3os.com/d3os-operator/internal/kinds/dataservice/credentials"
	"d3os.com/d3os-operator/internal/kinds/dataservice/plan"
	"d3os.com/d3os-operator/internal/kinds/dataservice/values"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/render"
)

// backedUp is a DataService with backups to a bucket, at any moment, and checked; its Service is headless, with a port of its own.
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

// podsIn returns the specs of pods in an object, wherever they are.
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

// secretsOf are the Secrets that a pod mounts.
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

// What opens the store is in the pods of backups alone, the private key in those alone that read one, and each has the
// password of its own account. All of them reach the server at the port that its Service leads to.
func TestBackupsHaveWhatTheyNeedAndNoMore(t *testing.T) {
	t.Parallel()
	const users = "mysql-dataservice-users"
	want := map[string][]string{
		"mysql":         {users}, // the pod of the server makes the accounts
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
	objects, err := Planned(ds, plan.NewPlanner(renderer, map[string]string{values.AgentImage: "example/agent:v1"}), credentials.NewPreview(), none)
	assert.NilError(t, err)
	return objects
}

// backup.podTemplate reaches every pod that looks after backups, also that of the archive, whose container has another name, and no
// pod of the database.
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
