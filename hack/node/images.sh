#!/usr/bin/env bash
# Builds the images that stand in for the platform's parts (test/images) and pushes them to the
# registry of the running node, under the names that the charts use by default.
#
#   hack/node/images.sh [PART=IMAGE...]
#
# PART is service, web, mysql, eureka or probe: IMAGE is one more name for it, as in
# service=registry-edge.cosmoplat.com/dataservice/auth:v1.5. Further parts are built only when named:
# manager (bin/manager); busybox; cache and orders (config/samples/application.yaml); outside (a probe
# that finds everything well); scorecard (test/scorecard) and scorecard-test (operator-sdk's own).
#
#   IMAGES_DIR   what is built and cached; default .cluster/images
#   NODE_DIR     see hack/node/node.sh
#   TOOLS        folder of the binaries; default bin/tools
#
# Root, Debian 12 or newer. The programs are static; the rest is Debian's packages.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
dir=${IMAGES_DIR:-$root/.cluster/images}
node_dir=${NODE_DIR:-$root/.cluster/node}
[[ $dir == /* ]] || dir=$PWD/$dir
registry=198.18.77.2
tools=${TOOLS:-$root/bin/tools}

die() { echo "images.sh: $*" >&2; exit 1; }
say() { printf '  [%3d s] %s\n' "$SECONDS" "$*"; }
logged() { "$@" >"$dir/log" 2>&1 || { tail -n 25 "$dir/log" >&2; die "failed: $*"; }; }
# Storage, policy and configuration of its own: the user's stay as they are.
buildah() { command buildah --root "$dir/storage" --runroot "$dir/run" --storage-driver "$driver" "$@"; }

packages() {
	local command missing=()
	for command in buildah mmdebstrap; do
		command -v "$command" >/dev/null || missing+=("$command")
	done
	((${#missing[@]})) || return 0
	say "installing ${missing[*]}"
	export DEBIAN_FRONTEND=noninteractive
	logged apt-get update -qq
	logged apt-get install -y -qq --no-install-recommends "${missing[@]}"
}

# busybox FOLDER: the program and its names, from Debian's package, which the host need not have.
busybox() {
	local name work=$dir/busybox
	mkdir -p "$work" "$1"
	if [[ ! -x $work/busybox ]]; then
		logged apt-get update -qq
		(cd "$work" && logged apt-get download -qq busybox-static)
		dpkg-deb --fsys-tarfile "$work"/busybox-static_*.deb |
			tar --extract --to-stdout --wildcards '*/bin/busybox' >"$work/busybox.new"
		chmod 755 "$work/busybox.new"
		mv "$work/busybox.new" "$work/busybox"
	fi
	cp "$work/busybox" "$1/busybox"
	for name in $("$work/busybox" --list); do
		[[ $name == busybox ]] || ln -s busybox "$1/$name"
	done
}

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
	[[ $1 == scorecard ]] || cp -r "$root/test/images/$1/." "$context"
	case $1 in
	scorecard)
		cp "$root/test/scorecard/Dockerfile" "$context"
		GOWORK=off CGO_ENABLED=0 go build -C "$root/test/scorecard" -trimpath -ldflags '-s -w' -o "$context/scorecard" .
		;;
	scorecard-test)
		[[ -x $tools/scorecard-test ]] || die "$tools/scorecard-test is missing: run 'make scorecard' or build it (hack/tools.mk) first"
		cp "$tools/scorecard-test" "$context"
		;;
	manager)
		[[ -x $root/bin/manager ]] || die "$root/bin/manager is missing: run 'make build' first"
		cp "$root/bin/manager" "$context"
		;;
	busybox) busybox "$context/bin" ;;
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
echo '{"default": [{"type": "insecureAcceptAnything"}]}' >"$dir/policy.json"
# An overlay cannot lie on another one, which a container's file system is.
driver=overlay
[[ $(stat --file-system --format %T "$dir") != overlayfs ]] || driver=vfs

packages
debian
parts=(debian service eureka mysql web probe)
# In this order: some are made of others.
wanted=" ${*%%=*} "
[[ $wanted != *' orders '* && $wanted != *' outside '* ]] || wanted+='busybox '
for part in manager busybox cache orders outside scorecard scorecard-test; do
	[[ $wanted != *" $part "* ]] || parts+=("$part")
done
for part in "${parts[@]}"; do
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
