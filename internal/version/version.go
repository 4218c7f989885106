// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package version knows which version of the operator this binary is.
package version

// Version is set by the build from the file VERSION.
var Version = "0.0.0-dev"
