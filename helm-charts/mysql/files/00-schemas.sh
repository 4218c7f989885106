#!/bin/bash
# Creates the schemas of the product, and lets MYSQL_USER use them and no other.
# The image's entrypoint sources this file, once, while the data directory is new.

d3os_sql() {
  if declare -F docker_process_sql >/dev/null; then
    docker_process_sql
  else
    MYSQL_PWD="${MYSQL_ROOT_PASSWORD:-}" mysql --user=root --host=localhost
  fi
}

d3os_schemas() {
  local schema user
  # Quotes and backslashes are doubled inside an SQL string.
  user=$(printf '%s' "${MYSQL_USER:-}" | sed -e 's/\\/\\\\/g' -e "s/'/''/g")
  for schema in @schemas@; do
    printf 'CREATE DATABASE IF NOT EXISTS `%s` DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci;\n' "$schema"
    if [ -n "$user" ]; then
      # An underscore in the name of a GRANT stands for any character unless it is escaped.
      printf "GRANT ALL PRIVILEGES ON \`%s\`.* TO '%s'@'%%';\n" "$(printf '%s' "$schema" | sed 's/_/\\_/g')" "$user"
    fi
  done
}

d3os_schemas | d3os_sql
