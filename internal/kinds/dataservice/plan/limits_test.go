// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/internal/specfield"
)

// What is too large for the API server is a mistake in its field, and nothing below the limit is.
func TestSizes(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		spec, field string // %s stands for a text
		limit       int
	}{
		{"{eureka: {config: {a: '%s'}}}", "spec.eureka.config", 1 << 20},
		{"{eureka: {configFiles: [{path: /a, content: '%s'}]}}", "spec.eureka.configFiles", 1 << 20},
		{"{eureka: {annotations: {a: '%s'}}}", "spec.eureka.annotations", 256 << 10},
		{"{eureka: {serviceAnnotations: {a: '%s'}}}", "spec.eureka.serviceAnnotations", 256 << 10},
		{"{web: {ingress: {host: a, annotations: {a: '%s'}}}}", "spec.web.ingress.annotations", 256 << 10},
	} {
		p := newPlanner(t, nil)
		_, err := try(t, p, platform(t, fmt.Sprintf(test.spec, strings.Repeat("a", test.limit))), credentials)
		var mistake *specfield.Error
		assert.Assert(t, errors.As(err, &mistake), "%s: %v", test.spec, err)
		assert.Equal(t, mistake.Field, test.field)
		_, err = try(t, newPlanner(t, nil), platform(t, fmt.Sprintf(test.spec, strings.Repeat("a", test.limit-1000))), credentials)
		assert.NilError(t, err)
	}
}
