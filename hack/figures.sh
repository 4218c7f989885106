#!/usr/bin/env bash
# Prints the size of the source and the bounds that changes should keep to or come closer to.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

row() { printf '%-34s %8d   %s\n' "$@"; }
tests=("*_test.go" "test/*.go" "cmd/agent/internal/rig/*.go")

row "packages under internal" "$(git ls-files 'internal/*.go' | grep -v _test.go | xargs -n1 dirname | sort -u | wc -l)" "at most 30"
row "lines of tests and their support" "$(git ls-files "${tests[@]}" | sort -u | xargs cat | wc -l)" "at most 45000"
row "lines of the product's Go code" "$(git ls-files '*.go' ':!*_test.go' ':!test' ':!cmd/agent/internal/rig' ':!*zz_generated*' ':!client/*/*' | xargs cat | wc -l)" ""
row "documented make targets" "$(cat Makefile hack/*.mk | grep -cE '^[a-z0-9-]+:.*##')" "at most 40"
row "lines of import rules" "$(awk '/^    depguard:/ { inside = 1 } /^    forbidigo:/ { inside = 0 } inside' .golangci.yml | wc -l)" "at most 130"
