// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Command troubleshooting writes the tables of docs/operate/troubleshooting.md (make docs).
package main

import (
	"fmt"
	"os"

	"d3os.com/d3os-operator/test/why"
)

const page = "docs/operate/troubleshooting.md"

func main() {
	if err := write(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func write() error {
	causes, err := why.Page()
	if err != nil {
		return err
	}
	text, err := os.ReadFile(page)
	if err != nil {
		return fmt.Errorf("read the page: %w", err)
	}
	//nolint:gosec // the path is a constant
	if err := os.WriteFile(page, []byte(why.Fill(string(text), causes)), 0o600); err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	return nil
}
