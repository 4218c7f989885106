#!/usr/bin/env bash
# Builds the operator of a release from the commit that was released (releases/commits), with that commit's own Makefile.
#   release-build.sh COMMIT ARCHITECTURE FILE
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

commit=${1:?COMMIT} architecture=${2:?ARCHITECTURE} file=${3:?FILE}

git cat-file -e "$commit^{commit}" 2>/dev/null || {
	echo "release-build.sh: this clone does not have the released commit $commit: git fetch --unshallow" >&2
	exit 1
}
source=$(mktemp --directory)
trap 'rm -rf "$source"' EXIT
git archive "$commit" | tar --extract --directory "$source"
# What make was told here is not meant for the other Makefile.
env --unset=MAKEFLAGS --unset=MAKELEVEL GOOS=linux GOARCH="$architecture" GOFLAGS="${GOFLAGS:-} -buildvcs=false" \
	make --no-print-directory --directory "$source" build
mkdir -p "$(dirname "$file")"
mv "$source/bin/manager" "$file"
