#!/usr/bin/env bash
# Prints the newest release in releases/ that is older than VERSION ($1), without the v, or nothing if there is none.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

version=${1:?VERSION}
for folder in releases/v*/; do
	[[ -d $folder ]] || continue
	basename "${folder#releases/v}"
done | { cat; echo "$version"; } | sort --version-sort --unique | sed --quiet "/^${version//./\\.}\$/q; p" | tail -n 1
