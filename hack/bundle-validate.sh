#!/usr/bin/env bash
# Validates bundles as a catalog does, and treats warnings as errors. Arguments: bundles; default: bundle and all folders in releases.
#
# The check multiarch compares the platforms of every image. With MULTIARCH_TOOL (docker or podman), it reads them from the registries.
# Otherwise, it reads the platforms of the operator's image from the output of make images, or from PLATFORMS, and does not check foreign
# images.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

sdk=${OPERATOR_SDK:-$PWD/bin/tools/operator-sdk}
tool=${MULTIARCH_TOOL:-}
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if [[ -z $tool ]]; then
	tool=docker
	export PLATFORMS=${PLATFORMS:-linux/amd64,linux/arm64}
	export PATH=$PWD/hack/platforms:$PATH
fi

# unknown prints the warnings about images that cannot be inspected here.
unknown() {
	local own
	own=$(sed --quiet 's/^ *containerImage: //p' "$1"/manifests/*.clusterserviceversion.yaml)
	[[ -z ${MULTIARCH_TOOL:-} ]] || return 0
	sed --quiet --regexp-extended 's/^ *(- )?image: //p' "$1"/manifests/*.clusterserviceversion.yaml | sort --unique |
		grep --invert-match --line-regexp --fixed-strings "$own" | sed 's/.*/unable to inspect the image (&)/'
}

# validate(bundle, argument...)
validate() {
	local bundle=$1
	shift
	"$sdk" bundle validate "./$bundle" "$@" >"$log" 2>&1 || {
		cat "$log" >&2
		return 1
	}
	if grep -E 'level=(warning|error)' "$log" | grep --invert-match --fixed-strings --file <(unknown "$bundle") >&2; then
		echo "bundle validate $bundle $*: there are warnings" >&2
		return 1
	fi
	local others
	others=$(grep --count 'unable to inspect the image' "$log") || true
	echo "bundle validate $bundle $*: no error, no warning$( ((others == 0)) || echo "; the platforms of $others images were not checked")"
}

(($#)) || set -- bundle releases/*/
for bundle; do
	[[ -d $bundle ]] || continue
	validate "${bundle%/}"
	for suite in suite=operatorframework name={operatorhubv2,good-practices,capabilities,categories,multiarch,alpha-deprecated-apis}; do
		validate "${bundle%/}" --select-optional "$suite" --optional-values container-tools="$tool"
	done
done
