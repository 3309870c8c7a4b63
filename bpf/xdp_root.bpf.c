// SPDX-License-Identifier: Apache-2.0
/*
 * What an interface has of Ringside: tries the programs that share it, else passes every frame to
 * the host. "frags" lets frames be longer than a page; all programs of an array must agree in it.
 */
#include "leaves.h"

SEC("xdp.frags")
int xdp_root(struct xdp_md *ctx)
{
	try_leaves(ctx, 0);
	return XDP_PASS;
}

const char terms[] SEC("license") = "Apache-2.0";
