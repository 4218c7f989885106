// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	dsv1 "d3os.com/d3os-operator/api/v1"
)

// Style is the layout of a screen.
type Style struct {
	// Color prints phases and marks in colours, with the codes of ECMA-48.
	Color bool
	// Width is the maximum number of columns of lists; 0 means no limit. A cause is never truncated.
	Width int
	// Verbose turns off summaries and truncation.
	Verbose bool
}

// The colours.
const (
	red    = "\x1b[31m"
	yellow = "\x1b[33m"
	green  = "\x1b[32m"
	plain  = "\x1b[0m"
)

// colors matches the escape sequences of Style, and all other control characters.
var colors = regexp.MustCompile("\x1b\\[(?:31|33|32|0)m|[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x{9f}]")

// Printable replaces control characters by their escapes, so that a pod's log or message cannot control the terminal. It keeps newlines,
// tabs and the colours of a Style.
func Printable(text string) string {
	return colors.ReplaceAllStringFunc(text, func(found string) string {
		if len(found) > len("\u009f") {
			return found
		}
		return fmt.Sprintf(`\u%04x`, []rune(found)[0]) // also an escape of JSON and YAML
	})
}

// Paint returns a text in the colour of a phase.
func (s Style) Paint(phase dsv1.Phase, text string) string {
	switch phase {
	case dsv1.PhaseRunning:
		return s.paint(green, text)
	case dsv1.PhaseDegraded, dsv1.PhaseFailed:
		return s.paint(red, text)
	default:
		return s.paint(yellow, text)
	}
}

// Bad returns a text in the colour of errors.
func (s Style) Bad(text string) string { return s.paint(red, text) }

func (s Style) paint(color, text string) string {
	if !s.Color || text == "" {
		return text
	}
	return color + text + plain
}

// cut truncates a text to a number of columns.
func (s Style) cut(text string, columns int) string {
	if s.Width == 0 || s.Verbose || utf8.RuneCountInString(text) <= columns {
		return text
	}
	const more = "…"
	return string([]rune(text)[:max(columns-1, 0)]) + more
}

// Age prints the age of a time briefly: 6m, 12d. For nil it prints "-".
func Age(since *metav1.Time, now time.Time) string {
	if since.IsZero() {
		return "-"
	}
	return duration.HumanDuration(max(now.Sub(since.Time), 0))
}

// cell is a text in a table. If it has a phase, it is printed in the phase's colour.
type cell struct {
	text  string
	phase dsv1.Phase
}

// table prints rows in columns as wide as their widest cell. It truncates the last column to the width of the style.
func (s Style) table(rows [][]cell) string {
	var widths []int
	for _, row := range rows {
		for i, c := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(c.text))
		}
	}
	var out strings.Builder
	for _, row := range rows {
		var line strings.Builder
		column := 0
		for i, c := range row {
			text := c.text
			if i == len(row)-1 {
				text = s.cut(text, s.Width-column)
			}
			padding := ""
			if i < len(row)-1 {
				padding = strings.Repeat(" ", widths[i]-utf8.RuneCountInString(text)+2)
			}
			if c.phase != "" {
				text = s.Paint(c.phase, text)
			}
			line.WriteString(text + padding)
			column += widths[i] + 2
		}
		out.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	return out.String()
}

// Columns prints rows of text in columns. The first row contains the titles.
func (s Style) Columns(rows [][]string) string {
	cells := make([][]cell, len(rows))
	for i, row := range rows {
		for _, text := range row {
			cells[i] = append(cells[i], cell{text: text})
		}
	}
	return s.table(cells)
}
