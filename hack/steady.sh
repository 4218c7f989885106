#!/usr/bin/env bash
# Runs `make test` several times while busy processes use all cores, and prints the seconds and the result of each run.
#
#   hack/steady.sh [RUNS] [BUSY]    default: 5 runs, a busy process for each core
#
# Logs are kept in .cluster/steady.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

runs=${1:-5} busy=${2:-$(nproc)}
mkdir -p .cluster/steady
pids=()
trap 'kill "${pids[@]}" 2>/dev/null' EXIT
for ((i = 0; i < busy; i++)); do
	(while :; do :; done) &
	pids+=($!)
done
table= failed=0
for ((run = 1; run <= runs; run++)); do
	start=$SECONDS result=passed log=.cluster/steady/$run.log
	go clean -testcache
	make --no-print-directory test >"$log" 2>&1 </dev/null || { result=FAILED && failed=$((failed + 1)); }
	row=$(printf 'run %d %6d s  %-7s %s' "$run" $((SECONDS - start)) "$result" "$log")
	echo "$row"
	table+=$row$'\n'
	[[ $result == passed ]] || grep -E '^=== FAIL:' "$log" || true
done
printf '\n%s%d of %d runs passed next to %d busy processes\n' "$table" $((runs - failed)) "$runs" "$busy"
((failed == 0))
