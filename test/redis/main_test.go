// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package redis_test holds what the operator does with real redis-server processes against what it promises.
package redis_test

import "fmt"

var errorf = fmt.Errorf
