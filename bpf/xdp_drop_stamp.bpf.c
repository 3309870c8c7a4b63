// SPDX-License-Identifier: Apache-2.0
/*
 * Discards every frame as xdp_drop does, and reads the clock before: the least that a stamp on
 * every frame costs, for the measurements.
 */
#include "abi.h"

SEC("xdp.frags")
int xdp_drop_stamp(struct xdp_md *ctx)
{
	/* The call is made even though its result is not used. */
	bpf_ktime_get_tai_ns();
	return XDP_DROP;
}

const char terms[] SEC("license") = "Apache-2.0";
