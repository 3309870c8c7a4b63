/* SPDX-License-Identifier: Apache-2.0 */
/* What the limits of forwarding do to a frame. */
#ifndef RINGSIDE_SWAP_H
#define RINGSIDE_SWAP_H

#include "kernel.h"

/* Swaps the two hardware addresses; 0 of a frame that is too short to have them. */
static __always_inline int swap_addresses(struct xdp_md *ctx)
{
	__u8 *data = (void *)(long)ctx->data, mac[6];

	if ((void *)(data + 12) > (void *)(long)ctx->data_end)
		return 0;
	__builtin_memcpy(mac, data, 6);
	__builtin_memcpy(data, data + 6, 6);
	__builtin_memcpy(data + 6, mac, 6);
	return 1;
}

#endif
