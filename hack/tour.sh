#!/usr/bin/env bash
# make tour: a walk through a platform that runs, with the kubectl plugin. A broken image is rolled out, explained and taken back.
#
#   hack/tour.sh NAMESPACE NAME FILE
#
# NAME is a DataService that is ready, FILE its manifest. kubectl, with the plugin in the PATH, knows the cluster. On a
# terminal each step waits for Enter. Every change is taken back, also when the tour is broken off.
set -euo pipefail

namespace=$1 name=$2 file=$3
waits=60s

if [[ -t 1 ]]; then bold=$'\e[1m' green=$'\e[32m' off=$'\e[0m'; else bold='' green='' off=''; fi

# Flags stand last: kubectl takes none before the name of a plugin.
flags=()
[[ $namespace == default ]] || flags=(--namespace "$namespace")
k() { kubectl "$@" "${flags[@]}"; }

say() { printf '\n%s%s%s\n' "$bold" "$*" "$off"; }

# show COMMAND...: prints a command, and runs it. Exit code 1 of the plugin is an answer (no), and no error.
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

say '1. Is it well? One screen: what runs, since when, and what is wrong.'
show dataservice status "$name"

say '2. Break it: an image that does not exist. The old pod of proxy goes on serving.'
broken=yes
show patch dataservice "$name" --type merge --patch '{"spec":{"proxy":{"image":"registry.example.com/does-not-exist:v1"}}}'
show wait dataservice "$name" --for=condition=Degraded --timeout="$waits"
until_image_fails

say '3. Why is it not well? The first line is the cause, the second the object to look at.'
show dataservice why "$name"

say '4. What would the file change in the cluster? Nothing is written by asking.'
show dataservice diff --filename "$file" --summary

say '5. Which specs did it have, and which of them was good?'
show dataservice history "$name"

say '6. Go back to the last good one. (Without --yes it asks.)'
show dataservice rollback "$name" --yes
show wait dataservice "$name" --for=condition=Ready --timeout="$waits"
broken=''

say '7. Delete what it is made of, and it comes back.'
show delete deployment auth
show wait deployment auth --for=create --timeout="$waits"
show wait dataservice "$name" --for=condition=Ready --timeout="$waits"
show dataservice events "$name" auth

say 'That was the tour. `kubectl dataservice --help` lists every command, docs/plugin.md explains them.'
