// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// document is a page of Markdown with the commands in it.
type document struct {
	path     string
	sections map[string][]*commands
	order    []*commands
}

// commands is one fenced block, which runs as a whole.
type commands struct {
	heading, text string
	ran           bool
}

// read finds the blocks marked sh below each heading.
func read(path string) (*document, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	d := &document{path: path, sections: map[string][]*commands{}}
	var heading string
	var block []string
	inside := false
	for line := range strings.Lines(string(content)) {
		line = strings.TrimRight(line, "\n")
		switch {
		case inside && line == "```":
			c := &commands{heading: heading, text: strings.Join(block, "\n")}
			d.sections[heading] = append(d.sections[heading], c)
			d.order = append(d.order, c)
			inside, block = false, nil
		case inside:
			block = append(block, line)
		case line == "```sh":
			inside = true
		case strings.HasPrefix(line, "#"):
			heading = strings.TrimSpace(strings.TrimLeft(line, "#"))
		}
	}
	if inside {
		return nil, fmt.Errorf("read %s: a block of commands has no end", path)
	}
	return d, nil
}

// run runs blocks of a section. numbers selects blocks, counted from 1; without numbers, all blocks run.
func (d *document) run(t *testing.T, heading string, numbers ...int) {
	t.Helper()
	blocks := d.sections[heading]
	if len(blocks) == 0 {
		t.Fatalf("%s has no commands below %q", d.path, heading)
	}
	if len(numbers) == 0 {
		for i := range blocks {
			numbers = append(numbers, i+1)
		}
	}
	for _, number := range numbers {
		if number > len(blocks) {
			t.Fatalf("%s has no block %d below %q", d.path, number, heading)
		}
		shell(t, blocks[number-1].text)
		blocks[number-1].ran = true
	}
}

// left returns the commands that never ran, except in sections that only the full form runs.
func (d *document) left() []string {
	var left []string
	for _, c := range d.order {
		if !c.ran && (full() || c.heading != olmV1) {
			left = append(left, c.text)
		}
	}
	return left
}
