#!/bin/sh
# Replaces the entrypoint of a database image: fills an empty data folder, creates the accounts, and becomes the server.
set -eu
data=/var/lib/mysql socket=/var/run/mysqld/mysqld.sock config=/etc/mysql/conf.d
[ $# = 3 ] && data=$1 socket=$2 config=$3
init=$data.sql
if ! [ -d "$data/mysql" ]; then
  if command -v mysql_install_db >/dev/null; then
    mysql_install_db --datadir="$data" >/dev/null
  else # MySQL
    mysqld --defaults-file="$config/my.cnf" --initialize-insecure --datadir="$data" --user="$(id -un)"
  fi
  cat >"$init" <<SQL
ALTER USER 'root'@'localhost' IDENTIFIED BY '$MYSQL_ROOT_PASSWORD';
CREATE USER '$MYSQL_USER'@'%' IDENTIFIED BY '$MYSQL_PASSWORD';
GRANT ALL ON *.* TO '$MYSQL_USER'@'%' WITH GRANT OPTION;
SQL
else
  : >"$init"
fi
exec mysqld --defaults-file="$config/my.cnf" --datadir="$data" --socket="$socket" --init-file="$init" --bind-address="$POD_IP" \
  --innodb-buffer-pool-size=32M --user="$(id -un)"
