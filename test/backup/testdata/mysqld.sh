#!/bin/sh
# Does what the server of a database image does: reads the folder that is configured in the image, unless it is given a file.
case ${1:-} in --defaults-file=* | --no-defaults) exec "$SERVER" "$@" ;; esac
[ -r "$SERVER_CONFIG" ] || exec "$SERVER" "$@"
exec "$SERVER" --defaults-file="$SERVER_CONFIG" "$@"
