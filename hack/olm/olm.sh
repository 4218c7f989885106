#!/usr/bin/env bash
# Installs the Operator Lifecycle Manager in the cluster of KUBECONFIG, rendered from the chart in OLM's module.
#
#   hack/olm/olm.sh install     does nothing if the cluster has an OLM
#   hack/olm/olm.sh uninstall   removes OLM, and therefore every operator that OLM has installed
#
# The chart's CatalogSource, OperatorHub.io, is omitted, because it needs the internet.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
tools=${TOOLS:-$root/bin/tools}
export PATH=$tools:$PATH
image=quay.io/operator-framework/olm:latest

module() { GOWORK=off go list -C "$root/hack/tools/olm" -mod=mod -m -f '{{.Dir}}' github.com/operator-framework/operator-lifecycle-manager; }

manifests() {
	helm template olm "$module/deploy/chart" --values "$module/deploy/upstream/values.yaml" \
		--set "olm.image.ref=$image,catalog.image.ref=$image,package.image.ref=$image" \
		--set package.image.pullPolicy=IfNotPresent,package.replicaCount=1 \
		--set installType=offline,minKubeVersion=1.11.0 \
		--set 'catalog.commandArgs=,catalog.opmImageArgs=--opmImage=quay.io/operator-framework/opm:latest'
}

install() {
	if kubectl get crd clusterserviceversions.operators.coreos.com >/dev/null 2>&1; then
		echo 'OLM is there already'
		return
	fi
	kubectl apply --server-side --filename "$module/deploy/chart/crds" >/dev/null
	kubectl wait --for condition=Established --filename "$module/deploy/chart/crds" --timeout 60s >/dev/null
	manifests | kubectl apply --server-side --filename - >/dev/null
	kubectl rollout status --namespace olm deployment/olm-operator deployment/catalog-operator --timeout 120s
	kubectl wait --namespace olm csv/packageserver --for 'jsonpath={.status.phase}=Succeeded' --timeout 180s
}

uninstall() {
	kubectl delete --ignore-not-found apiservice v1.packages.operators.coreos.com
	# Only OLM removes the finalizer of a ClusterServiceVersion. Therefore delete these first.
	kubectl delete csv --all --all-namespaces --timeout 60s
	manifests | kubectl delete --ignore-not-found --filename -
	kubectl delete --ignore-not-found --filename "$module/deploy/chart/crds"
}

module=$(module)
case ${1:-} in
install | uninstall) "$1" ;;
*) echo "usage: $0 install|uninstall" >&2; exit 1 ;;
esac
