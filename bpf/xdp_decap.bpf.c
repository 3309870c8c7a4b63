// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/*
 * Unpacks what a balancer sent through a tunnel, on the real server, whose host may have no tunnels
 * of its own: the packet within goes on as if it had come by itself. What becomes of a frame is
 * said by crates/balance/src/decap.rs, which a test compares with this program frame by frame.
 */
#include "balance/abi.h"
#include "balance/frame.h"
#include "leaves.h"
#include "metadata.h"

const volatile struct decap_config config = {};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* one for each CPU, from user space */
	__uint(key_size, 4);
	__uint(value_size, sizeof(struct decap_counts));
} decap_count SEC(".maps");

#define UDP_BYTES 8
#define ECN_MASK 3
#define ECN_CONGESTED 3

/* Whether the tunnel begins and ends where it may. */
static __always_inline int is_ours(const struct work *work)
{
	__u32 i;

	if (work->version == 4) {
		if (!config.has_v4 ||
		    ((__u32)work->source[1] & config.source_v4_mask) != config.source_v4)
			return 0;
	} else if (!config.has_v6 ||
		   (work->source[0] & config.source_v6_mask[0]) != config.source_v6[0] ||
		   (work->source[1] & config.source_v6_mask[1]) != config.source_v6[1] ||
		   (!work->destination[0] && work->destination[1] >> 32 == 0xffff)) {
		/* The last would be an address of IPv4. */
		return 0;
	}
#pragma unroll
	for (i = 0; i < DECAP_ADDRESSES_MAX; i++)
		if (work->destination[0] == config.addresses[i][0] &&
		    work->destination[1] == config.addresses[i][1])
			return 1;
	return 0;
}

/* Where the packet within begins; 0 if there is none. */
static __always_inline __u32 find_inner(const struct work *work, struct xdp_md *ctx)
{
	__u8 *here, version;
	__u32 at = work->transport_at;

	if (work->protocol == IP_UDP) {
		here = part(work, ctx, at, UDP_BYTES + 1);
		if (!here || load16(here + 2) != config.gue_port)
			return 0;
		at += UDP_BYTES;
		version = here[UDP_BYTES] >> 4;
	} else if (work->protocol == IP_IN_IPV4 || work->protocol == IP_IN_IPV6) {
		here = part(work, ctx, at, 1);
		version = work->protocol == IP_IN_IPV4 ? 4 : 6;
		if (!here || *here >> 4 != version)
			return 0;
	} else {
		return 0;
	}
	/* There is no tunnel of IPv6 over IPv4. */
	return version == 4 || (version == 6 && work->version == 6) ? at : 0;
}

/* Says in the packet within that the way was congested; 0 if it must be dropped for that. */
static __always_inline int pass_congestion_on(__u8 *ip, int is_v4)
{
	__u16 old = *(__u16 *)ip, *sum;
	__u8 ecn = is_v4 ? ip[1] & ECN_MASK : ip[1] >> 4 & ECN_MASK;
	__u64 value;

	if (!ecn)
		return 0;
	if (!is_v4) {
		ip[1] |= ECN_CONGESTED << 4;
		return 1;
	}
	ip[1] |= ECN_CONGESTED;
	sum = (void *)(ip + 10);
	value = (__u16)~*sum + (__u64)(__u16)~old + *(__u16 *)ip;
	value = (value & 0xffff) + (value >> 16);
	value = (value & 0xffff) + (value >> 16);
	*sum = ~value;
	return 1;
}

/* Takes the outer headers off; the packet within is of `version` and begins at `at`. */
static __always_inline int unpack(struct xdp_md *ctx, const struct work *work,
				  struct decap_counts *counts, __u32 at)
{
	__u8 *data = (void *)(long)ctx->data, macs[12], *inner;
	int is_v4, is_congested = (work->tos & ECN_MASK) == ECN_CONGESTED;
	__u32 bytes;

	inner = part(work, ctx, at, 20);
	if (!inner)
		return XDP_PASS;
	is_v4 = *inner >> 4 == 4;
	bytes = is_v4 ? load16(inner + 2) : load16(inner + 4) + 40;
	if (bytes < (is_v4 ? 20 : 40) || at + bytes > work->bytes + ETHERNET_BYTES)
		return XDP_PASS;
	if (is_congested && !pass_congestion_on(inner, is_v4)) {
		counts->congested++;
		return XDP_DROP;
	}
	data = (void *)(long)ctx->data;
	if ((void *)(data + ETHERNET_BYTES) > (void *)(long)ctx->data_end)
		return XDP_PASS;
	__builtin_memcpy(macs, data, sizeof(macs));
	if (bpf_xdp_adjust_head(ctx, at - ETHERNET_BYTES))
		goto no_room;
	data = (void *)(long)ctx->data;
	if ((void *)(data + ETHERNET_BYTES) > (void *)(long)ctx->data_end)
		goto no_room;
	__builtin_memcpy(data, macs, sizeof(macs));
	*(__be16 *)(data + 12) = is_v4 ? to_be16(ETHER_IPV4) : to_be16(ETHER_IPV6);
	counts->unpacked++;
	return XDP_PASS;
no_room:
	counts->no_room++;
	return XDP_DROP;
}

SEC("xdp.frags")
int xdp_decap(struct xdp_md *ctx)
{
	__u32 cpu = bpf_get_smp_processor_id(), at = 0;
	struct decap_counts *counts = bpf_map_lookup_elem(&decap_count, &cpu);
	__u32 mac_first = *(const volatile __u32 *)config.mac;
	__u16 mac_last = *(const volatile __u16 *)(config.mac + 4);
	struct work work = {};
	__u64 unpacked;

	if (!counts)
		return XDP_ABORTED;
	counts->seen++;
	unpacked = counts->unpacked;
	work.frame_bytes = bpf_xdp_get_buff_len(ctx);
	if (read_packet(&work, ctx, mac_first, mac_last) && work.fragment == FRAGMENT_NO &&
	    is_ours(&work))
		at = find_inner(&work, ctx);
	if (at && unpack(ctx, &work, counts, at) == XDP_DROP)
		return XDP_DROP;
	if (counts->unpacked == unpacked)
		counts->passed++;
	try_leaves(ctx, config.position + 1);
	if (config.metadata == METADATA_FULL)
		drop_metadata(ctx);
	return XDP_PASS;
}

const char terms[] SEC("license") = "Apache-2.0";
