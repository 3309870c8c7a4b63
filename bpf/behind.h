/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* How a leaf with rules gives a frame on. */
#ifndef RINGSIDE_BEHIND_H
#define RINGSIDE_BEHIND_H

#include "leaves.h"
#include "metadata.h"

/* To the programs behind the one at `position`, and to the host. */
static __always_inline int go_behind(struct xdp_md *ctx, __u32 position, __u32 metadata)
{
	try_leaves(ctx, position + 1);
	if (metadata == METADATA_FULL)
		drop_metadata(ctx);
	return XDP_PASS;
}

#endif
