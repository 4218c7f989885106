#!/usr/bin/env bash
# Runs golangci-lint, gosec included, on the code of every module, also after one has findings.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
code=0
for module in $(hack/modules.sh); do
	echo "golangci-lint: $module"
	packages=./...
	[[ $module != client ]] || packages=. # the packages below are generated
	(cd "$module" && "${TOOLS:-$OLDPWD/bin/tools}/golangci-lint" run --config "$OLDPWD/.golangci.yml" "$packages") || code=1
done
exit "$code"
