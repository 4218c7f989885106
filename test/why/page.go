// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"sigs.k8s.io/yaml"

	"d3os.com/d3os-operator/test/cluster"
)

// Cause is a row of docs/operate/troubleshooting.md.
type Cause struct {
	Section string `json:"section"`
	// Says is the output of why, with … for the parts that vary.
	Says     string `json:"says"`
	Happened string `json:"happened"`
	Do       string `json:"do"`
	// Row is the row of the corpus with this cause. It is empty if a golden file of internal/plugin/why contains the cause.
	Row string `json:"row"`
}

// Pattern returns a pattern that matches the output of why.
func (c *Cause) Pattern() *regexp.Regexp {
	return regexp.MustCompile(strings.ReplaceAll(regexp.QuoteMeta(c.Says), "…", ".*"))
}

// Page returns the rows of the tables in docs/operate/troubleshooting.md, from test/why/page.yaml.
func Page() ([]Cause, error) {
	data, err := os.ReadFile(filepath.Join(cluster.Root(), "test/why/page.yaml"))
	if err != nil {
		return nil, fmt.Errorf("read the page about trouble: %w", err)
	}
	var causes []Cause
	if err := yaml.UnmarshalStrict(data, &causes); err != nil {
		return nil, fmt.Errorf("read test/why/page.yaml: %w", err)
	}
	return causes, nil
}

var table = regexp.MustCompile(`(?s)<!-- faults: ([^\n]*) -->\n.*?<!-- end -->`)

// Fill writes the rows into the tables of the page. A marker before each table names its section.
func Fill(page string, causes []Cause) string {
	return table.ReplaceAllStringFunc(page, func(old string) string {
		section := table.FindStringSubmatch(old)[1]
		var out strings.Builder
		fmt.Fprintf(&out, "<!-- faults: %s -->\n| `why` says | what happened | do |\n|---|---|---|\n", section)
		for _, c := range causes {
			if c.Section == section {
				fmt.Fprintf(&out, "| `%s` | %s | %s |\n", c.Says, c.Happened, c.Do)
			}
		}
		out.WriteString("<!-- end -->")
		return out.String()
	})
}
