// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package compat embeds the installed CustomResourceDefinitions of the kinds AppService, ModelBox and CronTab.
package compat

import "embed"

// Files are the CustomResourceDefinitions, as YAML.
//
//go:embed bases/*.yaml
var Files embed.FS
