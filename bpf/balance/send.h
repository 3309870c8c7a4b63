/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Frames that leave: packets within others on their way to a real, and answers to clients; as
 * crates/balance/src/write.rs writes them. Nothing of a frame is changed before it is certain where
 * it goes.
 */
#ifndef RINGSIDE_BALANCE_SEND_H
#define RINGSIDE_BALANCE_SEND_H

#include "choose.h"
#include "way.h"

/* Of the packet that was too big. */
#define QUOTE_BYTES 512
#define TTL 64
/* Dynamic ports; the bits behind follow the flow. */
#define GUE_SOURCE_PORT 0xc000

#define V4_BYTES 20
#define V6_BYTES 40
#define UDP_BYTES 8
#define ICMP_BYTES 8

/* Bits that follow the flow. */
static __always_inline __u32 spread(const struct work *work)
{
	return work->hash >> 32;
}

static __always_inline __u32 overhead_of(__u32 path)
{
	switch (path) {
	case PATH_IPIP4:
		return V4_BYTES;
	case PATH_IPIP6:
		return V6_BYTES;
	case PATH_GUE4:
		return V4_BYTES + UDP_BYTES;
	case PATH_GUE6:
		return V6_BYTES + UDP_BYTES;
	}
	return 0;
}

static __always_inline __u16 folded(__u64 sum)
{
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return sum;
}

/* The sum of words as they lie; its byte order is that of memory (RFC 1071, section 2.B). */
static __always_inline __u64 sum_of(const __u16 *words, __u32 count)
{
	__u64 sum = 0;
	__u32 i;

#pragma unroll
	for (i = 0; i < count; i++)
		sum += words[i];
	return sum;
}

/* A checksum after a word of what it covers changed (RFC 1624, equation 3). */
static __always_inline void update(__u16 *sum, __u16 old, __u16 new)
{
	*sum = ~folded((__u16)~*sum + (__u64)(__u16)~old + new);
}

static __always_inline void write_macs(__u8 *data, const __u8 *to, const __u8 *from)
{
	__builtin_memcpy(data, to, 6);
	__builtin_memcpy(data + 6, from, 6);
}

static __always_inline void write_v4(__u8 *ip, __u8 tos, __u8 protocol, __u32 bytes,
				     int keep_whole, __u32 from, __u32 to)
{
	__u16 *words = (void *)ip;

	ip[0] = 0x45;
	ip[1] = tos;
	words[1] = to_be16((__u16)bytes);
	words[2] = 0;
	words[3] = keep_whole ? to_be16(0x4000) : 0;
	ip[8] = TTL;
	ip[9] = protocol;
	words[5] = 0;
	words[6] = to_be16((__u16)(from >> 16));
	words[7] = to_be16((__u16)from);
	words[8] = to_be16((__u16)(to >> 16));
	words[9] = to_be16((__u16)to);
	words[5] = ~folded(sum_of(words, V4_BYTES / 2));
}

/* Addresses are given as numbers. */
static __always_inline void write_v6(__u8 *ip, __u32 first, __u8 next_header, __u32 payload_bytes,
				     const __u64 *from, const __u64 *to)
{
	__u32 *words = (void *)ip;

	words[0] = to_be32(first);
	*(__u16 *)(ip + 4) = to_be16((__u16)payload_bytes);
	ip[6] = next_header;
	ip[7] = TTL;
	words[2] = to_be32((__u32)(from[0] >> 32));
	words[3] = to_be32((__u32)from[0]);
	words[4] = to_be32((__u32)(from[1] >> 32));
	words[5] = to_be32((__u32)from[1]);
	words[6] = to_be32((__u32)(to[0] >> 32));
	words[7] = to_be32((__u32)to[0]);
	words[8] = to_be32((__u32)(to[1] >> 32));
	words[9] = to_be32((__u32)to[1]);
}

/* No checksum: tunnels may leave it out (RFC 6935). */
static __always_inline void write_gue(const struct work *work, __u8 *udp,
				      const struct balance_settings *settings)
{
	__u16 *words = (void *)udp;

	words[0] = to_be16((__u16)(GUE_SOURCE_PORT | (spread(work) & 0x3fff)));
	words[1] = to_be16((__u16)settings->gue_port);
	words[2] = to_be16((__u16)(work->bytes + UDP_BYTES));
	words[3] = 0;
}

/* Puts a packet into another; `is_gue` and `is_v6` are constants. */
static __always_inline int encapsulate(struct xdp_md *ctx, const struct work *work,
				       const struct balance_real *real, int is_v6, int is_gue)
{
	const __u32 udp_bytes = is_gue ? UDP_BYTES : 0;
	const __u32 ip_bytes = is_v6 ? V6_BYTES : V4_BYTES;
	const __u32 overhead = ip_bytes + udp_bytes;
	struct balance_settings *settings = settings_of(work);
	__u8 protocol = is_gue ? IP_UDP : work->version == 4 ? IP_IN_IPV4 : IP_IN_IPV6;
	__u8 *data;
	__u64 from[2];

	if (!settings || bpf_xdp_adjust_head(ctx, -(int)overhead))
		return 0;
	data = (void *)(long)ctx->data;
	if ((void *)(data + ETHERNET_BYTES + V6_BYTES + UDP_BYTES) > (void *)(long)ctx->data_end)
		return 0;
	write_macs(data, work->to, work->from);
	*(__be16 *)(data + 12) = is_v6 ? to_be16(ETHER_IPV6) : to_be16(ETHER_IPV4);
	if (is_v6) {
		from[0] = settings->source_v6[0];
		from[1] = settings->source_v6[1] | (spread(work) & settings->source_v6_mask);
		write_v6(data + ETHERNET_BYTES,
			 6u << 28 | (__u32)work->tos << 20 | (spread(work) & 0xfffff), protocol,
			 work->bytes + udp_bytes, from, real->address);
	} else {
		write_v4(data + ETHERNET_BYTES, work->tos, protocol, work->bytes + overhead, 1,
			 settings->source_v4 | (spread(work) & settings->source_v4_mask),
			 real->address[1]);
	}
	if (is_gue)
		write_gue(work, data + ETHERNET_BYTES + ip_bytes, settings);
	return 1;
}

/* Writes the frame for a real whose next hop is known; 0 if there is no room. */
static __always_inline int write_to_real(struct xdp_md *ctx, const struct work *work,
					 const struct balance_real *real)
{
	__u8 *data;

	switch (work->path) {
	case PATH_IPIP4:
		return encapsulate(ctx, work, real, 0, 0);
	case PATH_IPIP6:
		return encapsulate(ctx, work, real, 1, 0);
	case PATH_GUE4:
		return encapsulate(ctx, work, real, 0, 1);
	case PATH_GUE6:
		return encapsulate(ctx, work, real, 1, 1);
	}
	data = (void *)(long)ctx->data;
	if ((void *)(data + ETHERNET_BYTES) > (void *)(long)ctx->data_end)
		return 0;
	write_macs(data, work->to, work->from);
	return 1;
}

/* What a look for the next hop comes to. */
enum hop { HOP_FOUND, HOP_TOO_BIG, HOP_NO_NEIGHBOUR, HOP_NO_ROUTE };

/* Asks the host's routes, for a packet of this length. */
__alone int ask_route(struct xdp_md *ctx, __u32 bytes)
{
	struct work *work = this_work();
	struct bpf_fib_lookup params = {};
	struct balance_settings *settings;
	struct balance_real *real;
	long result;

	if (!work || !ctx)
		return HOP_NO_ROUTE;
	settings = settings_of(work);
	real = real_at(work->generation, work->real);
	if (!settings || !real)
		return HOP_NO_ROUTE;
	params.ifindex = ctx->ingress_ifindex;
	params.length = bytes;
	if (work->path == PATH_GUE4 || work->path == PATH_GUE6) {
		params.protocol = IP_UDP;
		params.source_port = to_be16((__u16)(GUE_SOURCE_PORT | (spread(work) & 0x3fff)));
		params.destination_port = to_be16((__u16)settings->gue_port);
	} else {
		params.protocol = work->version == 4 ? IP_IN_IPV4 : IP_IN_IPV6;
	}
	put_ends(&params, real->address, settings->source_v4, settings->source_v6);
	result = bpf_fib_lookup(ctx, &params, sizeof(params), 0);
	if (result == BPF_FIB_TOO_LONG) {
		work->mtu = params.length;
		return HOP_TOO_BIG;
	}
	if (result == BPF_FIB_NO_NEIGHBOUR)
		return HOP_NO_NEIGHBOUR;
	if (result)
		return HOP_NO_ROUTE;
	work->interface = params.ifindex;
	__builtin_memcpy(work->to, params.destination_mac, 6);
	__builtin_memcpy(work->from, params.source_mac, 6);
	return HOP_FOUND;
}

/* Whether an answer would reach one host (RFC 1122, 3.2.2; RFC 4443, 2.4). */
static __always_inline int has_one_sender(const struct work *work)
{
	__u32 first = (__u32)work->source[1] >> 24;

	if (work->version == 4)
		return first > 0 && first < 224 && first != 127;
	return (work->source[0] || work->source[1]) && work->source[0] >> 56 != 0xff;
}

/* Makes the error of the frame, in front of the bytes that it quotes; `is_v6` is a constant. */
static __always_inline int write_too_big(struct xdp_md *ctx, const struct work *work,
					 __u32 bytes_max, int is_v6)
{
	const __u32 ip_bytes = is_v6 ? V6_BYTES : V4_BYTES;
	const __u32 header_bytes = ETHERNET_BYTES + ip_bytes + ICMP_BYTES;
	__u8 *data = (void *)(long)ctx->data, to[6], from[6], *icmp;
	__u64 sum;

	if ((void *)(data + ETHERNET_BYTES + QUOTE_BYTES) > (void *)(long)ctx->data_end)
		return 0;
	__builtin_memcpy(from, data, 6);
	__builtin_memcpy(to, data + 6, 6);
	if (bpf_xdp_adjust_head(ctx, -(int)(ip_bytes + ICMP_BYTES)))
		return 0;
	data = (void *)(long)ctx->data;
	if ((void *)(data + header_bytes + QUOTE_BYTES) > (void *)(long)ctx->data_end)
		return 0;
	write_macs(data, to, from);
	*(__be16 *)(data + 12) = is_v6 ? to_be16(ETHER_IPV6) : to_be16(ETHER_IPV4);
	icmp = data + ETHERNET_BYTES + ip_bytes;
	*(__u64 *)icmp = 0;
	if (is_v6) {
		write_v6(data + ETHERNET_BYTES, 6u << 28, IP_ICMPV6, ICMP_BYTES + QUOTE_BYTES,
			 work->destination, work->source);
		icmp[0] = 2;
		*(__u32 *)(icmp + 4) = to_be32(bytes_max);
		/* The pseudo header. */
		sum = sum_of((void *)(data + ETHERNET_BYTES + 8), 16) +
		      to_be16(ICMP_BYTES + QUOTE_BYTES) + to_be16(IP_ICMPV6);
	} else {
		write_v4(data + ETHERNET_BYTES, 0, IP_ICMP, V4_BYTES + ICMP_BYTES + QUOTE_BYTES, 0,
			 work->destination[1], work->source[1]);
		icmp[0] = 3;
		icmp[1] = 4;
		*(__u16 *)(icmp + 6) = to_be16((__u16)bytes_max);
		sum = 0;
	}
	sum += sum_of((void *)icmp, ICMP_BYTES / 2);
	sum += (__u32)bpf_csum_diff(0, 0, icmp + ICMP_BYTES, QUOTE_BYTES, 0);
	*(__u16 *)(icmp + 2) = ~folded(sum);
	return !bpf_xdp_adjust_tail(ctx, (int)(ETHERNET_BYTES + QUOTE_BYTES) -
					 (int)work->frame_bytes);
}

/* Answers a packet that was too big for the way to the real, or drops it. */
__alone int answer_too_big(struct xdp_md *ctx)
{
	struct work *work = this_work();
	__u32 bytes_max, least, overhead;

	if (!work || !ctx)
		return XDP_DROP;
	overhead = overhead_of(work->path);
	bytes_max = work->mtu > overhead ? work->mtu - overhead : 0;
	least = work->version == 4 ? 68 : 1280;
	if (!work->keep_whole || work->is_error || bytes_max < least || !has_one_sender(work) ||
	    work->bytes < QUOTE_BYTES)
		return drop(work, COUNT_TOO_BIG);
	if (work->version == 4 ? !write_too_big(ctx, work, bytes_max, 0) :
				 !write_too_big(ctx, work, bytes_max, 1))
		return drop(work, COUNT_NO_ROOM);
	count(work, COUNT_ANSWERED);
	return XDP_TX;
}

/* Sends a packet to the real that was chosen. */
static __always_inline int send(struct xdp_md *ctx, struct work *work,
				const struct balance_settings *settings,
				const struct balance_real *real)
{
	__u32 bytes = work->bytes + overhead_of(real->path), key;
	struct balance_real_counts *counts;
	int hop = HOP_FOUND;

	work->path = real->path;
	if (unlikely(bytes > settings->mtu)) {
		work->mtu = settings->mtu;
		return answer_too_big(ctx);
	}
	if (real->has_next_hop) {
		__builtin_memcpy(work->to, real->next_hop, 6);
		own_mac(work->from);
		work->interface = ctx->ingress_ifindex;
	} else {
		hop = ask_route(ctx, bytes);
	}
	if (hop == HOP_TOO_BIG)
		return answer_too_big(ctx);
	if (hop != HOP_FOUND)
		return drop(work, hop == HOP_NO_NEIGHBOUR ? COUNT_NO_NEIGHBOUR : COUNT_NO_ROUTE);
	if (!write_to_real(ctx, work, real))
		return drop(work, COUNT_NO_ROOM);
	count(work, COUNT_FORWARDED);
	key = work->cpu * config.reals + work->real;
	counts = bpf_map_lookup_elem(&balance_real_count, &key);
	if (counts) {
		counts->frames++;
		counts->bytes += work->frame_bytes;
	}
	return work->interface == ctx->ingress_ifindex ? XDP_TX : bpf_redirect(work->interface, 0);
}

/* The same, of a frame of which nothing is in hand. */
__alone int send_to_real(struct xdp_md *ctx)
{
	struct work *work = this_work();
	struct balance_settings *settings;
	struct balance_real *real;

	if (!work || !ctx)
		return XDP_DROP;
	settings = settings_of(work);
	real = real_at(work->generation, work->real);
	return settings && real ? send(ctx, work, settings, real) : XDP_DROP;
}

/* Turns an echo request round, whose IP header has no options; 0 if it lies in several pieces. */
static __always_inline int write_echo_reply(struct xdp_md *ctx, const struct work *work)
{
	__u8 *data = (void *)(long)ctx->data, mac[6], *ip = data + ETHERNET_BYTES, *icmp;
	void *data_end = (void *)(long)ctx->data_end;
	__u32 *words = (void *)ip, word, i;
	__u16 old;

	if (work->version == 4) {
		icmp = ip + V4_BYTES;
		if ((void *)(icmp + ICMP_BYTES) > data_end)
			return 0;
		word = words[3];
		words[3] = words[4];
		words[4] = word;
		old = *(__u16 *)(ip + 8);
		ip[8] = TTL;
		update((__u16 *)(ip + 10), old, *(__u16 *)(ip + 8));
	} else {
		icmp = ip + V6_BYTES;
		if ((void *)(icmp + ICMP_BYTES) > data_end)
			return 0;
#pragma unroll
		for (i = 2; i < 6; i++) {
			word = words[i];
			words[i] = words[i + 4];
			words[i + 4] = word;
		}
		ip[7] = TTL;
	}
	old = *(__u16 *)icmp;
	icmp[0] = work->version == 4 ? 0 : 129;
	update((__u16 *)(icmp + 2), old, *(__u16 *)icmp);
	__builtin_memcpy(mac, data, 6);
	__builtin_memcpy(data, data + 6, 6);
	__builtin_memcpy(data + 6, mac, 6);
	return 1;
}

#endif
