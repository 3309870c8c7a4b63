/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* The way to a real, as the kernel's routes are asked for it. */
#ifndef RINGSIDE_BALANCE_WAY_H
#define RINGSIDE_BALANCE_WAY_H

#include "../kernel.h"

static __always_inline void put_address(__u32 *to, const __u64 *words)
{
	to[0] = to_be32((__u32)(words[0] >> 32));
	to[1] = to_be32((__u32)words[0]);
	to[2] = to_be32((__u32)(words[1] >> 32));
	to[3] = to_be32((__u32)words[1]);
}

/* Fills in where a packet to a real begins and ends. */
static __always_inline void put_ends(struct bpf_fib_lookup *params, const __u64 *real,
				     __u32 source_v4, const __u64 *source_v6)
{
	if (!real[0] && real[1] >> 32 == 0xffff) {
		params->family = AF_INET;
		params->source[0] = to_be32(source_v4);
		params->destination[0] = to_be32((__u32)real[1]);
	} else {
		params->family = AF_INET6;
		put_address(params->source, source_v6);
		put_address(params->destination, real);
	}
}

#endif
