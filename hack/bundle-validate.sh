#!/usr/bin/env bash
# Validates the bundle as catalogs do, and takes a warning for an error. The check named multiarch is
# not among them: it looks at the image in its registry.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

sdk=${OPERATOR_SDK:-$PWD/bin/tools/operator-sdk}

# validate(argument...)
validate() {
	local out
	out=$("$sdk" bundle validate ./bundle "$@" 2>&1) || {
		echo "$out" >&2
		return 1
	}
	if grep -E 'level=(warning|error)' <<<"$out" >&2; then
		echo "bundle validate $*: there are warnings" >&2
		return 1
	fi
	echo "bundle validate $*: no error, no warning"
}

validate
for suite in suite=operatorframework name={operatorhubv2,good-practices,capabilities,categories,alpha-deprecated-apis}; do
	validate --select-optional "$suite" --optional-values container-tools=none
done
