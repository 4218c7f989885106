// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package crd embeds the installed CustomResourceDefinitions of the operator's kinds.
package crd

import "embed"

// Files are the CustomResourceDefinitions, as YAML.
//
//go:embed bases/*.yaml
var Files embed.FS
