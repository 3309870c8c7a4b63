/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Where the limits of forwarding send frames, and what those that route do to a packet. */
#ifndef RINGSIDE_ONWARD_H
#define RINGSIDE_ONWARD_H

#include "kernel.h"

#define IP_AT 14
#define IPV4_BYTES 20

struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, 1);
	__uint(key_size, 4);
	__uint(value_size, 4);
} redirect_to SEC(".maps");

/* Takes a hop off a packet of IPv4. RFC 1624, as in xdp_route.bpf.c. */
static __always_inline void take_hop(__u8 *ip)
{
	__u32 sum = *(__u16 *)(ip + 10) + to_be16(0x0100);

	*(__u16 *)(ip + 10) = sum + (sum >= 0xffff);
	ip[8]--;
}

#endif
