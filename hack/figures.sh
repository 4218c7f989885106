#!/usr/bin/env bash
# Prints the size of the source, and the limits that changes should respect.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

row() { printf '%-46s %8s   %s\n' "$@"; }
lines() { git ls-files "$@" | sort -u | xargs cat | wc -l; }
# walk prints the number of files that a walk in docs/architecture.md names.
walk() { awk -v start="**$1" 'index($0, start) == 1 { on = 1; print; next } /^\*\*|^## / { on = 0 } on' docs/architecture.md |
	grep -oE '`[a-z_/]+\.go`' | sort -u | wc -l; }

product=$(lines '*.go' ':!*_test.go' ':!test' ':!cmd/agent/internal/rig' ':!*zz_generated*' ':!client/*/*')
tests=$(lines '*_test.go' 'test/*.go' 'cmd/agent/internal/rig/*.go')

row "packages under internal" "$(git ls-files 'internal/*.go' | grep -v _test.go | xargs -n1 dirname | sort -u | wc -l)" "at most 36"
row "of those, at the first level" "$(git ls-files 'internal/*.go' | cut -d/ -f2 | sort -u | wc -l)" "at most 22"
row "lines of the product's Go code" "$product" ""
row "lines of tests and their support" "$tests" ""
row "lines of tests for each of the product" "$(awk "BEGIN { printf \"%.2f\", $tests / $product }")" "at most 1.2"
row "lines of golden files in test/fields" "$(lines test/fields/testdata ':!test/fields/testdata/upgrade/inputs')" "at most 10000"
row "calls of topology.Decide by the kind" "$(git grep -ho 'topology\.Decide(' -- ':(glob)internal/redis/*.go' ':!*_test.go' | wc -l)" "1"
row "calls of membership.Decide by the kind" "$(git grep -ho 'membership\.Decide(' -- ':(glob)internal/etcd/*.go' ':!*_test.go' | wc -l)" "1"
row "files: the name of mysql changes" "$(walk 'A user changes')" "at most 12"
row "files: a RedisCluster gets more pods" "$(walk 'A user raises')" "at most 12"
row "files: an EtcdCluster's member is lost" "$(walk 'A member of')" "at most 12"
row "documented make targets" "$(cat Makefile hack/*.mk | grep -cE '^[a-z0-9-]+:.*##')" "at most 40"
row "lines of import rules" "$(awk '/^    depguard:/ { inside = 1 } /^    forbidigo:/ { inside = 0 } inside' .golangci.yml | wc -l)" "at most 130"
