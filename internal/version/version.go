// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package version holds the version of the operator.
package version

import "k8s.io/apimachinery/pkg/util/version"

// Version is set by the build from the file VERSION.
var Version = "0.0.0-dev"

// Newer reports whether one version is newer than another by the rules of semantic versioning. It returns false for a version without an
// order: an empty version, or 0.0.0, the version of an unversioned build.
func Newer(a, than string) bool {
	x, y := parse(a), parse(than)
	return x != nil && y != nil && y.LessThan(x)
}

func parse(text string) *version.Version {
	v, err := version.ParseSemantic(text)
	if err != nil || v.Major() == 0 && v.Minor() == 0 && v.Patch() == 0 {
		return nil
	}
	return v
}
