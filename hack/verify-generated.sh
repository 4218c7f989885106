#!/usr/bin/env bash
# Generates files again. It fails if a file changes, appears or disappears.
#
#   hack/verify-generated.sh [TARGET...]    default: all except the catalog, whose tool takes minutes to build
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

(($#)) || set -- generate manifests docs bundle chart
generated=(api client config dist/chart docs/reference docs/operate/troubleshooting.md bundle bundle.Dockerfile catalog SECURITY.md)
before=$(mktemp -d)
trap 'rm -rf "$before"' EXIT

for path in "${generated[@]}"; do
	[[ ! -e $path ]] || cp --archive --parents "$path" "$before"
done

make --no-print-directory "$@"

stale=
for path in "${generated[@]}"; do
	diff --new-file --recursive --unified "$before/$path" "$path" || stale=1
done
if [[ $stale ]]; then
	echo "The files above were not up to date, and are now: commit the output of 'make $*'." >&2
	exit 1
fi
# A generated file that git does not track would be missing in other checkouts.
if git rev-parse --verify --quiet HEAD >/dev/null && [[ $(git status --porcelain -- "${generated[@]}") ]]; then
	git status --short -- "${generated[@]}"
	[[ -z ${CI:-} ]] || exit 1
fi
echo "generated files are up to date"
