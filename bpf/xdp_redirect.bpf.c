// SPDX-License-Identifier: Apache-2.0
/*
 * Sends every frame out of another interface, with its two hardware addresses swapped: the limit of
 * all that forward, for the measurements.
 */
#include "abi.h"
#include "onward.h"
#include "swap.h"

SEC("xdp.frags")
int xdp_redirect(struct xdp_md *ctx)
{
	return swap_addresses(ctx) ? bpf_redirect_map(&redirect_to, 0, XDP_DROP) : XDP_DROP;
}

const char terms[] SEC("license") = "Apache-2.0";
