// SPDX-License-Identifier: Apache-2.0
/*
 * Makes numbered frames out of live test frames (BPF_PROG_TEST_RUN, BPF_F_TEST_XDP_LIVE_FRAMES) and
 * redirects them to one interface. Layout of a frame: crates/transmit/src/template.rs, whose
 * frames are byte for byte the same.
 *
 * The kernel recycles the pages of live frames, and a receiver may have rewritten what it got, so
 * every header byte is written every time. The pattern behind the header comes with the input
 * frame, which is as long as the longest size (64 bytes at least) and is cut to size here.
 *
 * Each sending thread keeps to one CPU and so has a state of its own. While it sends, the program
 * is anchored on the interface by generic XDP, where it passes whatever is received: a test run of
 * more than one frame enters the program into the kernel's XDP dispatcher and takes it out again,
 * and each change waits for an RCU grace period (milliseconds), unless it is in there already.
 *
 * With a gap, frames leave one by one when they are due: user space can only ask for bursts, which
 * overflow a ring of 256 at rates that it takes easily. A frame that comes up too early is thrown
 * away instead of waiting, because the kernel keeps softirqs off for 64 frames.
 */
#include "abi.h"

const volatile struct generate_config config = {};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct generate_state);
} states SEC(".maps");

enum offset {
	IP_LENGTH = 16,
	IP_CHECKSUM = 24,
	IP_SOURCE = 26,
	UDP_SOURCE = 34,
	UDP_LENGTH = 38,
	SEQUENCE = 50,
	FLOW = 58,
};

/* Of the gap and of the time that a frame is due: nanoseconds in units of 1/256. */
#define TIME_SHIFT 8
/*
 * What a generator that was held up makes up for, 48 us: at five million a second what a ring of
 * 256 holds. What it missed beyond is not made up, and the rate shows it.
 */
#define CATCH_UP (48000ULL << TIME_SHIFT)
/*
 * Frames that leave in a row when as many are overdue. Reading the clock costs 31 ns, a quarter of
 * a frame; a receiver's ring does not notice eight.
 */
#define GRANT_MAX 8

#define ETHERNET_BYTES 14
#define IPV4_BYTES 20
#define HEADERS_BYTES 42

static __always_inline __u16 fold(__u32 sum)
{
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return ~sum;
}

/* The multiplication spreads sizes evenly over the sequence and apart from the flows. */
static __always_inline __u32 size_of_frame(__u64 sequence)
{
	__u64 spread = (sequence * 0x9e3779b97f4a7c15ULL) >> 32;
	__u32 index = (spread * config.size_count) >> 32;

	return config.sizes[index & (GENERATE_SIZES_MAX - 1)];
}

/* True if there is a frame to be made now. Differences only, so that the clock may wrap. */
static __always_inline int is_due(struct generate_state *state)
{
	__u64 now, overdue;

	if (!config.gap)
		return 1;
	if (state->granted) {
		state->granted--;
		return 1;
	}
	now = bpf_ktime_get_ns() << TIME_SHIFT;
	if ((__s64)(now - state->due) < 0)
		return 0;
	if (now - state->due > CATCH_UP)
		state->due = now - CATCH_UP;
	overdue = (now - state->due) / config.gap;
	if (overdue > GRANT_MAX - 1)
		overdue = GRANT_MAX - 1;
	state->granted = overdue;
	state->due += config.gap * (overdue + 1);
	return 1;
}

SEC("xdp")
int generate(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data;
	void *data_end = (void *)(long)ctx->data_end;
	struct generate_state *state;
	__u32 key = 0, flow, size, source;
	__u16 ip_length, port;
	__u64 sequence;
	int i;

	/* A frame that the interface received: the program is only anchored there. */
	if (ctx->ingress_ifindex == config.ifindex)
		return XDP_PASS;
	state = bpf_map_lookup_elem(&states, &key);
	if (!state)
		return XDP_ABORTED;
	if (!is_due(state))
		return XDP_DROP;
	sequence = state->next_sequence;
	flow = state->next_flow;
	size = size_of_frame(sequence);
	source = config.address_base + flow;
	ip_length = (size < HEADERS_BYTES ? HEADERS_BYTES : size) - ETHERNET_BYTES;

	if (data + GENERATE_HEADER_BYTES > data_end) {
		state->refused++;
		return XDP_ABORTED;
	}
#pragma unroll
	for (i = 0; i < GENERATE_HEADER_BYTES / 8; i++)
		((__u64 *)data)[i] = config.header[i];

	*(__u16 *)(data + IP_LENGTH) = to_be16(ip_length);
	*(__u16 *)(data + IP_CHECKSUM) = to_be16(
		fold(config.ip_sum + ip_length + (source >> 16) + (source & 0xffff)));
	*(__u32 *)(data + IP_SOURCE) = to_be32(source);
	port = config.port_base + flow % config.port_count;
	*(__u16 *)(data + UDP_SOURCE) = to_be16(port);
	*(__u16 *)(data + UDP_LENGTH) = to_be16((__u16)(ip_length - IPV4_BYTES));
	*(__u64 *)(data + SEQUENCE) = to_be64(state->stream + sequence);
	*(__u32 *)(data + FLOW) = to_be32(flow);

	if (bpf_xdp_adjust_tail(ctx, (int)(size - config.input_bytes))) {
		state->refused++;
		return XDP_ABORTED;
	}
	state->next_sequence = sequence + 1;
	state->next_flow = flow + 1 >= config.flow_count ? 0 : flow + 1;
	return bpf_redirect(config.ifindex, 0);
}

const char terms[] SEC("license") = "Apache-2.0";
