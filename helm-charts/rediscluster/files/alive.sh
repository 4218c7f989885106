#!/bin/sh
# Liveness: any answer is a sign of life, even if the server still loads its data, is at maxclients, or ends the
# connection. Only a server that does not answer or does not accept connections is dead. The script writes the time of
# the last answer, and of a replica's last link to its master, to the volume: see of_the_past. On a full disk the files
# are empty, which proves nothing.
# shellcheck source=common.sh
. /scripts/common.sh
own INFO replication
case $answer in
'' | *"Could not connect"*) ;;
*)
	in_use
	in_step "$answer"
	if [ -e "$data/unproven" ]; then
		field role "$answer"
		role=$value
		own ACL GETUSER "replica:$POD_NAMESPACE/${POD_NAME%-*}"
		# The server is a replica with the data of its master, or the operator has admitted replicas.
		case $role/$answer in slave/* | "master/flags
on"*) rm -f "$data/unproven" ;; esac
	fi
	exit 0
	;;
esac
echo "no answer to INFO: $answer"
exit 1
