#!/usr/bin/env bash
# Judges the code of every module by gosec, as .golangci.yml configures it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
for module in $(hack/modules.sh); do
	(cd "$module" && "${TOOLS:-$OLDPWD/bin/tools}/golangci-lint" run --config "$OLDPWD/.golangci.yml" --enable-only gosec)
done
