// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package server queries the members of etcd clusters and runs the steps that package membership decides. It connects to pods by their
// address, with one short connection to each in a pass; it keeps none.
package server
