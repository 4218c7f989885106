# shellcheck shell=bash
# Converts OCI layouts to a canonical form. The bytes that buildah writes depend on its version (modes in a layer's headers, history,
# compression). The canonical bytes depend only on the content.

readonly manifest_type=application/vnd.oci.image.manifest.v1+json index_type=application/vnd.oci.image.index.v1+json

# blob LAYOUT TYPE FILE: adds the file and prints its descriptor.
blob() {
	local sum size
	sum=$(sha256sum <"$3")
	size=$(stat --format %s "$3")
	mkdir -p "$1/blobs/sha256"
	mv "$3" "$1/blobs/sha256/${sum%% *}"
	jq -cn --arg type "$2" --arg digest "sha256:${sum%% *}" --argjson size "$size" '{mediaType: $type, digest: $digest, size: $size}'
}

# blob_at LAYOUT FILTER FILE: prints the path of the blob whose digest the filter selects.
blob_at() {
	local digest
	digest=$(jq -er "$2" "$3")
	echo "$1/blobs/sha256/${digest#sha256:}"
}

# canonical FROM TO EPOCH: copies the only image of a layout to another layout, and prints the descriptor of the image's manifest.
canonical() {
	local from=$1 to=$2 epoch=$3 work manifest layer config
	work=$(mktemp -d)
	manifest=$(blob_at "$from" '.manifests[0].digest' "$from/index.json")
	[[ $(jq '.layers | length' "$manifest") == 1 ]] || die 'an image of this project must have one layer'
	gunzip <"$(blob_at "$from" '.layers[0].digest' "$manifest")" | go run ./hack/layer >"$work/layer"
	jq -cS --arg diff "sha256:$(sha256sum <"$work/layer" | cut -d ' ' -f 1)" --arg created "$(date --utc --date "@$epoch" +%FT%TZ)" '{
		$created, architecture, os,
		config: (.config | {User, Env, Entrypoint, Labels, WorkingDir: "/"} | with_entries(select(.value))),
		rootfs: {type: "layers", diff_ids: [$diff]}}' "$(blob_at "$from" .config.digest "$manifest")" >"$work/config"
	gzip --no-name "$work/layer"
	layer=$(blob "$to" application/vnd.oci.image.layer.v1.tar+gzip "$work/layer.gz")
	jq -c '{architecture, os}' "$work/config" >"$work/platform"
	config=$(blob "$to" application/vnd.oci.image.config.v1+json "$work/config")
	jq -cn --arg type "$manifest_type" --argjson config "$config" --argjson layer "$layer" \
		'{schemaVersion: 2, mediaType: $type, $config, layers: [$layer]}' >"$work/manifest"
	blob "$to" "$manifest_type" "$work/manifest" | jq -c --slurpfile platform "$work/platform" '. + {platform: $platform[0]}'
	rm -rf "$work"
}

# index LAYOUT: combines manifests to one image, and prints the image's descriptor. Standard input has the manifests' descriptors.
index() {
	jq -cs --arg type "$index_type" '{schemaVersion: 2, mediaType: $type, manifests: .}' >"$1/index"
	blob "$1" "$index_type" "$1/index"
}

# finish LAYOUT IMAGE: names an image, and prints its digest. Standard input has the image's descriptor.
finish() {
	echo '{"imageLayoutVersion":"1.0.0"}' >"$1/oci-layout"
	jq -c --arg name "$2" '{schemaVersion: 2, manifests: [del(.platform) + {annotations: {"org.opencontainers.image.ref.name": $name}}]}' >"$1/index.json"
	jq -r '.manifests[0].digest' "$1/index.json"
}
