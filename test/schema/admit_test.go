// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package schema_test

import (
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/test/admit"
)

// The API server refuses the spec of each row with a message that names the row's field. It accepts a row without a field. The tests of
// DataServices contain a case for each pattern and rule.
func TestMistakes(t *testing.T) {
	t.Parallel()
	const (
		cron      = "cronJobs: [{name: a, image: b, command: [c], schedule: "
		elsewhere = "mongodb: {kind: ThirdParty, thirdParty: "
	)
	admitter, err := admit.New()
	assert.NilError(t, err)
	for _, row := range []struct{ spec, field string }{
		{"mongodb: {}", ""},
		{"mongodb: {replicas: 0}", "spec.mongodb.replicas"},
		{"mongodb: {replicas: -1}", "spec.mongodb.replicas"},
		{"mongodb: {replicas: 8}", "spec.mongodb.replicas"},
		{"mongodb: {replicas: 2147483648}", "spec.mongodb.replicas"},
		{"mongodb: {replicas: 2.5}", "spec.mongodb.replicas"},
		{"mongodb: {replicas: '3'}", "spec.mongodb.replicas"},
		{"mongodb: {storage: {size: 0}}", "spec.mongodb.storage.size"},
		{"mongodb: {storage: {size: -1Gi}}", "spec.mongodb.storage.size"},
		{elsewhere + "{url: 'mongodb://a'}, replicas: 3}", ""}, // fields of kind Managed require that kind

		{cron + "'*/5 * * * *'}]", ""},
		{cron + "'* * * * * *'}]", ""},
		{cron + "'0 3 30 * *'}]", ""},
		{cron + "'0 3 * * 7'}]", "spec.cronJobs[0].schedule"},
		{cron + "'0 3 * * 0-7'}]", "spec.cronJobs[0].schedule"},
		{cron + "'0 24 * * *'}]", "spec.cronJobs[0].schedule"},
		{cron + "'0 3 * * Sunday'}]", ""}, // the operator refuses names that the parser does not know, see TestSchedules in internal/platform/values
		{cron + "'0 3 L * *'}]", ""},
		{cron + "'0 * * * * *', backoffLimit: 0}]", ""},
		{cron + "'* * * * * *', successfulJobsHistoryLimit: 3, restartPolicy: OnFailure}]", ""}, // default values
		{cron + "'* * * * * *', concurrencyPolicy: Wait}]", "spec.cronJobs[0].concurrencyPolicy"},
		{cron + "'* * * * * *', activeDeadlineSeconds: 0}]", "spec.cronJobs[0].activeDeadlineSeconds"},
		{cron + "'* * * * * *', startingDeadlineSeconds: -1}]", "spec.cronJobs[0].startingDeadlineSeconds"},
	} {
		spec := map[string]any{}
		text, err := yaml.YAMLToJSON([]byte(row.spec))
		assert.NilError(t, err)
		assert.NilError(t, json.Unmarshal(text, &spec)) // keeps whole numbers whole, as in the API server
		err = admitter.Admit(map[string]any{
			"apiVersion": dsv1.GroupVersion.String(), "kind": dsv1.Kind, "metadata": map[string]any{"name": "platform"}, "spec": spec,
		})
		if row.field == "" {
			assert.Check(t, err == nil, "%s: %v", row.spec, err)
			continue
		}
		assert.Check(t, err != nil && strings.Contains("\n"+err.Error(), "\n"+row.field+":"), "%s: %v", row.spec, err)
	}
}
