#!/usr/bin/env bash
# Unpacks Debian's nginx and curl, with the libraries that a bare Debian lacks, without installing them. Needs no root.
#
#   hack/nginx.sh FOLDER    writes FOLDER/nginx and FOLDER/curl
#
# The packages are always from Debian 12, because the configuration of the web console must work with its nginx 1.22.1.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. hack/packages.sh
. hack/debian.sh

release=bookworm
packages=(nginx libcrypt1 libpcre2-8-0 libssl3 zlib1g
	curl libcurl4 libbrotli1 libcom-err2 libffi8 libgmp10 libgnutls30 libgssapi-krb5-2 libhogweed6 libidn2-0 libk5crypto3 libkeyutils1
	libkrb5-3 libkrb5support0 libldap-2.5-0 libnettle8 libnghttp2-14 libp11-kit0 libpsl5 librtmp1 libsasl2-2 libssh2-1 libtasn1-6
	libunistring2 libzstd1)

[[ $# == 1 ]] || { echo "usage: $0 FOLDER" >&2; exit 2; }
mkdir -p "$1"
folder=$(cd "$1" && pwd)
printf '  [%s] unpacking nginx and curl of Debian %s\n' "$(date +%T)" "$release"
rm -rf "$folder/debian"
unpack "$release" "$folder/debian" "${packages[@]}"
libraries=
for library in "$folder"/debian/{,usr/}lib/*-linux-gnu; do
	[[ ! -d $library ]] || libraries=$libraries:\$here${library#"$folder/debian"}
done
# Found from the program itself, so that the folder can be moved and linked to.
for program in sbin/nginx bin/curl; do
	cat >"$folder/${program#*/}" <<-WRAPPER
		#!/bin/sh
		here=\$(dirname "\$(readlink -f "\$0")")/debian
		LD_LIBRARY_PATH="${libraries#:}" exec "\$here/usr/$program" "\$@"
	WRAPPER
	chmod +x "$folder/${program#*/}"
done
"$folder/nginx" -v 2>/dev/null
"$folder/curl" --version >/dev/null
printf '  [%s] unpacked  %s, %s\n' "$(date +%T)" "$("$folder/nginx" -v 2>&1)" "$("$folder/curl" --version | cut -d ' ' -f 1,2 | head -n 1)"
