// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package plugin computes the output of the kubectl plugin. It imports the API of DataServices, because it prints their specs and statuses.
//
//   - platform.go, fleet.go and events.go print DataServices: a screen is a pure function of resources, a time and a style.
//   - foresee.go plans DataServices as an operator would; diff.go computes the changes that the operator would make, by the operator's own
//     code (apply.Judge).
//   - past.go lists the earlier specs of a DataService, and computes the spec for a rollback to one of them.
package plugin
