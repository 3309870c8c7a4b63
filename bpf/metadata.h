/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Room for our metadata in front of a frame, and how it is given back.
 *
 * What stands there already is left by a sender inside this host; the kernel's XDP lets it through.
 * It is written over: metadata has one size in a run.
 */
#ifndef RINGSIDE_METADATA_H
#define RINGSIDE_METADATA_H

#include "abi.h"

/* Makes the metadata `bytes` long; 0 if the driver has no room or no metadata. */
static __always_inline void *make_metadata(struct xdp_md *ctx, int bytes)
{
	long there = (long)ctx->data - (long)ctx->data_meta;
	void *metadata;

	if (bpf_xdp_adjust_meta(ctx, there - bytes))
		return 0;
	metadata = (void *)(long)ctx->data_meta;
	return metadata + bytes > (void *)(long)ctx->data ? 0 : metadata;
}

/* The metadata if a tag stands in the metadata, and not in the frame. */
static __always_inline const struct xdp_metadata *metadata_of(struct xdp_md *ctx)
{
	const struct xdp_metadata *metadata = (void *)(long)ctx->data_meta;

	if ((void *)(metadata + 1) > (void *)(long)ctx->data)
		return 0;
	return metadata->flags & METADATA_VLAN ? metadata : 0;
}

/* For a frame that goes to the host: GRO does not merge frames whose metadata differs. */
static __always_inline void drop_metadata(struct xdp_md *ctx)
{
	bpf_xdp_adjust_meta(ctx, (long)ctx->data - (long)ctx->data_meta);
}

#endif
