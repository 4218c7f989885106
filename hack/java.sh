#!/usr/bin/env bash
# Unpacks Debian's Java 17 and a JDBC driver, MariaDB Connector/J, without installing them. Needs no root.
#
#   hack/java.sh FOLDER    writes FOLDER/java, which also runs a source file, and FOLDER/mariadb-java-client.jar
#
# The packages are always from Debian 12. Its MariaDB Connector/J 2.7.6 accepts urls that begin with jdbc:mysql:, and knows the options of
# MySQL's own driver. Neither Debian 12 nor unstable has MySQL's own driver.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. hack/packages.sh
. hack/debian.sh

release=bookworm

[[ $# == 1 ]] || { echo "usage: $0 FOLDER" >&2; exit 2; }
mkdir -p "$1"
folder=$(cd "$1" && pwd)
printf '  [%s] unpacking Java 17 and a JDBC driver of Debian %s\n' "$(date +%T)" "$release"
rm -rf "$folder/debian"
unpack "$release" "$folder/debian" openjdk-17-jre-headless libmariadb-java zlib1g
# The package links its configuration to /etc.
find "$folder/debian" -lname '/etc/java-17-openjdk/*' | while read -r link; do
	ln -sfnr "$folder/debian$(readlink "$link")" "$link"
done
# Found from the program itself, so that the folder can be moved and linked to.
cat >"$folder/java" <<-'WRAPPER'
	#!/bin/sh
	here=$(dirname "$(readlink -f "$0")")/debian
	for library in "$here"/lib/*-linux-gnu; do export LD_LIBRARY_PATH="$library"; done
	exec "$here"/usr/lib/jvm/java-17-openjdk-*/bin/java "$@"
WRAPPER
chmod +x "$folder/java"
ln -sfn debian/usr/share/java/mariadb-java-client.jar "$folder/mariadb-java-client.jar"
"$folder/java" --list-modules | grep '^jdk.compiler@' >/dev/null # compiles a source file before it runs it
printf '  [%s] unpacked  %s, %s\n' "$(date +%T)" "$("$folder/java" -version 2>&1 | head -n 1)" "$(basename "$folder"/debian/usr/share/java/mariadb-java-client-*.jar .jar)"
