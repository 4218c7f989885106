#!/bin/sh
# Startup: over when the server has read its data.
# shellcheck source=common.sh
. /scripts/common.sh
own PING
case $answer in
'' | *"Could not connect"* | *LOADING*) ;;
*)
	# It outlives the container, and goes with the pod: start.sh looks for it.
	: >"$run/served"
	rm -f "$run/starting"
	exit 0
	;;
esac
echo "not started: $answer"
exit 1
