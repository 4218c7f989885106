#!/usr/bin/env bash
# Copies the images of `make images-list` to the user's registry, and renames them in manifests.
#
#   hack/mirror.sh MIRROR              copies the images with all architectures and the same digests; MIRROR is host[:port][/path]
#   hack/mirror.sh MIRROR rename       replaces image names in the manifests on standard input by the images' names in MIRROR, and prints the
#                                      manifests (for the operator: make deploy MIRROR=...)
#
# An image keeps its path: docker.io/library/redis:7.0.15 becomes MIRROR/library/redis:7.0.15.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. hack/packages.sh

die() { echo "mirror.sh: $*" >&2; exit 1; }

mirror=${1:-}
[[ $mirror ]] || die 'usage: hack/mirror.sh MIRROR [rename]'
images=$(make --silent --no-print-directory images-list)

copy() {
	local image
	packages skopeo
	for image in $images; do
		echo "$mirror/${image#*/}"
		skopeo copy --quiet --all --preserve-digests "docker://$image" "docker://$mirror/${image#*/}"
	done
}

rename() {
	local image script='' text left
	for image in $images; do
		script+="s#^\\(.*\\(image\\|value\\): \\)${image//./\\.}\$#\\1$mirror/${image#*/}#;"
	done
	text=$(sed "$script")
	left=$(sed -n 's/^ *\(- \)\?image: //p; /name: RELATED_IMAGE_/{n;s/^ *value: //p}' <<<"$text" | grep --invert-match "^$mirror/" || true)
	[[ ! $left ]] || die "make images-list does not have $left"
	printf '%s\n' "$text"
}

case ${2:-copy} in
copy) copy ;;
rename) rename ;;
*) die 'usage: hack/mirror.sh MIRROR [rename]' ;;
esac
