/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * What a frame asks of the kernel's forwarding tables, or why it is not asked for.
 *
 * A router leaves to the host whatever it is not sure about: the host forwards it then, or answers
 * as it must. So nothing here drops a frame, and nothing is written before all is known.
 */
#ifndef RINGSIDE_ROUTE_H
#define RINGSIDE_ROUTE_H

#include "abi_route.h"
#include "headers.h"

enum route_offset {
	ETHERNET_BYTES = 14,
	TAG_BYTES = 4,
	IPV4_BYTES = 20,
	IPV6_BYTES = 40,
	/* Of the shortest frame, behind the Ethernet header: shorter packets are padded. */
	PADDED_BYTES = 46,
};

/* Of headers.h, and more that have ports at their beginning where the kernel looks for them. */
enum route_protocol {
	IP_DCCP = 33,
	IP_MOBILITY = 135,
	IP_UDP_LITE = 136,
	IP_HIP = 139,
	IP_SHIM = 140,
};

#define IPV4_MORE_OR_LATER 0x3fff
#define IPV4_LATER 0x1fff

/* Bytes before the ports (net/core/flow_dissector.c, proto_ports_offset), or -1. */
static __always_inline int ports_at(__u8 protocol)
{
	switch (protocol) {
	case IP_TCP:
	case IP_UDP:
	case IP_DCCP:
	case IP_ESP:
	case IP_SCTP:
	case IP_UDP_LITE:
		return 0;
	case IP_AUTH:
		return 4;
	default:
		return -1;
	}
}

/* The ports of a packet whose first fragment begins at `here`, as the kernel's hash takes them. */
static __always_inline void see_ports(struct bpf_fib_lookup *ask, void *here, void *data_end,
				      __u32 bytes)
{
	int at = ports_at(ask->protocol);

	if (at < 0 || bytes < (__u32)at + 4 || here + at + 4 > data_end)
		return;
	ask->source_port = *(__be16 *)(here + at);
	ask->destination_port = *(__be16 *)(here + at + 2);
}

/* A packet's length against the bytes that there are behind the Ethernet header. */
static __always_inline int fits(__u64 packet_bytes, __u64 there)
{
	return packet_bytes <= there && (packet_bytes == there || there <= PADDED_BYTES);
}

/* True if no router forwards such addresses of IPv4, in network order. */
static __always_inline int is_local_ipv4(__u32 source, __u32 destination)
{
	__u32 from = to_be32(source), to = to_be32(destination);

	return !from || from >> 24 == 127 || from >> 28 == 14 || from == 0xffffffff || !to ||
	       to >> 24 == 127 || to >> 28 == 14 || to == 0xffffffff;
}

static __always_inline int is_checksum_right(const __u16 *header)
{
	__u32 sum = 0, i;

#pragma unroll
	for (i = 0; i < IPV4_BYTES / 2; i++)
		sum += header[i];
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return sum == 0xffff;
}

/* Errors of ICMP take the path of the packet that they are about, which the helper cannot know. */
static __always_inline int is_icmp_error(__u8 type)
{
	return type == 3 || type == 4 || type == 5 || type == 11 || type == 12;
}

/* Fills in the question of IPv4; 0, or why there is none. `there`: bytes from the packet on. */
static __always_inline __u32 ask_ipv4(struct bpf_fib_lookup *ask, void *ip, void *data_end,
				      __u64 there)
{
	__u32 length, fragment;

	if (ip + IPV4_BYTES > data_end)
		return ROUTE_MALFORMED;
	length = to_be16(*(__u16 *)(ip + 2));
	if (*(__u8 *)ip != 0x45) {
		if (*(__u8 *)ip >> 4 != 4 || (*(__u8 *)ip & 15) < 5)
			return ROUTE_MALFORMED;
		return ROUTE_OPTIONS;
	}
	if (length < IPV4_BYTES || !fits(length, there) || !is_checksum_right(ip))
		return ROUTE_MALFORMED;
	ask->source[0] = *(__u32 *)(ip + 12);
	ask->destination[0] = *(__u32 *)(ip + 16);
	if (is_local_ipv4(ask->source[0], ask->destination[0]))
		return ROUTE_ADDRESSES;
	if (*(__u8 *)(ip + 8) <= 1)
		return ROUTE_HOP_LIMIT;
	ask->family = AF_INET;
	ask->protocol = *(__u8 *)(ip + 9);
	ask->length = length;
	*(__u8 *)&ask->class = *(__u8 *)(ip + 1);
	fragment = to_be16(*(__u16 *)(ip + 6));
	if (ask->protocol == IP_ICMP && !(fragment & IPV4_LATER) &&
	    ip + IPV4_BYTES + 1 <= data_end && length > IPV4_BYTES &&
	    is_icmp_error(*(__u8 *)(ip + IPV4_BYTES)))
		return ROUTE_ICMP_ERROR;
	/* All fragments of a packet take one path: of the first the ports do not count either. */
	if (!(fragment & IPV4_MORE_OR_LATER))
		see_ports(ask, ip + IPV4_BYTES, data_end, length - IPV4_BYTES);
	return 0;
}

/* True of a header that stands between IPv6 and the transport. */
static __always_inline int is_extension(__u8 next)
{
	return next == IP_HOP_BY_HOP || next == IP_ROUTING || next == IP_FRAGMENT ||
	       next == IP_DESTINATION_OPTIONS || next == IP_MOBILITY || next == IP_HIP ||
	       next == IP_SHIM;
}

/* Unspecified, loopback and mapped IPv4: the first 80 bits are 0. In network order. */
static __always_inline int is_local_ipv6(const __u32 *address)
{
	__u32 first = to_be32(address[0]), third = to_be32(address[2]);

	if (first >> 24 == 0xff || first >> 22 == 0xfe80 >> 6)
		return 1;
	if (first || address[1])
		return 0;
	return third == 0xffff || (!third && to_be32(address[3]) <= 1);
}

/* The same of IPv6. */
static __always_inline __u32 ask_ipv6(struct bpf_fib_lookup *ask, void *ip, void *data_end,
				      __u64 there)
{
	const __u32 *words = ip;
	__u32 payload, i;

	if (ip + IPV6_BYTES > data_end || *(__u8 *)ip >> 4 != 6)
		return ROUTE_MALFORMED;
	payload = to_be16(*(__u16 *)(ip + 4));
	ask->protocol = *(__u8 *)(ip + 6);
	/* Also of a jumbogram, whose length stands in such a header. */
	if (is_extension(ask->protocol))
		return ROUTE_EXTENSIONS;
	if (!fits(payload + IPV6_BYTES, there))
		return ROUTE_MALFORMED;
#pragma unroll
	for (i = 0; i < 4; i++) {
		ask->source[i] = words[2 + i];
		ask->destination[i] = words[6 + i];
	}
	if (is_local_ipv6(ask->source) || is_local_ipv6(ask->destination))
		return ROUTE_ADDRESSES;
	if (*(__u8 *)(ip + 7) <= 1)
		return ROUTE_HOP_LIMIT;
	/* An error: its type is below 128. */
	if (ask->protocol == IP_ICMPV6 && payload && ip + IPV6_BYTES + 1 <= data_end &&
	    *(__u8 *)(ip + IPV6_BYTES) < 128)
		return ROUTE_ICMP_ERROR;
	ask->family = AF_INET6;
	ask->length = payload + IPV6_BYTES;
	ask->class = words[0] & to_be32(0x0fffffff);
	see_ports(ask, ip + IPV6_BYTES, data_end, payload);
	return 0;
}

/* What the kernel's answer means. */
static __always_inline __u32 cause_of(long answer)
{
	switch (answer) {
	case BPF_FIB_SUCCESS:
		return ROUTE_FORWARDED;
	case BPF_FIB_BLACKHOLE:
		return ROUTE_BLACKHOLE;
	case BPF_FIB_UNREACHABLE:
		return ROUTE_UNREACHABLE;
	case BPF_FIB_PROHIBIT:
		return ROUTE_PROHIBITED;
	case BPF_FIB_NOT_FORWARDED:
		return ROUTE_HOST;
	case BPF_FIB_OFF:
		return ROUTE_OFF;
	case BPF_FIB_TUNNEL:
		return ROUTE_ENCAPSULATED;
	case BPF_FIB_NO_NEIGHBOUR:
		return ROUTE_NO_NEIGHBOUR;
	case BPF_FIB_TOO_LONG:
		return ROUTE_TOO_LONG;
	default:
		return ROUTE_UNKNOWN;
	}
}

/* The place of a next hop in the table of those in use (crates/ebpf/src/route/abi.rs). */
static __always_inline __u32 hop_place(const struct bpf_fib_lookup *answer)
{
	__u64 hash = mix(answer->ifindex, answer->destination[0]);

	if (answer->family == AF_INET6) {
		hash = mix(hash, answer->destination[1]);
		hash = mix(hash, answer->destination[2] | (__u64)answer->destination[3] << 32);
	}
	return hash >> 20 & (ROUTE_HOPS - 1);
}

#endif
