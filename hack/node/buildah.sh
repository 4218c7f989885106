# shellcheck shell=bash
# Building images with buildah and pushing them to the node's registry. To be sourced; sets
#   dir        what is built and cached (IMAGES_DIR, default .cluster/images)
#   node_dir   the node's folder (NODE_DIR, default .cluster/node)
#   registry   the node's registry

dir=${IMAGES_DIR:-$root/.cluster/images}
node_dir=${NODE_DIR:-$root/.cluster/node}
[[ $dir == /* ]] || dir=$PWD/$dir
registry=198.18.77.2

die() { echo "${0##*/}: $*" >&2; exit 1; }
say() { printf '  [%3d s] %s\n' "$SECONDS" "$*"; }
logged() { "$@" >"$dir/log" 2>&1 || { tail -n 25 "$dir/log" >&2; die "failed: $*"; }; }
# Storage, policy and configuration of its own: the user's stay as they are.
buildah() { command buildah --root "$dir/storage" --runroot "$dir/run" --storage-driver "$driver" "$@"; }

# packages COMMAND...: installs those that are missing; a package has its command's name.
packages() {
	local command missing=()
	for command; do
		command -v "$command" >/dev/null || missing+=("$command")
	done
	((${#missing[@]})) || return 0
	say "installing ${missing[*]}"
	export DEBIAN_FRONTEND=noninteractive
	logged apt-get update -qq
	logged apt-get install -y -qq --no-install-recommends "${missing[@]}"
}

prepare() {
	((EUID == 0)) || die 'the images need root'
	mkdir -p "$dir/certs"
	[[ -e $node_dir/pki/ca.crt ]] || die "no node: run 'make node-up' first"
	cp "$node_dir/pki/ca.crt" "$dir/certs/ca.crt"
	echo '{"default": [{"type": "insecureAcceptAnything"}]}' >"$dir/policy.json"
	# An overlay cannot lie on another one, which a container's file system is.
	driver=overlay
	[[ $(stat --file-system --format %T "$dir") != overlayfs ]] || driver=vfs
	packages buildah mmdebstrap
}

# build_image NAME CONTEXT [ARGUMENT...]: the image localhost/NAME.
build_image() {
	local name=$1 context=$2
	shift 2
	logged buildah build --layers --isolation chroot --pull-never --signature-policy "$dir/policy.json" \
		--tag "localhost/$name" "$@" "$context"
}

# push_image NAME IMAGE
push_image() {
	logged buildah push --signature-policy "$dir/policy.json" --cert-dir "$dir/certs" "localhost/$1" "docker://$registry/${2#*/}"
	say "$1: $2"
}
