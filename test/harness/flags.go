// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"flag"
	"strconv"
)

// AtOnce says how many tests of this process run at a time, unless the command line does.
func AtOnce(tests int) {
	if !Given("test.parallel") {
		_ = flag.Set("test.parallel", strconv.Itoa(tests)) // the flag takes any number
	}
}

// Given reports whether a flag was given.
func Given(name string) bool {
	if !flag.Parsed() {
		flag.Parse()
	}
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == name })
	return given
}
