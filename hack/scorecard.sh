#!/usr/bin/env bash
# make scorecard: operator-sdk's scorecard on the bundle, its basic and olm suites and the operator's
# own (test/scorecard).
#
#   hack/scorecard.sh [SELECTOR]     SELECTOR: labels of tests, as in suite=custom or test=heal
#
# With USER_CLUSTER (a kubeconfig) on that cluster, where the operator runs already and the images of
# the bundle's scorecard configuration can be pulled. Otherwise on a real node (hack/node/node.sh),
# with images of this machine's build and the operator out of config/default; what was started for it
# is removed again.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

tools=${TOOLS:-$PWD/bin/tools}
sdk=$tools/operator-sdk
kubectl=${KUBECTL:-$tools/kubectl}
namespace=d3os-operator-scorecard # rbac.yaml names it too
untar=quay.io/operator-framework/scorecard-untar:node
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
	[[ ! ${node_started:-} ]] || hack/node/node.sh down
	exit "$status"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

# part_of IMAGE: which part of test/images stands in for it (hack/node/images.sh).
part_of() {
	case $1 in
	*/mysql-dataservice:* | */mysql:*) echo mysql ;;
	*/eureka:*) echo eureka ;;
	*/dataservice-web:*) echo web ;;
	*/curl:*) echo outside ;;
	*/redis:*) echo cache ;;
	*/busybox:*) echo busybox ;;
	*/orders/*) echo orders ;;
	*) echo service ;;
	esac
}

# Every image that the examples name or default to, and those of the operator and of scorecard.
node_images() {
	local file image images=("manager=$IMG" "scorecard=$SCORECARD_IMG" "busybox=$untar")
	images+=("scorecard-test=$(sed -n 's/^ *image: *\(.*scorecard-test:.*\)/\1/p' bundle/tests/scorecard/config.yaml | head -n 1)")
	while read -r file; do
		while read -r image; do
			[[ ${image%%/*} == *.* ]] || image=docker.io/$image
			images+=("$(part_of "$image")=$image")
		done < <(bin/manager render -f "config/samples/$file" | sed -n 's/^[ -]*image: *//p' | sort -u)
	done < <(sed -n 's/^- *\(.*\.yaml\)$/\1/p' config/samples/kustomization.yaml)
	hack/node/images.sh "${images[@]}"
}

node() {
	if ! hack/node/node.sh status >/dev/null 2>&1; then
		node_started=1
		hack/node/node.sh up
	fi
	export KUBECONFIG=${NODE_DIR:-$PWD/.cluster/node}/kubeconfig
	node_images
	"$kubectl" apply --filename test/scorecard/small-node.yaml >/dev/null
	"$tools/kustomize" build config/default | sed "s|image: controller:latest|image: $IMG|" | "$kubectl" apply --filename - >/dev/null
	"$kubectl" --namespace d3os-operator-system rollout status deployment/d3os-operator-controller-manager --timeout 120s
	say 'the operator runs on the node'
}

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

command -v jq >/dev/null || die 'jq is missing'
flags=()
if [[ ${USER_CLUSTER:-} ]]; then
	export KUBECONFIG=$USER_CLUSTER
else
	node
	flags+=(--untar-image "$untar" --storage-image "$untar")
fi
prepare
say 'scorecard runs (some minutes)'
# Its own status says less than the report does.
"$sdk" scorecard bundle --kubeconfig "$KUBECONFIG" --namespace "$namespace" --service-account d3os-operator-scorecard \
	--pod-security restricted --wait-time 600s --output json --selector "${1:-suite in (basic,olm,custom)}" \
	"${flags[@]}" >"$report" || jq --exit-status .items "$report" >/dev/null 2>&1 || die 'scorecard did not run'
print
passed || die 'not all tests pass'
say 'all tests pass'
