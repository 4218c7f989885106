#!/bin/sh
# Creates the databases and users of a list, and again when the list or a password changes. It drops nothing.
#   accounts.sh LIST PASSWORDS SOCKET READY
# LIST       lines "database NAME", "user NAME DATABASE...", "backup NAME", of an account that may read everything, "backup NAME
#            files", where backups copy files, and "archive NAME", of one that may follow the binary log
# PASSWORDS  the folder with one file for each user
# READY      the file that exists while the server is as the list says
set -u
list=$1 passwords=$2 socket=$3 ready=$4
LC_ALL=C
export LC_ALL

# sql: runs its standard input as root, and stops at the first error.
sql() {
  MYSQL_PWD=$MYSQL_ROOT_PASSWORD mysql --no-defaults --user=root --protocol=SOCKET --socket="$socket" \
    --connect-timeout=5 --default-character-set=utf8mb4 --batch --skip-column-names --binary-mode
}

# In the empty mode a backslash escapes, whatever the server's own mode is.
mode="SET SESSION sql_mode = '';"

# quoted TEXT: as an SQL string. The full stop keeps newlines at the end.
quoted() {
  text=$(printf '%s.' "$1" | sed -e 's/\\/\\\\/g' -e "s/'/''/g")
  printf "'%s'" "${text%.}"
}

# grant DATABASE USER. An underscore in the name of a GRANT stands for any character unless it is escaped.
grant() {
  printf "GRANT ALL PRIVILEGES ON \`%s\`.* TO %s@'%%';\n" "$(printf '%s' "$1" | sed 's/_/\\_/g')" "$(quoted "$2")"
}

# read_secret FILE: sets $secret by the rule for all secrets: without the newline at its end. It fails and sets $refusal where the
# value is missing, empty, or has another control character.
read_secret() {
  secret='' more='' refusal='it is empty'
  [ -s "$1" ] || return 1
  {
    IFS= read -r secret || :
    ! IFS= read -r more || more=line
  } <"$1"
  [ -n "$secret$more" ] || return 1
  refusal='it has a control character'
  case $secret$more in *[[:cntrl:]]*) return 1 ;; esac
  # NUL is in no variable, only in the size.
  size=$(($(wc -c <"$1") - $(printf '%s' "$secret" | wc -c)))
  [ -z "$more" ] && [ "$size" -le 1 ] && [ "$size" -eq "$(wc -l <"$1")" ]
}

# user NAME DATABASE...
user() {
  name=$1
  shift
  if [ "$name" = root ] || [ "$name" = "$MYSQL_USER" ]; then
    echo "user $name: that account has its password from elsewhere" >&2
    return 1
  fi
  if ! read_secret "$passwords/$name"; then
    echo "user $name: its password is not used: $refusal" >&2
    return 1
  fi
  password=$(quoted "$secret")
  printf "CREATE USER IF NOT EXISTS '%s'@'%%' IDENTIFIED BY %s;\n" "$name" "$password"
  printf "ALTER USER '%s'@'%%' IDENTIFIED BY %s;\n" "$name" "$password"
  for database; do
    grant "$database" "$name"
  done
}

# backup NAME: what a dump of all databases, a copy of all files and a position in the binary log need, and nothing that changes
# data. The rights to list XA transactions and to copy files are those of MySQL 8.0: MySQL 5.7 and MariaDB skip the comments.
backup() {
  user "$1" || return 1
  printf "GRANT SELECT, SHOW VIEW, TRIGGER, EVENT, LOCK TABLES, RELOAD, PROCESS, REPLICATION SLAVE, REPLICATION CLIENT /*!80011 , XA_RECOVER_ADMIN, RESOURCE_GROUP_USER */ /*!80017 , BACKUP_ADMIN */ ON *.* TO '%s'@'%%';\n" "$1"
}

# archive NAME: what following the binary log needs.
archive() {
  user "$1" || return 1
  printf "GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO '%s'@'%%';\n" "$1"
}

# With this line among the statements, the server loads the plugin that copies its files. It is not loaded in the same run: a server
# without it still gets its accounts, and is backed up by dumps.
files='-- Backups copy the files.'
load="/*!80017 SET @d3os = IF((SELECT COUNT(*) FROM information_schema.PLUGINS WHERE PLUGIN_NAME = 'clone') > 0, 'DO 0', 'INSTALL PLUGIN clone SONAME \"mysql_clone.so\"') */;
/*!80017 PREPARE d3os FROM @d3os */;
/*!80017 EXECUTE d3os */;"

# statements: the SQL that the list and the passwords stand for.
statements() {
  echo "$mode"
  while read -r kind name databases; do
    case $kind in
    database)
      printf 'CREATE DATABASE IF NOT EXISTS `%s` DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci;\n' "$name"
      grant "$name" "$MYSQL_USER"
      ;;
    user)
      # Unquoted: one argument for each database.
      user "$name" $databases || return 1
      ;;
    backup)
      backup "$name" || return 1
      [ "$databases" != files ] || echo "$files"
      ;;
    archive)
      archive "$name" || return 1
      ;;
    esac
  done <"$list"
}

# serves: whether this is the server that clients get. On a first start the image runs one without a network before it.
serves() {
  state=$(printf "%s\nSELECT @@GLOBAL.skip_networking, COUNT(*) FROM mysql.user WHERE user = %s AND host = '%%';\n" \
    "$mode" "$(quoted "$MYSQL_USER")" | sql) || return 1
  case $state in
  0?1) return 0 ;;
  0?0) echo "the account '$MYSQL_USER'@'%' does not exist" >&2 ;;
  *) echo "the server is being set up" >&2 ;;
  esac
  return 1
}

applied=
# apply: makes the server as the list says, unless it was done already.
apply() {
  wanted=$(statements) || return 1
  [ "$wanted" != "$applied" ] || return 0
  serves || return 1
  printf '%s\n' "$wanted" | sql || return 1
  case $wanted in *"$files"*)
    printf '%s\n' "$mode" "$load" | sql || echo "the server has no plugin clone: backups are dumps" >&2
    ;;
  esac
  applied=$wanted
  echo "databases and users are as declared"
}

# As process 1 a shell ends on TERM only when it says so, and only between commands.
trap 'exit 0' TERM INT
rm -f "$ready"
while :; do
  if apply; then
    : >"$ready"
  else
    rm -f "$ready"
  fi
  sleep 5 &
  wait $!
done
