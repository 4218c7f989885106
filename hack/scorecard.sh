#!/usr/bin/env bash
# make scorecard: runs operator-sdk's scorecard on the bundle, with the suites basic and olm and the operator's own suite (test/scorecard).
#
#   hack/scorecard.sh [SELECTOR]     SELECTOR: labels of tests, as in suite=custom or test=heal
#
# With KUBECONFIG it uses that cluster. The operator must run there, and the images in the bundle's scorecard configuration must be
# available.
#
#   SCORECARD_UNTAR_IMG   replaces the images with which scorecard unpacks the bundle and stores results
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

tools=${TOOLS:-$PWD/bin/tools}
sdk=$tools/operator-sdk
kubectl=${KUBECTL:-$tools/kubectl}
namespace=d3os-operator-scorecard # rbac.yaml has the same name
report=$(mktemp)

say() { printf '[%3d s] %s\n' "$SECONDS" "$*"; }
die() { echo "scorecard.sh: $*" >&2; exit 1; }

cleanup() {
	local status=$?
	trap - EXIT
	rm -f "$report"
	if [[ ${prepared:-} ]]; then
		# Delete the namespaces of tests that were killed.
		"$kubectl" delete namespace --selector "d3os-product.com.d3os/scorecard=$namespace" >/dev/null || true
		"$kubectl" delete --ignore-not-found --namespace "$namespace" --filename test/scorecard/rbac.yaml >/dev/null || true
		[[ ! ${namespace_created:-} ]] || "$kubectl" delete namespace "$namespace" >/dev/null || true
	fi
	exit "$status"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

prepare() {
	prepared=1
	if ! "$kubectl" get namespace "$namespace" >/dev/null 2>&1; then
		"$kubectl" create namespace "$namespace" >/dev/null
		namespace_created=1
	fi
	"$kubectl" apply --namespace "$namespace" --filename test/scorecard/rbac.yaml >/dev/null
}

# print prints one line for each result. Below it, it prints the messages of results that did not pass.
print() {
	jq --raw-output '
		.items[] | .spec.labels as $labels | .status.results[]
		| "  \(.state)\t\($labels.suite)\t\(.name // $labels.test)",
		  if .state == "pass" then empty else
		    (.errors // [] | .[] | "        error: \(.)"),
		    (.suggestions // [] | .[] | "        suggestion: \(.)"),
		    (.log // "" | split("\n")[] | select(. != "") | "        log: \(.)")
		  end' "$report"
}

# passed fails unless every test has results, and all results are pass.
passed() {
	jq --exit-status '(.items | length) > 0 and
		all(.items[]; (.status.results | length) > 0 and all(.status.results[]; .state == "pass"))' "$report" >/dev/null
}

. hack/packages.sh
packages jq
flags=()
[[ ! ${SCORECARD_UNTAR_IMG:-} ]] || flags+=(--untar-image "$SCORECARD_UNTAR_IMG" --storage-image "$SCORECARD_UNTAR_IMG")
prepare
say 'scorecard runs (some minutes)'
# Read the report, because the exit code does not distinguish all failures.
"$sdk" scorecard bundle --kubeconfig "$KUBECONFIG" --namespace "$namespace" --service-account d3os-operator-scorecard \
	--pod-security restricted --wait-time 600s --output json --selector "${1:-suite in (basic,olm,custom)}" \
	"${flags[@]}" >"$report" || jq --exit-status .items "$report" >/dev/null 2>&1 || die 'scorecard did not run'
print
passed || die 'not all tests pass'
say 'all tests pass'
