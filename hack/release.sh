#!/usr/bin/env bash
# Stores the files of the release VERSION. These files never change afterwards.
#   releases/v<VERSION>                    a copy of bundle/
#   releases/commits                       the commit from which the images were built: HEAD
#   test/fields/testdata/upgrade/v<VERSION>.txt   the digests of the manifests that this operator renders
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

. hack/project.env
version=${VERSION:?}
release=releases/v$version
csv=bundle/manifests/d3os-operator.clusterserviceversion.yaml

die() {
	echo "$*" >&2
	exit 1
}
[[ ! -e $release ]] || die "$release exists already: raise VERSION for the next release"
grep --quiet "^  version: ${version//./\\.}\$" "$csv" || die "bundle/ does not have version $version: run make bundle"
[[ $PROJECT_URL$PROJECT_EMAIL != *.example* ]] || die "hack/project.env has no address of a publisher: set it, then run make manifests bundle catalog chart"
grep --quiet "^## \[${version//./\\.}\]" CHANGELOG.md || die "CHANGELOG.md has no section '## [$version]': rename its section Unreleased"
[[ -z $(git status --porcelain) ]] || die "a release needs a commit, and there are uncommitted changes: commit them, build the images, then run make release"

commit=$(git rev-parse HEAD)
go test -count 1 -run '^TestUpgradeWritesOnlyWhatIsMeantToChange$' ./test/fields -args -keep "v$version.txt"
cp --recursive bundle "$release"
echo "$version $commit" >>releases/commits
echo "$release: commit it with releases/commits and test/fields, and raise VERSION"
