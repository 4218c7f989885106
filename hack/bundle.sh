#!/usr/bin/env bash
# Generates the OLM bundle from config/ and validates it. The same sources give the same bytes.
#   VERSION             of the bundle, which upgrades from the newest earlier release (releases/)
#   USE_IMAGE_DIGESTS   not empty: pin all images by digest; the script reads the digests from the registries
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. hack/project.env

sdk=${OPERATOR_SDK:-$PWD/bin/tools/operator-sdk}
kustomize=${KUSTOMIZE:-$PWD/bin/tools/kustomize}
package=d3os-operator
catalog=config/manifests/patches/catalog.yaml
csv=bundle/manifests/$package.clusterserviceversion.yaml

previous=$(hack/released.sh "$VERSION")
edge='/PREVIOUS/d'
[[ -z $previous ]] || edge="s|PREVIOUS|$previous|; s|<VERSION|<$VERSION|"

disconnected=false
[[ -z ${USE_IMAGE_DIGESTS:-} ]] || disconnected=true

rm -rf bundle
"$sdk" generate kustomize manifests --quiet --interactive=false --apis-dir api
"$kustomize" build config/manifests |
	sed "s|controller:latest|$IMG|; s|scorecard:latest|$SCORECARD_IMG|; s|PROJECT_URL|$PROJECT_URL|; s|PROJECT_EMAIL|$PROJECT_EMAIL|; s|DISCONNECTED|$disconnected|; s|base64data: ICON|base64data: $(base64 --wrap 0 config/manifests/icon.svg)|; $edge" |
	"$sdk" generate bundle --quiet --overwrite --package "$package" --version "$VERSION" \
		--channels "$CHANNELS" --default-channel "$DEFAULT_CHANNEL" ${USE_IMAGE_DIGESTS:+--use-image-digests}
# Replace the present time, which would make every bundle different.
created=$(grep --max-count 1 'createdAt:' "$catalog")
sed -i "s|^ *createdAt:.*|$created|" "$csv"
# The rights with which OLM v1 installs the bundle and removes objects of the previous version.
go run ./hack/olmv1 config/olmv1/installer_role.yaml bundle ${previous:+"releases/v$previous"}

OPERATOR_SDK=$sdk hack/bundle-validate.sh bundle
