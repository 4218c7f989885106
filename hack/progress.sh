#!/usr/bin/env bash
# Runs a command and prints only a little of its output: the lines that name a target being built (two spaces and a time in brackets), and a
# line every 30 s. The log has all output. If the command fails, the end of the log is printed.
#
#   hack/progress.sh LOG COMMAND [ARGUMENT...]
#
#   PROGRESS_EVERY   seconds between two lines of progress; default 30
set -euo pipefail

log=$1
shift
every=${PROGRESS_EVERY:-30}
mkdir -p "$(dirname "$log")"
: >"$log"

"$@" >"$log" 2>&1 &
command=$!
# During sleep, this shell would not notice the end of the command.
tail --pid="$command" --lines=+1 --follow --sleep-interval=0.2 "$log" 2>/dev/null | grep --line-buffered '^  \[' &
printer=$!
(
	while sleep "$every" >/dev/null 2>&1; do # a reader of the output must not wait for this sleep
		printf '  [%s] … still compiling; %d modules downloaded so far, all output is in %s\n' "$(date +%T)" "$(grep -c '^go: downloading' "$log")" "$log"
	done
) &
alive=$!
trap 'kill "$alive" 2>/dev/null || true' EXIT
trap 'kill "$command" 2>/dev/null || true; exit 130' INT TERM

code=0
wait "$command" || code=$?
wait "$printer" || true # fails if grep found nothing because everything was built before
if ((code)); then
	printf '\nThis failed: %s\nThe end of its output (all of it: %s):\n' "$*" "$log" >&2
	grep -v '^go: downloading' "$log" | tail -n 30 >&2
fi
exit "$code"
