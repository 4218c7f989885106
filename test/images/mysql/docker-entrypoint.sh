#!/bin/bash
# Runs MariaDB with the interface of the stock MySQL image that the chart uses. On an empty volume, it creates root
# (MYSQL_ROOT_PASSWORD, MYSQL_ROOT_HOST), MYSQL_DATABASE and MYSQL_USER (MYSQL_PASSWORD), and runs the files in
# /docker-entrypoint-initdb.d. It reads options from /etc/mysql/conf.d.
set -eo pipefail
shopt -s nullglob

SOCKET=/var/run/mysqld/mysqld.sock
DATADIR=/var/lib/mysql
CONFIG=/tmp/mysqld.cnf

mysql_note() { printf '%s [Entrypoint]: %s\n' "$(date --rfc-3339=seconds)" "$*"; }
mysql_error() { mysql_note "ERROR: $*" >&2; exit 1; }

# MariaDB ends if it does not know an option of MySQL. With the prefix loose-, it only warns.
write_config() {
	local file
	printf '[mysqld]\nsocket = %s\npid-file = /var/run/mysqld/mysqld.pid\ndatadir = %s\nbind-address = *\n' "$SOCKET" "$DATADIR" >"$CONFIG"
	for file in /etc/mysql/conf.d/*.cnf; do
		# Copies only the groups that the server reads: [mysqld], [server], and these with a version.
		awk '
			/^[ \t]*\[/ { server = /^[ \t]*\[(mysqld|server)(-[0-9.]+)?\]/; if (server) print "[mysqld]"; next }
			!server || /^[ \t]*([#;!]|$)/ { next }
			{ sub(/^[ \t]+/, ""); print (/^loose[-_]/ ? "" : "loose-") $0 }
		' "$file" >>"$CONFIG"
		printf '\n' >>"$CONFIG"
	done
}

# Scripts may call this function, as in the stock image. It reads SQL from standard input.
docker_process_sql() {
	local password=$MYSQL_ROOT_PASSWORD
	if [ "$1" = --dont-use-mysql-root-password ]; then
		shift
		password=
	fi
	[ -z "$MYSQL_DATABASE" ] || set -- --database="$MYSQL_DATABASE" "$@"
	MYSQL_PWD=$password mysql --no-defaults --protocol=socket --user=root --socket="$SOCKET" --comments "$@"
}

docker_process_init_files() {
	local file
	for file; do
		case $file in
		*.sh)
			if [ -x "$file" ]; then
				mysql_note "running $file"
				"$file"
			else
				mysql_note "sourcing $file"
				# shellcheck source=/dev/null
				. "$file"
			fi
			;;
		*.sql) mysql_note "running $file" && docker_process_sql <"$file" ;;
		*.sql.gz) mysql_note "running $file" && gunzip -c "$file" | docker_process_sql ;;
		*) mysql_note "ignoring $file" ;;
		esac
	done
}

sql_quote() { printf '%s' "$1" | sed -e 's/\\/\\\\/g' -e "s/'/''/g"; }

accounts() {
	local host=${MYSQL_ROOT_HOST-%}
	echo "SET @@SESSION.SQL_LOG_BIN = 0; SET SESSION sql_mode = '';"
	[ -z "$host" ] || [ "$host" = localhost ] || printf "CREATE USER 'root'@'%s' IDENTIFIED BY '%s'; GRANT ALL ON *.* TO 'root'@'%s' WITH GRANT OPTION;\n" \
		"$(sql_quote "$host")" "$(sql_quote "$MYSQL_ROOT_PASSWORD")" "$(sql_quote "$host")"
	echo "DROP DATABASE IF EXISTS test; DELETE FROM mysql.global_priv WHERE user = '' OR (user = 'root' AND host <> 'localhost' AND host <> '$(sql_quote "$host")'); FLUSH PRIVILEGES;"
	# shellcheck disable=SC2016
	[ -z "$MYSQL_DATABASE" ] || printf 'CREATE DATABASE IF NOT EXISTS `%s`;\n' "$MYSQL_DATABASE"
	if [ -n "$MYSQL_USER" ] && [ -n "$MYSQL_PASSWORD" ]; then
		printf "CREATE USER '%s'@'%%' IDENTIFIED BY '%s';\n" "$(sql_quote "$MYSQL_USER")" "$(sql_quote "$MYSQL_PASSWORD")"
		[ -z "$MYSQL_DATABASE" ] || printf "GRANT ALL ON \`%s\`.* TO '%s'@'%%';\n" "${MYSQL_DATABASE//_/\\_}" "$(sql_quote "$MYSQL_USER")"
	fi
	# This statement is the last one, because root needs its password afterwards.
	printf "ALTER USER 'root'@'localhost' IDENTIFIED BY '%s';\n" "$(sql_quote "$MYSQL_ROOT_PASSWORD")"
}

first_start() {
	local server i
	[ -n "$MYSQL_ROOT_PASSWORD" ] || mysql_error 'MYSQL_ROOT_PASSWORD must be set while the volume is empty'
	[ "$MYSQL_USER" != root ] || mysql_error 'MYSQL_USER must not be root'
	mysql_note 'initialising the volume'
	mariadb-install-db --defaults-file="$CONFIG" --datadir="$DATADIR" --auth-root-authentication-method=normal \
		--skip-test-db --skip-name-resolve >/tmp/install.log 2>&1 || { cat /tmp/install.log; mysql_error 'the volume could not be initialised'; }
	mysql_note 'starting a server without a network'
	"$@" --skip-networking &
	server=$!
	for ((i = 60; i > 0; i--)); do
		! MYSQL_DATABASE='' docker_process_sql --dont-use-mysql-root-password -e 'SELECT 1' >/dev/null 2>&1 || break
		kill -0 "$server" 2>/dev/null || mysql_error 'the server has ended'
		sleep 1
	done
	((i)) || mysql_error 'the server does not start'
	accounts | MYSQL_DATABASE='' docker_process_sql --dont-use-mysql-root-password
	docker_process_init_files /docker-entrypoint-initdb.d/*
	kill "$server"
	wait "$server" || mysql_error 'the server did not stop'
	mysql_note 'the volume is ready'
}

[ "${1:0:1}" != - ] || set -- mysqld "$@"
if [ "$1" = mysqld ]; then
	shift
	write_config
	set -- mysqld --defaults-file="$CONFIG" "$@"
	[ -d "$DATADIR/mysql" ] || first_start "$@"
fi
exec "$@"
