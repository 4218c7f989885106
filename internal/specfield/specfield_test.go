// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package specfield

import (
	"testing"

	"gotest.tools/v3/assert"
	corev1 "k8s.io/api/core/v1"
)

// An unknown field is named with its path, and with the field that was probably meant.
func TestUnknownFields(t *testing.T) {
	t.Parallel()
	type object = map[string]any
	const unknown = "unknown field: there is no such field"
	for name, test := range map[string]struct {
		given         object
		field, reason string
	}{
		"a letter too few":      {object{"terminationGracePeriodSecond": 1}, "spec.terminationGracePeriodSecond", unknown + "; did you mean 'terminationGracePeriodSeconds'?"},
		"upper case":            {object{"Hostname": "a"}, "spec.Hostname", unknown + "; did you mean 'hostname'?"},
		"the beginning":         {object{"tolera": "a"}, "spec.tolera", unknown + "; did you mean 'tolerations'?"},
		"below a list":          {object{"containers": []object{{"imagePullPolice": "a"}}}, "spec.containers[0].imagePullPolice", unknown + "; did you mean 'imagePullPolicy'?"},
		"below what is in line": {object{"volumes": []object{{"emptydirs": object{}}}}, "spec.volumes[0].emptydirs", unknown + "; did you mean 'emptyDir'?"},
		"like none":             {object{"colour": "a"}, "spec.colour", unknown},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := Decode("spec", test.given, &corev1.PodSpec{})
			assert.Error(t, err, test.field+": "+test.reason)
		})
	}
	assert.NilError(t, Decode("spec", object{"hostname": "a"}, &corev1.PodSpec{}))
}
