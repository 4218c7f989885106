// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package plan computes the objects of a DataService from graph, values and charts. It computes them for all components at once, before any
// object is written (plan.go). The operator applies a plan. The command `render` prints a plan (preview.go).
//
// It also plans the Secrets of a DataService (credentials.go): Secrets with generated values, and Secrets with the passwords in the spec.
// Passwords reach pods only through Secrets. An existing value is never generated again.
package plan
