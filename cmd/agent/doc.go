// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Command agent runs inside pods, next to the data, for the operator. It has no access to the Kubernetes API: it reports through its exit
// code, the last line of its output, and the container's termination message. docs/backup.md documents its flags and results; package
// contract defines the types.
package main
