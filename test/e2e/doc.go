// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package e2e contains tests behind the build tag e2e. This file lets commands without that tag find the package.
package e2e
