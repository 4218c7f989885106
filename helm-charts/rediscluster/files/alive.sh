#!/bin/sh
# Liveness: any answer is a sign of life, even if the server still loads its data, is at maxclients, or ends the
# connection. Only a server that does not answer or does not accept connections is dead. The script writes the time of
# the last answer, and marks, to the volume: see of_the_past. On a full disk the file alive is empty, which proves
# nothing.
# shellcheck source=common.sh
. /scripts/common.sh
own INFO replication
case $answer in
'' | *"Could not connect"*) ;;
*)
	in_use
	info=$answer
	field role "$info"
	role=$value
	if [ -e "$data/unproven" ]; then
		# No mark is made, so the notes of other nodes can still be compared with the mark of the volume.
		own ACL GETUSER "replica:$POD_NAMESPACE/${POD_NAME%-*}"
		# The server is a replica with the data of its master, or the operator has admitted replicas.
		case $role/$answer in slave/* | "master/flags
on"*) rm -f "$data/unproven" ;; master/*) prove_alone ;; esac
	elif [ "$role" = slave ]; then
		see_master "$info"
	elif [ "$role" = master ]; then
		make_mark
	fi
	exit 0
	;;
esac
echo "no answer to INFO: $answer"
exit 1
