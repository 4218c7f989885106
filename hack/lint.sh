#!/usr/bin/env bash
# Runs golangci-lint, gosec included, on the code of every module, also after one has findings.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
code=0
for module in $(hack/modules.sh); do
	echo "golangci-lint: $module"
	(cd "$module" && "${TOOLS:-$OLDPWD/bin/tools}/golangci-lint" run --config "$OLDPWD/.golangci.yml") || code=1
done
exit "$code"
