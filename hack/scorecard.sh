#!/usr/bin/env bash
# make scorecard: operator-sdk's scorecard on the bundle, its basic and olm suites and the operator's
# own (test/scorecard).
#
#   hack/scorecard.sh [SELECTOR]     SELECTOR: labels of tests, as in suite=custom or test=heal
#
# On the cluster of KUBECONFIG, where the operator runs already and the images of the bundle's scorecard
# configuration can be pulled.
#
#   SCORECARD_UNTAR_IMG   in place of the images that scorecard unpacks the bundle and keeps results with
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

tools=${TOOLS:-$PWD/bin/tools}
sdk=$tools/operator-sdk
kubectl=${KUBECTL:-$tools/kubectl}
namespace=d3os-operator-scorecard # rbac.yaml names it too
report=$(mktemp)

say() { printf '[%3d s] %s\n' "$SECONDS" "$*"; }
die() { echo "scorecard.sh: $*" >&2; exit 1; }

cleanup() {
	local status=$?
	trap - EXIT
	rm -f "$report"
	if [[ ${prepared:-} ]]; then
		# Of tests that were ended by force.
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

# One line for each result, and below those that did not pass what they have to say.
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

# passed: every test has results, and all of them are pass.
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
# Its own status says less than the report does.
"$sdk" scorecard bundle --kubeconfig "$KUBECONFIG" --namespace "$namespace" --service-account d3os-operator-scorecard \
	--pod-security restricted --wait-time 600s --output json --selector "${1:-suite in (basic,olm,custom)}" \
	"${flags[@]}" >"$report" || jq --exit-status .items "$report" >/dev/null 2>&1 || die 'scorecard did not run'
print
passed || die 'not all tests pass'
say 'all tests pass'
