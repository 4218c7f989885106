// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package client reads the state of MySQL members from their agents, and gives them orders. Requests go over mutual TLS. Observer turns
// answers over time into the input of package replication.
package client
