/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Plain frames, which nearly all are: their headers are read in place. What is found are the
 * answers of `Key::of` (crates/rules/src/key.rs); a test compares.
 */
#ifndef RINGSIDE_PLAIN_H
#define RINGSIDE_PLAIN_H

#include "abi.h"
#include "headers.h"

/* TCP flags of a frame without a TCP header: flags have 12 bits. */
#define NO_TCP 0x8000

/*
 * The fields of a frame that rules ask about: the words of a key (crates/rules/src/key.rs), and the
 * fields that many rules ask about.
 * IPv4: address[0] is the source, and in the upper half the destination, raw; IPv6: two words each.
 * rest: ports, protocol, version, NO_PORTS. A frame without IP has only the last of these.
 */
struct packet_fields {
	__u64 address[4];
	__u64 rest;
	__u32 wire_bytes;
	__u16 tcp_flags;
	__u16 is_walked; /* this CPU's walk is of this frame */
};

#define NO_PORTS (1ULL << 48)

static __always_inline __u64 rest_of(__u64 ports, __u8 protocol, __u8 version)
{
	return ports | (__u64)protocol << 32 | (__u64)version << 40;
}

static __always_inline __u8 version_of(const struct packet_fields *fields)
{
	return fields->rest >> 40;
}

/* True if the protocol is no transport with ports, and no header that leads on to one. */
static __always_inline int is_portless(__u8 protocol, __u8 version)
{
	if (protocol == IP_SCTP || protocol == IP_AUTH)
		return 0;
	return version == 4 || (protocol != IP_HOP_BY_HOP && protocol != IP_ROUTING &&
				protocol != IP_FRAGMENT && protocol != IP_DESTINATION_OPTIONS);
}

/* The transport header of a plain frame: the frame's bytes end at data_end, the packet at end. */
static __always_inline int plain_transport(struct packet_fields *fields, void *here, void *data_end,
					   void *end, __u8 protocol, __u8 version)
{
	__u32 bytes;

	fields->tcp_flags = NO_TCP;
	fields->rest = rest_of(NO_PORTS, protocol, version);
	if (protocol == IP_TCP) {
		if (here + 20 > data_end)
			return 0;
		bytes = (*(__u8 *)(here + 12) >> 4) * 4;
		if (bytes < 20 || here + bytes > end)
			return 0;
		fields->tcp_flags = to_be16(*(__u16 *)(here + 12)) & 0xfff;
	} else if (protocol == IP_UDP) {
		if (here + 8 > data_end || here + 8 > end)
			return 0;
		bytes = to_be16(*(__u16 *)(here + 4));
		if (bytes && bytes < 8)
			return 0;
	} else {
		return is_portless(protocol, version);
	}
	fields->rest = rest_of(*(__u32 *)here, protocol, version);
	return 1;
}

static __always_inline int plain_ipv4(struct packet_fields *fields, void *ip, void *data_end)
{
	__u32 header_bytes, total_bytes;
	void *end = data_end;
	__u8 protocol;

	if (ip + 20 > data_end || *(__u8 *)ip >> 4 != 4)
		return 0;
	header_bytes = (*(__u8 *)ip & 15) * 4;
	total_bytes = to_be16(*(__u16 *)(ip + 2));
	if (header_bytes < 20 || ip + header_bytes > data_end)
		return 0;
	if (total_bytes) {
		if (total_bytes < header_bytes)
			return 0;
		if (ip + total_bytes < data_end)
			end = ip + total_bytes;
	}
	protocol = *(__u8 *)(ip + 9);
	fields->address[0] = *(__u32 *)(ip + 12) | (__u64) * (__u32 *)(ip + 16) << 32;
	fields->address[1] = fields->address[2] = fields->address[3] = 0;
	if (*(__u16 *)(ip + 6) & to_be16(0x1fff)) {
		/* A later fragment. */
		fields->tcp_flags = NO_TCP;
		fields->rest = rest_of(NO_PORTS, protocol, 4);
		return 1;
	}
	return plain_transport(fields, ip + header_bytes, data_end, end, protocol, 4);
}

static __always_inline int plain_ipv6(struct packet_fields *fields, void *ip, void *data_end)
{
	__u32 payload_bytes;
	void *end = data_end;
	__u64 *address = ip + 8;
	__u8 protocol;

	if (ip + 40 > data_end || *(__u8 *)ip >> 4 != 6)
		return 0;
	payload_bytes = to_be16(*(__u16 *)(ip + 4));
	if (payload_bytes && ip + 40 + payload_bytes < data_end)
		end = ip + 40 + payload_bytes;
	protocol = *(__u8 *)(ip + 6);
	fields->address[0] = address[0];
	fields->address[1] = address[1];
	fields->address[2] = address[2];
	fields->address[3] = address[3];
	return plain_transport(fields, ip + 40, data_end, end, protocol, 6);
}

/*
 * Reads a frame of IPv4 or IPv6 behind at most two tags, with TCP or UDP right behind it, or
 * without ports. False for all others, and for all that is broken or does not lie in one piece.
 */
static __always_inline int see_plain(struct xdp_md *ctx, struct packet_fields *fields)
{
	void *data = (void *)(long)ctx->data, *data_end = (void *)(long)ctx->data_end;
	void *here = data + 14;
	__u16 type;

	if (data + 34 > data_end)
		return 0;
	/* The addresses of ISL (crates/wire/src/isl.rs). */
	if (unlikely((to_be32(*(__u32 *)data) & 0x00ffffff) == 0x000c00))
		return 0;
	type = to_be16(*(__u16 *)(data + 12));
	if (is_tag(type)) {
		type = to_be16(*(__u16 *)(data + 16));
		here = data + 18;
		if (is_tag(type)) {
			type = to_be16(*(__u16 *)(data + 20));
			here = data + 22;
		}
	}
	if (type == ETHER_IPV4)
		return plain_ipv4(fields, here, data_end);
	if (type == ETHER_IPV6)
		return plain_ipv6(fields, here, data_end);
	return 0;
}

#endif
