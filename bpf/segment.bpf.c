// SPDX-License-Identifier: Apache-2.0
/*
 * Puts segments into live test frames (BPF_PROG_TEST_RUN, BPF_F_TEST_XDP_LIVE_FRAMES) and redirects
 * them to one interface. User space has written the headers, checksums and all, behind the payload
 * into memory that both have mapped; a place for each segment says where its two parts lie. Copying
 * them into the frame, which lies in memory of the driver's kind, is all that is done here: what a
 * card does that fetches a chain of descriptors.
 *
 * Segments go in the order of their places. There is one sending thread. While it sends, the
 * program is anchored on the interface as generate.bpf.c is.
 */
#include "abi.h"

const volatile struct segment_config config = {};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, SEGMENT_PLACES);
	__type(key, __u32);
	__type(value, struct segment_place);
} places SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct segment_state);
} states SEC(".maps");

/* Headers and payload, as many bytes as the loader says. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(__u64));
} memory SEC(".maps");

/* Copies bytes of the memory to a place of the frame; 0 if that was done. */
static __always_inline int copy(struct xdp_md *ctx, __u32 to, __u8 *bytes, __u32 at, __u32 count)
{
	if (at > config.memory_bytes - SEGMENT_FRAME_BYTES_MAX || !count ||
	    count > SEGMENT_FRAME_BYTES_MAX)
		return -1;
	return bpf_xdp_store_bytes(ctx, to, bytes + at, count) != 0;
}

SEC("xdp")
int segment(struct xdp_md *ctx)
{
	volatile const struct segment_place *place;
	struct segment_state *state;
	__u32 key = 0, header_at, header_bytes, payload_at, payload_bytes, bytes;
	__u8 *from;

	/* A frame that the interface received: the program is only anchored there. */
	if (ctx->ingress_ifindex == config.ifindex)
		return XDP_PASS;
	state = bpf_map_lookup_elem(&states, &key);
	from = bpf_map_lookup_elem(&memory, &key);
	if (!state || !from)
		return XDP_ABORTED;
	key = state->next++;
	place = bpf_map_lookup_elem(&places, &key);
	if (!place)
		goto refused;
	header_at = place->header_at;
	header_bytes = place->header_bytes;
	payload_at = place->payload_at;
	payload_bytes = place->payload_bytes;
	bytes = header_bytes + payload_bytes;
	if (bytes > SEGMENT_FRAME_BYTES_MAX)
		goto refused;
	if (bytes != config.input_bytes &&
	    bpf_xdp_adjust_tail(ctx, (int)(bytes - config.input_bytes)))
		goto refused;
	if (copy(ctx, 0, from, header_at, header_bytes))
		goto refused;
	if (payload_bytes && copy(ctx, header_bytes, from, payload_at, payload_bytes))
		goto refused;
	return bpf_redirect(config.ifindex, 0);
refused:
	state->refused++;
	return XDP_ABORTED;
}

const char terms[] SEC("license") = "Apache-2.0";
