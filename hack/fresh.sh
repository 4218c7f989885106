#!/usr/bin/env bash
# Shows that make's targets work on a machine that has only Go, git and make. Each target runs on a new machine: the root of a minimal
# Debian, where it may install packages, and a clone of HEAD. Root only.
#
#   hack/fresh.sh [TARGET...]   default: all targets that need nothing of the user
#   hack/fresh.sh check         fail when a target of make help is in neither list below
#
#   GO_CACHES   host: start with this machine's Go caches, which stay unchanged; default: start with empty caches
#   FRESH_DIR   output folder; default .cluster/fresh
#
# Later targets use the tools that earlier targets built, so cheap targets come first. FRESH_DIR/logs has the output of the targets.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. hack/packages.sh

targets=(
	help images-list build plugin plugin-archives generate manifests docs chart build-installer release bundle
	verify-generated catalog bundle-validate images lint figures security
	cluster-up install uninstall deploy undeploy cluster-down demo tour demo-down
	test verify:{redis,etcd,mysql,backup,platform,chaos,transitions,faults,alerts,security,load} bench
	tools scorecard e2e clean
)
# A target with a group is written as verify:group.
# Targets that need the result of another target. That target runs before, on the same machine.
declare -A before=(
	[cluster-down]=cluster-up [demo-down]=demo [tour]=demo [uninstall]=install [undeploy]=deploy
)
# Targets that stop the processes that other targets leave running.
declare -A after=([cluster-up]=cluster-down [install]=cluster-down [uninstall]=cluster-down [deploy]=cluster-down
	[undeploy]=cluster-down [demo]=demo-down [tour]=demo-down)
elsewhere=(
	docker-build # needs docker or podman, which the user installs
	docker-push images-push # need a registry of the user; make e2e pushes to one
	run # runs until the user ends it; make demo runs the operator
	fresh-machine # runs all other targets
)

dir=${FRESH_DIR:-$PWD/.cluster/fresh}
[[ $dir == /* ]] || dir=$PWD/$dir
base=$dir/base root=$dir/machine/root

die() { echo "fresh.sh: $*" >&2; exit 1; }

check() {
	local here there
	here=$(printf '%s\n' "${targets[@]%%:*}" "${elsewhere[@]}" | sort -u)
	there=$(make --no-print-directory help | sed -n 's/^  \x1b\[36m\([a-z0-9-]*\) .*/\1/p' | sort)
	diff <(echo "$here") <(echo "$there") || die 'the targets above are only in hack/fresh.sh (<), or only in make help (>)'
}

# make_base creates the root file system from which every machine starts. It uses this machine's sources of Debian packages, Go modules and
# CAs.
make_base() {
	local sources=() variable
	packages mmdebstrap
	mapfile -t sources < <(debian_sources)
	if [[ ! -e $base.made ]]; then
		rm -rf --one-file-system "$base"
		mmdebstrap --quiet --variant=minbase --include=ca-certificates,git,make "$(debian_release)" "$base" "${sources[@]}"
		touch "$base.made"
	fi
	mkdir -p "$base"/{src,usr/local/go,root/go/pkg/mod,root/.cache/go-build,root/.config/go}
	cp /etc/resolv.conf /etc/hosts "$base/etc/"
	cp /etc/ssl/certs/ca-certificates.crt "$base/etc/ssl/certs/"
	apt-config dump --no-empty Acquire::http Acquire::https >"$base/etc/apt/apt.conf.d/90machine"
	for variable in GOPROXY GOSUMDB GOPRIVATE GONOPROXY GONOSUMDB; do
		echo "$variable=$(go env "$variable")"
	done >"$base/root/.config/go/env"
}

# layer LOWER UPPER TARGET: mounts LOWER at TARGET. Writes go to UPPER.
layer() {
	mkdir -p "$2" "$2.work" "$3"
	mount -t overlay overlay -o "lowerdir=$1,upperdir=$2,workdir=$2.work" "$3"
}

# inside TARGET...: enters a new machine in new namespaces, and runs make there.
inside() {
	local cache=$dir/empty modules=$dir/empty variable environment=()
	mkdir -p "$dir/empty"
	if [[ ${GO_CACHES:-} == host ]]; then
		cache=$(go env GOCACHE) modules=$(go env GOMODCACHE)
	fi
	layer "$base" "$dir/machine/upper" "$root"
	mount --rbind /dev "$root/dev"
	mount --rbind /sys "$root/sys"
	mount -t proc proc "$root/proc"
	mount -t tmpfs -o mode=755 tmpfs "$root/run"
	mkdir -p "$root/run/lock"
	mount --bind -o ro "$(go env GOROOT)" "$root/usr/local/go"
	mount --bind "$dir/machine/checkout" "$root/src"
	mkdir -p "$root/root/.cache/d3os-operator/tools"
	mount --bind "$dir/tools" "$root/root/.cache/d3os-operator/tools"
	layer "$cache" "$dir/go/build" "$root/root/.cache/go-build"
	layer "$modules" "$dir/go/modules" "$root/root/go/pkg/mod"
	for variable in http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY; do
		[[ ! ${!variable:-} ]] || environment+=("$variable=${!variable}")
	done
	mkdir "$root/host"
	cd "$root"
	pivot_root . host
	umount --lazy host
	cd /src
	# shellcheck disable=SC2016
	exec env --ignore-environment HOME=/root PATH=/usr/local/go/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
		"${environment[@]}" bash -c 'for command; do echo "== make $command"; make $command || exit 1; done' bash "$@"
}

# show TARGET
show() {
	local target=$1 start=$SECONDS log=$dir/logs/$1.log status=0 commands=()
	rm -rf --one-file-system "$dir/machine"
	mkdir -p "$dir/machine" "$dir/tools" "$dir/logs"
	git clone --quiet --no-hardlinks . "$dir/machine/checkout"
	commands=(${before[$target]:+"${before[$target]}"} "${target/:/ GROUPS=}" ${after[$target]:+"${after[$target]}"})
	unshare --mount --pid --ipc --fork --kill-child --propagation private -- "$PWD/hack/fresh.sh" inside "${commands[@]}" \
		>"$log" 2>&1 </dev/null || status=$?
	if ((status)); then
		printf '%-18s %5d s  FAILED, the end of %s:\n' "$target" $((SECONDS - start)) "$log"
		tail -n 25 "$log" | sed 's/^/    /'
		failed+=("$target")
	else
		printf '%-18s %5d s  ok%s\n' "$target" $((SECONDS - start)) "$(sed -n 's/^  \[ *[0-9]* s\] installing /, installed /p' "$log" | tr -d '\n')"
	fi
	rm -rf --one-file-system "$dir/machine"
}

case ${1:-} in
inside) shift && inside "$@" && exit ;;
check) check && exit ;;
esac
((EUID == 0)) || die 'a new machine needs root: run this as root'
check
mkdir -p "$dir"
rm -rf --one-file-system "$dir/go" "$dir/tools" "$dir/logs"
make_base
(($#)) || set -- "${targets[@]}"
failed=()
for target; do show "$target"; done
printf '%-18s %5d s\n' total "$SECONDS"
((!${#failed[@]})) || die "failed: ${failed[*]}"
