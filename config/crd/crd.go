// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package crd holds the CustomResourceDefinitions of the operator's kinds, as
// they are installed.
package crd

import "embed"

// Files are the CustomResourceDefinitions, as YAML.
//
//go:embed bases/*.yaml
var Files embed.FS
