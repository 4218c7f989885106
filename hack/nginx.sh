#!/usr/bin/env bash
# Unpacks Debian's nginx, with the libraries that a bare Debian lacks, without installing it. Needs no root.
#
#   hack/nginx.sh FOLDER    writes FOLDER/nginx
#
# nginx is the one of Debian 12 (1.22.1) on every Debian: the configuration of the web console has to suit an nginx of that age.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. hack/packages.sh
. hack/debian.sh

release=bookworm
packages=(nginx libcrypt1 libpcre2-8-0 libssl3 zlib1g)

[[ $# == 1 ]] || { echo "usage: $0 FOLDER" >&2; exit 2; }
mkdir -p "$1"
folder=$(cd "$1" && pwd)
printf '  [%s] unpacking nginx of Debian %s\n' "$(date +%T)" "$release"
rm -rf "$folder/debian"
unpack "$release" "$folder/debian" "${packages[@]}"
libraries=
for library in "$folder"/debian/{,usr/}lib/*-linux-gnu; do
	[[ ! -d $library ]] || libraries=$libraries:\$here${library#"$folder/debian"}
done
# Found from the program itself, so that the folder can be moved and linked to.
cat >"$folder/nginx" <<-WRAPPER
	#!/bin/sh
	here=\$(dirname "\$(readlink -f "\$0")")/debian
	LD_LIBRARY_PATH="${libraries#:}" exec "\$here/usr/sbin/nginx" "\$@"
WRAPPER
chmod +x "$folder/nginx"
"$folder/nginx" -v 2>/dev/null
printf '  [%s] unpacked  %s\n' "$(date +%T)" "$("$folder/nginx" -v 2>&1)"
