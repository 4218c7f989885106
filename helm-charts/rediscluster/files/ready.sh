#!/bin/sh
# Readiness: this node serves its part of the cluster. One of a cluster that is not formed yet is ready, too.
# shellcheck source=common.sh
. /scripts/common.sh
info=$(own INFO)
role=$(printf '%s\n' "$info" | field role)
[ -n "$role" ] || { printf 'no answer to INFO: %.200s\n' "$info"; exit 1; }
[ "$(printf '%s\n' "$info" | field loading)" = 0 ] || { echo 'it is loading its data'; exit 1; }
cluster=$(own CLUSTER INFO)
assigned=$(printf '%s\n' "$cluster" | field cluster_slots_assigned)
[ "$assigned" != 0 ] || exit 0
state=$(printf '%s\n' "$cluster" | field cluster_state)
[ "$state" = ok ] || { echo "the cluster is not well: cluster_state is '$state'"; exit 1; }
link=$(printf '%s\n' "$info" | field master_link_status)
[ "$role" = master ] || [ "$link" = up ] || { echo "the link to its master is '$link'"; exit 1; }
