#!/usr/bin/env bash
# Generates the OLM bundle from config/ and validates it. The same sources give the same bytes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

sdk=${OPERATOR_SDK:-$PWD/bin/tools/operator-sdk}
kustomize=${KUSTOMIZE:-$PWD/bin/tools/kustomize}
package=d3os-operator
base=config/manifests/bases/$package.clusterserviceversion.yaml
csv=bundle/manifests/$package.clusterserviceversion.yaml

rm -rf bundle
"$sdk" generate kustomize manifests --quiet --interactive=false --apis-dir api
"$kustomize" build config/manifests |
	sed "s|controller:latest|$IMG|; s|scorecard:latest|$SCORECARD_IMG|" |
	"$sdk" generate bundle --quiet --overwrite --package "$package" --version "$VERSION" \
		--channels "$CHANNELS" --default-channel "$DEFAULT_CHANNEL"
# The time of the run would make every bundle a new one.
created=$(grep --max-count 1 'createdAt:' "$base")
sed -i "s|^ *createdAt:.*|$created|" "$csv"

OPERATOR_SDK=$sdk hack/bundle-validate.sh
