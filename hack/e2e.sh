#!/usr/bin/env bash
# make e2e: installs the operator as users do, with real pods (test/e2e).
#
#   hack/e2e.sh [PATTERN]     PATTERN: names of tests, such as TestCatalog; default: all
#
# Without USER_CLUSTER, it starts a node on this machine (hack/node/node.sh; root, Debian 12 or newer). It pushes the images of this
# checkout to the node's registry, and stops the node at the end.
#
# With USER_CLUSTER (a kubeconfig), it uses that cluster. If that cluster is the running node, images are pushed to the node's registry.
# Otherwise they are pushed to REGISTRY=host[:port] (CERT_DIR: a folder with the registry's ca.crt) under the path of their names, and the
# cluster must use this registry for every name. Without REGISTRY, the cluster must be able to pull all images under their names.
#
#   KEEP=1     leave the node running
#   E2E=full   OLM v1 and a store of S3, too; on a node of this machine only
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

pattern=${1:-}
tools=${TOOLS:-$PWD/bin/tools}
node_dir=${NODE_DIR:-$PWD/.cluster/node}
log=$PWD/.cluster/e2e.log
: "${IMG:?}" "${SCORECARD_IMG:?}"
export E2E=${E2E:-}
export PATH=$tools:$PATH TOOLS=$tools KUBECTL=$tools/kubectl
mkdir -p "$(dirname "$log")"

say() { printf '[%4d s] %s\n' "$SECONDS" "$*"; }
quietly() { "$@" >>"$log" 2>&1 || { tail -n 40 "$log" >&2; echo "e2e.sh: failed: $*; all of it is in $log" >&2; exit 1; }; }

cleanup() {
	local status=$?
	trap - EXIT
	if [[ ${node_started:-} && ! ${KEEP:-} ]]; then
		hack/node/node.sh down
	elif [[ ${olm_installed:-} && ! ${KEEP:-} ]]; then
		quietly hack/olm/olm.sh uninstall
	fi
	exit "$status"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

: >"$log"
if [[ ! ${USER_CLUSTER:-} ]]; then
	if ! hack/node/node.sh status >/dev/null 2>&1; then
		node_started=1
		hack/node/node.sh up
	fi
	export KUBECONFIG=$node_dir/kubeconfig
else
	export KUBECONFIG=$USER_CLUSTER
fi
export USER_CLUSTER=$KUBECONFIG # the cluster of each make that a test runs
if [[ $KUBECONFIG -ef $node_dir/kubeconfig ]]; then
	export REGISTRY=198.18.77.2 CERT_DIR=$node_dir/pki/trust E2E_EXEC='hack/node/node.sh exec --'
	export E2E_RESTART_KUBELET='hack/node/node.sh restart kubelet'
	architecture=$(dpkg --print-architecture)
	export PLATFORMS=linux/$architecture
fi

if [[ ${REGISTRY:-} ]]; then
	# The default image of scorecard has a digest that only the original registry has.
	export SCORECARD_UNTAR_IMG=quay.io/operator-framework/scorecard-untar:e2e
	say 'images of the platform'
	quietly hack/node/images.sh
	say 'images of OLM and scorecard'
	quietly hack/olm/images.sh
	say 'images of the operator, its bundles and its catalog'
	# Not in bin/images: these images are for one platform only.
	export IMAGES_DIR=$PWD/.cluster/e2e
	quietly make --no-print-directory images images-push
	# The releases from which the tests upgrade, in their released form.
	while read -r -u 3 version commit; do
		say "the operator $version of ${commit:0:12}"
		quietly make --no-print-directory images images-push IMAGES=manager VERSION="$version" IMG="${IMG%:*}:v$version"
	done 3<releases/commits
	unset IMAGES_DIR
fi
say 'OLM'
"$KUBECTL" get crd clusterserviceversions.operators.coreos.com >/dev/null 2>&1 || olm_installed=1
quietly hack/olm/olm.sh install
if [[ $E2E == full ]]; then
	say 'OLM v1'
	[[ $KUBECONFIG -ef $node_dir/kubeconfig ]] || { echo 'e2e.sh: E2E=full needs a node of this machine: unset KUBECONFIG' >&2; exit 1; }
	quietly hack/olm/v1.sh install
fi

[[ $pattern ]] || export E2E_WHOLE=1
say "tests (${pattern:-all of them})"
go test -tags e2e -count 1 -timeout 40m -v -run "$pattern" ./test/e2e
say 'all passed'
