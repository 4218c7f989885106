#!/bin/sh
# Replaces the entrypoint of MySQL's image: fills an empty data folder, creates the accounts, and becomes the server.
#   entrypoint.sh DATA SOCKET CONFIG --listen=ADDRESS
set -eu
data=$1 socket=$2 config=$3/my.cnf address=${4#--listen=}
init=$data/../init.sql
: >"$init"
if ! [ -d "$data/mysql" ]; then
  mysqld --defaults-file="$config" --initialize-insecure --datadir="$data" --socket="$socket" --user="$(id -un)"
  cat >"$init" <<SQL
ALTER USER root@localhost IDENTIFIED BY '$MYSQL_ROOT_PASSWORD';
CREATE USER '$MYSQL_USER'@'%' IDENTIFIED BY '$MYSQL_PASSWORD';
GRANT ALL ON *.* TO '$MYSQL_USER'@'%' WITH GRANT OPTION;
SQL
fi
exec mysqld --defaults-file="$config" --datadir="$data" --socket="$socket" --pid-file="$socket.pid" --init-file="$init" --bind-address="$address" --mysqlx=OFF --user="$(id -un)"
