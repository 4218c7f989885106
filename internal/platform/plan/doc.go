// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package plan computes the objects of a DataService from graph, values and charts, for all components at once, before any object is
// written (plan.go). The operator applies a plan; the command `render` prints it (preview.go).
//
// It also plans the Secrets of a DataService (credentials.go): generated Secrets, and Secrets with the passwords from the spec: passwords
// reach pods only through Secrets. An existing value is never generated again.
package plan
