// SPDX-License-Identifier: Apache-2.0
/*
 * Passes every frame to the host. Its presence is the point: a veth end with an XDP program has a
 * NAPI of its own (without one, redirected frames vanish uncounted) and leaves GRO off. "frags"
 * lets the interface keep an MTU above one page.
 */
#include "abi.h"

SEC("xdp.frags")
int xdp_pass(struct xdp_md *ctx)
{
	return XDP_PASS;
}

const char terms[] SEC("license") = "Apache-2.0";
