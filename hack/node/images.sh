#!/usr/bin/env bash
# Builds the images that replace the platform's parts (test/images). It pushes them to the registry of the running node under the default
# names of the charts.
#
#   hack/node/images.sh [PART=IMAGE...]
#
# PART is a folder of test/images. IMAGE is an additional name for the part's image, such as
# service=registry-edge.cosmoplat.com/dataservice/auth:v1.5.
#
#   IMAGES_DIR   output and cache folder; default .cluster/images
#   NODE_DIR     see hack/node/node.sh
#
# Root, Debian 12 or newer. The programs are statically linked; everything else comes from Debian's packages.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
# shellcheck source=hack/node/buildah.sh
. "$root/hack/node/buildah.sh"

# All parts that use Debian have the same root: it is downloaded and unpacked once.
contents=ca-certificates,curl,gettext-base,mariadb-client,mariadb-server-core,netcat-openbsd,nginx,redis-server,tzdata

debian() {
	local release mirrors=() hash
	release=$(debian_release)
	mapfile -t mirrors < <(debian_sources)
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

# build PART: builds the image localhost/PART.
build() {
	local context=$dir/context/$1
	rm -rf "$context"
	mkdir -p "$context"
	cp -r "$root/test/images/$1/." "$context"
	case $1 in
	debian) ln "$debian" "$context/debian.tar" ;;
	etcd)
		cp "${TOOLS:-$root/bin/tools}/etcd" "$context"
		cp "${TOOLS:-$root/bin/tools}/etcds/etcdutl-3.6" "$context/etcdutl"
		;;
	mysqlserver)
		# Only the server and its client: the complete packages require Perl.
		(
			cd "$(dirname "$(readlink -f "${MYSQL:-$root/bin/tools/mysql}/mysqld")")"
			mkdir "$context/mysql"
			cp --parents --recursive mysql mysqld debian/usr/sbin/mysqld debian/usr/bin/mysql debian/usr/lib64 \
				debian/usr/lib/*-linux-gnu debian/usr/lib/mysql debian/usr/share/mysql "$context/mysql"
		)
		;;
	s3) cp "${TOOLS:-$root/bin/tools}/versitygw" "$context" ;;
	probe) cat /etc/ssl/certs/ca-certificates.crt "$node_dir/pki/outside-ca.crt" >"$context/bundle.crt" 2>/dev/null || true ;;
	service | eureka | orders)
		GOWORK=off CGO_ENABLED=0 go build -C "$root/test/images" -trimpath -ldflags '-s -w' -o "$context/$1" "./$1"
		rm "$context"/*.go
		;;
	esac
	build_image "$1" "$context"
	rm -rf "$context"
}

image_of() { sed -n 's/^image: *\([^ ]\+\).*/\1/p' "$1" | head -n 1; }

prepare
debian
parts='debian service eureka mysql mysqlserver web probe orders redis etcd'
[[ ${E2E:-} != full ]] || parts+=' s3'
for part in $parts; do
	build "$part"
done
say 'the images are built'
charts=$root/helm-charts
for preset in "$charts"/microservice/services/*/preset.yaml; do
	case $preset in
	*/web/preset.yaml) push_image web "$(image_of "$preset")" ;;
	*) push_image service "$(image_of "$preset")" ;;
	esac
done
push_image mysql "$(image_of "$charts/mysql/values.yaml")"
push_image eureka "$(image_of "$charts/eureka/values.yaml")"
push_image probe "$(image_of "$charts/third-party/values.yaml")"
# The images in config/samples/{minimal,application}.yaml.
push_image orders docker.io/nginxinc/nginx-unprivileged:1.29
push_image redis docker.io/library/redis:8.2
push_image redis docker.io/library/redis:7.0.15
# The image's server has the version of the tools, whatever the image's tag.
push_image mysqlserver "$(image_of "$charts/mysqlcluster/values.yaml")"
# The image has the patch version of etcd 3.6 that the tools have.
push_image etcd gcr.io/etcd-development/etcd:v3.6.16
push_image debian docker.io/library/busybox:1.37
[[ ${E2E:-} != full ]] || push_image s3 docker.io/versity/versitygw:v1.8.0
for name; do
	push_image "${name%%=*}" "${name#*=}"
done
