#!/usr/bin/env bash
# Unpacks Debian's redis-server and redis-cli, with the libraries that a bare Debian lacks, without installing them.
# Needs no root.
#
#   hack/redis.sh FOLDER    writes FOLDER/redis-server, FOLDER/redis-cli and FOLDER/redis-check-aof
#
# The packages are always from Debian 12 (Redis 7.0.15), because the tests rely on measurements with this version.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. hack/packages.sh
. hack/debian.sh

release=bookworm
# What a machine with apt-get does not have anyway (apt itself brings libsystemd0 and libstdc++6).
packages=(redis-server redis-tools libatomic1 libjemalloc2 liblzf1 libssl3)

[[ $# == 1 ]] || { echo "usage: $0 FOLDER" >&2; exit 2; }
mkdir -p "$1"
folder=$(cd "$1" && pwd)
printf '  [%s] unpacking redis-server and redis-cli of Debian %s\n' "$(date +%T)" "$release"
rm -rf "$folder/debian"
unpack "$release" "$folder/debian" "${packages[@]}"
libraries=$(dirname "$(find "$folder/debian" -name 'libjemalloc.so*' | head -n 1)")
for program in redis-server redis-cli redis-check-aof; do
	# Found from the program itself, so that the folder can be moved and linked to.
	cat >"$folder/$program" <<-WRAPPER
		#!/bin/sh
		here=\$(dirname "\$(readlink -f "\$0")")/debian
		LD_LIBRARY_PATH="\$here${libraries#"$folder/debian"}" exec "\$here/usr/bin/$program" "\$@"
	WRAPPER
	chmod +x "$folder/$program"
done
"$folder/redis-server" --version >/dev/null && "$folder/redis-cli" --version >/dev/null
printf '  [%s] unpacked  %s\n' "$(date +%T)" "$("$folder/redis-server" --version | cut -d ' ' -f 1-3)"
