# shellcheck shell=bash disable=SC2154
# Builds images with buildah in a separate storage below $dir. The user's storage, policy and configuration do not change.

# shellcheck source=hack/packages.sh
. "$(dirname "${BASH_SOURCE[0]}")/../packages.sh"

die() { echo "${0##*/}: $*" >&2; exit 1; }
say() { printf '  [%3d s] %s\n' "$SECONDS" "$*" >&2; }
logged() { "$@" >"$dir/log" 2>&1 || { tail -n 25 "$dir/log" >&2; die "failed: $*"; }; }

storage() {
	mkdir -p "$dir"
	echo '{"default": [{"type": "insecureAcceptAnything"}]}' >"$dir/policy.json"
	driver=overlay
	# An overlay cannot be mounted on another overlay, such as a container's file system. A user may also lack the right to mount it.
	[[ $EUID == 0 && $(stat --file-system --format %T "$dir") != overlayfs ]] || driver=vfs
}

buildah() { command buildah --root "$dir/storage" --runroot "$dir/run" --storage-driver "$driver" "$@"; }
