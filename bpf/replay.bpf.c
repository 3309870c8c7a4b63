// SPDX-License-Identifier: Apache-2.0
/*
 * Gives frames the headers of a table, one after the other, and redirects them to an interface
 * (live test frames), or hands them to a program (plain test runs), to measure what a program costs
 * with many conversations. While it sends, it is anchored on the interface as generate.bpf.c is.
 */
#include "leaves.h"
#include "pace.h"

const volatile struct replay_config config = {};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* from user space */
	__type(key, __u32);
	__type(value, struct replay_header);
} headers SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct replay_state);
} states SEC(".maps");

/* The next packet of the stream: 20 ms of G.711. */
static __always_inline void count_on(void *rtp)
{
	__u16 *number = rtp + 2;
	__u32 *timestamp = rtp + 4;

	*number = to_be16((__u16)(to_be16(*number) + 1));
	*timestamp = to_be32(to_be32(*timestamp) + 160);
}

SEC("xdp.frags")
int replay(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *data_end = (void *)(long)ctx->data_end;
	struct replay_header *header;
	struct replay_state *state;
	__u32 key = 0, i;

	/* A frame that the interface received: the program is only anchored there. */
	if (config.ifindex && ctx->ingress_ifindex == config.ifindex)
		return XDP_PASS;
	state = bpf_map_lookup_elem(&states, &key);
	if (!state)
		return XDP_ABORTED;
	if (!is_due(config.gap, &state->due, &state->earliest, &state->granted))
		return XDP_DROP;
	state->made++;
	key = state->next;
	state->next = key + 1 < config.count ? key + 1 : 0;
	header = bpf_map_lookup_elem(&headers, &key);
	if (!header || data + sizeof(*header) > data_end)
		return XDP_ABORTED;
#pragma unroll
	for (i = 0; i < sizeof(*header) / 8; i++)
		((__u64 *)data)[i] = header->words[i];
	if (config.rtp_at && config.rtp_at <= sizeof(*header) - 12)
		count_on((void *)header + config.rtp_at);
	if (config.ifindex)
		return bpf_redirect(config.ifindex, 0);
	try_leaves(ctx, 0);
	return XDP_ABORTED;
}

const char terms[] SEC("license") = "Apache-2.0";
