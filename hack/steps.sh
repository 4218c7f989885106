#!/usr/bin/env bash
# Runs make targets one after another, and continues after a failed target or part. At the end it prints a table of their seconds and
# results.
#
#   hack/steps.sh TARGET...    a target may have variables: 'verify-redis FORM=long'
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

table=
failed=()
for step; do
	start=$SECONDS result=ok
	printf '\n=== make %s\n' "$step"
	# shellcheck disable=SC2086
	make --no-print-directory --keep-going $step </dev/null || { result=FAILED && failed+=("$step"); }
	table+=$(printf '%8d s  %-7s make %s' $((SECONDS - start)) "$result" "$step")$'\n'
done
printf '\n%s%8d s  in all\n' "$table" "$SECONDS"
if ((${#failed[@]})); then
	printf 'failed: make %s\n' "${failed[@]}"
	exit 1
fi
echo 'all steps passed'
