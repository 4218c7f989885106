#!/usr/bin/env bash
# Builds the operator's images and pushes them, without Docker. The same commit gives the same digests.
#
#   hack/images.sh build|push [manager|bundles|catalog|scorecard]...   default: all four
#   hack/images.sh bundles   build all bundles, and print the folder of each bundle with its image by digest
#   hack/images.sh packages  install the missing packages of Debian that this script needs
#   hack/images.sh list      print every image that a cluster without internet needs
#
#   VERSION         of the manager and the catalog; bundles have their own
#   COMMIT          from which the manager was built; default HEAD and uncommitted changes
#   IMAGE_TAG_BASE  start of the names of all images
#   SCORECARD_IMG   name of the image of the scorecard tests
#   PROGRAMS        in the manager's image: manager agent
#   PLATFORMS       of the manager and the scorecard tests, whose binaries make has built: linux/amd64,linux/arm64
#   REGISTRY        push to this host[:port] under the same path, not to the registries in the names
#   CERT_DIR        a folder with the registry's authority, ca.crt
#   IMAGES_DIR      output folder; default bin/images:
#                     digests/<name>/<tag>   the digest of each image
#                     oci/<name>/<tag>/      the image as an OCI layout
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. hack/project.env
. hack/image/common.sh
. hack/image/layout.sh

version=${VERSION:-$(cat VERSION)}
commit=${COMMIT:-HEAD}
base=${IMAGE_TAG_BASE:?}
img=${IMG:-$base:v$version}
catalog_img=${CATALOG_IMG:-$base-catalog:v$version}
scorecard_img=${SCORECARD_IMG:-$base-scorecard:v$version}
platforms=${PLATFORMS:-linux/amd64,linux/arm64}
dir=${IMAGES_DIR:-$PWD/bin/images}
[[ $dir == /* ]] || dir=$PWD/$dir

# bundle_folders prints each bundle once: the released bundles, then the bundle of the next release.
bundle_folders() {
	local version
	version=$(bundle_version bundle)
	find releases -mindepth 1 -maxdepth 1 -type d 2>/dev/null | sort --version-sort
	if [[ ! -d releases/v$version ]]; then
		echo bundle
	elif ! diff -r bundle "releases/v$version" >&2; then
		die "bundle/ differs from the released bundle of its version: raise VERSION"
	fi
}
bundle_version() { sed -n 's/^  name: d3os-operator\.v//p' "$1"/manifests/*.clusterserviceversion.yaml; }
bundle_image() { echo "$base-bundle:v$(bundle_version "$1")"; }

# file_of IMAGE: <name>/<tag>
file_of() {
	local name=${1##*/}
	echo "${name/://}"
}
digest() { cat "$dir/digests/$(file_of "$1")"; }

# context NAME: creates an empty build context.
context() {
	context=$dir/context/$1
	rm -rf "$context"
	mkdir -p "$context"
}

# layout IMAGE: creates an empty folder for the image's layout.
layout() {
	layout=$dir/oci/$(file_of "$1")
	rm -rf "$layout"
	mkdir -p "$layout" "$(dirname "$dir/digests/$(file_of "$1")")"
}

# build EPOCH ARGUMENT...: builds the image of the context into $layout, and prints the descriptor of its manifest. The image does not
# depend on the machine, the time or the checkout.
build() {
	local epoch=$1 raw=$dir/context/raw
	shift
	chmod -R u=rwX,go=rX "$context"
	rm -rf "$raw"
	logged buildah build --layers=false --identity-label=false --isolation chroot --pull-never \
		--signature-policy "$dir/policy.json" --format oci --tag localhost/built "$@" "$context"
	logged buildah push --signature-policy "$dir/policy.json" localhost/built "oci:$raw:built"
	buildah rmi --all --force >/dev/null
	canonical "$raw" "$layout" "$epoch"
	rm -rf "$dir/context"
}

finish_image() { finish "$layout" "$1" >"$dir/digests/$(file_of "$1")"; }

manager() {
	local epoch revision platform
	epoch=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct "$commit")}
	revision=$(git rev-parse "$commit")
	[[ $commit != HEAD || -z $(git status --porcelain) ]] || revision+=-dirty
	say "the manager $version for $platforms"
	layout "$img"
	for platform in ${platforms//,/ }; do
		context manager
		mkdir -p "$context/bin/$platform"
		cp Dockerfile LICENSE "$context"
		cp bin/"$platform"/manager{,.cdx.json,.notices} "$context/bin/$platform"
		if [[ " ${PROGRAMS:-manager agent} " == *' agent '* ]]; then
			cp bin/"$platform"/agent{,.cdx.json,.notices} "$context/bin/$platform"
		else
			sed -i '/agent/d' "$context/Dockerfile"
		fi
		build "$epoch" --platform "$platform" --build-arg VERSION="$version" --build-arg REVISION="$revision" --build-arg SOURCE="$PROJECT_URL" \
			--build-arg CREATED="$(date --utc --date "@$epoch" +%FT%TZ)"
	done | index "$layout" | finish_image "$img"
}

# The labels are the annotations of each bundle, so that the image of a released bundle does not change.
bundles() {
	local folder image labels
	for folder in $(bundle_folders); do
		image=$(bundle_image "$folder")
		say "the bundle ${image##*:}"
		layout "$image"
		context bundle
		cp -r "$folder" "$context/bundle"
		sed '/^LABEL /d' bundle.Dockerfile >"$context/Dockerfile"
		mapfile -t labels < <(sed -nE 's/^  ([a-z][^ ]*): "?([^"]*)"?$/--label=\1=\2/p' "$folder/metadata/annotations.yaml")
		# The image contains only data, which is the same for every architecture. The time of the image is always 0, because
		# the catalog in git contains the digest of the image.
		build 0 --platform linux/amd64 "${labels[@]}" | finish_image "$image"
	done
}

catalog() {
	local folder image
	for folder in $(bundle_folders); do
		image=$(bundle_image "$folder")
		grep --quiet --recursive "image: ${image%:*}@$(digest "$image")\$" catalog ||
			die "the catalog does not have the image of $folder: run 'make catalog'"
	done
	say "the catalog ${catalog_img##*:}"
	layout "$catalog_img"
	context catalog
	cp -r catalog "$context"
	cp catalog.Dockerfile "$context/Dockerfile"
	build 0 --platform linux/amd64 | finish_image "$catalog_img"
}

scorecard() {
	local platform
	say "the scorecard tests ${scorecard_img##*:} for $platforms"
	layout "$scorecard_img"
	for platform in ${platforms//,/ }; do
		context scorecard
		cp test/scorecard/Dockerfile bin/"$platform"/scorecard "$context"
		build 0 --platform "$platform"
	done | index "$layout" | finish_image "$scorecard_img"
}

# images_of PART: prints the names of the part's images.
images_of() {
	case $1 in
	manager) echo "$img" ;;
	bundles) local folder; for folder in $(bundle_folders); do bundle_image "$folder"; done ;;
	catalog) echo "$catalog_img" ;;
	scorecard) echo "$scorecard_img" ;;
	*) die "no image: $1" ;;
	esac
}

push() {
	local image to options=()
	[[ -z ${CERT_DIR:-} ]] || options=(--dest-cert-dir "$CERT_DIR")
	for image in $(images_of "$1"); do
		to=$image
		[[ -z ${REGISTRY:-} ]] || to=$REGISTRY/${image#*/}
		[[ -e $dir/digests/$(file_of "$image") ]] || die "$image is not built: run 'make images'"
		logged skopeo copy --policy "$dir/policy.json" --all --preserve-digests "${options[@]}" \
			"oci:$dir/oci/$(file_of "$image"):$image" "docker://$to"
		printf '%s@%s\n' "$to" "$(digest "$image")"
	done
}

list() {
	images_of manager
	images_of bundles
	images_of catalog
	{
		# The images of the bundle's scorecard tests: the operator's own, and those of the Operator SDK.
		sed -n 's/^ *image: //p' bundle/tests/scorecard/config.yaml
		# The operator of each release with its images, because an upgrade installs each release.
		sed -n 's/^    containerImage: //p; /^  relatedImages:/,/^  [a-z]/s/^ *\(- \)\?image: //p' releases/*/manifests/*.clusterserviceversion.yaml
		# The default images of the charts.
		sed -n 's/^image: *\([^" #]\+\).*/\1/p' helm-charts/*/values.yaml helm-charts/microservice/services/*/preset.yaml
	} | sort -u | grep --invert-match --line-regexp --fixed-strings "$(images_of manager)"
}

built() {
	local image
	for image in $(images_of "$1"); do
		printf '%s@%s\n' "$image" "$(digest "$image")"
	done
}

command=${1:-}
shift || true
(($#)) || set -- manager bundles catalog scorecard
case $command in
build | bundles | packages) packages buildah jq ;;
push) packages skopeo ;;
esac
storage
case $command in
build)
	for part; do "$part"; done
	for part; do built "$part"; done
	;;
bundles)
	bundles
	for folder in $(bundle_folders); do
		image=$(bundle_image "$folder")
		echo "$folder ${image%:*}@$(digest "$image")"
	done
	;;
push) for part; do push "$part"; done ;;
list) list ;;
packages) ;;
*) die "usage: $0 build|push [manager|bundles|catalog|scorecard]... | bundles | packages | list" ;;
esac
