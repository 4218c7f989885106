// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package docs_test guards the documentation: each relative link leads to an existing target, docs/README.md names every page, and the
// pages follow the rules of docs/develop/style.md that a machine can check.
package docs_test

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/internal/schedule"
)

const root = "../.."

// page is a file of Markdown, without its blocks of code.
type page struct {
	path  string   // relative to the root, with slashes
	lines []string // lines of code blocks are empty
	text  string
}

// written reports whether a page is written by hand: generated pages are not checked for style.
func (p *page) written() bool { return !strings.HasPrefix(p.path, "docs/reference/") }

// pages returns the files of Markdown in the root and in docs.
func pages(t *testing.T) []*page {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(root, "*.md"))
	assert.NilError(t, err)
	assert.NilError(t, filepath.WalkDir(filepath.Join(root, "docs"), func(name string, _ fs.DirEntry, err error) error {
		if filepath.Ext(name) == ".md" {
			names = append(names, name)
		}
		return err
	}))
	var found []*page
	for _, name := range names {
		data, err := os.ReadFile(name)
		assert.NilError(t, err)
		relative, err := filepath.Rel(root, name)
		assert.NilError(t, err)
		p := &page{path: filepath.ToSlash(relative), lines: withoutCode(string(data))}
		p.text = strings.Join(p.lines, "\n")
		found = append(found, p)
	}
	assert.Assert(t, len(found) > 10, "no pages: %s", root)
	return found
}

var code = regexp.MustCompile("`[^`]+`")

// withoutCode returns the lines of a page: those of code blocks are empty, and code in a line is one word.
func withoutCode(text string) []string {
	lines := strings.Split(text, "\n")
	inside := false
	for i, line := range lines {
		fence := strings.HasPrefix(strings.TrimSpace(line), "```")
		if heading.MatchString(line) {
			lines[i] = strings.ReplaceAll(line, "`", "")
		} else {
			lines[i] = code.ReplaceAllString(line, "`code`")
		}
		if fence || inside || strings.HasPrefix(line, "    ") {
			lines[i] = ""
		}
		inside = inside != fence
	}
	return lines
}

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`^#+ +(.*)$`)
)

// anchor returns the name by which links refer to a heading.
func anchor(title string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(link.ReplaceAllString(title, "]")) {
		switch {
		case r == ' ':
			b.WriteRune('-')
		case r == '-' || r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r > 127:
			b.WriteRune(r)
		}
	}
	return b.String()
}

func anchors(p *page) []string {
	var found []string
	for _, line := range p.lines {
		if match := heading.FindStringSubmatch(line); match != nil {
			found = append(found, anchor(match[1]))
		}
	}
	return found
}

// Every relative link leads to an existing file, and to an existing heading if the link names one.
func TestLinksLeadSomewhere(t *testing.T) {
	t.Parallel()
	all := pages(t)
	for _, p := range all {
		for _, match := range link.FindAllStringSubmatch(p.text, -1) {
			if strings.Contains(match[1], "://") {
				continue
			}
			target, section, _ := strings.Cut(match[1], "#")
			to := p.path
			if target != "" {
				to = path.Join(path.Dir(p.path), target)
			}
			if _, err := os.Stat(filepath.Join(root, to)); err != nil {
				t.Errorf("%s: the link %s leads to no file", p.path, match[1])
				continue
			}
			i := slices.IndexFunc(all, func(other *page) bool { return other.path == to })
			if section != "" && (i < 0 || !slices.Contains(anchors(all[i]), section)) {
				t.Errorf("%s: the link %s leads to no heading", p.path, match[1])
			}
		}
	}
}

// The pages of the three databases begin with the same sections in the same order. A page may have further sections after them.
func TestPagesOfDatabasesHaveOneStructure(t *testing.T) {
	t.Parallel()
	want := []string{"what-you-get", "smallest-example", "connect", "scale", "upgrade", "what-happens-when-a-pod-a-node-a-zone-or-a-majority-is-lost", "backup", "limits", "delete"}
	for _, name := range []string{"docs/mysql.md", "docs/redis.md", "docs/etcd.md"} {
		var found []string
		for _, p := range pages(t) {
			for _, line := range p.lines {
				if title, ok := strings.CutPrefix(line, "## "); ok && p.path == name {
					found = append(found, anchor(title))
				}
			}
		}
		assert.DeepEqual(t, found[:min(len(want), len(found))], want)
	}
}

// mention matches the name of a page in a program's message, and the heading that follows it: docs/mysql.md, Upgrade.
var mention = regexp.MustCompile(`\b(docs/[a-z/-]+\.md)(?:, ([A-Z][^"\n]*))?`)

// A page that a message or a comment names exists, and has the heading that follows the page's name.
func TestProgramsNameExistingPages(t *testing.T) {
	t.Parallel()
	all := pages(t)
	for _, folder := range []string{"internal", "cmd", "api", "hack"} {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, entry os.DirEntry, err error) error {
			if err != nil || entry.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			for _, found := range mention.FindAllStringSubmatch(string(text), -1) {
				i := slices.IndexFunc(all, func(p *page) bool { return p.path == found[1] })
				if i < 0 {
					t.Errorf("%s names %s, which does not exist", path, found[1])
				} else if found[2] != "" && !slices.ContainsFunc(all[i].lines, func(line string) bool {
					title := strings.TrimLeft(line, "#")
					return title != line && strings.HasPrefix(found[2], strings.TrimSpace(title))
				}) {
					t.Errorf("%s names %s, %s: the page has no such heading", path, found[1], found[2])
				}
			}
			return err
		})
		assert.NilError(t, err)
	}
}

// The index of docs names every page, except that any page may name a generated page instead.
func TestEveryPageIsInTheIndex(t *testing.T) {
	t.Parallel()
	all := pages(t)
	index := slices.IndexFunc(all, func(p *page) bool { return p.path == "docs/README.md" })
	assert.Assert(t, index >= 0)
	named, anywhere := map[string]bool{"docs/README.md": true}, map[string]bool{}
	for i, p := range all {
		for _, match := range link.FindAllStringSubmatch(p.text, -1) {
			target, _, _ := strings.Cut(match[1], "#")
			to := path.Join(path.Dir(p.path), target)
			anywhere[to] = true
			named[to] = named[to] || i == index
		}
	}
	for _, p := range all {
		if strings.HasPrefix(p.path, "docs/") && !named[p.path] && (p.written() || !anywhere[p.path]) {
			t.Errorf("docs/README.md does not name %s: add it where its readers look for it", p.path)
		}
	}
}

// banned are words that hide the actor, or that have a plainer synonym (docs/develop/style.md).
var banned = regexp.MustCompile(`(?i)\b(anew|goes before|by turns|tells? whether|looked at again|way through the house|whoever comes next|strangers to one another|takes its place)\b`)

// longest is the maximum number of words in a sentence.
const longest = 30

// allowed limits the violations in older pages. The numbers never increase.
var allowed = map[string]int{
	"docs/develop/style.md": 5, // this page lists the banned words
}

// allowedElsewhere limits the violations in any other page.
const allowedElsewhere = 2

func breaches(p *page) []string {
	var found []string
	for _, s := range sentences(p) {
		if match := banned.FindString(s); match != "" {
			found = append(found, fmt.Sprintf("%q says %q: use a plain word", s, match))
		}
		if n := len(strings.Fields(s)); n > longest {
			found = append(found, fmt.Sprintf("%d words, and at most %d are allowed: %q", n, longest, s))
		}
	}
	return found
}

var end = regexp.MustCompile(`[.!?:;]["')*]*(\s+|$)|\s+–\s+`)

// sentences returns the sentences of paragraphs, items of lists and cells of tables.
func sentences(p *page) []string {
	var found []string
	var block []string
	flush := func() {
		found = append(found, end.Split(strings.Join(block, " "), -1)...)
		block = nil
	}
	for _, line := range p.lines {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "|"):
			flush()
			for cell := range strings.SplitSeq(strings.Trim(line, "|"), "|") {
				block = []string{cell}
				flush()
			}
		case line == "" || strings.HasPrefix(line, "#"):
			flush()
		case strings.HasPrefix(line, "- ") || item.MatchString(line):
			flush()
			block = []string{line}
		default:
			block = append(block, line)
		}
	}
	flush()
	return slices.DeleteFunc(found, func(s string) bool { return strings.TrimSpace(s) == "" })
}

var item = regexp.MustCompile(`^\d+\. `)

// The rules of style that a machine can check: short sentences, plain words.
func TestStyle(t *testing.T) {
	t.Parallel()
	for _, p := range pages(t) {
		if !p.written() {
			continue
		}
		limit, known := allowed[p.path]
		if !known {
			limit = allowedElsewhere
		}
		if found := breaches(p); len(found) > limit {
			t.Errorf("%s: %d breaches of docs/develop/style.md, and %d are allowed:\n\t%s", p.path, len(found), limit, strings.Join(found, "\n\t"))
		}
	}
}

// The check finds each kind of breach.
func TestStyleFinds(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("word ", longest+1)
	for text, want := range map[string]int{
		"It is drawn anew.": 1,
		long + ".":          1,
		strings.Repeat("word ", longest) + ". " + long:                      1,
		"| " + strings.Repeat("a ", longest) + "| " + long + "|":            1,
		"- " + strings.Repeat("a ", 20) + "\n- " + strings.Repeat("a ", 20): 0,
		"```\n" + long + "\n```":                                            0,
	} {
		p := &page{path: "docs/a.md", lines: withoutCode(text)}
		assert.Equal(t, len(breaches(p)), want, text)
	}
	assert.DeepEqual(t, anchors(&page{lines: withoutCode("## `why`, and *what*: 2 of them\n```\n# a comment\n```")}), []string{"why-and-what-2-of-them"})
}

var daily = regexp.MustCompile(`\b[0-9]+ [0-9]+ \* \* [0-9*]`)

// Schedules in pages and samples run every night, even when the clocks change.
func TestSchedulesRunEachNight(t *testing.T) {
	t.Parallel()
	var files []string
	for _, folder := range []string{"docs", "config/samples"} {
		assert.NilError(t, filepath.WalkDir(filepath.Join(root, folder), func(name string, entry fs.DirEntry, err error) error {
			if err == nil && !entry.IsDir() {
				files = append(files, name)
			}
			return err
		}))
	}
	count := 0
	for _, file := range files {
		data, err := os.ReadFile(file)
		assert.NilError(t, err)
		for _, text := range daily.FindAllString(string(data), -1) {
			count++
			for _, zone := range []string{"Europe/Berlin", "Europe/London", "America/New_York"} {
				assert.Check(t, schedule.Longest(text, zone) <= schedule.Longest(text, "")+time.Hour, "%s: %s has no run in one night of %s", file, text, zone)
			}
		}
	}
	assert.Assert(t, count >= 20, "%d schedules", count)
}
