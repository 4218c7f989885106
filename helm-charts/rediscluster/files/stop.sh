#!/bin/sh
# Runs before the server is stopped. A master hands over to a replica that has its data, so that clients do not wait for
# an election. The script never fails, and takes some 15 seconds at most.
# shellcheck source=common.sh
. /scripts/common.sh

pause() { sleep 0.2 2>/dev/null || sleep 1; }

# role: sets $role; empty if the server does not answer.
role() {
	own ROLE
	case $answer in master* | slave*) role=${answer%%[!a-z]*} ;; *) role= ;; esac
}

# moving: reports whether a slot is being moved. Its marks are lost when the master ends, so the script waits until the
# operator has completed the move.
moving() {
	own CLUSTER NODES
	case $answer in *myself*) ;; *) return 1 ;; esac
	mine=${answer#*myself}
	mine=${mine%%"
"*}
	case $mine in *' ['*) return 0 ;; esac
	return 1
}

# best: prints the linked replica that has read most of the data.
best() {
	own CLUSTER MYID
	own CLUSTER REPLICAS "$answer"
	printf '%s\n' "$answer" | while read -r id address flags _; do
		case $flags in *fail* | *noaddr* | *handshake*) continue ;; esac
		address=${address%%@*}
		# Another server may have this address now.
		redis "${address%:*}" "${address##*:}" CLUSTER MYID
		[ "$answer" = "$id" ] || continue
		redis "${address%:*}" "${address##*:}" INFO replication
		field master_link_status "$answer"
		[ "$value" = up ] || continue
		field slave_repl_offset "$answer"
		echo "$value ${address%:*} ${address##*:}"
	done | sort -n | tail -n 1
}

# Probes no longer run, but other nodes still have contact with this server for a while.
trap in_use EXIT
role
# At maxclients, wait until a client disconnects.
for _ in 1 2 3 4 5 6 7 8 9 10; do
	case $answer in *"max number of clients"*) ;; *) break ;; esac
	pause
	role
done
[ "$role" = master ] || exit 0
for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
	moving || break
	pause
done
replica=$(best)
[ -n "$replica" ] || exit 0
address=${replica#* }
echo "handing over to $address"
redis "${address% *}" "${address#* }" CLUSTER FAILOVER
echo "$answer"
for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36 37 38 39 40; do
	role
	[ "$role" = master ] || break
	pause
done
exit 0
