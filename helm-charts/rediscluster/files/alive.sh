#!/bin/sh
# Liveness: any answer is a sign of life, that the server loads its data or has no master included.
# shellcheck source=common.sh
. /scripts/common.sh
own PING
case $answer in
*PONG* | *LOADING* | *BUSY* | *MASTERDOWN* | *NOAUTH* | *WRONGPASS* | *MISCONF* | *NOPERM*) exit 0 ;;
esac
echo "no answer to PING: $answer"
exit 1
