#!/bin/sh
# Readiness: this node serves its part of the cluster. A node without a cluster would answer clients as if no key
# existed.
# shellcheck source=common.sh
. /scripts/common.sh
own INFO
info=$answer
field role "$info"
role=$value
[ -n "$role" ] || { printf 'no answer to INFO: %.200s\n' "$info"; exit 1; }
field loading "$info"
[ "$value" = 0 ] || { echo 'it is loading its data'; exit 1; }
own CLUSTER INFO
field cluster_slots_assigned "$answer"
[ "$value" != 0 ] || { echo 'it belongs to no cluster yet: it knows of no slots'; exit 1; }
field cluster_state "$answer"
[ "$value" = ok ] || { echo "the cluster is not well: cluster_state is '$value'"; exit 1; }
field master_link_status "$info"
[ "$role" = master ] || [ "$value" = up ] || { echo "the link to its master is '$value'"; exit 1; }
