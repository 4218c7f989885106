#!/usr/bin/env bash
# Unpacks etcd 3.4 of Debian 12, the start of the chain of upgrades in test/etcdcluster, without installing it. Needs no root. Its
# Go modules cannot be built any more as they are.
#
#   hack/etcd.sh FOLDER    writes etcd-3.4 and etcdctl-3.4
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. hack/packages.sh
. hack/debian.sh

[[ $# == 1 ]] || { echo "usage: $0 FOLDER" >&2; exit 2; }
mkdir -p "$1"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
printf '  [%s] unpacking etcd 3.4 of Debian bookworm\n' "$(date +%T)"
unpack bookworm "$work/debian" etcd-server etcd-client
install "$work/debian/usr/bin/etcd" "$1/etcd-3.4"
install "$work/debian/usr/bin/etcdctl" "$1/etcdctl-3.4"
printf '  [%s] unpacked  %s\n' "$(date +%T)" "$("$1/etcd-3.4" --version | head -n 1)"
