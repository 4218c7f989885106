#!/bin/sh
# Replaces the server of a database image: unless the arguments name an option file, it reads the file that the image
# configures.
case ${1:-} in --defaults-file=* | --no-defaults) exec "$SERVER" "$@" ;; esac
[ -r "$SERVER_CONFIG" ] || exec "$SERVER" "$@"
exec "$SERVER" --defaults-file="$SERVER_CONFIG" "$@"
