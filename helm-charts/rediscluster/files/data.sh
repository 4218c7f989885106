# Sourced by start.sh: what is on the volume, and whether a server may start on it.
# shellcheck shell=sh

# When the volume was last in use; and not empty where storage may have put it back since: of_the_past.
used='' unproven=''

# refuse CODE REASON TEXT: ends the container. The operator knows the code, and shows the reason and the text.
refuse() {
	last_words "$2" "$3"
	exit "$1"
}

# has_data: Redis keeps a manifest, or an append-only file before version 7, from its first moment on.
has_data() { [ -e "$data/appendonly.aof" ] || ls "$data"/appendonlydir/*.manifest >/dev/null 2>&1; }

# aside NAME SUFFIX: keeps a file or folder of the volume under a name that Redis does not read.
aside() {
	[ -e "$data/$1" ] || return 0
	kept=$1.$2
	n=1
	while [ -e "$data/$kept" ]; do
		n=$((n + 1))
		kept=$1.$2-$n
	done
	mv "$data/$1" "$data/$kept"
	echo "$1 is kept as $kept" >&2
}

# kept: prints the size in MiB of what is kept under such names, and nothing below one.
kept() {
	size=0
	for file in "$data"/*.damaged* "$data"/*.of-the-past* "$data"/*.without-*; do
		[ -e "$file" ] || continue
		kib=$(du -sk "$file" 2>/dev/null | tail -n 1)
		kib=${kib%%[!0-9]*}
		size=$((size + ${kib:-0}))
	done
	[ "$size" -lt 1024 ] || echo $((size / 1024))
}

# owned_by: the volume says whose it is. A server on a copy of it would have the id of another one, and find that one's cluster by
# the addresses of its nodes.
owned_by() {
	whose=$POD_NAMESPACE/$POD_NAME
	mark=
	[ ! -s "$data/owner" ] || IFS= read -r mark <"$data/owner" || :
	if [ -n "$mark" ] && [ "$mark" != "$whose" ]; then
		refuse 66 ForeignVolume "the volume of $whose is a copy of that of $mark, or was moved: a server on it would take that one's place. \
Delete the claim and restore a backup; or, if $mark never runs again, remove the file owner from the volume"
	fi
	[ -n "$mark" ] || printf '%s\n' "$whose" >"$data/owner"
}

# examine: Redis does not start on a file that is damaged or cut off (aof-load-truncated), because it cannot tell these apart:
# it would drop all that comes after the damage, and have its replicas do the same. So a start that did not come to an end is
# followed by a check. A last command, or transaction, that is not complete is cut off: its write was under way when the server ended.
examine() {
	check=$(command -v redis-check-aof) || {
		ln -sf "$(command -v redis-server)" "$run/redis-check-aof"
		check=$run/redis-check-aof
	}
	folder=$data/appendonlydir
	manifest=$(ls "$folder"/*.manifest 2>/dev/null | head -n 1)
	[ -n "$manifest" ] || { folder=$data manifest=$data/appendonly.aof; }
	if said=$("$check" "$manifest" 2>&1); then
		return 0
	fi
	# shellcheck disable=SC2046 # a name without spaces and two numbers
	set -- $(printf '%s\n' "$said" | sed -n 's/^AOF analyzed: filename=\([^ ,]*\), .*ok_up_to=\([0-9]*\), .*diff=\([1-9][0-9]*\)$/\1 \2 \3/p' | tail -n 1)
	if [ $# = 3 ] && is_tail "$folder/$(basename "$1")" "$2" "$3"; then
		echo "the last $3 bytes of $1 are no complete command: they are cut off, and kept as cut-off" >&2
		tail -c "$3" "$folder/$(basename "$1")" >"$data/cut-off"
		if echo y | "$check" --fix "$manifest" >/dev/null 2>&1; then
			return 0
		fi
	fi
	file=$(basename "${1:-$(printf '%s\n' "$said" | sed -n 's/.*Checking RDB file \([^ ]*\).*/\1/p; s/^Cannot open file \([^ :]*\).*/\1/p' | tail -n 1)}")
	damaged "${file:-$(basename "$manifest")}"
}

# is_tail FILE OFFSET LENGTH: reports whether a rest of a file is the beginning of one command. No second command and no
# block of zeros follows. A script with several writes is a transaction: its rest has MULTI and whole commands first. A transaction
# with its EXEC is complete, so what the check refuses is damage.
is_tail() {
	tail -c "$3" "$1" >"$run/tail" || return 1
	# shellcheck disable=SC2016 # $5 is the length of the word
	if [ "$(head -c 15 "$run/tail" | tr -d '\r\n')" = '*1$5MULTI' ]; then
		[ "$(tail -c 14 "$1" | head -c 1)" != '*' ] || [ "$(tail -c 14 "$1" | tr -d '\r\n')" != '*1$4EXEC' ] || return 1
		tail -c +16 "$run/tail" >"$run/commands" || return 1
		begun=$("$check" "$run/commands" 2>&1) && return 0
		begun=$(printf '%s\n' "$begun" | sed -n 's/^AOF analyzed: .*diff=\([1-9][0-9]*\)$/\1/p')
		[ -n "$begun" ] || return 1
		tail -c "$begun" "$run/commands" >"$run/tail" || return 1
	fi
	[ "$(grep -ac "^\*[0-9][0-9]*.\$" "$run/tail")" -le 1 ] || return 1
	size=$(wc -c <"$run/tail")
	[ "$size" -gt 4096 ] || return 0
	[ "$(head -c 1 "$run/tail")" = '*' ] && [ "$(tr -d '\000' <"$run/tail" | wc -c)" -eq "$size" ]
}

# damaged FILE: a server with a damaged file starts as a new node, and copies its data, where another one owns the slots by
# now. It waits for that otherwise: what is left in the file may be all that there is.
damaged() {
	replaced || refuse 67 DataDamaged "$1 is damaged, and this server does not start on it: it waits for a replica to take over. \
If none does: restore the volume; or cut the file off with redis-check-aof --fix; or annotate accept-data-loss with its node id ${id:-}"
	echo "$1 is damaged, and other nodes serve all slots: this server starts as a new node" >&2
	aside nodes.conf damaged
	aside appendonlydir damaged
	aside appendonly.aof damaged
}

# of_the_past: reports whether other nodes have heard of this master some time after its volume was last in use. Then storage has
# put the volume back to an earlier state, and its replicas have what was written since. Liveness notes the time every ten seconds,
# and a server that no probe reaches is killed after a minute: so two minutes are proof. Half a minute is enough where a replica had its
# link to the end: it lacks nothing, and takes over. Without a time, the file has that of the last start. Without the file, and where
# nothing else is known, no node is asked. Where no node has heard of it, because all have restarted, the notes of the replicas decide: outlived.
of_the_past() {
	[ -e "$data/alive" ] || return 1
	least=30
	IFS= read -r used <"$data/alive" || :
	case $used in '' | *[!0-9]*) used=$(date -r "$data/alive" +%s) most='' ;; *) most=120 ;; esac
	# What this server has noted since it started without a proof shows nothing.
	! grep -qx '[0-9][0-9]*' "$data/unproven" 2>/dev/null || IFS= read -r used <"$data/unproven"
	now=$(date +%s)
	[ $((now - used)) -gt "$least" ] || return 1
	id=$(sed -n 's/^\([0-9a-f]*\) [^ ]* [^ ]*myself,master.* connected [0-9].*/\1/p' "$data/nodes.conf" 2>/dev/null)
	[ -n "$id" ] || return 1
	asked=0 proven=''
	copies=$(peers "[^ ]*slave[^ ]* $id")
	for peer in $copies $(peers "[^ ]*master[^ ]* -"); do
		# A server that does not answer takes five seconds.
		asked=$((asked + 1))
		[ "$asked" -le 6 ] || break
		is_member "$peer" || continue
		redis "$peer" 6379 INFO server
		field uptime_in_seconds "$answer"
		case $value in '' | *[!0-9]*) continue ;; esac
		began=$(($(date +%s) - value))
		redis "$peer" 6379 CLUSTER NODES
		heard=$(printf '%s\n' "$answer" | sed -n "s/^$id \([^ ]* \)\{4\}\([0-9]*\)[0-9]\{3\} .*/\2/p")
		# A server that starts takes its start for the time when it heard of each other.
		[ -n "$heard" ] && [ $((heard - began)) -gt 3 ] || continue
		if [ -n "$most" ] && [ $((heard - used)) -gt "$most" ]; then return 0; fi
		if [ $((heard - used)) -gt "$least" ] && had_link "$peer" "$heard"; then return 0; fi
		[ $((heard - used)) -gt "$least" ] || proven=yes
	done
	[ -n "$proven" ] || [ -z "$copies" ] || ! outlived || return 0
	[ -n "$unproven" ] || rm -f "$data/unproven"
	return 1
}

# outlived: reports whether a replica notes a link to this master two minutes after the volume was last in use. Less is no proof: no
# replica takes over by itself, so a probe that was late must not keep a server from its volume. Replicas are asked for half a minute. It sets $unproven if one did not answer, and none had its link to the end: this server then admits no replica, and
# the operator compares their notes when it reaches both.
outlived() {
	until=$((now + 30))
	while :; do
		silent=
		while read -r address host; do
			noted "$address" ${host:+"$host"} || { silent=yes; continue; }
			heard=$noted
			[ $((noted - used)) -le 120 ] || return 0
			[ $((used - noted)) -gt 120 ] || return 1
		done <<-END
			$copies
		END
		[ -n "$silent" ] || return 1
		[ "$(date +%s)" -lt "$until" ] || break
		sleep 1
	done
	unproven=yes
	echo "$used" >"$data/unproven"
	echo "no node shows that this volume is the present one: no replica copies from it until the operator has compared them" >&2
	return 1
}

# noted HOST...: sets $noted to the time of the last link that the volume of a replica had when its server started. It is asked at each
# of its addresses, and fails if it does not answer. The time is 0 where there is none.
noted() {
	for peer; do
		is_member "$peer" || continue
		redis "$peer" 6379 CONFIG GET syslog-ident
		noted=${answer##*linked=}
		case $noted in "" | *[!0-9]*) noted=0 ;; esac
		return 0
	done
	return 1
}

# had_link HOST SECONDS: reports whether a replica of this server had its link until a time: ten seconds less are the ends of a node timeout.
had_link() {
	redis "$1" 6379 INFO replication
	field role "$answer"
	[ "$value" = slave ] || return 1
	field master_sync_in_progress "$answer"
	[ "$value" = 0 ] || return 1
	field master_link_status "$answer"
	[ "$value" != up ] || return 0
	field master_link_down_since_seconds "$answer"
	case $value in '' | *[!0-9]*) return 1 ;; esac
	[ $(($(date +%s) - value)) -ge $(($2 - 10)) ]
}

# outdated: a server with a volume of the past starts as a new node where another one owns the slots by now, as one with a damaged file.
outdated() {
	replaced || refuse 67 DataOutdated "this volume was last in use at $(at "$used"), and other nodes heard of this server until $(at "$heard"): storage has put it back \
to an earlier state. This server waits for a replica to take over. If none does: restore the newer volume; or remove the file alive from this one to go on with \
what it has; or annotate accept-data-loss with its node id ${id:-}"
	echo "this volume is one of the past, and other nodes serve all slots: this server starts as a new node" >&2
	rm -f "$data/unproven"
	aside nodes.conf of-the-past
	aside appendonlydir of-the-past
	aside appendonly.aof of-the-past
}

# at SECONDS: prints a time.
at() { date -u -d "@$1" '+%Y-%m-%d %H:%M:%S' 2>/dev/null || echo "$1"; }

# peers FLAGS: prints the addresses and the names of the other nodes whose flags and master match an expression.
peers() {
	grep "^[0-9a-f]* [^ ]* $1 " "$data/nodes.conf" | sed -n '/myself/d; s/^[0-9a-f]* \([^ ]*\):[0-9]*@[0-9]*,*\([^ ,]*\).*/\1 \2/p'
}

# is_member HOST: reports whether another node of the cluster answers there.
is_member() {
	redis "$1" 6379 CLUSTER MYID
	case $answer in "" | "$id" | *[!0-9a-f]*) return 1 ;; esac
	grep -q "^$answer " "$data/nodes.conf"
}

# replaced: reports whether a node of the cluster says that all slots are served, and none by this one.
replaced() {
	id=$(sed -n 's/^\([0-9a-f]*\) [^ ]* [^ ]*myself.*/\1/p' "$data/nodes.conf" 2>/dev/null)
	[ -n "$id" ] || return 1
	# A node is asked at the address that it had, by its name, and by that of the Service; who answers has to be of the cluster.
	for peer in $(peers '[^ ]* [^ ]*') "$SERVICE.$POD_NAMESPACE.svc"; do
		is_member "$peer" || continue
		redis "$peer" 6379 CLUSTER INFO
		field cluster_state "$answer"
		[ "$value" = ok ] || continue
		field cluster_slots_ok "$answer"
		[ "$value" = 16384 ] || continue
		redis "$peer" 6379 CLUSTER NODES
		case $answer in *myself*) ;; *) continue ;; esac
		[ -n "$(printf '%s\n' "$answer" | sed -n "s/^$id \([^ ]* \)\{7\}.*/owner/p")" ] || return 0
	done
	return 1
}

# admits: prints on where replicas may copy from this server, else off. A new node may have got the address of a lost master, whose
# replicas would copy its emptiness. The operator lets it take replicas when it joins. Nor may they copy from a volume that may have
# been put back.
admits() {
	self=$(sed -n 's/^\([0-9a-f]*\) [^ ]* [^ ]*myself.*/\1/p' "$data/nodes.conf" 2>/dev/null) || :
	if [ -z "$unproven" ] && [ -n "$self" ] && grep -q "myself,slave\|^[^ ]* [^ ]* [^ ]*slave[^ ]* $self \|^$self \([^ ]* \)\{7\}[0-9]" "$data/nodes.conf"; then
		echo on
	else
		echo off
	fi
}
