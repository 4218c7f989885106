#!/bin/sh
# Liveness: any answer is a sign of life: that the server loads its data, is at maxclients, or ends the connection
# included. Only a server that does not answer, or does not take connections, is dead. The volume keeps the time of the last
# answer: see of_the_past. A full disk leaves the file empty, which shows nothing.
# shellcheck source=common.sh
. /scripts/common.sh
own PING
case $answer in
'' | *"Could not connect"*) ;;
*)
	in_use
	exit 0
	;;
esac
echo "no answer to PING: $answer"
exit 1
