/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* What the balancer reads behind the IP header: as crates/balance/src/packet.rs and quic.rs do. */
#ifndef RINGSIDE_BALANCE_READ_H
#define RINGSIDE_BALANCE_READ_H

#include "work.h"

static __always_inline __u64 rest_of(__u8 protocol, __u16 source, __u16 destination)
{
	return protocol | (__u64)destination << 32 | (__u64)source << 48;
}

/* The flow of TCP or UDP, and whether it is a connection that begins; 0 if the header is cut. */
static __always_inline int read_flow(struct work *work, struct xdp_md *ctx)
{
	void *here;

	work->opening = OPENING_UNKNOWN;
	if (work->protocol == IP_TCP) {
		here = part(work, ctx, work->transport_at, 20);
		if (!here)
			return 0;
		work->opening = (*(__u8 *)(here + 13) & (TCP_SYN | TCP_ACK)) == TCP_SYN ?
				OPENING_NEW : OPENING_CONTINUES;
	} else {
		here = part(work, ctx, work->transport_at, 8);
		if (!here)
			return 0;
	}
	work->rest = rest_of(work->protocol, load16(here), load16(here + 2));
	return 1;
}

/* Of an error of ICMP the flow that it is about, as the client's packets have it. */
static __always_inline int read_error(struct work *work, struct xdp_md *ctx)
{
	__u32 at = work->transport_at + 8, header_bytes;
	__u64 from[2], to[2];
	__u8 protocol;
	void *here;

	if (work->version == 4) {
		here = part(work, ctx, at, 20);
		if (!here || *(__u8 *)here >> 4 != 4)
			return 0;
		header_bytes = (*(__u8 *)here & 15) * 4;
		if (header_bytes < 20 || load16(here + 6) & 0x1fff)
			return 0;
		from[0] = to[0] = 0;
		from[1] = V4_WORD | load32(here + 12);
		to[1] = V4_WORD | load32(here + 16);
		protocol = *(__u8 *)(here + 9);
		at += header_bytes;
	} else {
		here = part(work, ctx, at, 40);
		if (!here || *(__u8 *)here >> 4 != 6)
			return 0;
		from[0] = load64(here + 8);
		from[1] = load64(here + 16);
		to[0] = load64(here + 24);
		to[1] = load64(here + 32);
		protocol = *(__u8 *)(here + 6);
		at += 40;
	}
	here = part(work, ctx, at, 4);
	if (!here || (protocol != IP_TCP && protocol != IP_UDP))
		return 0;
	if (from[0] != work->destination[0] || from[1] != work->destination[1])
		return 0;
	work->source[0] = to[0];
	work->source[1] = to[1];
	work->rest = rest_of(protocol, load16(here + 2), load16(here));
	return 1;
}

/*
 * The server's id in a connection id of at most `id_bytes` bytes that begins at `at`: its rotation
 * and its number; 0 if there is none.
 */
static __always_inline int read_server_id(const struct work *work, struct xdp_md *ctx,
					  const struct balance_vip *vip, __u32 at, __u32 id_bytes,
					  __u64 *number, __u32 *rotation)
{
	__u8 *here = part(work, ctx, at, 1);
	__u32 i, bytes;

	if (!here || !id_bytes)
		return 0;
	*rotation = *here >> 5;
	bytes = vip->server_id_bytes[*rotation & 7];
	if (!bytes || bytes > 8 || bytes + 1 > id_bytes)
		return 0;
	*number = 0;
	for (i = 0; i < 8; i++) {
		if (i >= bytes)
			break;
		here = part(work, ctx, at + 1 + i, 1);
		if (!here)
			return 0;
		*number = *number << 8 | *here;
	}
	return 1;
}

#define QUIC_VERSION_1 1
#define QUIC_VERSION_2 0x6b3343cf
/* Longest connection id of these versions. */
#define QUIC_ID_BYTES_MAX 20

/*
 * What a datagram of QUIC says about its flow (crates/balance/src/quic.rs); with OPENING_CONTINUES
 * the connection id is at *at and has at most *bytes bytes.
 */
static __always_inline enum opening read_quic(const struct work *work, struct xdp_md *ctx,
					      __u32 *at, __u32 *bytes)
{
	__u32 begin = work->transport_at + 8, end = work->bytes + ETHERNET_BYTES, version, kind;
	__u8 *here = part(work, ctx, begin, 1);

	if (!here)
		return OPENING_UNKNOWN;
	if (!(*here & 0x80)) {
		*at = begin + 1;
		*bytes = end - *at;
		return OPENING_CONTINUES;
	}
	here = part(work, ctx, begin, 5);
	if (!here)
		return OPENING_UNKNOWN;
	kind = *here >> 4 & 3;
	version = load32(here + 1);
	if (!version)
		return OPENING_UNKNOWN;
	if (version == QUIC_VERSION_2)
		kind = (kind - 1) & 3;
	else if (version != QUIC_VERSION_1)
		return OPENING_NEW;
	if (kind < 2)
		return OPENING_NEW;
	here = part(work, ctx, begin + 5, 1);
	if (kind != 2 || !here || *here > QUIC_ID_BYTES_MAX || begin + 6 + *here > end)
		return OPENING_UNKNOWN;
	*at = begin + 6;
	*bytes = *here;
	return OPENING_CONTINUES;
}

#endif
