#!/usr/bin/env bash
# Unpacks Debian's prometheus and promtool without installing them. Building them from Go modules
# takes a hundred times as long, and more than all other tools of `make test` but Kubernetes.
#
#   hack/prometheus.sh FOLDER    writes FOLDER/prometheus and FOLDER/promtool
#
# The packages are always from Debian 12 (Prometheus 2.42).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. hack/packages.sh
. hack/debian.sh

release=bookworm

[[ $# == 1 ]] || { echo "usage: $0 FOLDER" >&2; exit 2; }
mkdir -p "$1"
folder=$(cd "$1" && pwd)
printf '  [%s] unpacking prometheus and promtool of Debian %s\n' "$(date +%T)" "$release"
rm -rf "$folder/debian"
unpack "$release" "$folder/debian" prometheus
for program in prometheus promtool; do
	ln -sfn "debian/usr/bin/$program" "$folder/$program"
done
"$folder/promtool" --version >/dev/null
printf '  [%s] unpacked  %s\n' "$(date +%T)" "$("$folder/prometheus" --version 2>&1 | head -n 1 | cut -d ' ' -f 1-3)"
