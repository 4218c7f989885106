#!/bin/sh
# The image's entrypoint runs this before nginx. It writes the part of the configuration that depends on the pod.
set -eu

# A kernel without IPv6 refuses an IPv6 listener. A pod without an IPv6 address needs no IPv6 answers of DNS.
listen=
ipv6=off
if [ -f /proc/net/if_inet6 ]; then
	listen='listen [::]:@port@;'
	while read -r address index prefix scope rest; do
		[ "$scope" != 00 ] || ipv6=on
	done </proc/net/if_inet6
fi

# nginx does not read resolv.conf. Of several servers it asks each in turn, also one that does not know the cluster's
# names, so it gets the first one only. The domain of the cluster is that of the search list.
server=
domain=
while read -r key first rest || [ -n "$key" ]; do
	case $key in
	nameserver)
		case $first in
		*%*) ;;
		*:*) server=${server:-[$first]} ;;
		*) server=${server:-$first} ;;
		esac
		;;
	search)
		for name in $first $rest; do
			case $name in svc.*) domain=${name#svc} ;; esac
		done
		;;
	esac
done </etc/resolv.conf

cat >/etc/nginx/conf.d/pod.inc <<END
$listen
resolver ${server:-127.0.0.1} valid=5s ipv6=$ipv6;
resolver_timeout 10s;
set \$cluster_domain "${domain%.}";
END
