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

# The file starting exists during a start: started.sh deletes it. If it exists already, the last start did not end.
if [ -e "$run/starting" ] && has_data; then examine; fi
: >"$run/starting"
# Redis never writes an empty base file. It would read an empty one as a cluster without keys.
for base in "$data"/appendonlydir/*.base.rdb; do
	[ ! -e "$base" ] || [ -s "$base" ] || damaged "$(basename "$base")"
done

# Storage has restored the volume of a master to an earlier state while its server did not run.
if has_data && of_the_past; then outdated; fi

# The data was deleted while the pod stayed. Replicas find their master by its address, and would delete their data to
# copy the empty server. So no server starts at this address any more. The operator recognizes this exit code and
# replaces the pod, and the new pod has another address.
if [ -e "$run/served" ] && ! has_data; then
	refuse 65 DataLost "this server had data, and its volume has none any more; the pod is to be replaced"
fi

# A snapshot without its append-only file: Redis would not read the snapshot, and would overwrite it with the first copy
# of a master's data. aside keeps it for a person.
if [ -e "$data/dump.rdb" ] && ! has_data; then
	aside dump.rdb without-aof
fi
# Files without their manifest: Redis would overwrite them with files of the same names.
has_data || [ -z "$(ls -A "$data/appendonlydir" 2>/dev/null)" ] || aside appendonlydir without-manifest

# The data was deleted, but nodes.conf still has the node id. With that id, this server would return as an empty master,
# and its replicas would delete their data to copy it. So it starts as a new node: its replica is elected, and the
# operator lets the new node join.
if [ -s "$data/nodes.conf" ] && ! has_data; then
	echo "the data of this node is gone: it starts as a new node" >&2
	aside nodes.conf without-data
fi

# The settings of the user's ConfigMap, without those that only the operator may set: the same as in the CRD
# (spec.config), and the node timeout, which the operator must know.
own='port|bind|bind-source-addr|protected-mode|dir|include|loadmodule|daemonize|supervised|pidfile|logfile|syslog-.*|unixsocket.*|user|aclfile|rename-command|requirepass|masterauth|masteruser|appendonly|appendfilename|appenddirname|dbfilename|databases|replicaof|slaveof|(replica|slave)-announce.*|cluster-(enabled|config-file|node-timeout|port|announce-.*|allow-replica-migration|preferred-endpoint-type|slave-.*|replica-no-failover)|tls-.*|enable-.*-command|enable-debug-.*'
user=/settings/redis.conf
[ -r "$user" ] || user=/dev/null

# Three quarters of the memory limit: while Redis writes its data to disk, it needs more memory for copies of changed
# data.
limit=${MAXMEMORY:-}
[ -n "$limit" ] || [ -z "${MEMORY_LIMIT:-}" ] || limit=$((MEMORY_LIMIT * 3 / 4))
{
	cat /config/redis.conf
	[ -z "$limit" ] || echo "maxmemory $limit"
	grep -viE "^[[:space:]]*[\"']?($own)[\"']?([[:space:]]|\$)" "$user" || :
	echo
	cat /config/settings.conf
} >"$run/settings.new"

# A server that ran before a wrong setting was made must be able to restart. Redis cannot check a file, but it ends at
# the first unknown line and prints that line. If all settings are right, that is the added line at the end.
end=end-of-settings
wrong=$({ cat "$run/settings.new"; echo "$end"; } | redis-server - 2>&1 | sed -n "s/^>>> '\(.*\)'\$/\1/p")
if [ -n "$wrong" ] && [ "$wrong" != "$end" ] && [ -e "$run/served" ]; then
	echo "a setting is wrong: '$wrong'; this server starts with the settings that it had before" >&2
else
	mv "$run/settings.new" "$run/settings.conf"
fi

# Pods have separate addresses. A loopback address (in tests) is shared with other pods.
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
	# Redis does not use syslog here: the operator reads this time and this size.
	echo "syslog-ident used=${unproven:+$used}${size:+/kept=$size}"
	# The user cannot set this: see examine.
	echo 'aof-load-truncated no'
	# Pods may exchange addresses when they restart, and a replica follows an address. So the pods of each shard have a
	# separate user for replication. If a pod of another shard or cluster now has the address of a lost master, it
	# refuses the master's replicas.
	printf 'requirepass "%s"\nmasteruser "%s"\nmasterauth "%s"\n' "$quoted" "$shard" "$quoted"
	printf 'user %s %s resetkeys resetchannels -@all +psync +sync +replconf +ping ">%s"\n' "$shard" "$(admits)" "$quoted"
	read_seen
	printf 'user %s off resetkeys resetchannels -@all%s\n' "$marks" "${seen:+ ~seen:$seen}"
} >"$run/redis.conf"
printf '%s' "$password" >"$run/password"
true >"$data/alive" || :
exec redis-server "$run/redis.conf"
