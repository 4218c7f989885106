#!/usr/bin/env bash
# Runs two commands in parallel, and fails if one of them does.
#
#   hack/beside.sh COMMAND -- OTHER...
#
# COMMAND is one word for the shell. Its output is kept until OTHER has ended.
set -uo pipefail

beside=$1
shift 2
kept=$(mktemp)
set -m # a separate group, so that it can be ended with all it has started
bash -c "$beside" >"$kept" 2>&1 </dev/null &
group=$!
set +m
trap 'kill -TERM -- "-$group" 2>/dev/null; rm -f "$kept"' EXIT
trap 'exit 130' INT TERM

"$@"
code=$?
wait "$group" || code=1
cat "$kept"
exit "$code"
