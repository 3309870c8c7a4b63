// SPDX-License-Identifier: Apache-2.0
/*
 * Adds up what an interface receives by flow, inside the driver, and lets every frame go on. It
 * stands before captures, and may stand behind rules: then it sees what they let go on.
 */
#include "flows.h"
#include "leaves.h"
#include "metadata.h"

static __always_inline const struct xdp_metadata *tag_of(struct xdp_md *ctx)
{
	const struct xdp_metadata *metadata = (void *)(long)ctx->data_meta;

	if (config.metadata != METADATA_FULL ||
	    (void *)(metadata + 1) > (void *)(long)ctx->data)
		return 0;
	return metadata->flags & METADATA_VLAN ? metadata : 0;
}

static __always_inline long load_bytes(struct xdp_md *ctx, __u32 offset, void *to, __u64 bytes)
{
	return bpf_xdp_load_bytes(ctx, offset, to, bytes);
}

#include "flows_up.h"

SEC("xdp.frags")
int xdp_flows(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *data_end = (void *)(long)ctx->data_end;
	const struct xdp_metadata *metadata = tag_of(ctx);
	struct wire wire = { .bytes = bpf_xdp_get_buff_len(ctx), .packets = 1 };

	if (metadata) {
		wire.type = metadata->vlan_tpid;
		wire.tci = metadata->vlan_tci;
	}
	meter(ctx, data, data_end, &wire);
	try_leaves(ctx, config.position + 1);
	if (config.metadata == METADATA_FULL)
		drop_metadata(ctx);
	return XDP_PASS;
}

const char terms[] SEC("license") = "Apache-2.0";
