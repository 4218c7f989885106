// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package client has no code: the packages below it are Go clients of the operator's resources, which k8s.io/code-generator makes of api/
// (make generate). clientset/versioned has typed clients, listers and informers read from a cache, applyconfiguration is for server-side apply.
package client
