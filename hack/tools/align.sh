#!/usr/bin/env bash
# Aligns the versions of modules, so that Go compiles common packages once. Go reuses a compiled package only for the
# same versions of all its imports. Kubernetes' client with its imports takes longer to compile than most tools.
#
#   hack/tools/align.sh      run it after an update of a tool or of its FOLDER; without it, builds work but take longer
#
# The script changes each go.mod that has a line "// like FOLDER: hack/tools/align.sh". The packages that this module
# compiles get the versions of FOLDER if those are newer.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
root=$PWD
export GOWORK=off GOFLAGS=-mod=mod

for file in ${@:-$(git grep --files-with-matches '^// like .*: hack/tools/align.sh$' -- '*go.mod')}; do
	like=$(sed -n 's|^// like \(.*\): hack/tools/align.sh$|\1|p' "$file")
	echo "$file is like $like"
	cd "$root/$(dirname "$file")"
	other=$(cd "$root/$like" && go list -m)
	cp go.mod go.mod.before
	# Go chooses the newer of two versions itself.
	go mod edit -replace "$other=$root/$like"
	go get "$other@v0.0.0" 2>/dev/null
	versions=$(go list -e -deps -f '{{with .Module}}{{if and .Version (not .Replace)}}-require={{.Path}}@{{.Version}}{{end}}{{end}}' tool ./... 2>/dev/null | sort -u)
	mv go.mod.before go.mod
	# shellcheck disable=SC2086
	go mod edit $versions
	go mod tidy
	cd "$root"
done
