// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/*
 * Makes numbered frames out of live test frames (BPF_PROG_TEST_RUN, BPF_F_TEST_XDP_LIVE_FRAMES) and
 * redirects them to one interface. crates/transmit/src/shape.rs makes the same bytes.
 *
 * What differs from flow to flow stands in a table of headers, made by user space: the program need
 * not know how addresses, ports and tags vary, and reads the table in order, as memory likes it.
 * What differs from frame to frame (size, number, stamp) is written over it: in a header lengths
 * are 0, and checksum fields hold the folded sum of what does not change.
 *
 * The kernel recycles the pages of live frames, and a receiver may have rewritten what it got, so
 * every header byte is written every time, unless a page is to keep its frame. What is behind the
 * header comes with the input frame, which is as long as the longest size and is cut to size here.
 *
 * Each sending thread keeps to one CPU and so has a state of its own. While it sends, the program
 * is anchored on the interface by generic XDP, where it passes whatever is received (or inside the
 * driver, where it discards that, as the far end of a measurement): a test run of
 * more than one frame enters the program into the kernel's XDP dispatcher and takes it out again,
 * and each change waits for an RCU grace period (milliseconds), unless it is in there already.
 */
#include "pace.h"
#include "room.h"

const volatile struct generate_config config = {};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct generate_state);
} states SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct generate_header);
} headers SEC(".maps");

/* From the start of their headers. */
enum offset {
	IPV4_LENGTH = 2,
	IPV4_CHECKSUM = 10,
	IPV6_LENGTH = 4,
	UDP_LENGTH = 4,
};

#define IPV6_BYTES 40

static __always_inline __u16 fold(__u32 sum)
{
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return sum;
}

static __always_inline __u32 sum_of_u64(__u64 value)
{
	return (value >> 48) + (value >> 32 & 0xffff) + (value >> 16 & 0xffff) + (value & 0xffff);
}

/* The multiplication spreads sizes evenly over the sequence and apart from the flows. */
static __always_inline __u32 index_of_size(__u64 sequence)
{
	__u64 spread = (sequence * 0x9e3779b97f4a7c15ULL) >> 32;
	__u32 index = (spread * config.size_count) >> 32;

	return index & (GENERATE_SIZES_MAX - 1);
}

static __always_inline __u16 get_be16(const void *at)
{
	return to_be16(*(const __u16 *)at);
}

/* Writes what depends on the frame over its header; size is counted from the headers' end on. */
static __always_inline void finish(void *data, const void *header, __u32 size, __u32 sum,
				   __u64 number)
{
	if (config.ipv4_at) {
		__u32 bytes = size - config.ipv4_at;
		__u32 ip_sum = get_be16(header + config.ipv4_at + IPV4_CHECKSUM) + bytes;

		*(__u16 *)(data + config.ipv4_at + IPV4_LENGTH) = to_be16((__u16)bytes);
		*(__u16 *)(data + config.ipv4_at + IPV4_CHECKSUM) = to_be16((__u16)~fold(ip_sum));
	}
	if (config.ipv6_at) {
		__u32 bytes = size - config.ipv6_at - IPV6_BYTES;

		*(__u16 *)(data + config.ipv6_at + IPV6_LENGTH) = to_be16((__u16)bytes);
	}
	if (config.udp_at) {
		__u32 bytes = size - config.udp_at;

		*(__u16 *)(data + config.udp_at + UDP_LENGTH) = to_be16((__u16)bytes);
		sum += bytes;
	}
	if (config.number_at) {
		*(__u64 *)(data + config.number_at) = to_be64(number);
		sum += sum_of_u64(number);
	}
	if (config.stamp_at) {
		__u64 now = bpf_ktime_get_tai_ns() & STAMP_MASK;

		*(__u16 *)(data + config.stamp_at) = to_be16((__u16)(now >> 32));
		*(__u32 *)(data + config.stamp_at + 2) = to_be32((__u32)now);
		sum += sum_of_u64(now);
	}
	if (config.checksum_at) {
		__u16 checksum;

		/* The pseudo header's length, and UDP's 0 that would mean "none". */
		sum += size - config.transport_at;
		sum += get_be16(header + config.checksum_at);
		checksum = ~fold(sum);
		if (config.udp_at && !checksum)
			checksum = 0xffff;
		*(__u16 *)(data + config.checksum_at) = to_be16(checksum);
	}
}

/* True if a frame may be made as far as the far end's ring is concerned. */
static __always_inline int fits(struct generate_state *state)
{
	if (!state->ring)
		return 1;
	if (!state->fitting) {
		if (!awaits_room(state->ring))
			return 0;
		state->fitting = ROOM_FRAMES;
	}
	state->fitting--;
	return 1;
}

static __always_inline int send_made(struct generate_state *state, __u32 flow)
{
	state->next_sequence++;
	state->next_flow = flow + 1 >= config.flow_count ? 0 : flow + 1;
	return bpf_redirect(config.ifindex, 0);
}

SEC("xdp")
int generate(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data;
	void *data_end = (void *)(long)ctx->data_end;
	struct generate_header *header;
	struct generate_state *state;
	__u32 key = 0, flow, size, index, i;
	__u64 sequence;

	/* A frame that the interface received: the program is only anchored there. */
	if (ctx->ingress_ifindex == config.ifindex)
		return config.discards ? XDP_DROP : XDP_PASS;
	state = bpf_map_lookup_elem(&states, &key);
	if (!state)
		return XDP_ABORTED;
	if (!is_due(config.gap, &state->due, &state->earliest, &state->granted) || !fits(state))
		return XDP_DROP;
	sequence = state->next_sequence;
	flow = state->next_flow;
	header = bpf_map_lookup_elem(&headers, &flow);
	if (!header || data + config.header_bytes > data_end) {
		state->refused++;
		return XDP_ABORTED;
	}
	/* Where the input frame has 0, a number is that of the frame which this page was given. */
	if (config.is_kept && *(__u64 *)(data + config.number_at))
		return send_made(state, flow);
#pragma unroll
	for (i = 0; i < GENERATE_HEADER_BYTES_MAX / 8; i++) {
		if (i * 8 < config.header_bytes)
			((__u64 *)data)[i] = header->words[i];
	}
	index = index_of_size(sequence);
	size = config.sizes[index];
	finish(data, header, size < config.payload_at ? config.payload_at : size,
	       config.sums[index], state->stream + sequence);

	if (size != config.input_bytes &&
	    bpf_xdp_adjust_tail(ctx, (int)(size - config.input_bytes))) {
		state->refused++;
		return XDP_ABORTED;
	}
	return send_made(state, flow);
}

/* The kernel shows the ring to programs under its own terms only. */
const char terms[] SEC("license") = "GPL v2";
