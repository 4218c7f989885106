#!/usr/bin/env bash
# Installs OLM v1 (operator-controller and catalogd) on the node of hack/node, rendered from the kustomization in OLM v1's module.
#
#   hack/olm/v1.sh install     does nothing if the cluster has an OLM v1
#
# Usually cert-manager creates the certificates of OLM v1. Here, the node's CA creates one certificate for both programs. OLM v1 itself
# pulls images, so its pods get this CA and the registry's address.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
tools=${TOOLS:-$root/bin/tools}
pki=${NODE_DIR:-$root/.cluster/node}/pki
registry=${REGISTRY:-198.18.77.2}
export PATH=$tools:$PATH
image=quay.io/operator-framework/olm-v1
namespace=olmv1-system

# certificate: writes a key, a certificate and its CA to $work.
certificate() {
	local name=catalogd-service.$namespace
	openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=olm-v1 -keyout "$work/tls.key" -out "$work/csr"
	openssl x509 -req -in "$work/csr" -CA "$pki/ca.crt" -CAkey "$pki/ca.key" -set_serial "0x$(openssl rand -hex 8)" -days 365 \
		-out "$work/tls.crt" -extfile <(echo "subjectAltName=DNS:$name.svc,DNS:$name.svc.cluster.local")
	cp "$pki/ca.crt" "$work/ca.crt"
}

# manifests: prints OLM v1's overlay for cert-manager without the objects of cert-manager.
manifests() {
	local module certificates=()
	module=$(GOWORK=off go list -C "$root/hack/tools/olm-v1" -mod=mod -m -f '{{.Dir}}' github.com/operator-framework/operator-controller)
	cp -r "$module/config" "$work/config"
	chmod -R u+w "$work/config"
	certificates=(--from-file="$work/ca.crt" --from-file="$work/tls.crt" --from-file="$work/tls.key" --dry-run=client --output yaml)
	kubectl create secret generic catalogd-service-cert-git-version --namespace "$namespace" "${certificates[@]}" >"$work/catalogd.yaml"
	kubectl create secret generic olmv1-cert --namespace "$namespace" "${certificates[@]}" >"$work/operator-controller.yaml"
	cat >"$work/kustomization.yaml" <<-YAML
		resources: [config/base/common, config/base/catalogd, config/base/operator-controller, catalogd.yaml, operator-controller.yaml]
		components: [config/components/tls/catalogd, config/components/tls/operator-controller]
		images:
		- {name: quay.io/operator-framework/catalogd, newName: $image, newTag: latest}
		- {name: quay.io/operator-framework/operator-controller, newName: $image, newTag: latest}
		patches:
		- target: {kind: Certificate}
		  patch: |
		    {apiVersion: cert-manager.io/v1, kind: Certificate, metadata: {name: any}, \$patch: delete}
		- target: {kind: MutatingWebhookConfiguration}
		  patch: |
		    - {op: add, path: /webhooks/0/clientConfig/caBundle, value: $(base64 --wrap 0 "$work/ca.crt")}
		- target: {kind: Deployment}
		  patch: |
		    - {op: add, path: /spec/template/spec/hostAliases, value: [{ip: $registry, hostnames: [registry-edge.cosmoplat.com]}]}
	YAML
	kustomize build "$work"
}

install() {
	if kubectl get crd clusterextensions.olm.operatorframework.io >/dev/null 2>&1; then
		echo 'OLM v1 is there already'
		return
	fi
	work=$(mktemp -d)
	trap 'rm -rf "$work"' EXIT
	certificate
	manifests >"$work/manifests.yaml"
	kubectl apply --server-side --filename "$work/manifests.yaml"
	kubectl rollout status --namespace "$namespace" deployment/catalogd-controller-manager --timeout 120s
	kubectl rollout status --namespace "$namespace" deployment/operator-controller-controller-manager --timeout 120s
}

case ${1:-} in
install) "$1" ;;
*) echo "usage: $0 install" >&2; exit 1 ;;
esac
