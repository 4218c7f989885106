#!/usr/bin/env bash
# A Kubernetes cluster on this machine without containers: a real etcd, API server, controller
# manager and scheduler as processes on loopback; nodes and pods are simulated (kwok).
#
#   hack/cluster.sh up|down|status
#
#   CLUSTER_NAME   default d3os
#   CLUSTER_DIR    all files that the cluster writes, including its kubeconfig; default .cluster/$CLUSTER_NAME
#   CLUSTER_PODS   fast: a scheduled pod is ready at once (default); general: it takes some seconds
#   CLUSTER_AUDIT  an audit policy: the API server's audit log is then kwok/clusters/$CLUSTER_NAME/logs/audit.log,
#                  and owner references need rights (OwnerReferencesPermissionEnforcement, as on OpenShift)
#   CLUSTER_NODES  nodes of 64 CPU, 256Gi and 1000 pods each; default 4
#   TOOLS          folder of the binaries; default bin/tools
#
# `up` changes nothing in a running cluster, except that it adds missing nodes. hack/cluster/pods-failing.yaml shows how to make a pod fail.
# A ready pod keeps any status that a test writes, so a test may make it unready by a patch.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
name=${CLUSTER_NAME:-d3os}
dir=${CLUSTER_DIR:-$root/.cluster/$name}
pods=${CLUSTER_PODS:-fast}
nodes=${CLUSTER_NODES:-4}
audit=${CLUSTER_AUDIT:-}
tools=${TOOLS:-$root/bin/tools}

[[ $dir == /* ]] || dir=$PWD/$dir
export KUBECONFIG=$dir/kubeconfig
export KWOK_WORKDIR=$dir/kwok
export KWOK_KUBECTL_BINARY=$tools/kubectl
log=$dir/cluster.log

die() { echo "cluster.sh: $*" >&2; exit 1; }
# The limit in seconds for each step of a start. A step exceeds it only if it hangs.
patience=300
kwokctl() { "$tools/kwokctl" --name "$name" "$@"; }
kubectl() { "$tools/kubectl" "$@"; }
running() { [[ -f $KUBECONFIG ]] && kubectl get --raw /readyz --request-timeout 5s >/dev/null 2>&1; }

create() {
	local checks=() admission=PodNodeSelector # a namespace may select the nodes of its pods (test/harness/emulator)
	if [[ $audit ]]; then
		checks=(--kube-audit-policy "$audit")
		admission+=,OwnerReferencesPermissionEnforcement
	fi
	# Limits on the rate of requests are off, so that tests with thousands of objects do not measure the control plane.
	kwokctl create cluster --runtime binary --wait "${patience}s" --kubeconfig "$KUBECONFIG" \
		--etcd-binary "$tools/etcd" \
		--kube-apiserver-binary "$tools/kube-apiserver" \
		--kube-controller-manager-binary "$tools/kube-controller-manager" \
		--kube-scheduler-binary "$tools/kube-scheduler" \
		--kwok-controller-binary "$tools/kwok" \
		--config "$root/hack/cluster/kwok.yaml" \
		--config "$root/hack/cluster/base.yaml" \
		--config "$root/hack/cluster/pods-failing.yaml" \
		--config "$root/hack/cluster/pods-$pods.yaml" \
		--disable-qps-limits \
		--extra-args etcd=unsafe-no-fsync=true \
		--extra-args kube-apiserver=service-cluster-ip-range=10.96.0.0/12 \
		--extra-args kwok-controller=manage-all-nodes=false \
		--extra-args kube-scheduler=leader-elect=false \
		--extra-args kube-controller-manager=concurrent-deployment-syncs=20 \
		--extra-args kube-controller-manager=concurrent-replicaset-syncs=20 \
		--extra-args kube-controller-manager=concurrent-statefulset-syncs=20 \
		--extra-args kube-controller-manager=concurrent-endpoint-syncs=20 \
		--extra-args kube-controller-manager=concurrent-service-endpoint-syncs=20 \
		--extra-args kube-controller-manager=concurrent-gc-syncs=40 \
		--extra-args kube-controller-manager=concurrent-namespace-syncs=20 \
		--extra-args kube-controller-manager=leader-elect=false \
		--extra-args kube-apiserver=enable-admission-plugins=$admission \
		--extra-args kwok-controller=manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake \
		"${checks[@]}" # these come last: kwokctl miscounts if a known component precedes a new one
}

node() {
	cat <<-YAML
		apiVersion: v1
		kind: Node
		metadata:
		  name: node-$1
		  labels:
		    kubernetes.io/hostname: node-$1
		    kubernetes.io/os: linux
		    kubernetes.io/arch: amd64
		    topology.kubernetes.io/zone: zone-$(($1 % 3))
		  annotations:
		    kwok.x-k8s.io/node: fake
		spec:
		  podCIDR: 10.$1.0.0/16
		  podCIDRs: [10.$1.0.0/16]
		status:
		  capacity: {cpu: "64", memory: 256Gi, pods: "1000"}
		  allocatable: {cpu: "64", memory: 256Gi, pods: "1000"}
		---
	YAML
}

# The controller manager exits if the API server is not healthy within ten seconds, as on a busy machine. kwokctl waits only for the API
# server. The first service account proves that the controller manager works.
complete() {
	local end=$((SECONDS + patience))
	until kubectl get serviceaccount default --namespace default --request-timeout 5s; do
		((SECONDS < end)) || { echo "the controller manager has created no service account within $patience s"; return 1; }
		kwokctl start cluster # starts ended components; the others continue
		sleep 0.5
	done
}

populate() {
	kubectl apply -f "$root/hack/cluster/storageclass.yaml"
	for ((i = 1; i <= nodes; i++)); do node "$i"; done | kubectl apply -f -
	kubectl wait --for=condition=Ready nodes --all --timeout "${patience}s"
}

up() {
	[[ $pods == fast || $pods == general ]] || die "CLUSTER_PODS must be fast or general, not $pods"
	for tool in etcd kube-apiserver kube-controller-manager kube-scheduler kubectl kwok kwokctl; do
		[[ -x $tools/$tool ]] || die "$tools/$tool is missing: run 'make cluster-tools' first"
	done
	mkdir -p "$dir"
	: >"$log"
	# kwokctl selects free ports, but another cluster could use the same ports before this one does. So the clusters of a machine start one
	# after the other.
	if command -v flock >/dev/null; then
		exec 9>"${TMPDIR:-/tmp}/d3os-cluster-$(id -u).lock"
		flock 9
	fi
	if ! running; then
		down_quietly
		create >>"$log" 2>&1 9>&- || fail
	fi
	complete >>"$log" 2>&1 9>&- || fail
	populate >>"$log" 2>&1 9>&- || fail
	echo "cluster $name is up: $nodes nodes, pods: $pods, KUBECONFIG=$KUBECONFIG"
}

fail() {
	tail -n 20 "$log" >&2
	die "the cluster did not come up; the components' logs are in $KWOK_WORKDIR/clusters/$name/logs"
}

down_quietly() {
	[[ ! -d $KWOK_WORKDIR ]] || kwokctl delete cluster --kubeconfig "$KUBECONFIG" >>"$log" 2>&1 || true
	rm -rf "$KWOK_WORKDIR" "$KUBECONFIG"
}

down() {
	if [[ -d $dir ]]; then
		down_quietly
		rm -f "$log" "$KUBECONFIG.lock"
		rmdir "$dir" 2>/dev/null || true # the folder may contain files of the caller
		rmdir "$(dirname "$dir")" 2>/dev/null || true
	fi
	echo "cluster $name is removed"
}

status() {
	running || { echo "cluster $name is not running"; exit 1; }
	echo "cluster $name is running, KUBECONFIG=$KUBECONFIG"
	kubectl get nodes
}

case ${1:-} in
up | down | status) "$1" ;;
*) die "usage: $0 up|down|status" ;;
esac
