#!/usr/bin/env bash
# Fails when a CRD could refuse or change what an older one has accepted: crd-safety.sh [OLD NEW]
# Default: the CRD of the newest release before VERSION, and the bundle's.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

crdify=${CRDIFY:-${TOOLS:-$PWD/bin/tools}/crdify}
crd=manifests/d3os-product.com.d3os_dataservices.yaml

all=
if (($# == 0)); then
	all=-all
	previous=$(hack/released.sh "$(cat VERSION)")
	[[ $previous ]] || {
		echo "CRD: there is no release to compare with"
		exit
	}
	set -- "releases/v$previous/$crd" "bundle/$crd"
fi
copies=$(mktemp -d)
trap 'rm -rf "$copies"' EXIT
go run ./hack/crdrules $all "${REVIEWED:-hack/crd-safety-reviewed.yaml}" "$1" "$2" "$copies/old.yaml" "$copies/new.yaml"
"$crdify" --config hack/crd-safety.yaml "file://$copies/old.yaml" "file://$copies/new.yaml" >&2 || {
	echo "$2: not safe for those who have resources of $1, see above" >&2
	exit 1
}
echo "CRD: $2 takes all that $1 takes"
