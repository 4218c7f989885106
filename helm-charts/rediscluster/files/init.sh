#!/bin/sh
# Checks that the volume is writable before Redis starts.
set -eu
# shellcheck source=common.sh
. /scripts/common.sh
mkdir -p "$data"
: >"$data/.writable" || { echo "the volume at $data cannot be written by user $(id -u): check its owner" >&2; exit 1; }
rm -f "$data/.writable"
