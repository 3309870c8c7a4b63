// SPDX-License-Identifier: Apache-2.0
/*
 * Makes numbered frames out of live test frames (BPF_PROG_TEST_RUN, BPF_F_TEST_XDP_LIVE_FRAMES) and
 * redirects them to one interface. Layout of a frame: crates/transmit/src/template.rs, whose
 * frames are byte for byte the same.
 *
 * The kernel recycles the pages of live frames, and a receiver may have rewritten what it got, so
 * every header byte is written every time. The pattern behind the header comes with the input
 * frame, which is as long as the longest size (64 bytes at least) and is cut to size here.
 */
#include "abi.h"

const volatile struct generate_config config = {};
struct generate_state state = {};

enum offset {
	IP_LENGTH = 16,
	IP_CHECKSUM = 24,
	IP_SOURCE = 26,
	UDP_SOURCE = 34,
	UDP_LENGTH = 38,
	SEQUENCE = 50,
	FLOW = 58,
};

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

SEC("xdp")
int generate(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data;
	void *data_end = (void *)(long)ctx->data_end;
	__u64 sequence = state.next_sequence;
	__u32 flow = state.next_flow;
	__u32 size = size_of_frame(sequence);
	__u32 claimed = size < HEADERS_BYTES ? HEADERS_BYTES : size;
	__u32 source = config.address_base + flow;
	__u16 ip_length = claimed - ETHERNET_BYTES;
	int i;

	if (data + GENERATE_HEADER_BYTES > data_end) {
		state.refused++;
		return XDP_ABORTED;
	}
#pragma unroll
	for (i = 0; i < GENERATE_HEADER_BYTES / 8; i++)
		((__u64 *)data)[i] = config.header[i];

	*(__u16 *)(data + IP_LENGTH) = to_be16(ip_length);
	*(__u16 *)(data + IP_CHECKSUM) = to_be16(
		fold(config.ip_sum + ip_length + (source >> 16) + (source & 0xffff)));
	*(__u32 *)(data + IP_SOURCE) = to_be32(source);
	*(__u16 *)(data + UDP_SOURCE) = to_be16((__u16)(config.port_base + flow % config.port_count));
	*(__u16 *)(data + UDP_LENGTH) = to_be16((__u16)(ip_length - IPV4_BYTES));
	*(__u64 *)(data + SEQUENCE) = to_be64(config.stream + sequence);
	*(__u32 *)(data + FLOW) = to_be32(flow);

	if (bpf_xdp_adjust_tail(ctx, (int)(size - config.input_bytes))) {
		state.refused++;
		return XDP_ABORTED;
	}
	state.next_sequence = sequence + 1;
	state.next_flow = flow + 1 >= config.flow_count ? 0 : flow + 1;
	return bpf_redirect(config.ifindex, 0);
}

const char terms[] SEC("license") = "Apache-2.0";
