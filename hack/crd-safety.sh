#!/usr/bin/env bash
# Fails if a CRD could refuse or change a resource that an older CRD accepted: crd-safety.sh [OLD NEW]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

crdify=${CRDIFY:-${TOOLS:-$PWD/bin/tools}/crdify}
copies=$(mktemp -d)
trap 'rm -rf "$copies"' EXIT

# compare OLD NEW [-all]
compare() {
	[[ -e $2 ]] || {
		echo "$2: the release before has this CRD ($1): removing it deletes all its resources" >&2
		exit 1
	}
	go run ./hack/crdrules ${3:-} "${REVIEWED:-hack/crd-safety-reviewed.yaml}" "$1" "$2" "$copies/old.yaml" "$copies/new.yaml"
	"$crdify" --config hack/crd-safety.yaml "file://$copies/old.yaml" "file://$copies/new.yaml" >&2 || {
		echo "$2: the changes above are not safe for existing resources of $1" >&2
		exit 1
	}
	echo "CRD: $2 accepts every resource that $1 accepts"
}

if (($#)); then
	compare "$1" "$2"
	exit
fi
previous=$(hack/released.sh "$(cat VERSION)")
[[ $previous ]] || {
	echo "CRD: there is no release to compare with"
	exit
}
for crd in $(grep --files-with-matches '^kind: CustomResourceDefinition$' "${RELEASES:-releases}/v$previous"/manifests/*.yaml); do
	compare "$crd" "${BUNDLE:-bundle}/manifests/${crd##*/}" -all
done
