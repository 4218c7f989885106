# Sourced by the other scripts. They need redis-server, redis-cli and what BusyBox has.
# shellcheck shell=sh disable=SC2034 # those who source it use the variables

data=/data
# What is here outlives a container, and goes with its pod.
run=/run/redis
# One claim for all pods has a folder for each.
[ -z "${SHARED_FOLDER:-}" ] || data=/shared/$SHARED_FOLDER/$POD_NAME

# The password is neither an argument, which other processes see, nor a variable of the container.
password=
[ ! -r /credentials/password ] || password=$(cat /credentials/password)

# ask PASSWORD HOST PORT COMMAND...: asks one server, for five seconds at most.
ask() {
	secret=$1 server=$2 port=$3
	shift 3
	REDISCLI_AUTH=$secret timeout 5 redis-cli -h "$server" -p "$port" --no-auth-warning "$@" 2>&1 | tr -d '\r'
}

# redis HOST PORT COMMAND...: asks one server. Where the Secret was changed, servers take the password of before, with
# which this one was started.
redis() {
	answer=$(ask "$password" "$@")
	case $answer in # INFO has these words in its counts of errors, too
	*"AUTH failed"* | WRONGPASS* | NOAUTH*) [ ! -r "$run/password" ] || answer=$(ask "$(cat "$run/password")" "$@") ;;
	esac
	printf '%s\n' "$answer"
}

# own COMMAND...: asks the server of this pod.
own() { redis "$POD_IP" 6379 "$@"; }

# field NAME: its value in an answer of INFO, from stdin.
field() { sed -n "s/^$1://p"; }
