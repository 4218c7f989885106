#!/bin/sh
# Startup: over when the server has read its data.
# shellcheck source=common.sh
. /scripts/common.sh
own PING
case $answer in
*PONG* | *BUSY* | *MASTERDOWN* | *NOAUTH* | *WRONGPASS* | *MISCONF* | *NOPERM*)
	# It outlives the container, and goes with the pod: start.sh looks for it.
	: >"$run/served"
	exit 0
	;;
esac
echo "not started: $answer"
exit 1
