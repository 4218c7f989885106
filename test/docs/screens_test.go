// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
)

func read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, name))
	assert.NilError(t, err)
	return string(data)
}

// block is a fenced block of a page.
type block struct {
	language string
	lines    []string
	screen   string // the golden file that the block shows; empty without one
}

var named = regexp.MustCompile(`^<!-- screen: (\S+) -->$`)

func blocks(t *testing.T, name string) []block {
	t.Helper()
	var found []block
	var screen string
	inside := false
	for line := range strings.Lines(read(t, name)) {
		line = strings.TrimRight(line, "\n")
		switch language, fence := strings.CutPrefix(line, "```"); {
		case fence && !inside:
			found, inside = append(found, block{language: language, screen: screen}), true
		case fence:
			inside, screen = false, ""
		case inside:
			last := &found[len(found)-1]
			last.lines = append(last.lines, line)
		case named.MatchString(line):
			screen = named.FindStringSubmatch(line)[1]
		case line != "":
			screen = ""
		}
	}
	return found
}

// shows reports whether a block equals a golden file. A line with only … in the block stands for any number of lines.
func shows(shown, golden []string) bool {
	var pattern strings.Builder
	for _, line := range shown {
		if strings.TrimSpace(line) == "…" {
			pattern.WriteString(`(.*\n)*`)
		} else {
			pattern.WriteString(regexp.QuoteMeta(line) + `\n`)
		}
	}
	return regexp.MustCompile("^" + pattern.String() + "$").MatchString(strings.Join(golden, "\n") + "\n")
}

// Each screen in a page equals the golden file of a program's output.
func TestScreensAreThoseOfThePrograms(t *testing.T) {
	t.Parallel()
	count := 0
	for _, name := range []string{"README.md", "README.zh-CN.md", "docs/start/quickstart.md"} {
		for _, b := range blocks(t, name) {
			if b.screen == "" {
				continue
			}
			count++
			golden := strings.Split(strings.TrimRight(read(t, b.screen), "\n"), "\n")
			assert.Assert(t, len(b.lines) > 1 && strings.HasPrefix(b.lines[0], "$ "), "%s: a screen begins with its command", name)
			assert.Assert(t, shows(b.lines[1:], golden), "%s does not show %s:\n%s", name, b.screen, strings.Join(b.lines[1:], "\n"))
		}
	}
	assert.Assert(t, count >= 8, "only %d screens name their golden file", count)
	assert.Assert(t, shows([]string{"a", "…", "c"}, []string{"a", "b", "c"}))
	assert.Assert(t, !shows([]string{"a", "…", "c"}, []string{"a", "b"}))
	assert.Assert(t, !shows([]string{"a"}, []string{"a", "b"}))
}

var comment = regexp.MustCompile(`\s+#.*$`)

// commands returns the commands in a page's shell blocks, without comments.
func commands(t *testing.T, name string) []string {
	t.Helper()
	var found []string
	for _, b := range blocks(t, name) {
		if b.language != "sh" {
			continue
		}
		for _, line := range b.lines {
			if line = strings.TrimSpace(comment.ReplaceAllString(line, "")); line != "" {
				found = append(found, line)
			}
		}
	}
	return found
}

// The tour (make tour, which a test runs) runs the commands of the quickstart.
func TestTheTourIsTheQuickstart(t *testing.T) {
	t.Parallel()
	var toured []string
	values := strings.NewReplacer(`"$name"`, "dataservice-sample", `"$file"`, "config/samples/d3os-product.com_v1_dataservice.yaml", `"$waits"`, "60s")
	for line := range strings.Lines(read(t, "hack/tour.sh")) {
		if shown, ok := strings.CutPrefix(line, "show "); ok {
			toured = append(toured, "kubectl "+strings.TrimSpace(values.Replace(shown)))
		}
	}
	all := commands(t, "docs/start/quickstart.md")
	first, last := slices.Index(all, toured[0]), slices.Index(all, toured[len(toured)-1])
	assert.Assert(t, first > 0 && last > first, "%q", all)
	assert.DeepEqual(t, all[first:last+1], toured)
}

// The Chinese first page has the commands, examples, screens and links of the English first page.
func TestTheChineseReadme(t *testing.T) {
	t.Parallel()
	const english, chinese = "README.md", "README.zh-CN.md"
	assert.DeepEqual(t, commands(t, chinese), commands(t, english))
	other := func(name string) (found []string) {
		for _, b := range blocks(t, name) {
			if b.language != "sh" {
				found = append(found, b.language+" "+b.screen+"\n"+strings.Join(b.lines, "\n"))
			}
		}
		return found
	}
	assert.DeepEqual(t, other(chinese), other(english))
	links := func(name string) (found []string) {
		for _, match := range link.FindAllStringSubmatch(strings.Join(withoutCode(read(t, name)), "\n"), -1) {
			if match[1] != english && match[1] != chinese {
				found = append(found, match[1])
			}
		}
		slices.Sort(found)
		return found
	}
	assert.DeepEqual(t, links(chinese), links(english))
}
