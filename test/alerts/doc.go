// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package alerts holds the tests of alerts, which the build tag alerts turns on.
package alerts
