#!/bin/sh
# Liveness: any answer is a sign of life: that the server loads its data, is at maxclients, or ends the connection
# included. Only a server that does not answer, or does not take connections, is dead. The volume keeps the time of the last
# answer, and that of a replica also the time of its link: see of_the_past. A full disk leaves the files empty, which shows nothing.
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
		# It has the data of another one, or the operator has let replicas copy.
		case $role/$answer in slave/* | "master/flags
on"*) rm -f "$data/unproven" ;; esac
	fi
	exit 0
	;;
esac
echo "no answer to INFO: $answer"
exit 1
