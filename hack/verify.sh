#!/usr/bin/env bash
# Runs suites one after the other, and prints the seconds of each and their sum.
#
#   hack/verify.sh short|full [STEP...]     default: all steps
#
#   short   what every change must pass, each suite in its short form (.ci/run)
#   full    everything there is, each suite in full (make verify)
#
# Steps that wait for clusters more than they compute run in parallel to others in the short form: two at a time, each with
# its output kept until it has ended. There the steps continue after a failure, and all failures are printed at the end.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export CI=1

form=${1:-}
shift || true
root=
((EUID == 0)) || root='sudo --preserve-env '
make='make --no-print-directory'

declare -A short=(
	[build]="$make build"
	[tools]="$make tools"
	[lint]="$make lint"
	[verify-generated]="$make verify-generated"
	[security]="$make security"
	[test]="$make test"
	[chaos]="$make suite SUITE=chaos"
	[transitions]="$make suite SUITE=transitions"
	[bad-input]="$make suite SUITE=bad-input"
	[fuzz]="$make suite SUITE=fuzz"
	[e2e]="$root$make e2e"
)
declare -A full=(
	[oldest-tools]="$make cluster-tools KUBERNETES=oldest"
	[bundle-validate]="$make bundle-validate"
	[images-verify]="$make images-verify"
	[mirror-verify]="$make mirror-verify"
	[plugin-verify]="$make plugin-verify"
	[test]="$make test SHORT="
	[test-oldest]="$make test SHORT= KUBERNETES=oldest"
	[chaos]="$make suite SUITE=chaos CHAOS=full"
	[transitions]="$make suite SUITE=transitions TRANSITIONS=full"
	[fuzz]="$make suite SUITE=fuzz FUZZTIME=5m"
	[redis]="$make suite SUITE=redis"
	[backup]="$make suite SUITE=backup"
	[alerts]="$make suite SUITE=alerts ALERTS=full"
	[etcd]="$make suite SUITE=etcd"
	[mysql]="$make suite SUITE=mysql"
	[guard]="$make suite SUITE=guard"
	[ha]="$make suite SUITE=ha"
	[e2e]="$root$make e2e E2E=full"
	[bench]="$make bench"
	[load]="$make bench LOAD=100,300,1000"
	[model]="$make suite SUITE=model"
)
# What fails soonest comes first. Fuzzing is not among them: its seeds are part of `make test`, and it has to compile all
# anew, with coverage, before it tries more.
first=(build tools lint verify-generated security)
left=(chaos)
right=(transitions bad-input)
everything=(build tools oldest-tools lint verify-generated security bundle-validate images-verify mirror-verify plugin-verify
	test test-oldest redis etcd mysql guard backup model alerts bad-input fuzz ha e2e chaos transitions bench load)

work=$(mktemp -d)
touch "$work/seconds" "$work/failed"

# step NAME
step() {
	local name=$1 command=${short[$1]:-} start=$SECONDS failed=
	[[ $form == short ]] || command=${full[$name]:-$command}
	printf '\n=== %s: %s\n' "$name" "$command"
	# shellcheck disable=SC2086
	$command || failed=FAILED
	[[ ! $failed ]] || echo "$name" >>"$work/failed"
	printf '%-24s %6d  %s\n' "$name" $((SECONDS - start)) "$failed" >>"$work/seconds"
	[[ ! $failed ]]
}

# all STEP...: up to the first that fails.
all() {
	local name
	for name; do step "$name" || return 1; done
}

# each STEP...: also after one has failed.
each() {
	local name
	for name; do step "$name" || true; done
}

report() {
	printf '\n%-24s %s\n' STEP SECONDS
	cat "$work/seconds"
	printf '%-24s %6d\n' 'sum of the steps' "$(awk '{sum += $(NF > 2 ? NF - 1 : NF)} END {print sum}' "$work/seconds")"
	printf '%-24s %6d\n' total "$SECONDS"
	[[ ! ${beside:-} ]] || kill -TERM -- "-$beside" 2>/dev/null
	if [[ -s $work/failed ]]; then
		printf '\nfailed: %s\n' "$(paste -sd ' ' "$work/failed")"
	fi
	rm -rf "$work"
}
trap report EXIT
trap 'exit 130' INT TERM

# together: the steps of the two lists, side by side.
together() {
	set -m # a separate group, so that it can be ended with all it has started
	each "${right[@]}" >"$work/right" 2>&1 </dev/null &
	beside=$!
	set +m
	echo "=== beside what follows, with their output after it: ${right[*]}"
	each "${left[@]}"
	wait "$beside"
	beside=
	cat "$work/right"
	[[ ! -s $work/failed ]]
}

go version
case $form in
short | full)
	for name; do
		[[ ${short[$name]:-} || ${full[$name]:-} ]] || { echo "verify.sh: there is no step $name" >&2; exit 2; }
	done
	if (($#)); then
		all "$@" || exit 1
	elif [[ $form == full ]]; then
		all "${everything[@]}" || exit 1
	else
		# Tests of reactions and real pods have the machine to themselves.
		{ all "${first[@]}" test && together && all e2e; } || exit 1
	fi
	;;
*) echo "usage: $0 short|full [STEP...]" >&2; exit 2 ;;
esac
printf '\nall checks passed\n'
