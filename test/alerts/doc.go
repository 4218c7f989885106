// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package alerts contains the tests of alerts. Go compiles them only with the build tag alerts.
package alerts
