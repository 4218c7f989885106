#!/usr/bin/env bash
# Runs the tests of every module, the root module in parallel to the others. It continues after a failed module. The output of a failed test
# is printed when its package ends. `make lint` runs vet. The log ends with the seconds of each module, the failed tests and the commands that
# repeat them.
#
#   hack/test.sh [ARGUMENT...]    arguments of go test for the module MODULE, default: -short ./... for every module
#
#   GOTESTSUM, LINK_FLAGS   set by the Makefile
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# run MODULE ARGUMENT...
run() {
	local module=$1 start=$SECONDS result=ok log=$work/log-${1//\//-}
	shift
	(cd "$module" && exec "$GOTESTSUM" --format pkgname-and-test-fails --hide-summary=skipped -- "$LINK_FLAGS" -vet=off "$@") 2>&1 </dev/null |
		tee "$log" || result=FAILED
	printf '%8d s  %-7s %s\n' $((SECONDS - start)) "$result" "$module" >>"$work/table"
	# Matches a line such as "=== FAIL: test/behaviour TestHeals/a_pod (1.20s)".
	sed -nE 's/^=== FAIL: ([^ ]+) ([^ /]+).*/\1 \2/p' "$log" | sort -u | while read -r package name; do
		echo "  make test MODULE=$module ARGS='-run ^$name\$\$ ./${package#./}'"
	done >>"$work/repeat"
}

if (($#)) || [[ ${MODULE:-} ]]; then
	(($#)) || set -- -short ./...
	run "${MODULE:-.}" "$@"
else
	# The tests of the root module mostly wait.
	for module in cmd/kubectl-dataservice cmd/agent internal/contract client test/helm4 test/images test/scorecard; do
		run "$module" -short -p 1 -timeout 20m ./...
	done &
	run . -short -p 3 -timeout 20m ./...
	wait
fi
printf '\n' && cat "$work/table" && printf '%8d s  in all\n' "$SECONDS"
if [[ -s $work/repeat ]]; then
	printf 'to repeat what failed:\n'
	cat "$work/repeat"
fi
! grep -q FAILED "$work/table"
