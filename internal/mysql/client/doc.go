// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package client reads the state of MySQL members from their agents, and sends orders to the agents. Requests use mutual TLS. Observer
// converts answers over time to the input of package replication.
package client
