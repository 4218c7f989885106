#!/usr/bin/env bash
# Runs every fuzz target of the repository, FUZZTIME each, and prints what came of it. An input that
# breaks one is kept in its package's testdata/fuzz, where `go test` runs it from then on.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

log=$(mktemp)
trap 'rm -f "$log"' EXIT
failed=0
table=$'target\texecutions\tnew inputs\tresult\n'
while IFS=: read -r file target; do
	package=./$(dirname "$file")
	echo "$package $target"
	result=passed
	go test "$package" -run '^$' -fuzz "^$target\$" -fuzztime "${FUZZTIME:-30s}" >"$log" 2>&1 || { result=FAILED; failed=1; cat "$log"; }
	last=$(grep '^fuzz: elapsed: .* execs: ' "$log" | tail -n 1 || true)
	execs=$(sed -n 's/.*execs: \([0-9]*\).*/\1/p' <<<"$last")
	new=$(sed -n 's/.*new interesting: \([0-9]*\).*/\1/p' <<<"$last")
	table+="${package#./} $target"$'\t'"${execs:-0}"$'\t'"${new:-0}"$'\t'"$result"$'\n'
done < <(git grep -o --untracked 'func Fuzz[A-Za-z0-9]*' -- '*_test.go' | sed 's/:func /:/')
printf '\n%s' "$table" | column -t -s $'\t'
exit "$failed"
