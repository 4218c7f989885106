#!/usr/bin/env bash
# Links a pinned tool into a folder. The tool is built or unpacked once for each version, in the user's cache, so that a second
# clone finds it there.
#
#   hack/tool.sh build LABEL FOLDER NAME MODULE TAGS LDFLAGS PACKAGE...   programs of the module hack/tools/MODULE; NAME is the
#                                                                        name of a single program, or empty
#   hack/tool.sh unpack FOLDER SCRIPT [ARGUMENT]                          the folder that hack/SCRIPT.sh fills
#
#   XDG_CACHE_HOME   the tools are in its folder d3os-operator/tools; default ~/.cache
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

cache=${XDG_CACHE_HOME:-$HOME/.cache}/d3os-operator/tools
work= # a folder that a failed build leaves

# key TEXT... <FILES: prints a name for the cache. Equal inputs have equal names.
key() { { printf '%s\0' "$@" && cat; } | sha256sum | cut -c 1-16; }

# link FOLDER PATH...: links paths of the cache into FOLDER. They get the present time, which make compares with go.mod.
link() {
	local folder=$1
	shift
	mkdir -p "$folder"
	touch "$@"
	ln -sfn "$@" "$folder/"
}

build() {
	local label=$1 folder=$2 name=$3 module=$4 tags=$5 ldflags=$6 kept start missing=() programs=() package program
	shift 6
	export GOWORK=off CGO_ENABLED=0
	kept=$cache/$module-$(find "hack/tools/$module" -name 'go.*' -o -name '*.go' | sort | xargs cat | key "$(go env GOVERSION GOFLAGS)" "$tags" "$ldflags")
	mkdir -p "$kept"
	for package; do
		program=$kept/${name:-${package##*/}}
		programs+=("$program")
		[[ -x $program ]] || missing+=("$package")
	done
	if ((${#missing[@]})); then
		start=$SECONDS
		printf '  [%s] building %s (from source, cached afterwards)\n' "$(date +%T)" "$label"
		work=$(mktemp -d "$cache/.build-XXXXXX")
		trap 'rm -rf "$work"' EXIT
		go build -C "hack/tools/$module" -tags "$tags" -ldflags "-s -w $ldflags" -o "$work/$name" "${missing[@]}"
		mv "$work"/* "$kept"
		printf '  [%s] built    %s in %d s\n' "$(date +%T)" "$label" $((SECONDS - start))
	fi
	link "$folder" "${programs[@]}"
}

unpack() {
	local folder=$1 script=$2 kept
	shift 2
	kept=$cache/$script${1:+-$1}-$(cat "hack/$script.sh" hack/debian.sh | key "$@")
	if [[ ! -d $kept ]]; then
		mkdir -p "$cache"
		work=$(mktemp -d "$cache/.unpack-XXXXXX")
		trap 'rm -rf "$work"' EXIT
		chmod 755 "$work"
		"hack/$script.sh" "$work" "$@"
		mv -T "$work" "$kept" 2>/dev/null || [[ -d $kept ]] # another clone may have unpacked it already
	fi
	link "$folder" "$kept"/*
}

"$@"
