#!/usr/bin/env bash
# Builds the images of OLM and of scorecard's built-in tests, and of the pods that OLM, scorecard and operator-sdk start. It pushes them to the registry of the
# running node under the names that these programs use. `make tools` builds the binaries.
#
#   E2E=full               OLM v1, too
#   IMAGES_DIR, NODE_DIR   see hack/node/images.sh
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
tools=${TOOLS:-$root/bin/tools}
# shellcheck source=hack/node/buildah.sh
. "$root/hack/node/buildah.sh"

# context NAME: creates an empty folder for an image, with /tmp and the files that a shell needs.
context() {
	context=$dir/context/$1
	rm -rf "$context"
	mkdir -p "$context/bin" "$context/etc"
	mkdir -m 1777 "$context/tmp"
	echo 'hosts: files dns' >"$context/etc/nsswitch.conf"
	cp "$busybox" "$context/bin/busybox"
	local applet
	for applet in $("$busybox" --list); do [[ $applet == busybox ]] || ln -s busybox "$context/bin/$applet"; done
}

# image NAME INSTRUCTION...: builds an image from the context.
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

if [[ ${E2E:-} == full ]]; then
	context olm-v1
	cp "$tools"/olm-v1/* "$context/"
	image olm-v1 'USER 65532'
	push_image olm-v1 quay.io/operator-framework/olm-v1:latest
fi

context scorecard-test
cp "$tools/scorecard-test" "$context/bin/"
image scorecard-test 'USER 1001' 'CMD ["scorecard-test"]'

push_image olm quay.io/operator-framework/olm:latest
push_image opm quay.io/operator-framework/opm:latest
# The init container of `operator-sdk run bundle`.
push_image shell "$("$tools/operator-sdk" run bundle --help | sed -n 's/.*--decompression-image .*default "\(.*\)").*/\1/p')"
# The images of scorecard: one unpacks the bundle, and one has the built-in tests.
push_image shell "$SCORECARD_UNTAR_IMG"
push_image scorecard-test "$(sed -n 's/^ *image: *\(.*scorecard-test:.*\)/\1/p' "$root/bundle/tests/scorecard/config.yaml" | head -n 1)"
