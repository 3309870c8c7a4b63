// SPDX-License-Identifier: Apache-2.0
/*
 * Sends every frame out of another interface, with its two hardware addresses swapped: the limit of
 * all that forward, for the measurements.
 */
#include "abi.h"
#include "swap.h"

struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, 1);
	__uint(key_size, 4);
	__uint(value_size, 4);
} redirect_to SEC(".maps");

SEC("xdp.frags")
int xdp_redirect(struct xdp_md *ctx)
{
	return swap_addresses(ctx) ? bpf_redirect_map(&redirect_to, 0, XDP_DROP) : XDP_DROP;
}

const char terms[] SEC("license") = "Apache-2.0";
