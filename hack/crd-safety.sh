#!/usr/bin/env bash
# Fails when a CRD could refuse or change what an older one has accepted: crd-safety.sh [OLD NEW]
# Default: the CRD of the newest release before VERSION, and the bundle's.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

crdify=${CRDIFY:-${TOOLS:-$PWD/bin/tools}/crdify}
crd=manifests/d3os-product.com.d3os_dataservices.yaml

if (($# == 0)); then
	previous=$(hack/released.sh "$(cat VERSION)")
	[[ $previous ]] || {
		echo "CRD: there is no release to compare with"
		exit
	}
	set -- "releases/v$previous/$crd" "bundle/$crd"
fi
"$crdify" --config hack/crd-safety.yaml "file://$1" "file://$2" >&2 || {
	echo "$2: not safe for those who have resources of $1, see above" >&2
	exit 1
}
echo "CRD: $2 takes all that $1 takes"
