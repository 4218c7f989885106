#!/usr/bin/env bash
# Writes and validates the file-based catalog. The package and its bundles come from bundle/ and releases/. The channels are written by hand
# in hack/catalog/channels.yaml. The same sources give the same bytes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

opm=${OPM:-$PWD/bin/tools/opm}
package=d3os-operator
. hack/project.env
die() { echo "catalog.sh: $*" >&2; exit 1; }

annotation() { sed -n "s|^  operators.operatorframework.io.bundle.$2: ||p" "$1/metadata/annotations.yaml"; }

# edges FOLDER FILE: fails unless the channels contain the bundle as its CSV states. FILE has the rendered bundle.
edges() {
	local channel replaces
	replaces=$(sed -n 's/^  replaces: //p' "$1/manifests/$package.clusterserviceversion.yaml")
	for channel in $(annotation "$1" channels.v1 | tr , ' '); do
		jq --exit-status --slurp --slurpfile bundle "$2" --arg channel "$channel" --arg replaces "$replaces" '
			($bundle[0].properties[] | select(.type == "olm.csv.metadata").value.annotations["olm.skipRange"] // "") as $range |
			map(select(.schema == "olm.channel" and .name == $channel).entries[] | select(.name == $bundle[0].name)) |
			length == 1 and (.[0].replaces // "") == $replaces and (.[0].skipRange // "") == $range' "$work/channels.json" >/dev/null ||
			die "hack/catalog/channels.yaml: $channel does not have the bundle in $1 with its replaces and olm.skipRange"
	done
}

# render FILE
render() {
	local csv=bundle/manifests/$package.clusterserviceversion.yaml folder image part
	mkdir "$work/parts" "$work/channels"
	cp hack/catalog/channels.yaml "$work/parts"
	cp hack/catalog/channels.yaml "$work/channels"
	"$opm" render "$work/channels" --output json >"$work/channels.json"
	hack/images.sh bundles >"$work/bundles"
	while read -r folder image; do
		part=$work/parts/${folder//\//-}.json
		"$opm" render "$folder" --alpha-image-ref-template "$image" --migrate-level bundle-object-to-csv-metadata --output json >"$part"
		edges "$folder" "$part"
	done <"$work/bundles"
	# The package gets the texts of its newest bundle.
	sed -n 's/^  - base64data: //p' "$csv" | base64 --decode >"$work/icon"
	jq --join-output '.properties[] | select(.type == "olm.csv.metadata").value.description' "$part" >"$work/description"
	"$opm" init "$package" --default-channel "$(annotation bundle channel.default.v1)" --icon "$work/icon" \
		--description "$work/description" --output json >"$work/parts/package.json"
	# Released bundles do not change. Only the catalog's copy of a bundle gets the present addresses of the publisher.
	"$opm" render "$work/parts" --output yaml |
		sed "s|https://github.com/d3os/d3os-operator|$PROJECT_URL|; s|https://d3os.com|$PROJECT_URL|; s|maintainers@d3os.com|$PROJECT_EMAIL|" >"$1"
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
render "$work/catalog.yaml"
rm -rf catalog
mkdir -p "catalog/$package"
# mv would keep the mode of the temporary file.
cat "$work/catalog.yaml" >"catalog/$package/catalog.yaml"
"$opm" validate catalog
echo 'opm validate: the catalog is valid'
