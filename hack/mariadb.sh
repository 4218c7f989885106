#!/usr/bin/env bash
# Unpacks a database server of Debian with its tools, and all libraries they need, without installing them. Needs no root.
#
#   hack/mariadb.sh FOLDER        the MariaDB of Debian 12 (10.11)
#   hack/mariadb.sh FOLDER mysql  the MySQL of Debian's unstable release, whatever version that has
#
# FOLDER then has mysqld, mysql, mysqldump and what makes an empty database of MariaDB, mysql_install_db. Each runs with the
# libraries in the folder.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. hack/packages.sh
. hack/debian.sh

[[ $# == 1 || $# == 2 && $2 == mysql ]] || { echo "usage: $0 FOLDER [mysql]" >&2; exit 2; }
mkdir -p "$1"
folder=$(cd "$1" && pwd)
if [[ ${2:-} == mysql ]]; then
	release=sid packages=(mysql-server-core mysql-client-core)
	programs=(mysqld=usr/sbin/mysqld mysql=usr/bin/mysql mysqldump=usr/bin/mysqldump mysqlbinlog=usr/bin/mysqlbinlog)
else
	release=bookworm packages=(mariadb-server-core mariadb-client-core)
	programs=(mysqld=usr/sbin/mariadbd mysql=usr/bin/mariadb mysqldump=usr/bin/mariadb-dump)
fi
printf '  [%s] unpacking %s of Debian %s\n' "$(date +%T)" "${packages[0]}" "$release"
rm -rf "$folder/debian"
unpack_all "$release" "$folder/debian" "${packages[@]}"
# The package with mariadb-dump would bring Perl along.
[[ $release == sid ]] || unpack "$release" "$folder/debian" mariadb-client

for program in "${programs[@]}"; do
	path=${program#*=} own=
	# Debian compiles in where it installs these. A server reserves 2,300 of the 65,536 requests that Linux has for asynchronous I/O
	# (fs.aio-max-nr), and does not start where none are left: tests start more servers at a time than that allows.
	[[ $path != */mysqld ]] || own='--innodb-use-native-aio=OFF --lc-messages-dir="$root/usr/share/mysql" --character-sets-dir="$root/usr/share/mysql/charsets" --plugin-dir="$root/usr/lib/mysql/plugin" --secure-file-priv=NULL'
	[[ $path != */mariadbd ]] || own='--innodb-use-native-aio=OFF --lc-messages-dir="$root/usr/share/mysql" --character-sets-dir="$root/usr/share/mysql/charsets" --plugin-dir="$root/usr/lib/mysql/plugin"'
	# Found from the program itself, so that the folder can be moved and linked to. Started by the release's own loader,
	# which has to fit its C library.
	cat >"$folder/${program%%=*}" <<-WRAPPER
		#!/bin/sh
		root=\$(dirname "\$(readlink -f "\$0")")/debian
		for loader in "\$root"/lib64/ld-linux-*.so.* "\$root"/usr/lib64/ld-linux-*.so.* "\$root"/lib/ld-linux-*.so.* "\$root"/usr/lib/ld-linux-*.so.*; do
			[ ! -e "\$loader" ] || break
		done
		libraries=
		for library in "\$root"/lib/*-linux-gnu "\$root"/usr/lib/*-linux-gnu "\$root"/usr/lib/*-linux-gnu/*/; do libraries=\$libraries:\$library; done
		exec "\$loader" --library-path "\${libraries#:}" "\$root/$path" "\$@" $own
	WRAPPER
	chmod +x "$folder/${program%%=*}"
done

if [[ $release != sid ]]; then
	# Debian's is a shell script that looks for the programs where Debian installs them.
	cat >"$folder/mysql_install_db" <<-WRAPPER
		#!/bin/sh
		here=\$(dirname "\$(readlink -f "\$0")")
		for arg; do case \$arg in --datadir=*) data=\${arg#*=} ;; --user=*) user=\$arg ;; esac; done
		mkdir -p "\$data/mysql" "\$data/test"
		{ echo 'USE mysql;' && cd "\$here/debian/usr/share/mysql" &&
			cat mysql_system_tables.sql mysql_performance_tables.sql mysql_system_tables_data.sql fill_help_tables.sql maria_add_gis_sp_bootstrap.sql mysql_sys_schema.sql; } |
			"\$here/mysqld" --no-defaults --bootstrap \$user --datadir="\$data" --log-warnings=0 --enforce-storage-engine= --max-allowed-packet=8M --net-buffer-length=16K
	WRAPPER
	chmod +x "$folder/mysql_install_db"
fi
"$folder/mysqld" --no-defaults --version >/dev/null && "$folder/mysqldump" --version >/dev/null
printf '  [%s] unpacked  %s\n' "$(date +%T)" "$("$folder/mysqld" --no-defaults --version | sed 's/.* Ver/Ver/')"
