// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/* The fast path of rules (fast.h) that ask about ports and protocols. */
#define FAST_PORTS 1
#define FAST_PREFIXES 0
#include "fast.h"

SEC("xdp.frags")
int xdp_fast_port(struct xdp_md *ctx)
{
	return judge_fast(ctx);
}

/* The kernel gives its view of a frame to programs under its own terms only. */
const char terms[] SEC("license") = "GPL v2";
