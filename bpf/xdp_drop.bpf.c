// SPDX-License-Identifier: Apache-2.0
/*
 * Discards every frame as soon as the driver sees it: the limit of what an interface can receive,
 * for the measurements.
 */
#include "abi.h"

SEC("xdp.frags")
int xdp_drop(struct xdp_md *ctx)
{
	return XDP_DROP;
}

const char terms[] SEC("license") = "Apache-2.0";
