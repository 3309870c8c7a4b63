// SPDX-License-Identifier: Apache-2.0
/*
 * Adds up by flow what an interface receives or, loaded once more, what it sends, where the host's
 * own stack begins and ends, and lets every frame go on. A frame that the host put together out of
 * segments, or has yet to cut, counts as these.
 */
#include "flows.h"

static __always_inline long load_bytes(struct __sk_buff *ctx, __u32 offset, void *to, __u64 bytes)
{
	return bpf_skb_load_bytes(ctx, offset, to, bytes);
}

#include "flows_up.h"

SEC("tc")
int tc_flows(struct __sk_buff *ctx)
{
	void *data = (void *)(long)ctx->data, *data_end = (void *)(long)ctx->data_end;
	struct wire wire = { .bytes = ctx->len, .packets = ctx->gso_segs };

	if (!wire.packets)
		wire.packets = 1;
	if (ctx->vlan_present) {
		wire.type = to_be16((__u16)ctx->vlan_proto);
		wire.tci = ctx->vlan_tci;
	}
	meter(ctx, data, data_end, &wire);
	return TCX_NEXT;
}

const char terms[] SEC("license") = "Apache-2.0";
