#!/usr/bin/env bash
# Prints the arguments of go test for the tests of the root module that `make test` omits, in whole or in part.
#
#   hack/omitted.sh FOLDERS    regular expression of folders that are left out
set -euo pipefail
: "${1:?}"
cd "$(dirname "${BASH_SOURCE[0]}")/.."

mapfile -t files < <(grep -rlE 'harness\.Long\(|testing\.Short\(' --include='*_test.go' helm-charts internal test |
	grep -vE "^($1)/")
names=$(awk '/^func / { name = $2; sub(/\(.*/, "", name) } /harness\.Long\(|testing\.Short\(/ { print name }' "${files[@]}" | sort -u)
if grep -v '^Test' <<<"$names" >&2; then
	echo "these functions are no tests, so it is unknown which tests they omit" >&2
	exit 1
fi
printf -- '-run ^(%s)$ ' "$(paste -sd'|' <<<"$names")"
printf './%s\n' "${files[@]%/*}" | sort -u | paste -sd' '
