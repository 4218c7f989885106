# shellcheck shell=bash
# Builds images with buildah and pushes them to the node's registry. To be sourced; sets
#   dir        output and cache folder (IMAGES_DIR, default .cluster/images)
#   node_dir   the node's folder (NODE_DIR, default .cluster/node)
# REGISTRY (host[:port]) and CERT_DIR (the folder of its ca.crt) select another registry.

dir=${IMAGES_DIR:-$root/.cluster/images}
node_dir=${NODE_DIR:-$root/.cluster/node}
[[ $dir == /* ]] || dir=$PWD/$dir
registry=${REGISTRY:-198.18.77.2}

# shellcheck source=hack/image/common.sh
. "$root/hack/image/common.sh"

prepare() {
	((EUID == 0)) || die 'the images need root'
	[[ ${REGISTRY:-} || -e $node_dir/pki/trust ]] || die "no node: run 'hack/node/node.sh up' first"
	storage
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
	logged buildah push --signature-policy "$dir/policy.json" --cert-dir "${CERT_DIR:-$node_dir/pki/trust}" "localhost/$1" "docker://$registry/${2#*/}"
	say "$1: $2"
}

# Debian's busybox, without installing it on the host: sets $busybox.
busybox() {
	local work
	busybox=$dir/busybox
	[[ ! -x $busybox ]] || return 0
	work=$(mktemp -d)
	(
		cd "$work"
		logged apt-get update -qq
		logged apt-get download -qq busybox-static
		dpkg-deb --fsys-tarfile busybox-static_*.deb | tar --extract --to-stdout --wildcards '*/bin/busybox' >busybox
		install -m 755 busybox "$busybox"
	)
	rm -rf "$work"
}
