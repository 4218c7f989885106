#!/usr/bin/env bash
# Builds the images of OLM and of the pods that it and operator-sdk start, from the binaries of
# `make olm-tools`, and pushes them to the registry of the running node under the names that they are
# asked for by.
#
#   IMAGES_DIR, NODE_DIR   see hack/node/images.sh
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
tools=${TOOLS:-$root/bin/tools}
# shellcheck source=hack/node/buildah.sh
. "$root/hack/node/buildah.sh"

# Debian's busybox, without installing it on the host.
busybox() {
	busybox=$dir/busybox
	[[ ! -x $busybox ]] || return 0
	local work
	work=$(mktemp -d)
	(
		cd "$work"
		logged apt-get download -qq busybox-static
		logged dpkg-deb --extract busybox-static_*.deb root
	)
	cp "$(find "$work/root" -type f -name busybox | head -n 1)" "$busybox"
	rm -rf "$work"
}

# context NAME: an empty folder for an image, with /tmp and what a shell needs.
context() {
	context=$dir/context/$1
	rm -rf "$context"
	mkdir -p "$context/bin" "$context/etc"
	mkdir -m 1777 "$context/tmp"
	echo 'hosts: files dns' >"$context/etc/nsswitch.conf"
	cp "$busybox" "$context/bin/busybox"
	local applet
	for applet in "${applets[@]}"; do ln -s busybox "$context/bin/$applet"; done
}
applets=(cat chmod cp echo env find gunzip gzip id ln ls mkdir mv rm sed sh sleep tar touch true)

# image NAME INSTRUCTION...: context as an image.
image() {
	local name=$1
	shift
	printf '%s\n' 'FROM scratch' 'COPY . /' 'ENV PATH=/bin:/usr/local/bin' "$@" >"$dir/Dockerfile"
	build_image "$name" "$context" --file "$dir/Dockerfile"
	rm -rf "$context"
}

prepare
busybox

context olm
cp "$tools"/olm/* "$context/bin/"
image olm 'USER 1001' 'ENTRYPOINT ["/bin/olm"]'
context opm
cp "$tools"/{opm,grpc_health_probe} "$context/bin/"
mkdir -m 777 "$context/configs"
image opm 'LABEL operators.operatorframework.io.index.configs.v1=/configs' 'USER 1001' 'ENTRYPOINT ["/bin/opm"]' 'CMD ["serve", "/configs"]'
context shell
image shell 'USER 1001' 'CMD ["sh"]'

push_image olm quay.io/operator-framework/olm:latest
push_image opm quay.io/operator-framework/opm:latest
# The init container of `operator-sdk run bundle`.
push_image shell registry.access.redhat.com/ubi9/ubi:9.7
