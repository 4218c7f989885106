# The other scripts source this file. They need redis-server, redis-cli and the commands of BusyBox.
# shellcheck shell=sh disable=SC2034 # the other scripts use the variables

data=/data
# The files in this folder outlive a container, and are deleted with the pod.
run=/run/redis
# A claim that all pods share has a folder for each pod.
[ -z "${SHARED_FOLDER:-}" ] || data=/shared/$SHARED_FOLDER/$POD_NAME

# last_words REASON TEXT: writes the cause of the container's end to the log, and as the termination message in the JSON
# format of the agent.
last_words() {
	echo "$1: $2" >&2
	printf '{"reason":"%s","message":"%s"}' "$1" "$(printf '%s' "$2" | tr '\001-\037' ' ' | sed 's/[\\"]/\\&/g')" 2>/dev/null >/dev/termination-log || :
}

# read_secret FILE: sets $secret to the content of a file, without the newline at its end (the rule for all secrets). If
# the value is missing, empty, or has another control character, it sets $refusal and fails.
read_secret() {
	secret='' more='' refusal='it is empty'
	[ -s "$1" ] || return 1
	{
		IFS= read -r secret || :
		! IFS= read -r more || more=line
	} <"$1"
	[ -n "$secret$more" ] || return 1
	refusal='it has a control character'
	case $secret$more in *[[:cntrl:]]*) return 1 ;; esac
	# NUL is in no variable, only in the size.
	size=$(($(wc -c <"$1") - $(printf '%s' "$secret" | wc -c)))
	[ -z "$more" ] && [ "$size" -le 1 ] && [ "$size" -eq "$(wc -l <"$1")" ]
}

# The password is not an argument, which other processes could read, and not a variable of the container.
read_secret /credentials/password || :
password=$secret

# Probes call these functions every few seconds in each pod. So a query starts only two processes, and field starts
# none.

# ask PASSWORD HOST PORT COMMAND...: sends a command to a server, waits $patience seconds at most, and sets $answer.
patience=5
ask() {
	secret=$1 server=$2 port=$3
	shift 3
	answer=$(REDISCLI_AUTH=$secret timeout "$patience" redis-cli -h "$server" -p "$port" --no-auth-warning "$@" 2>&1) || :
}

# redis HOST PORT COMMAND...: sends a command to a server, and sets $answer. After a change of the Secret, servers still
# accept the former password, with which this server was started.
redis() {
	ask "$password" "$@"
	case $answer in # INFO has these words in its counts of errors, too
	*"AUTH failed"* | WRONGPASS* | NOAUTH*) ;;
	*) return 0 ;;
	esac
	[ -r "$run/password" ] || return 0
	before=
	IFS= read -r before <"$run/password" || :
	ask "$before" "$@"
}

# hurry HOST PORT COMMAND...: as redis, but waits two seconds at most. All queries of a probe together must end within its
# time limit.
hurry() {
	patience=2
	redis "$@"
	patience=5
}

# in_use: writes the present time to the volume and to $now: its server runs now.
in_use() {
	now=$(date +%s)
	echo "$now" >"$data/alive" || :
}

# A mark is a number that a master writes to its volume every ten seconds. It only grows. Other nodes see the mark after
# the disk has it, and note it on their volumes. So if a note is above the mark of the volume itself, storage has put the
# volume back to an earlier state: see of_the_past. No clock of another node is compared.
#
# Servers pass marks in the key patterns of this user, who may run no command: own:ID=MARK has the mark of the server's
# own volume, and seen:ID=MARK the mark of another volume that the server has noted.
marks=d3os-marks

# store FILE TEXT: replaces the text of a file of the volume, and waits until the disk has it. All texts of a file have
# the same length, so a full disk or a crash leaves the former text.
store() { printf '%s\n' "$2" | dd of="$data/$1" conv=notrunc,fsync 2>/dev/null; }

# stored FILE: sets $text to the first line of a file of the volume; empty if there is none.
stored() {
	text=
	[ ! -r "$data/$1" ] || IFS= read -r text <"$data/$1" || :
}

# read_mark: sets $mark to the mark of this volume; 0 if it has none.
read_mark() {
	stored mark
	case $text in '' | *[!0-9]*) mark=0 ;; *) mark=$text ;; esac
}

# read_seen: sets $seen to the note of another volume's mark, as ID=MARK; empty if there is none.
read_seen() {
	stored seen
	seen=
	case $text in *=*) ;; *) return 0 ;; esac
	case ${text%%=*}/${text#*=} in /* | */ | *[!0-9a-f]*/* | */*[!0-9]*) ;; *) seen=$text ;; esac
}

# own_slots: sets $id to the id of this node if it is a master with slots; otherwise empty.
own_slots() { id=$(sed -n 's/^\([0-9a-f]*\) [^ ]* [^ ]*myself,master.* connected [0-9].*/\1/p' "$data/nodes.conf" 2>/dev/null) || :; }

# see HOST PORT ID: notes the mark of another node's volume.
see() {
	hurry "$1" "$2" ACL GETUSER "$marks"
	case $answer in *own:*) ;; *) return 0 ;; esac
	seen=${answer##*own:}
	seen=${seen%%[!0-9a-f=]*}
	case ${seen#*=} in '' | *[!0-9]*) return 0 ;; esac
	[ "${seen%=*}" = "$3" ] || return 0
	store seen "$seen"
}

# publish [ID=MARK]: shows the note of this volume, and the mark of the volume itself, to other nodes.
publish() {
	read_seen
	hurry "$POD_IP" 6379 ACL SETUSER "$marks" reset ${1:+"~own:$1"} ${seen:+"~seen:$seen"}
}

# see_master ANSWER: if this server is linked to its master, notes the mark of the master's volume. ANSWER is the answer
# to INFO replication.
see_master() {
	field master_link_status "$1"
	[ "$value" = up ] || return 0
	field master_sync_in_progress "$1"
	[ "$value" = 0 ] || return 0
	host=${1##*master_host:}
	host=${host%%[!0-9A-Za-z.:]*}
	field master_port "$1"
	# With a half-open link, another server may have the master's address.
	see "$host" "$value" "$(sed -n 's/^[0-9a-f]* [^ ]* [^ ]*myself,slave[^ ]* \([0-9a-f]*\) .*/\1/p' "$data/nodes.conf")"
	publish
}

# make_mark: writes the next mark to the volume of a master with slots. It also notes the mark of the next master, by id,
# because a shard may have no replica.
make_mark() {
	# shellcheck disable=SC2046 # up to four words
	set -- $(ring)
	[ $# != 0 ] || return 0
	id=$1
	[ $# != 4 ] || see "$3" "$4" "$2"
	! raise_mark || publish "$id=$mark"
}

# raise_mark: writes the next mark to the volume and to $mark: $now, or the former mark plus 1 if the clock was put back.
raise_mark() {
	read_mark
	[ "$now" -gt "$mark" ] || now=$((mark + 1))
	mark=$now
	store mark "$mark"
}

# ring: prints the id of this node if it is a master with slots, and the id, the address and the port of the next such
# node, by id. One process does this, because a probe has little time.
ring() {
	awk '$3 ~ /master/ && $9 ~ /^[0-9]/ { if ($3 ~ /myself/) me = $1 ""; else at[$1] = $2 }
		END {
			for (id in at) {
				if (first == "" || id < first) first = id
				if (id > me && (after == "" || id < after)) after = id
			}
			if (after == "") after = first
			host = at[after]
			sub(/@.*/, "", host)
			port = host
			sub(/:[0-9]*$/, "", host)
			sub(/.*:/, "", port)
			if (me != "") print me, after, host, port
		}' "$data/nodes.conf"
}

# owners: prints the node id, the address and the port of each master with slots.
owners() { sed -n 's/^\([0-9a-f]*\) \([^ ]*\):\([0-9]*\)@[^ ]* [^ ]*master[^ ]* - [0-9]* [0-9]* [0-9]* [a-z]* [0-9].*/\1 \2 \3/p' "$data/nodes.conf"; }

# noted_in ANSWER: sets $noted to the mark of this volume in the notes of another node; 0 if they have none.
noted_in() {
	noted=0
	case $1 in *"seen:$id="*) ;; *) return 0 ;; esac
	noted=${1##*"seen:$id="}
	noted=${noted%%[!0-9]*}
	noted=${noted:-0}
}

# prove_alone: admits replicas after a start without a proof, if this shard has none yet, and each other master with
# slots answers without a later mark. The operator does this for a shard with replicas.
prove_alone() {
	own_slots
	[ -n "$id" ] && ! grep -q " [^ ]*slave[^ ]* $id " "$data/nodes.conf" || return 0
	read_mark
	while read -r other host port; do
		[ "$other" != "$id" ] || continue
		hurry "$host" "$port" ACL GETUSER "$marks"
		case $answer in *flags*) ;; *) return 0 ;; esac
		noted_in "$answer"
		[ "$noted" -le "$mark" ] || return 0
		hurry "$host" "$port" CLUSTER MYID
		[ "$answer" = "$other" ] || return 0
	done <<-END
		$(owners)
	END
	hurry "$POD_IP" 6379 ACL SETUSER "replica:$POD_NAMESPACE/${POD_NAME%-*}" on
	[ "$answer" != OK ] || rm -f "$data/unproven"
}

# own COMMAND...: sends a command to the server of this pod, and sets $answer.
own() { redis "$POD_IP" 6379 "$@"; }

# field NAME ANSWER: sets $value to the value of a field in an answer to INFO or CLUSTER INFO; empty if the field is
# missing.
field() {
	value=
	lines="
$2"
	case $lines in *"
$1:"*)
		value=${lines#*"
$1:"}
		value=${value%%[!A-Za-z0-9_-]*} # lines end with CR and LF
		;;
	esac
}
