#!/usr/bin/env bash
# Builds the images of HEAD in two clones with different paths, file modes and file times. All digests must be equal.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

tools=${TOOLS:-$PWD/bin/tools}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# clone FOLDER UMASK
clone() (
	umask "$2"
	git clone --quiet --no-hardlinks . "$work/$1"
	make --no-print-directory -C "$work/$1" images TOOLS="$tools" --assume-old="$tools/cyclonedx-gomod"
)

clone one 022
clone another/deeper/one 077
diff --recursive "$work/one/bin/images/digests" "$work/another/deeper/one/bin/images/digests" || {
	echo 'images-verify: the digests differ' >&2
	exit 1
}
echo 'images-verify: the same digests'
