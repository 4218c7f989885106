#!/bin/sh
# Acts as the entrypoint of the original operator's image: fills a folder of the container, which is not a volume, and becomes the server.
# original.sh SOCKET --listen=ADDRESS [OPTION...]
set -eu
socket=$1 address=${2#--listen=} data=$PWD/data
shift 2
set -- --no-defaults --datadir="$data" --socket="$socket" --lower-case-table-names=1 --skip-name-resolve --mysqlx=OFF --innodb-buffer-pool-size=16M --innodb-redo-log-capacity=8M \
  --performance-schema-max-table-instances=200 --max-connections=60 --user="$(id -un)" "$@"
mysqld "$@" --initialize-insecure
cat >init.sql <<SQL
ALTER USER root@localhost IDENTIFIED BY '$MYSQL_ROOT_PASSWORD';
CREATE USER root@'%' IDENTIFIED BY '$MYSQL_ROOT_PASSWORD';
GRANT ALL ON *.* TO root@'%' WITH GRANT OPTION;
CREATE DATABASE ledger;
CREATE TABLE ledger.acks (id BIGINT PRIMARY KEY);
SQL
exec mysqld "$@" --pid-file="$socket.pid" --init-file="$PWD/init.sql" --bind-address="$address"
