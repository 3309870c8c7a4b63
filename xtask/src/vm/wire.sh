#!/bin/sh
# Makes a wire of several queues in a network namespace of its own, which goes away with the command
# that the arguments name. Run by: unshare --net wire.sh COMMAND…
set -e
for group in all default; do
    echo 1 >/proc/sys/net/ipv6/conf/$group/disable_ipv6 2>/dev/null || true
done
# No spanning tree and no snooping: what comes in at one end goes out at the other.
ip link add wire type bridge stp_state 0 forward_delay 0 mcast_snooping 0
for end in wire0 wire1; do
    ip tuntap add $end mode tap multi_queue
    ip link set $end txqueuelen 10000 master wire up
done
ip link set wire up
exec "$@"
