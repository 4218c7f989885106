// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
)

// unplain matches the habits of docs/develop/style.md in comments and string literals of Go code: a definition by a question word, code
// that talks, an unnamed actor, and superfluous words.
var unplain = regexp.MustCompile(`(?i)\b(` + strings.Join([]string{
	`(is|are|was|were) (what|how|when|whether|who|whom|which|why)`,
	`(says?|knows?|asks?|tells?) (what|how|when|whether|where|who|whom|which|why|so|of|nothing|no)`,
	`told|tells?|telling`,
	`nobody|somebody|anybody|everybody|whoever|whomever`,
	`anew|but for|by turns|of (one's|its|his|their|your) own|the ones? that|what there is of|by its own word|taken for`,
	`beside|meanwhile`,
}, "|") + `)\b`)

// definition matches, after a function's name, a verb that only defines the function. A comment states the effect or the result instead.
var definition = regexp.MustCompile(`^ (is|are|was|were)\b`)

// found returns the comments and string literals of a Go file that break the style, each with its line.
func found(fset *token.FileSet, f *ast.File, isTest bool) []string {
	var texts []string
	add := func(at token.Pos, text string) {
		if match := unplain.FindString(text); match != "" {
			texts = append(texts, fset.Position(at).String()+": "+strconv.Quote(match))
		}
	}
	for _, g := range f.Comments {
		add(g.Pos(), strings.Join(strings.Fields(g.Text()), " "))
	}
	for _, d := range f.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok {
			if text, ok := strings.CutPrefix(fn.Doc.Text(), fn.Name.Name); ok && definition.MatchString(text) {
				texts = append(texts, fset.Position(fn.Doc.Pos()).String()+": "+strconv.Quote(fn.Name.Name+definition.FindString(text)))
			}
		}
	}
	if isTest { // strings of tests are often inputs
		return texts
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.STRING {
			add(literal.Pos(), literal.Value)
		}
		return true
	})
	return texts
}

// Comments and messages of Go code follow docs/develop/style.md.
func TestStyleOfCode(t *testing.T) {
	t.Parallel()
	assert.NilError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch name := d.Name(); {
		case err != nil:
			return err
		case d.IsDir() && path != root && (strings.HasPrefix(name, ".") || name == "bin"):
			return filepath.SkipDir
		case !strings.HasSuffix(name, ".go") || strings.HasPrefix(name, "zz_generated"):
			return nil
		}
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		folder, err := filepath.Rel(root, filepath.Dir(path))
		for _, text := range found(fset, f, strings.HasSuffix(path, "_test.go") || strings.HasPrefix(folder, "test")) {
			t.Errorf("breaks docs/develop/style.md: %s", text)
		}
		return err
	}))
}

// The check finds each habit in a comment and in a string. It does not report plain text.
func TestStyleOfCodeFinds(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{
		"// x is how long it takes.\nvar x int":        1,
		"// x is told of it.\nvar x int":               1,
		"var x = \"somebody deleted it\"":              1,
		"// x limits the wait, in seconds.\nvar x = 1": 0,
		"// x is a faster y.\nfunc x() {}":             1,
		"// x are all pods.\nfunc (t) x() {}":          1,
		"// x returns all pods.\nfunc x() {}":          0,
		"// x is the limit.\nvar x = 1":                0,
	} {
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, "a.go", "package a\n\n"+text, parser.ParseComments)
		assert.NilError(t, err)
		assert.Equal(t, len(found(fset, f, false)), want, text)
	}
}
