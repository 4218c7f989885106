#!/usr/bin/env bash
# Runs every fuzz target of the repository for FUZZTIME each, and prints the results. An input that makes a target fail is stored in the
# package's testdata/fuzz, and `go test` runs it from then on.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

time=${FUZZTIME:-30s}
log=$(mktemp)
trap 'rm -f "$log"' EXIT
columns='%-32s %9s %9s %7s %6s %11s\n'
# shellcheck disable=SC2059
table=$(printf "$columns" TARGET CASES PASSED FAILED SEEDS 'NEW INPUTS')
all=0 broken=0

# last(pattern): prints the last number that the group of a pattern matches in the log, or 0.
last() {
	local found
	found=$(sed -n "s,.*$1.*,\1,p" "$log" | tail -n 1)
	echo "${found:-0}"
}

# ended: succeeds if the time of a run ended during an input, which Go reports as a failure (golang/go#75804). If an input makes the target
# fail, the log names a file.
ended() { grep -qx ' *context deadline exceeded' "$log" && ! grep -qE 'Failing input written|failure while testing|panic:' "$log"; }

# row(name, cases, failed, seeds, new inputs)
row() {
	# shellcheck disable=SC2059
	table+=$'\n'$(printf "$columns" "$1" "$2" "$(($2 > $3 ? $2 - $3 : 0))" "$3" "${4:-}" "${5:-}")
}

while IFS=: read -r file target; do
	package=./$(dirname "$file") failed=0
	echo "=== $package $target, $time"
	# Spend the time on new inputs, and not on minimizing them.
	go test -C "$package" -run '^$' -fuzz "^$target\$" -fuzztime "$time" -fuzzminimizetime 10x . >"$log" 2>&1 || failed=1
	((failed)) && ended && failed=0
	((failed)) && cat "$log"
	cases=$(last ' execs: \([0-9]*\)') # no match if the time was sufficient only for the seeds
	((cases)) || cases=$(last 'baseline coverage: \([0-9]*\)/')
	((failed || cases)) || { echo "no input was tried:" && cat "$log" && failed=1; }
	row "${package#./} $target" "$cases" "$failed" "$(last 'baseline coverage: [0-9]*/\([0-9]*\)')" "$(last 'new interesting: \([0-9]*\)')"
	all=$((all + cases)) broken=$((broken + failed))
done < <(git grep -o --untracked 'func Fuzz[A-Za-z0-9]*' -- '*_test.go' | sed 's/:func /:/')
row all "$all" "$broken"
printf '\n%s\n' "$table"
((broken == 0))
