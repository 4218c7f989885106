#!/usr/bin/env bash
# make tour: shows the kubectl plugin on a running platform. It rolls out a broken image, explains the fault and rolls back.
#
#   hack/tour.sh NAMESPACE NAME FILE
#
# NAME is a ready DataService, and FILE its manifest. kubectl must have access to the cluster, with the plugin in the PATH. On a terminal,
# each step waits for Enter. Every change is reverted, also if the user interrupts the tour.
set -euo pipefail

namespace=$1 name=$2 file=$3
waits=60s

if [[ -t 1 ]]; then bold=$'\e[1m' green=$'\e[32m' off=$'\e[0m'; else bold='' green='' off=''; fi

# Flags come last: kubectl accepts no flags before the name of a plugin.
flags=()
[[ $namespace == default ]] || flags=(--namespace "$namespace")
k() { kubectl "$@" "${flags[@]}"; }

say() { printf '\n%s%s%s\n' "$bold" "$*" "$off"; }

# show COMMAND...: prints a command, and runs it. Exit code 1 of the plugin reports a problem or a difference, and is not an error.
show() {
	printf '%s$ kubectl' "$green"
	set -- "$@" "${flags[@]}"
	printf ' %s' "${@@Q}" | sed "s/'\([A-Za-z0-9_./:=-]*\)'/\1/g"
	printf '%s\n' "$off"
	if [[ -t 0 && -t 1 ]]; then read -rsp '' </dev/tty; fi
	local code=0
	kubectl "$@" || code=$?
	((code == 0)) || [[ $1 == dataservice && $code == 1 ]] || exit "$code"
}

until_image_fails() {
	local end=$((SECONDS + 60))
	until [[ $(k get dataservice "$name" --output jsonpath='{.status.message}') == *ImagePullBackOff* ]]; do
		((SECONDS < end)) || { echo 'tour.sh: the status did not name the image within a minute' >&2; exit 1; }
		sleep 0.5
	done
}

broken=''
clean_up() {
	[[ ! $broken ]] || k apply --filename "$file" >/dev/null
}
trap clean_up EXIT

k wait dataservice "$name" --for=condition=Ready --timeout="$waits" >/dev/null || { echo "tour.sh: the platform is not ready; start it with make demo" >&2; exit 1; }
[[ ! -t 0 || ! -t 1 ]] || echo 'Press Enter to run a command, Ctrl-C to leave.'

say '1. Read the status: the components with their phases, times and problems.'
show dataservice status "$name"

say '2. Break the platform with an image that does not exist. The old pod of proxy keeps serving.'
broken=yes
show patch dataservice "$name" --type merge --patch '{"spec":{"proxy":{"image":"registry.example.com/does-not-exist:v1"}}}'
show wait dataservice "$name" --for=condition=Degraded --timeout="$waits"
until_image_fails

say '3. Find the cause. The first line has the cause, the second line the object to look at.'
show dataservice why "$name"

say '4. Compare the file with the cluster. The command writes nothing.'
show dataservice diff --filename "$file" --summary

say '5. List the earlier specs and their states.'
show dataservice history "$name"

say '6. Return to the last good spec. (Without --yes the command asks.)'
show dataservice rollback "$name" --yes
show wait dataservice "$name" --for=condition=Ready --timeout="$waits"
broken=''

say '7. Delete an object. The operator creates it again.'
show delete deployment auth
show wait deployment auth --for=create --timeout="$waits"
show wait dataservice "$name" --for=condition=Ready --timeout="$waits"
show dataservice events "$name" auth

say 'That was the tour. `kubectl dataservice --help` lists every command, docs/plugin.md explains them.'
