#!/usr/bin/env bash
# Fills a registry with only the images that `hack/images.sh list` prints. Then it follows an upgrade from the oldest release to the newest:
# the catalog, each bundle by its digest, and each image that a bundle names. The bundles and the catalog are real. The other images are
# empty, because only their names matter here.
#
#   TOOLS   folder with opm and registry; default bin/tools
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. hack/image/common.sh
. hack/image/layout.sh

tools=${TOOLS:-$PWD/bin/tools}
work=$(mktemp -d)
trap 'kill "${registry:-}" 2>/dev/null; rm -rf "$work"' EXIT
export IMAGES_DIR=$work/images IMAGE_TAG_BASE=${IMAGE_TAG_BASE:-$(sed -n "s/^IMAGE_TAG_BASE *?= *//p" hack/images.mk)}
packages buildah curl jq skopeo

# mirrored SOURCE IMAGE: copies an image as docs/install.md does.
mirrored() { skopeo copy --quiet --insecure-policy --all --preserve-digests --dest-tls-verify=false "$1" "docker://$mirror/${2#*/}"; }

# empty IMAGE: prints the source of an image without a layer.
empty() {
	local layout=$work/empty
	rm -rf "$layout"
	jq -cn --arg name "$1" '{architecture: "amd64", os: "linux", config: {Labels: {name: $name}}, rootfs: {type: "layers", diff_ids: []}}' >"$work/config"
	jq -cn --arg type "$manifest_type" --argjson config "$(blob "$layout" application/vnd.oci.image.config.v1+json "$work/config")" \
		'{schemaVersion: 2, mediaType: $type, $config, layers: []}' >"$work/manifest"
	blob "$layout" "$manifest_type" "$work/manifest" | finish "$layout" "$1" >/dev/null
	echo "oci:$layout:$1"
}

# resolves IMAGE: fails unless the mirror has the image.
resolves() {
	local path=${1#*/} name
	name=${path%%[@:]*}
	curl --fail --silent --show-error --output /dev/null --head --header "Accept: $index_type, $manifest_type" "http://$mirror/v2/$name/manifests/${path#"$name"[@:]}"
}

serve() {
	for _ in 1 2 3 4 5; do
		mirror=127.0.0.1:$((20000 + RANDOM % 10000))
		printf 'version: 0.1\nstorage: {filesystem: {rootdirectory: %s}}\nhttp: {addr: "%s"}\n' "$work/registry" "$mirror" >"$work/registry.yaml"
		"$tools/registry" serve "$work/registry.yaml" >"$work/registry.log" 2>&1 &
		registry=$!
		for ((i = 0; i < 50; i++)); do
			curl --fail --silent --output /dev/null "http://$mirror/v2/" && kill -0 "$registry" 2>/dev/null && return 0
			kill -0 "$registry" 2>/dev/null || break
			sleep 0.1
		done
	done
	die "the registry does not start: $(tail -n 1 "$work/registry.log")"
}

serve
hack/images.sh build bundles catalog >"$work/built"
hack/images.sh list >"$work/listed"
while read -r image; do
	source=$IMAGES_DIR/oci/$(basename "$image" | tr : /)
	if [[ -d $source ]]; then mirrored "oci:$source:$image" "$image"; else mirrored "$(empty "$image")" "$image"; fi
done <"$work/listed"

catalog=$(grep -e '-catalog:' "$work/listed")
"$tools/opm" render --use-http "$mirror/${catalog#*/}" --output json >"$work/catalog.json"
newest=$(sed -n 's/^  name: //p' bundle/manifests/*.clusterserviceversion.yaml | head -n 1)
at=$newest way=() missing=()
while [[ $at ]]; do
	way=("$at" "${way[@]}")
	bundle=$(jq -r --arg name "$at" 'select(.schema == "olm.bundle" and .name == $name).image' "$work/catalog.json")
	[[ $bundle ]] || die "the catalog has no bundle $at"
	"$tools/opm" render --use-http "$mirror/${bundle#*/}" --output json >"$work/bundle.json" || die "the mirror lacks $bundle"
	images=$(jq -er '.relatedImages[].image | select(. != "")' "$work/bundle.json")
	[[ $(wc -l <<<"$images") -gt 10 ]] || die "bundle $at names too few images: $images"
	for image in $images; do
		[[ $image == *-bundle[@:]* ]] && continue
		resolves "$image" 2>/dev/null || missing+=("$at: $image")
	done
	at=$(jq -r --arg name "$at" 'select(.schema == "olm.channel" and .name == "stable").entries[] | select(.name == $name) | .replaces // ""' "$work/catalog.json")
done
((${#missing[@]} == 0)) || die "$(printf 'the mirror lacks %s\n' "${missing[@]}")"
((${#way[@]} == $(find releases -mindepth 1 -maxdepth 1 -type d | wc -l) + $([[ -d releases/v${newest##*.v} ]] && echo 0 || echo 1))) ||
	die "the upgrade path ${way[*]} leaves out a release"
echo "mirror-verify: $(wc -l <"$work/listed") images are sufficient for the upgrade ${way[*]}"
