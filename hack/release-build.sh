#!/usr/bin/env bash
# Builds the operator of a release from the released commit (releases/commits), with the Makefile of that commit.
#   release-build.sh VERSION ARCHITECTURE FILE [manager|agent]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

version=${1:?VERSION} architecture=${2:?ARCHITECTURE} file=${3:?FILE} program=${4:-manager}
die() { echo "release-build.sh: $*" >&2; exit 1; }

commit=$(awk -v version="$version" '$1 == version {print $2}' releases/commits)
[[ $commit ]] || die "releases/commits has no commit for $version"
git cat-file -e "$commit^{commit}" 2>/dev/null ||
	die "this clone does not have $commit, which was released as $version: git fetch --unshallow"
source=$(mktemp --directory)
trap 'rm -rf "$source"' EXIT
git archive "$commit" | tar --extract --directory "$source"
[[ $(<"$source/VERSION") == "$version" ]] || die "$commit is of version $(<"$source/VERSION"), not $version"
# The arguments of this make must not reach the other Makefile.
env --unset=MAKEFLAGS --unset=MAKELEVEL GOOS=linux GOARCH="$architecture" GOFLAGS="${GOFLAGS:-} -buildvcs=false" \
	make --no-print-directory --directory "$source" build
mkdir -p "$(dirname "$file")"
mv "$source/bin/$program" "$file"
