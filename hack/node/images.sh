#!/usr/bin/env bash
# Builds the images that stand in for the platform's parts (test/images) and pushes them to the
# registry of the running node, under the names that the charts use by default.
#
#   hack/node/images.sh [PART=IMAGE...]
#
# PART is service, web, mysql, eureka or probe: IMAGE is one more name for it, as in
# service=registry-edge.cosmoplat.com/dataservice/auth:v1.5.
#
#   IMAGES_DIR   what is built and cached; default .cluster/images
#   NODE_DIR     see hack/node/node.sh
#
# Root, Debian 12 or newer. The programs are static; the rest is Debian's packages.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
dir=${IMAGES_DIR:-$root/.cluster/images}
node_dir=${NODE_DIR:-$root/.cluster/node}
[[ $dir == /* ]] || dir=$PWD/$dir
registry=198.18.77.2

# shellcheck source=hack/image/common.sh
. "$root/hack/image/common.sh"

# One root for all parts that are Debian's: it is pulled and unpacked once.
contents=ca-certificates,curl,gettext-base,mariadb-client-core,mariadb-server-core,netcat-openbsd,nginx,tzdata

debian() {
	local release mirrors=() hash
	# shellcheck source=/dev/null
	release=$(. /etc/os-release && echo "$VERSION_CODENAME")
	# The mirrors that this machine is configured with, in whatever format.
	# shellcheck disable=SC2016
	mapfile -t mirrors < <(apt-get indextargets --format '$(ORIGIN) $(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' |
		awk -v release="$release" '$1 == "Debian" && $3 ~ "^" release && $4 == "main" {print "deb", $2, $3, $4}' | sort -u)
	hash=$(echo "$release $contents ${mirrors[*]}" | sha256sum)
	debian=$dir/debian-${hash:0:12}.tar
	[[ ! -s $debian ]] || return 0
	say "making a root of Debian $release (a minute, cached afterwards)"
	rm -f "$dir"/debian-*.tar
	# shellcheck disable=SC2016
	logged mmdebstrap --format=tar --variant=minbase --include="$contents" \
		--dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/doc/*' \
		--dpkgopt='path-exclude=/usr/share/locale/*' \
		--customize-hook='chroot "$1" groupadd --non-unique --gid 999 mysql' \
		--customize-hook='chroot "$1" useradd --non-unique --uid 999 --gid 999 --no-create-home --home-dir /var/lib/mysql mysql' \
		--customize-hook='chroot "$1" groupadd --non-unique --gid 101 nginx' \
		--customize-hook='chroot "$1" useradd --non-unique --uid 101 --gid 101 --no-create-home nginx' \
		--customize-hook='rm -rf "$1"/var/lib/mysql "$1"/etc/nginx/sites-enabled && mkdir -p -m 1777 "$1"/var/lib/mysql "$1"/run/mysqld' \
		"$release" "$debian.new" "${mirrors[@]}"
	mv "$debian.new" "$debian"
}

# build PART: the image localhost/PART.
build() {
	local context=$dir/context/$1
	rm -rf "$context"
	mkdir -p "$context"
	cp -r "$root/test/images/$1/." "$context"
	case $1 in
	debian) ln "$debian" "$context/debian.tar" ;;
	service | eureka)
		GOWORK=off CGO_ENABLED=0 go build -C "$root/test/images" -trimpath -ldflags '-s -w' -o "$context/$1" "./$1"
		rm "$context"/*.go
		;;
	esac
	logged buildah build --layers --isolation chroot --pull-never --signature-policy "$dir/policy.json" \
		--tag "localhost/$1" "$context"
	rm -rf "$context"
}

# push PART IMAGE
push() {
	logged buildah push --signature-policy "$dir/policy.json" --cert-dir "$dir/certs" "localhost/$1" "docker://$registry/${2#*/}"
	say "$1: $2"
}

image_of() { sed -n 's/^image: *\([^ ]\+\).*/\1/p' "$1" | head -n 1; }

((EUID == 0)) || die 'the images need root'
mkdir -p "$dir/certs"
[[ -e $node_dir/pki/ca.crt ]] || die "no node: run 'make node-up' first"
cp "$node_dir/pki/ca.crt" "$dir/certs/ca.crt"
storage

packages buildah mmdebstrap
debian
for part in debian service eureka mysql web probe; do
	build "$part"
done
say 'the images are built'
charts=$root/helm-charts
for preset in "$charts"/microservice/services/*/preset.yaml; do
	case $preset in
	*/web/preset.yaml) push web "$(image_of "$preset")" ;;
	*) push service "$(image_of "$preset")" ;;
	esac
done
push mysql "$(image_of "$charts/mysql/values.yaml")"
push eureka "$(image_of "$charts/eureka/values.yaml")"
push probe "$(image_of "$charts/third-party/values.yaml")"
for name; do
	push "${name%%=*}" "${name#*=}"
done
