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

# ask PASSWORD HOST PORT COMMAND...: sends a command to a server, waits five seconds at most, and sets $answer.
ask() {
	secret=$1 server=$2 port=$3
	shift 3
	answer=$(REDISCLI_AUTH=$secret timeout 5 redis-cli -h "$server" -p "$port" --no-auth-warning "$@" 2>&1) || :
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

# in_use: writes the present time to the volume: its server runs now.
in_use() { date +%s >"$data/alive" || :; }

# in_step ANSWER: if this server is a replica that has all data of its master, writes the time of the last contact with
# the master to the volume. ANSWER is the answer to INFO replication.
in_step() {
	field role "$1"
	[ "$value" = slave ] || return 0
	field master_link_status "$1"
	[ "$value" = up ] || return 0
	field master_sync_in_progress "$1"
	[ "$value" = 0 ] || return 0
	field master_last_io_seconds_ago "$1"
	case $value in '' | *[!0-9]*) return 0 ;; esac
	echo $(($(date +%s) - value)) >"$data/linked" || :
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
