// SPDX-License-Identifier: Apache-2.0
/*
 * Sends every frame back out of the interface that it came by, with its two hardware addresses
 * swapped: the limit of all that answer or balance on one interface, for the measurements.
 */
#include "abi.h"
#include "swap.h"

SEC("xdp.frags")
int xdp_swap(struct xdp_md *ctx)
{
	return swap_addresses(ctx) ? XDP_TX : XDP_DROP;
}

const char terms[] SEC("license") = "Apache-2.0";
