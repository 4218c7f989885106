#!/usr/bin/env bash
# go-udiff 0.4.1: the second hunk of a unified diff can have the wrong line number.
#
# If a hunk has two changes with equal lines between them, the line number of every later hunk in the new file is too small, by the number
# of these equal lines. The text of the diff is right, and `git apply` accepts it, because it uses the line numbers of the old file.
# Programs that show a line of the new file to a reader show the wrong line. go-udiff is a common replacement of the archived go-difflib,
# whose line numbers are right. Golden files of diffs reveal the difference.
set -euo pipefail
work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
cd "$work"
cat >go.mod <<'MOD'
module example
go 1.24
require (
	github.com/aymanbagabas/go-udiff v0.4.1
	github.com/pmezard/go-difflib v1.0.0
)
MOD
cat >main.go <<'GO'
package main

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/aymanbagabas/go-udiff"
	"github.com/pmezard/go-difflib/difflib"
)

func main() {
	var before, after strings.Builder
	for i := 1; i <= 30; i++ {
		fmt.Fprintln(&before, "line", i)
		switch i {
		case 5, 9, 25: // 5 and 9 share a hunk
			fmt.Fprintln(&after, "changed", i)
		default:
			fmt.Fprintln(&after, "line", i)
		}
	}
	a, b := before.String(), after.String()
	one, _ := udiff.ToUnified("a", "b", a, udiff.Lines(a, b), 3)
	other, _ := difflib.GetUnifiedDiffString(difflib.UnifiedDiff{A: difflib.SplitLines(a), B: difflib.SplitLines(b), FromFile: "a", ToFile: "b", Context: 3})
	hunks := regexp.MustCompile(`(?m)^@@.*@@$`)
	fmt.Println("go-udiff  ", hunks.FindAllString(one, -1))
	fmt.Println("go-difflib", hunks.FindAllString(other, -1))
}
GO
go mod tidy >/dev/null 2>&1
go list -m github.com/aymanbagabas/go-udiff github.com/pmezard/go-difflib
out=$(go run .)
echo "$out"
# No line is added or removed, so line 22 has the same number in both files.
grep -qF 'go-difflib [@@ -2,11 +2,11 @@ @@ -22,7 +22,7 @@]' <<<"$out"
grep -qF 'go-udiff   [@@ -2,11 +2,11 @@ @@ -22,7 +19,7 @@]' <<<"$out"
echo 'go-udiff: the second hunk is at line 19 of the new file, and belongs to line 22'
