#!/bin/sh
# Does the same as the stock nginx image before its start. It runs executable scripts, and replaces environment
# variables in the templates. If NGINX_ENVSUBST_FILTER is set, it replaces only variables whose name matches it.
set -e
templates=${NGINX_ENVSUBST_TEMPLATE_DIR:-/etc/nginx/templates}
output=${NGINX_ENVSUBST_OUTPUT_DIR:-/etc/nginx/conf.d}
suffix=${NGINX_ENVSUBST_TEMPLATE_SUFFIX:-.template}
if [ "$1" = nginx ] && [ -d "$templates" ]; then
	# shellcheck disable=SC2016,SC2046
	variables=$(printf '${%s} ' $(awk 'END { for (name in ENVIRON) if (name ~ filter) print name }' filter="${NGINX_ENVSUBST_FILTER:-}" </dev/null))
	find "$templates" -follow -name "*$suffix" | while read -r template; do
		name=${template#"$templates"/}
		mkdir -p "$(dirname "$output/$name")"
		envsubst "$variables" <"$template" >"$output/${name%"$suffix"}"
		echo "filled $output/${name%"$suffix"}"
	done
fi
if [ "$1" = nginx ]; then
	for script in /docker-entrypoint.d/*.sh; do
		[ ! -x "$script" ] || "$script"
	done
fi
exec "$@"
