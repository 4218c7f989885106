// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package server asks the members of etcd clusters what they are and see, and
// takes the steps that package membership decides on. It dials pods by their
// address, one short connection to each in a pass; none is kept.
package server
