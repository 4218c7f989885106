# start.sh sources this file. It examines the volume and decides whether a server may start on it.
# shellcheck shell=sh

# used: the time when the volume was last in use. unproven: not empty if storage may have restored the volume to an
# earlier state since then (of_the_past).
used='' unproven=''

# refuse CODE REASON TEXT: ends the container. The operator recognizes the exit code, and shows the reason and the text.
refuse() {
	last_words "$2" "$3"
	exit "$1"
}

# has_data: succeeds if the volume has data. Redis writes a manifest at its first start; before version 7, an
# append-only file.
has_data() { [ -e "$data/appendonly.aof" ] || ls "$data"/appendonlydir/*.manifest >/dev/null 2>&1; }

# aside NAME SUFFIX: renames a file or folder of the volume, so that Redis does not read it.
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

# kept: prints the size in MiB of the files that aside has renamed. It prints nothing if the size is below 1 MiB.
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

# owned_by: refuses the volume of another pod: the file owner has the name of the volume's pod. On a copy of the volume,
# a server would have the node id of another server, and join that server's cluster by the addresses in nodes.conf.
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

# examine: checks the append-only file after an unfinished start. With aof-load-truncated no, Redis starts neither on a
# damaged file nor on a truncated one. It cannot distinguish the two: with yes, it would drop all commands after the
# damage, and its replicas would do the same. examine cuts off an incomplete last command or transaction, which the
# server was writing when it ended. Any other error is damage.
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

# is_tail FILE OFFSET LENGTH: reports whether the rest of a file is the beginning of one command, without a second
# command and without a block of zeros. A script with several writes is a transaction: its rest begins with MULTI and
# complete commands. If the rest ends with EXEC, the transaction is complete, and the error of the check is damage.
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

# damaged FILE: if other nodes own all slots now, this server starts as a new node without the damaged file, and copies
# the data. Otherwise it refuses to start: the rest of the file may be the only data.
damaged() {
	replaced || refuse 67 DataDamaged "$1 is damaged, and this server does not start on it: it waits for a replica to take over. \
If none does: restore the volume; or cut the file off with redis-check-aof --fix; or annotate accept-data-loss with its node id ${id:-}"
	echo "$1 is damaged, and other nodes serve all slots: this server starts as a new node" >&2
	aside nodes.conf damaged
	aside appendonlydir damaged
	aside appendonly.aof damaged
}

# of_the_past: reports whether storage has put the volume of this master back to an earlier state.
#
# Notes of marks are the first proof: make_mark. A later mark in a note of any node convicts the volume. A mark of the
# last half minute in a note shows that the volume is the present one. This also holds if all nodes have restarted.
#
# Times are the second proof, if no note shows the present volume: other nodes had contact with this master some time
# after its volume was last in use. The liveness probe writes the time to the file alive every ten seconds, and a server
# that no probe reaches is killed after a minute. So two minutes are proof. Half a minute is sufficient if a replica had
# its link until the last contact: it has all writes, and takes over. If the file alive is empty, its modification time
# is the time of the last start, and only a replica that had its link is proof.
#
# If no node had contact, because all have restarted, outlived waits for the notes of the replicas. A master without a
# replica does not wait: prove_alone.
of_the_past() {
	least=30
	own_slots
	[ -n "$id" ] || return 1
	read_mark
	if [ ! -e "$data/alive" ]; then
		# A user has put the volume back, and has removed the file. The notes of other nodes must not convict it later.
		now=$(date +%s)
		[ "$mark" = 0 ] || raise_mark || :
		return 1
	fi
	IFS= read -r used <"$data/alive" || :
	case $used in '' | *[!0-9]*) used=$(date -r "$data/alive" +%s) most='' ;; *) most=120 ;; esac
	now=$(date +%s)
	copies=$(grep "^[0-9a-f]* [^ ]* [^ ]*slave[^ ]* $id " "$data/nodes.conf" | names)
	shows=''
	if read_notes; then
		return 0
	elif [ -n "$shows" ]; then
		:
	elif grep -qx '[0-9][0-9]*' "$data/unproven" 2>/dev/null; then
		# Other nodes had contact while the server ran without a proof, so times prove nothing. The file has the time of
		# the last use before that.
		IFS= read -r used <"$data/unproven"
		! outlived || return 0
	elif [ $((now - used)) -gt "$least" ] && compare_times; then
		return 0
	elif [ -z "$shows" ]; then
		! outlived || return 0
	fi
	[ -n "$unproven" ] || rm -f "$data/unproven"
	return 1
}

# read_notes: reports whether a replica or another master has noted a later mark than the volume has. It sets $shows if
# one of them has noted a mark of the last half minute, $reached to the addresses at which they answer, and $known if
# the master that notes the marks of this volume answers.
read_notes() {
	queried=0 reached='' known=''
	first=$(witnesses | head -n 1)
	while read -r who hosts; do
		[ -n "$who" ] || continue
		# An address without an answer takes two seconds.
		queried=$((queried + 1))
		[ "$queried" -le 6 ] || break
		# shellcheck disable=SC2086 # addresses
		noted "$who" $hosts || continue
		! put_back || return 0
		! is_recent || shows=yes
		reached="$reached $peer"
		[ "$who" != "${first%% *}" ] || known=yes
	done <<-END
		$first
		$copies
		$(witnesses | sed 1d)
	END
	return 1
}

# compare_times: reports whether a node that did not restart had contact with this server some time after the volume was
# last in use. For a volume without a mark, it sets $shows if such a node had its last contact at that time.
compare_times() {
	for peer in $reached; do
		redis "$peer" 6379 INFO server
		field uptime_in_seconds "$answer"
		case $value in '' | *[!0-9]*) continue ;; esac
		up=$value
		redis "$peer" 6379 TIME
		clock=$(printf '%s\n' "$answer" | head -n 1)
		case $clock in '' | *[!0-9]*) continue ;; esac
		redis "$peer" 6379 CLUSTER NODES
		heard=$(printf '%s\n' "$answer" | sed -n "s/^$id \([^ ]* \)\{4\}\([0-9]*\)[0-9]\{3\} .*/\2/p")
		# At its start, a server sets the time of its last contact with each node to the time of the start.
		[ -n "$heard" ] && [ $((heard - clock + up)) -gt 3 ] || continue
		heard=$((heard - clock + $(date +%s))) # by the clock of this server
		if [ -n "$most" ] && [ $((heard - used)) -gt "$most" ]; then return 0; fi
		if [ $((heard - used)) -gt "$least" ] && had_link "$peer" "$heard"; then return 0; fi
		if [ "$mark" = 0 ] && [ $((heard - used)) -le "$least" ] && [ $((used - heard)) -le "$least" ]; then shows=yes; fi
	done
	return 1
}

# noted ID HOST...: queries a node at each of its addresses, and sets $noted to the mark of this volume in the node's
# note, and $peer to the address. If the node has noted none, noted is 0. A later or a recent mark counts from any node,
# also from one that still reads its data. An older mark or none counts only from the node with that id.
noted() {
	who=$1
	shift
	for peer; do
		hurry "$peer" 6379 ACL LIST # not GETUSER, because a server that older scripts have started lacks the user
		case $answer in *'user default '*) ;; *) continue ;; esac
		noted_in "$answer"
		if [ "$noted" -gt "$mark" ] || is_recent; then return 0; fi
		hurry "$peer" 6379 CLUSTER MYID
		[ "$answer" != "$who" ] || return 0
	done
	return 1
}

# put_back: reports whether the node that was queried has noted a later mark than the volume has.
put_back() {
	[ "$noted" -gt "$mark" ] || return 1
	[ "$mark" = 0 ] || used=$mark
	heard=$noted
}

# is_recent: reports whether the node that was queried has noted one of the last marks of the volume.
is_recent() { [ "$noted" != 0 ] && [ $((mark - noted)) -le "$least" ]; }

# outlived: reports whether a replica has noted a later mark than the volume has. It queries the replicas for up to half
# a minute, or for ten seconds after a short absence. If none of them has noted one of the last marks, and a replica or
# the master that notes the marks does not answer, it calls doubt. This server then admits no replica, and the operator
# compares the notes when it reaches the nodes. Other masters may wait for this one, so outlived does not wait for them.
outlived() {
	[ -n "$copies$(witnesses)" ] || return 1
	until=$((now + 30))
	[ $((now - used)) -gt "$least" ] || until=$((now + 10))
	silent=
	while [ -n "$copies" ]; do
		silent=
		while read -r who hosts; do
			# shellcheck disable=SC2086 # addresses
			noted "$who" $hosts || { silent=yes; continue; }
			! put_back || return 0
			! is_recent || return 1
		done <<-END
			$copies
		END
		[ -n "$silent" ] && [ "$(date +%s)" -lt "$until" ] || break
		sleep 1
	done
	[ -n "$copies" ] && [ -z "$silent" ] && [ -n "$known" ] || doubt
	return 1
}

# doubt: notes that no node has shown that the volume is the present one.
doubt() {
	unproven=yes
	echo "$used" >"$data/unproven"
	[ "$mark" = 0 ] || used=$mark # the operator compares it
	echo "no node shows that this volume is the present one: no replica copies from it until the operator has compared them" >&2
}

# had_link HOST SECONDS: reports whether a replica of this server had its link until a time. $answer is the replica's
# answer to CLUSTER NODES. The link may have ended up to ten seconds before that time, because of the node timeout.
had_link() {
	printf '%s\n' "$answer" | grep -q " [^ ]*myself,slave[^ ]* $id " || return 1
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

# outdated: acts like damaged, for a volume that storage has restored to an earlier state.
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

# names: prints the id, the address and the name of each other node in lines of nodes.conf.
names() { sed -n '/myself/d; s/^\([0-9a-f]*\) \([^ ]*\):[0-9]*@[0-9]*,*\([^ ,]*\).*/\1 \2 \3/p'; }

# witnesses: prints the id, the address and the name of each other master with slots. The first notes the marks of this
# volume: make_mark.
witnesses() {
	{
		echo
		for _ in 1 2; do grep '^[0-9a-f]* [^ ]* [^ ]*master[^ ]* - [0-9]* [0-9]* [0-9]* [a-z]* [0-9]' "$data/nodes.conf" | sort -r; done
	} | sed "1,/^$id /d" | sed "/^$id /,\$d" | names
}

# is_member HOST: reports whether another node of the cluster answers there.
is_member() {
	redis "$1" 6379 CLUSTER MYID
	case $answer in "" | "$id" | *[!0-9a-f]*) return 1 ;; esac
	grep -q "^$answer " "$data/nodes.conf"
}

# replaced: reports whether a node of the cluster answers that all slots are served, and none of them by this server.
replaced() {
	id=$(sed -n 's/^\([0-9a-f]*\) [^ ]* [^ ]*myself.*/\1/p' "$data/nodes.conf" 2>/dev/null)
	[ -n "$id" ] || return 1
	# Query the nodes at their last addresses and by their names, and one node by the name of the Service. Only an
	# answer of a member of the cluster counts.
	for peer in $(names <"$data/nodes.conf" | cut -d ' ' -f 2-) "$SERVICE.$POD_NAMESPACE.svc"; do
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

# admits: prints "on" if replicas may copy from this server, and otherwise "off". A new node may have the address of a
# lost master, and the replicas of that master would copy the empty node. The operator admits replicas when the node
# joins. Replicas also may not copy from a volume that storage may have restored to an earlier state.
admits() {
	self=$(sed -n 's/^\([0-9a-f]*\) [^ ]* [^ ]*myself.*/\1/p' "$data/nodes.conf" 2>/dev/null) || :
	if [ -z "$unproven" ] && [ -n "$self" ] && grep -q "myself,slave\|^[^ ]* [^ ]* [^ ]*slave[^ ]* $self \|^$self \([^ ]* \)\{7\}[0-9]" "$data/nodes.conf"; then
		echo on
	else
		echo off
	fi
}
