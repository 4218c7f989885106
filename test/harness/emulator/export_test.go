// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package emulator

// Orphan is what the test binary does in TestProcessesEndWithTheTestsProcess.
var Orphan = orphan
