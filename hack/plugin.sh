#!/usr/bin/env bash
# make plugin-archives: writes the kubectl plugin for six platforms, and the index from which krew installs it, to dist/plugin.
#
#   hack/plugin.sh
#
#   VERSION     of the plugin, without v
#   PLUGIN_URL  the address of the published archives, which the index contains
#   PLUGIN_OUT  another folder than dist/plugin; it is replaced
#   PLUGIN_PLATFORMS  some of the platforms; default all
#
# The same commit gives the same archives, byte for byte.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

: "${VERSION:?}" "${PLUGIN_URL:?}"
out=${PLUGIN_OUT:-$PWD/dist/plugin}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
rm -rf "$out"
mkdir -p "$out/plugins"

entries=$work/entries
for platform in ${PLUGIN_PLATFORMS:-linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64}; do
	os=${platform%/*} arch=${platform#*/} program=kubectl-dataservice
	[[ $os != windows ]] || program+=.exe
	folder=$work/$os-$arch
	mkdir "$folder"
	printf '  [%s] building the plugin for %s\n' "$(date +%T)" "$platform" >&2
	GOOS=$os GOARCH=$arch CGO_ENABLED=0 go build -C cmd/kubectl-dataservice -trimpath -buildvcs=false \
		-ldflags "-s -w -X d3os.com/d3os-operator/internal/version.Version=$VERSION" -o "$folder/$program" .
	go run ./hack/notices "$folder/$program" >"$folder/NOTICES"
	cp LICENSE cmd/kubectl-dataservice/kubectl_complete-dataservice "$folder/"
	archive=kubectl-dataservice_${VERSION}_${os}_$arch.tar.gz
	tar --create --directory "$folder" --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner \
		--mode='u=rwX,go=rX' . | gzip --no-name >"$out/$archive"
	sum=$(sha256sum "$out/$archive" | cut -d ' ' -f 1)
	sed "s|@os@|$os|; s|@arch@|$arch|; s|@url@|$PLUGIN_URL/$archive|; s|@sha256@|$sum|; s|@bin@|$program|" \
		hack/krew/platform.yaml >>"$entries"
done
{
	sed "s|@version@|v$VERSION|" hack/krew/dataservice.yaml
	cat "$entries"
} >"$out/plugins/dataservice.yaml"
(cd "$out" && sha256sum -- *.tar.gz >SHA256SUMS)
echo "$out"
