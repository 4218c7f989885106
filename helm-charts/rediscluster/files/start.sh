#!/bin/sh
# Writes the configuration of this pod and becomes redis-server.
set -eu
umask 077
# shellcheck source=common.sh
. /scripts/common.sh
if ! read_secret /credentials/password; then
	last_words PasswordRefused "the key password of its Secret is not used: $refusal"
	exit 78
fi
# shellcheck source=data.sh
. /scripts/data.sh
mkdir -p "$data"

owned_by

# The mark of a start that has not come to an end: started.sh takes it away.
if [ -e "$run/starting" ] && has_data; then examine; fi
: >"$run/starting"
# The first file is never empty. Redis takes one that is for a cluster without a key.
for base in "$data"/appendonlydir/*.base.rdb; do
	[ ! -e "$base" ] || [ -s "$base" ] || damaged "$(basename "$base")"
done

# The volume of a master was put back to an earlier state while its server did not run.
if has_data && of_the_past; then outdated; fi

linked=$(grep -x '[0-9][0-9]*' "$data/linked" 2>/dev/null) || linked=

# The data is gone while the pod stayed. Replicas look for their master by its address, and would throw their
# data away to be like the empty server that they find there. So nothing starts at this address any more: the
# operator replaces the pod (it knows this exit code), and the new one has another address.
if [ -e "$run/served" ] && ! has_data; then
	refuse 65 DataLost "this server had data, and its volume has none any more; the pod is to be replaced"
fi

# A snapshot without the append-only file that belongs to it: Redis would not read it, and replace it with
# the first copy of a master's data. It is kept for people.
if [ -e "$data/dump.rdb" ] && ! has_data; then
	aside dump.rdb without-aof
fi
# Files without the manifest that names them: Redis would write others of the same names.
has_data || [ -z "$(ls -A "$data/appendonlydir" 2>/dev/null)" ] || aside appendonlydir without-manifest

# The data is gone, the name is not: under its old id this server would come back as an empty master, and
# its replicas would throw their data away to be like it. So it comes back as a new node: its replica is
# elected, and the operator lets it join.
if [ -s "$data/nodes.conf" ] && ! has_data; then
	echo "the data of this node is gone: it starts as a new node" >&2
	aside nodes.conf without-data
fi

# Settings of the user's ConfigMap, but those that are the operator's own, as in the CRD (spec.config), and
# the node timeout, which the operator has to know.
own='port|bind|bind-source-addr|protected-mode|dir|include|loadmodule|daemonize|supervised|pidfile|logfile|syslog-.*|unixsocket.*|user|aclfile|rename-command|requirepass|masterauth|masteruser|appendonly|appendfilename|appenddirname|dbfilename|databases|replicaof|slaveof|(replica|slave)-announce.*|cluster-(enabled|config-file|node-timeout|port|announce-.*|allow-replica-migration|preferred-endpoint-type|slave-.*|replica-no-failover)|tls-.*|enable-.*-command|enable-debug-.*'
user=/settings/redis.conf
[ -r "$user" ] || user=/dev/null

# Three quarters of the memory, because a copy of what changes while data is written to disk takes some.
limit=${MAXMEMORY:-}
[ -n "$limit" ] || [ -z "${MEMORY_LIMIT:-}" ] || limit=$((MEMORY_LIMIT * 3 / 4))
{
	cat /config/redis.conf
	[ -z "$limit" ] || echo "maxmemory $limit"
	grep -viE "^[[:space:]]*[\"']?($own)[\"']?([[:space:]]|\$)" "$user" || :
	echo
	cat /config/settings.conf
} >"$run/settings.new"

# A setting that Redis does not take must not keep a server from coming back that ran before it was made. Redis has
# no way to check a file. It ends at the first line that it does not know: that is the one at the end if all
# others are right.
end=end-of-settings
wrong=$({ cat "$run/settings.new"; echo "$end"; } | redis-server - 2>&1 | sed -n "s/^>>> '\(.*\)'\$/\1/p")
if [ -n "$wrong" ] && [ "$wrong" != "$end" ] && [ -e "$run/served" ]; then
	echo "a setting is wrong: '$wrong'; this server starts with the settings that it had before" >&2
else
	mv "$run/settings.new" "$run/settings.conf"
fi

# Pods have addresses of their own. A loopback address is shared with others.
bind='* -::*'
case $POD_IP in 127.*) bind=$POD_IP ;; esac

size=$(kept)
shard=replica:$POD_NAMESPACE/${POD_NAME%-*}
quoted=$(printf '%s' "$password" | sed 's/[\\"]/\\&/g')
{
	echo "include $run/settings.conf"
	echo 'port 6379'
	echo "bind $bind"
	echo "dir \"$data\""
	echo "cluster-announce-ip $POD_IP"
	major=$(redis-server --version | sed -n 's/.* v=\([0-9]*\)\..*/\1/p')
	[ "${major:-0}" -lt 7 ] || echo "cluster-announce-hostname $POD_NAME.$SERVICE.$POD_NAMESPACE.svc"
	# Nothing is logged there: other nodes and the operator read these times and sizes. Older scripts read the text after linked=.
	echo "syslog-ident used=${unproven:+$used}${size:+/kept=$size}/linked=$linked"
	# Not for the settings: see examine.
	echo 'aof-load-truncated no'
	# Addresses are exchanged when pods restart, and a replica follows an address. So the pods of a shard have a user of their own
	# for replication: whoever has the address of a lost master now, of another shard or cluster, refuses its replicas.
	printf 'requirepass "%s"\nmasteruser "%s"\nmasterauth "%s"\n' "$quoted" "$shard" "$quoted"
	printf 'user %s %s resetkeys resetchannels -@all +psync +sync +replconf +ping ">%s"\n' "$shard" "$(admits)" "$quoted"
} >"$run/redis.conf"
printf '%s' "$password" >"$run/password"
true >"$data/alive" || :
exec redis-server "$run/redis.conf"
