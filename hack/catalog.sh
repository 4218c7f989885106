#!/usr/bin/env bash
# The file-based catalog: the package and the bundles come out of releases/ and bundle/, the channels are
# written by hand, hack/catalog/channels.yaml. The same sources give the same bytes.
#
#   hack/catalog.sh generate   write catalog/ and validate it
#   hack/catalog.sh validate   validate it
#   hack/catalog.sh verify     fail when it is not what its sources generate
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

opm=${OPM:-$PWD/bin/tools/opm}
package=d3os-operator

# render FILE
render() {
	local csv=bundle/manifests/$package.clusterserviceversion.yaml channel folder image
	sed -n 's/^  - base64data: //p' "$csv" | base64 --decode >"$work/icon.svg"
	channel=$(sed -n 's/^  operators.operatorframework.io.bundle.channel.default.v1: //p' bundle/metadata/annotations.yaml)
	mkdir "$work/parts"
	cp hack/catalog/channels.yaml "$work/parts"
	hack/images.sh bundles >"$work/bundles"
	while read -r folder image; do
		"$opm" render "$folder" --alpha-image-ref-template "$image" --output json >"$work/parts/${folder//\//-}.json"
		edges "$folder" "$work/parts/${folder//\//-}.json"
	done <"$work/bundles"
	jq --raw-output 'select(.schema == "olm.bundle").properties[] | select(.type == "olm.csv.metadata").value.description' \
		"$work/parts/bundle.json" >"$work/description.md"
	"$opm" init "$package" --default-channel "$channel" --icon "$work/icon.svg" --description "$work/description.md" \
		--output json >"$work/parts/package.json"
	"$opm" render "$work/parts" --output yaml >"$1"
}

case ${1:-} in
generate) ;;
esac
