# Sourced by the other scripts. They need redis-server, redis-cli and what BusyBox has.
# shellcheck shell=sh disable=SC2034 # those who source it use the variables

data=/data
# What is here outlives a container, and goes with its pod.
run=/run/redis
# One claim for all pods has a folder for each.
[ -z "${SHARED_FOLDER:-}" ] || data=/shared/$SHARED_FOLDER/$POD_NAME

# last_words REASON TEXT: writes why the container ends to its log, and as its termination message: JSON, as the agent writes it.
last_words() {
	echo "$1: $2" >&2
	printf '{"reason":"%s","message":"%s"}' "$1" "$(printf '%s' "$2" | tr '\001-\037' ' ' | sed 's/[\\"]/\\&/g')" 2>/dev/null >/dev/termination-log || :
}

# read_secret FILE: sets $secret by the rule for all secrets: without the newline at its end. It fails and sets $refusal where the
# value is missing, empty, or has another control character.
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

# The password is neither an argument, which other processes see, nor a variable of the container.
read_secret /credentials/password || :
password=$secret

# What follows starts two processes for a question and none to read an answer: probes ask every few seconds, in each pod.

# ask PASSWORD HOST PORT COMMAND...: asks one server, for five seconds at most, and sets $answer.
ask() {
	secret=$1 server=$2 port=$3
	shift 3
	answer=$(REDISCLI_AUTH=$secret timeout 5 redis-cli -h "$server" -p "$port" --no-auth-warning "$@" 2>&1) || :
}

# redis HOST PORT COMMAND...: asks one server, and sets $answer. Where the Secret was changed, servers take the password
# of before, with which this one was started.
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

# in_use: notes on the volume that its server is there now.
in_use() { date +%s >"$data/alive" || :; }

# in_step ANSWER: notes on the volume until when the server, a replica, heard its master over a link that lacks nothing. ANSWER is that to
# INFO replication.
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

# own COMMAND...: asks the server of this pod, and sets $answer.
own() { redis "$POD_IP" 6379 "$@"; }

# field NAME ANSWER: sets $value to one word of an answer of INFO or CLUSTER INFO, empty if it is not there.
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
