// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/platform/plan"
	"d3os.com/d3os-operator/test/why"
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
	screen   string // the golden file that it shows, if it names one
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

// shows reports whether a block equals a golden file; a line of … stands for any number of its lines.
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

// A screen in a page equals the program's golden file.
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

// The troubleshooting page has the plugin's texts, and all of them. Its tables come from test/why, which is compared with the corpus.
func TestTroubleIsWhatThePluginSays(t *testing.T) {
	t.Parallel()
	const page = "docs/operate/troubleshooting.md"
	causes, err := why.Page()
	assert.NilError(t, err)
	assert.Assert(t, len(causes) > 20, "%d rows", len(causes))
	faults, err := why.Read()
	assert.NilError(t, err)
	text := read(t, page)
	assert.Equal(t, text, why.Fill(text, causes), "make docs")
	goldens, err := filepath.Glob(filepath.Join(root, "internal/plugin/why/testdata/golden/*.txt"))
	assert.NilError(t, err)
	said := map[string]string{}
	for _, golden := range goldens {
		data, err := os.ReadFile(golden)
		assert.NilError(t, err)
		said[filepath.Base(golden)], _, _ = strings.Cut(string(data), "\n")
	}
	for _, c := range causes {
		assert.Check(t, strings.Contains(text, c.Says), "%s has no table for section %s", page, c.Section)
		found := slices.ContainsFunc(slices.Collect(maps.Values(said)), c.Pattern().MatchString) ||
			slices.ContainsFunc(faults, func(f why.Fault) bool { return f.Name == c.Row })
		assert.Check(t, found, "the plugin says %s in no golden file, and no row of the corpus does", c.Says)
	}
	for name, text := range said {
		if !strings.HasSuffix(name, "well.txt") {
			assert.Check(t, slices.ContainsFunc(causes, func(c why.Cause) bool { return c.Pattern().MatchString(text) }), "%s has no row for %s: %s", page, name, text)
		}
	}
}

// Resources that a page shows in full can be rendered.
func TestExamplesRender(t *testing.T) {
	t.Parallel()
	count := 0
	for _, p := range pages(t) {
		for _, b := range blocks(t, p.path) {
			text := strings.Join(b.lines, "\n")
			if b.language != "yaml" || !strings.Contains(text, "kind: "+dsv1.Kind+"\n") {
				continue
			}
			count++
			ds, err := plan.Parse([]byte(text))
			assert.NilError(t, err, "%s:\n%s", p.path, text)
			ds.Namespace = "default"
			objects, err := plan.Objects(ds, plan.KubeVersion)
			assert.NilError(t, err, "%s:\n%s", p.path, text)
			assert.Assert(t, len(objects) > 0)
		}
	}
	assert.Assert(t, count >= 3, "%d examples", count)
}

// commands are those of a page's shell blocks, without comments.
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

// The tour (make tour, which a test runs) takes the steps of the quickstart.
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

// The Chinese first page has the commands, examples, screens and links of the English one.
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
