// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package server queries the members of etcd clusters, and runs the steps that package membership decides. In each pass, it opens one short
// connection to each pod, by the pod's address. It keeps no connection.
package server
