// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Command agent is what the operator runs inside pods: it looks after data where the data is. It has no access to the
// Kubernetes API; it reports by its exit code, the last line of its output, and the container's termination message.
// docs/backup.md has its flags and results; package contract has the types.
package main
