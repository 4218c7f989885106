#!/usr/bin/env bash
# make demo: starts a cluster, installs the CRD, the operator and a sample platform, and prints changes until the platform is ready.
#
#   hack/demo.sh up|tour|down
#
# With USER_CLUSTER (a kubeconfig), the demo uses the user's cluster, unless the kubeconfig belongs to the embedded cluster. In both cases,
# the operator runs on this machine. Its log and process ID are in .cluster/demo.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

started=${DEMO_START:-$(date +%s)}
name=dataservice-sample
namespace=default
embedded=$PWD/.cluster/${CLUSTER_NAME:-d3os}/kubeconfig
[[ ${USER_CLUSTER:-} != "$embedded" ]] || USER_CLUSTER=
[[ ! ${USER_CLUSTER:-} ]] || namespace=d3os-demo # demo-down deletes this namespace with all its objects
sample=config/samples/d3os-product.com_v1_dataservice.yaml
state=$PWD/.cluster/demo
log=$state/operator.log
pidfile=$state/operator.pid
kubectl=${KUBECTL:-$PWD/bin/tools/kubectl}
export KUBECONFIG=${USER_CLUSTER:-${KUBECONFIG:-$embedded}}

if [[ -t 1 ]]; then bold=$'\e[1m' green=$'\e[32m' red=$'\e[31m' off=$'\e[0m'; else bold='' green='' red='' off=''; fi

elapsed() { printf '%3d s' $(($(date +%s) - started)); }
say() { printf '%s[%s]%s %s\n' "$bold" "$(elapsed)" "$off" "$*"; }
k() { "$kubectl" --namespace "$namespace" "$@"; }

operator_runs() {
	[[ -f $pidfile ]] && [[ $(cat "/proc/$(<"$pidfile")/comm" 2>/dev/null) == manager ]]
}

stop_operator() {
	if operator_runs; then
		local pid
		pid=$(<"$pidfile")
		kill "$pid"
		for _ in {1..100}; do
			kill -0 "$pid" 2>/dev/null || break
			sleep 0.1
		done
		! kill -0 "$pid" 2>/dev/null || kill -KILL "$pid"
	fi
	rm -f "$pidfile"
}

start_operator() {
	stop_operator
	# Resources that need the agent fail without its image. Simulated pods pull no image, so any name is sufficient. In the user's cluster
	# the image must exist, so the user sets the name.
	[[ ${USER_CLUSTER:-} ]] || export RELATED_IMAGE_AGENT=${RELATED_IMAGE_AGENT:-${IMG:-d3os-operator}}
	# Detached: the operator outlives this script. Without ports: several demos may run on a machine.
	setsid bin/manager --leader-elect=false --health-probe-bind-address=0 --metrics-bind-address=0 \
		>"$log" 2>&1 </dev/null &
	echo $! >"$pidfile"
}

fail() {
	printf '\n%s%s%s\n' "$red" "$*" "$off" >&2
	k get dataservice "$name" >&2 || true
	echo "The end of the operator's log ($log):" >&2
	tail -n 30 "$log" >&2
	exit 1
}

# print_changes prints a line for every change in the output of `kubectl get dataservice`.
print_changes() {
	local last='' ready phase message
	while IFS='|' read -r ready phase message; do
		[[ $phase && "$ready|$phase|$message" != "$last" ]] || continue
		last="$ready|$phase|$message"
		printf '[%s]  %-6s %-9s %s\n' "$(elapsed)" "$ready" "$phase" "$message"
	done
}

# kubectl wait fails for a CRD without conditions, and the API server may not serve an established CRD yet.
wait_until_served() {
	local end=$((SECONDS + 30))
	until "$kubectl" get dataservices.d3os-product.com.d3os --all-namespaces >/dev/null 2>&1; do
		if ((SECONDS > end)); then
			echo 'the API server did not serve DataServices within 30 s after the installation of their CRD' >&2
			return 1
		fi
		sleep 0.2
	done
}

wait_until_ready() {
	local deadline=$(($(date +%s) + 180)) generation
	generation=$(k get dataservice "$name" --output jsonpath='{.metadata.generation}')
	until k wait dataservice "$name" --for=jsonpath='{.status.observedGeneration}'="$generation" --timeout=5s >/dev/null 2>&1 &&
		k wait dataservice "$name" --for=condition=Ready --timeout=5s >/dev/null 2>&1; do
		operator_runs || fail 'The operator has stopped.'
		(($(date +%s) < deadline)) || fail 'The platform was not ready within three minutes.'
	done
}

components() {
	k get dataservice "$name" --output jsonpath='{range .status.components[*]}{.name}|{.kind}|{.phase}|{.ready}/{.desired}|{.message}{"\n"}{end}' |
		awk -F'|' -v f='  %-16s %-12s %-10s %-6s %s\n' 'BEGIN { printf f, "COMPONENT", "KIND", "PHASE", "PODS", "" } { printf f, $1, $2, $3, $4, $5 }'
}

up() {
	mkdir -p "$state"
	if [[ ${USER_CLUSTER:-} ]]; then
		say "using the cluster of KUBECONFIG=$USER_CLUSTER"
	else
		say 'starting a cluster (real control plane, simulated pods)'
		CLUSTER_PODS=general hack/cluster.sh up | sed 's/^/        /'
	fi

	say 'installing the CRD'
	"$kubectl" get crd dataservices.d3os-product.com.d3os >/dev/null 2>&1 || touch "$state/installed-crd"
	"$kubectl" apply --server-side --force-conflicts -k config/crd >/dev/null
	wait_until_served

	say 'starting the operator'
	start_operator

	say "kubectl apply -f $sample"
	"$kubectl" get namespace "$namespace" >/dev/null 2>&1 || "$kubectl" create namespace "$namespace" >/dev/null
	k apply -f "$sample" >/dev/null

	printf '\n%s         READY  PHASE     MESSAGE%s\n' "$bold" "$off"
	rm -f "$state/watch"
	mkfifo "$state/watch"
	"$kubectl" --namespace "$namespace" get dataservice "$name" --watch \
		--output jsonpath='{.status.ready}|{.status.phase}|{.status.message}{"\n"}' >"$state/watch" 2>/dev/null &
	watcher=$!
	trap 'kill "$watcher" 2>/dev/null || true' EXIT
	print_changes <"$state/watch" &
	local printer=$!
	wait_until_ready
	sleep 0.5 # the watch prints its last lines
	kill "$watcher"
	wait "$printer"

	echo
	components
	printf '\n%s%s[%s] The platform is ready.%s\n' "$bold" "$green" "$(elapsed)" "$off"
	next_steps
}

next_steps() {
	cat <<-TEXT

		${bold}What to try next${off} (the operator runs in the background, its log is $log)

		  make tour                                   # two minutes: a broken image, why, diff, history, rollback

		  export KUBECONFIG=$KUBECONFIG PATH=$PWD/bin:$PWD/bin/tools:\$PATH
		  alias k='kubectl -n $namespace'

		  k get dataservices                          # the state of the platform
		  k describe dataservice $name   # every component, condition and event
		  k get all,configmaps,secrets,pvc            # the objects of the platform

		  k delete deployment auth; k get deploy auth -w     # the operator restores it at once
		  k patch dataservice $name --type merge -p '{"spec":{"auth":{"replica":3}}}'
		  k patch dataservice $name --type merge -p '{"spec":{"es-adapter":null}}'   # the component is deleted

		  # An image that cannot be pulled: the status names the pod and the reason; the old pod keeps serving.
		  k patch dataservice $name --type merge -p '{"spec":{"proxy":{"image":"registry.example.com/does-not-exist:v1"}}}'
		  k get dataservice $name -w
		  k apply -f $sample
		                                              # restores the sample

		  go run . render -f my.yaml                  # the manifests, without a cluster
		  make demo-down                              # removes the demo
	TEXT
}

tour() {
	operator_runs || {
		echo 'The demo does not run. Start it with `make demo`.' >&2
		exit 1
	}
	PATH=$PWD/bin:$(dirname "$kubectl"):$PATH hack/tour.sh "$namespace" "$name" "$sample"
}

down() {
	if [[ ${USER_CLUSTER:-} ]]; then
		# The namespace has only objects of the demo. Its volumes and passwords are deleted, too.
		"$kubectl" delete namespace "$namespace" --ignore-not-found
		if [[ -f $state/installed-crd && ! $("$kubectl" get dataservices --all-namespaces --output name) ]]; then
			"$kubectl" delete --ignore-not-found -k config/crd
		fi
	fi
	stop_operator
	rm -rf "$state"
	[[ ${USER_CLUSTER:-} ]] || hack/cluster.sh down
	rmdir .cluster 2>/dev/null || true
	echo 'the demo is removed'
}

case ${1:-} in
up | tour | down) "$1" ;;
*) echo "usage: $0 up|tour|down" >&2; exit 2 ;;
esac
