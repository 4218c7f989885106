#!/usr/bin/env bash
# Unpacks Debian's redis-server and redis-cli, with the libraries that a bare Debian lacks, without installing them.
# Needs no root: apt keeps its lists and packages in folders of this script's own.
#
#   hack/redis.sh FOLDER    writes FOLDER/redis-server and FOLDER/redis-cli
#
# Redis is the one of Debian 12 (7.0.15) on every Debian: what the tests rest on was measured with it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. hack/packages.sh

release=bookworm
# What a machine with apt-get does not have anyway (apt itself brings libsystemd0 and libstdc++6).
packages=(redis-server redis-tools libatomic1 libjemalloc2 liblzf1 libssl3)

[[ $# == 1 ]] || { echo "usage: $0 FOLDER" >&2; exit 2; }
mkdir -p "$1"
folder=$(cd "$1" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
log=$work/log

apt() {
	apt-get -qq -o APT::Sandbox::User="$(id -un)" -o Acquire::Retries=3 \
		-o Dir::Etc::SourceList="$work/sources/sources.list" -o Dir::Etc::SourceParts="$work/sources/sources.list.d" \
		-o Dir::State="$work/state" -o Dir::State::status="$work/status" -o Dir::Cache="$work/cache" "$@" >>"$log" 2>&1 && return
	tail -n 25 "$log" >&2
	echo "redis.sh: apt-get $1 of Debian $release failed" >&2
	return 1
}

type -P apt-get dpkg-deb >/dev/null || { echo 'redis.sh: needs apt-get and dpkg-deb, that is a Debian' >&2; exit 1; }
mkdir -p "$work"/{sources/sources.list.d,state/lists/partial,cache/archives/partial,packages}
touch "$work/sources/sources.list" "$work/status"
for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.{list,sources}; do
	[[ ! -e $file ]] || sed "s/\b$(debian_release)\b/$release/g" "$file" >"$work/sources/${file#/etc/apt/}"
done
printf '  [%s] unpacking redis-server and redis-cli of Debian %s\n' "$(date +%T)" "$release"
apt update
(cd "$work/packages" && apt download "${packages[@]}")

rm -rf "$folder/debian"
for package in "$work"/packages/*.deb; do
	dpkg-deb --extract "$package" "$folder/debian"
done
libraries=$(dirname "$(find "$folder/debian" -name 'libjemalloc.so*' | head -n 1)")
for program in redis-server redis-cli; do
	# Found from the program itself, so that the folder can be moved and linked to.
	cat >"$folder/$program" <<-WRAPPER
		#!/bin/sh
		here=\$(dirname "\$(readlink -f "\$0")")/debian
		LD_LIBRARY_PATH="\$here${libraries#"$folder/debian"}" exec "\$here/usr/bin/$program" "\$@"
	WRAPPER
	chmod +x "$folder/$program"
done
"$folder/redis-server" --version >>"$log" && "$folder/redis-cli" --version >>"$log" || { tail -n 5 "$log" >&2; exit 1; }
printf '  [%s] unpacked  %s\n' "$(date +%T)" "$("$folder/redis-server" --version | cut -d ' ' -f 1-3)"
