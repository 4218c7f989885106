// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package bundle_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/test/harness"
)

// The operator plans or refuses specs that use many fields at once, up to the size that etcd accepts, in bounded time. Neighbours change the
// measured processor time, so make test omits this test.
func TestLargestSpecsPlanInTime(t *testing.T) {
	harness.Long(t)
	repeat := func(n int, format string) string {
		items := make([]string, n)
		for i := range items {
			items[i] = strings.ReplaceAll(format, "%d", fmt.Sprint(i+1))
		}
		return strings.Join(items, ",")
	}
	ports := `"ports":[` + repeat(64, `{"name":"p%d","port":%d}`) + `]`
	containers := `"podTemplate":{"spec":{"containers":[` + repeat(250, `{"name":"c%d","image":"x"}`) + `]}}`
	service := `"image":"b","config":{` + repeat(100, `"a.b%d":"x"`) + `},"envs":[` + repeat(100, `{"name":"V%d","value":"x"}`) + `],"port":80,"ingress":{"host":"a"}`
	for name, spec := range map[string]string{
		"ports":          `{"networkPolicy":{"enabled":true},"additionalServices":[` + strings.ReplaceAll(repeat(100, `{"name":"s%d","image":"b",PORTS}`), "PORTS", ports) + `]}`,
		"pods":           `{"additionalServices":[` + strings.ReplaceAll(repeat(100, `{"name":"s%d","image":"b",PODS}`), "PODS", containers) + `]}`,
		"services":       `{"additionalServices":[` + strings.ReplaceAll(repeat(100, `{"name":"s%d",REST}`), "REST", service) + `]}`,
		"backslashes":    `{"additionalServices":[{"name":"a","image":"b","config":{"a":"` + strings.Repeat(`\\\\`, 250_000) + `"}}]}`,
		"quotes":         `{"additionalServices":[{"name":"a","image":"b","config":{"a":"` + strings.Repeat(`\"\u0007x\u007f`, 50_000) + `"}}]}`,
		"emoji":          `{"additionalServices":[{"name":"a","image":"b","config":{"a":"` + strings.Repeat("😀", 250_000) + `"}}]}`,
		"settings":       `{"additionalServices":[` + strings.ReplaceAll(repeat(100, `{"name":"s%d","image":"b",CONFIG}`), "CONFIG", `"config":{`+repeat(700, `"a.b%d":"x"`)+`}`) + `]}`,
		"all-small":      `{"networkPolicy":{"enabled":true},"additionalServices":[` + repeat(100, `{"name":"s%d","image":"b","port":80,"autoscaling":{"max":3},"ingress":{"host":"h"},"config":{"a":"b"}}`) + `],"cronJobs":[` + repeat(100, `{"name":"j%d","image":"b","schedule":"@daily","config":{"a":"b"}}`) + `]}`,
		"small-all":      `{"networkPolicy":{"enabled":true},"additionalServices":[` + repeat(17, `{"name":"s%d","image":"b","port":80,"autoscaling":{"max":3},"ingress":{"host":"h"}}`) + `]}`,
		"small-services": `{"networkPolicy":{"enabled":true},"additionalServices":[` + repeat(35, `{"name":"s%d","image":"b"}`) + `]}`,
		"small-jobs":     `{"networkPolicy":{"enabled":true},"cronJobs":[` + repeat(25, `{"name":"s%d","image":"b","schedule":"@daily"}`) + `]}`,
	} {
		var value map[string]any
		assert.NilError(t, json.Unmarshal([]byte(spec), &value))
		isLarge := measure(t, name, all(t)[0], value)
		assert.Check(t, isLarge != strings.HasPrefix(name, "small"), name)
	}
}
