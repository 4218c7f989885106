#!/usr/bin/env bash
# Lints and renders every chart, including the operator's, with plain Helm: with each of the chart's ci/*.yaml, or with the default values
# if there are none.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
helm=${TOOLS:-$PWD/bin/tools}/helm

# quiet(command...): prints the output only if the command fails
quiet() { local out; out=$("$@" 2>&1) || { printf '%s\n%s\n' "$*" "$out" >&2; return 1; }; }

for chart in helm-charts/*/ dist/chart/; do
	chart=${chart%/}
	if grep -q '^type: library' "$chart/Chart.yaml"; then
		quiet "$helm" lint --strict "$chart"
		echo "ok  $chart (library)"
		continue
	fi
	shopt -s nullglob
	sets=("$chart"/ci/*.yaml)
	shopt -u nullglob
	((${#sets[@]})) || sets=("$chart/values.yaml")
	for values in "${sets[@]}"; do
		quiet "$helm" lint --strict "$chart" --values "$values"
		quiet "$helm" template release "$chart" --values "$values"
	done
	echo "ok  $chart (${#sets[@]} sets of values)"
done
