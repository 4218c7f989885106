#!/bin/sh
# Startup: succeeds when the server has read its data.
# shellcheck source=common.sh
. /scripts/common.sh
own PING
case $answer in
'' | *"Could not connect"* | *LOADING*) ;;
*)
	# This file outlives the container, and is deleted with the pod. start.sh checks whether it exists.
	: >"$run/served"
	rm -f "$run/starting"
	exit 0
	;;
esac
echo "not started: $answer"
exit 1
