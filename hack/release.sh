#!/usr/bin/env bash
# Keeps bundle/ as the release of VERSION: releases/v<VERSION>. What has been released never changes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

version=${VERSION:?}
release=releases/v$version
csv=bundle/manifests/d3os-operator.clusterserviceversion.yaml

die() {
	echo "$*" >&2
	exit 1
}
[[ ! -e $release ]] || die "$release is there already: raise VERSION for the next release"
grep --quiet "^  version: ${version//./\\.}\$" "$csv" || die "bundle/ is not of version $version: make bundle"

mkdir -p releases
cp --recursive bundle "$release"
echo "$release: commit it, and raise VERSION"
