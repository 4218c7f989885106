// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"testing"

	"gotest.tools/v3/assert"
	"k8s.io/apimachinery/pkg/api/resource"

	"d3os.com/d3os-operator/internal/contract"
)

func TestGrowthPolicy(t *testing.T) {
	at := func(percent, capacity int64) contract.Volume {
		return contract.Volume{Used: capacity / 100 * percent, Capacity: capacity}
	}
	ten := ClaimGrowth{Request: 10 * gi, Capacity: 10 * gi}
	for name, c := range map[string]struct {
		claim    ClaimGrowth
		fs       contract.Volume
		limit    string
		by       string
		to       string
		obstacle string
	}{
		"below the threshold":               {claim: ten, fs: at(79, 10*gi)},
		"at the threshold":                  {claim: ten, fs: contract.Volume{Used: 8 * gi, Capacity: 10 * gi}, to: "12Gi"},
		"completely full":                   {claim: ten, fs: at(100, 10*gi), to: "12Gi"},
		"the provider gave more":            {claim: ClaimGrowth{Request: 8 * gi, Capacity: 10 * gi}, fs: at(90, 10*gi), to: "12Gi"},
		"whole mebibytes":                   {claim: ClaimGrowth{Request: 1e9, Capacity: 1e9}, fs: at(90, 1e9), to: "1145Mi"},
		"at least a mebibyte":               {claim: ClaimGrowth{Request: 2 << 20, Capacity: 2 << 20}, fs: at(100, 2<<20), by: "1%", to: "3Mi"},
		"the limit is below the next size":  {claim: ten, fs: at(90, 10*gi), limit: "11Gi", to: "11Gi"},
		"a limit that is not in mebibytes":  {claim: ten, fs: at(90, 10*gi), limit: "11G", to: "10490Mi"},
		"the limit is reached":              {claim: ten, fs: at(90, 10*gi), limit: "10Gi", obstacle: "it has reached the limit of 10Gi: raise the limit of autoGrow, or delete data"},
		"the limit is below the size":       {claim: ten, fs: at(90, 10*gi), limit: "9Gi", obstacle: "it has reached the limit of 9Gi: raise the limit of autoGrow, or delete data"},
		"the volume has not grown yet":      {claim: ClaimGrowth{Request: 12 * gi, Capacity: 10 * gi, GrownFrom: 10 * gi}, fs: at(100, 10*gi)},
		"the file system has not grown":     {claim: ClaimGrowth{Request: 12 * gi, Capacity: 12 * gi, GrownFrom: 10 * gi}, fs: at(100, 10*gi), obstacle: "the claim has 12Gi, and its file system has not grown from 10Gi: see the events of the claim and of its pod"},
		"the last growth is finished":       {claim: ClaimGrowth{Request: 12 * gi, Capacity: 12 * gi, GrownFrom: 10 * gi}, fs: at(90, 12*gi), to: "14746Mi"},
		"grows only while unused":           {claim: ClaimGrowth{Request: 12 * gi, Capacity: 10 * gi, NeedsRestart: true}, fs: at(100, 10*gi), obstacle: "its storage class grows file systems only while no pod uses the volume: delete the pod that uses it"},
		"grows only while unused, not full": {claim: ClaimGrowth{Request: 12 * gi, Capacity: 10 * gi, NeedsRestart: true}, fs: at(50, 10*gi)},
		"the driver refuses":                {claim: ClaimGrowth{Request: 12 * gi, Capacity: 10 * gi, Refused: "no space in pool"}, fs: at(100, 10*gi), obstacle: "its driver cannot grow it to 12Gi: no space in pool"},
		"a folder on a node":                {claim: ten, fs: at(90, 500*gi), obstacle: "its file system has 500Gi, and the claim has 10Gi: its storage class does not enforce sizes, so a larger claim gets no more space"},
		"a file system without a size":      {claim: ten, fs: contract.Volume{}},
		"growth of a hundred percent":       {claim: ten, fs: at(90, 10*gi), by: "100%", to: "20Gi"},
		"a claim without a volume":          {claim: ClaimGrowth{Request: 10 * gi}, fs: at(90, 10*gi)},
		"an exabyte does not overflow":      {claim: ClaimGrowth{Request: 1 << 60, Capacity: 1 << 60}, fs: contract.Volume{Used: 1 << 60, Capacity: 1 << 60}, limit: "4Ei", by: "20%", to: "1319413953332Mi"},
		"a user has lowered the claim":      {claim: ClaimGrowth{Request: 9 * gi, Capacity: 10 * gi}, fs: at(85, 10*gi), to: "12Gi"},
		"the file system grew by a byte":    {claim: ClaimGrowth{Request: 12 * gi, Capacity: 12 * gi, GrownFrom: 10 * gi}, fs: at(85, 10*gi+1), to: "14746Mi"},
	} {
		t.Run(name, func(t *testing.T) {
			limit := c.limit
			if limit == "" {
				limit = "100Gi"
			}
			got := NewGrowthPolicy(resource.MustParse(limit), "", c.by).Decide(c.claim, c.fs)
			to := ""
			if got.To != 0 {
				to = SizeText(got.To)
				assert.Assert(t, got.To > max(c.claim.Request, c.claim.Capacity), "the claim must grow")
			}
			assert.Equal(t, to, c.to)
			assert.Equal(t, got.Obstacle, c.obstacle)
		})
	}
}
