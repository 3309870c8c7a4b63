/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * A frame under decision, and its IP header, which is read as crates/balance/src/packet.rs does. A
 * header that lies beyond the frame's first piece is not read; such a frame passes.
 */
#ifndef RINGSIDE_BALANCE_FRAME_H
#define RINGSIDE_BALANCE_FRAME_H

#include "../headers.h"

/* Whether a packet is a part of one. */
enum fragment { FRAGMENT_NO, FRAGMENT_FIRST, FRAGMENT_LATER };

/* What a packet says about its flow. */
enum opening { OPENING_NEW, OPENING_CONTINUES, OPENING_UNKNOWN, OPENING_NAMED };

struct work {
	__u64 now;
	__u64 tick; /* of the kernel's clock, in which now was read */
	__u64 before_until;
	__u64 source[2];
	__u64 destination[2];
	__u64 rest; /* of the flow's key */
	__u64 hash; /* of the flow */
	__u32 generation;
	__u32 cpu;
	__u32 frame_bytes;
	__u32 bytes;        /* of the IP packet */
	__u32 transport_at; /* from the frame's start, at most 74 */
	__u32 vip;
	__u32 real;
	__u32 id;      /* of the packet that a fragment is of */
	__u32 found;   /* real of the flow found last */
	__u32 serial;  /* and that real's serial number */
	__u32 idle;    /* and how long no packet of it came */
	__u32 way;     /* and where in its set it is */
	__u32 mtu;     /* of a hop that is too small */
	__u32 interface;
	__u8 to[8];    /* hardware addresses of a hop, six bytes each */
	__u8 from[8];
	__u8 version;
	__u8 protocol;
	__u8 tos;
	__u8 fragment;
	__u8 keep_whole;
	__u8 opening;
	__u8 is_error;
	__u8 path;
};

#define ETHERNET_BYTES 14
#define V4_WORD 0xffff00000000ULL

static __always_inline __u16 load16(const void *at)
{
	return to_be16(*(__u16 *)at);
}

static __always_inline __u32 load32(const void *at)
{
	return to_be32(*(__u32 *)at);
}

static __always_inline __u64 load64(const void *at)
{
	return to_be64(*(__u64 *)at);
}

static __always_inline int read_v4(struct work *work, void *ip, void *data_end)
{
	__u32 header_bytes, flags;

	if (ip + 20 > data_end || *(__u8 *)ip >> 4 != 4)
		return 0;
	header_bytes = (*(__u8 *)ip & 15) * 4;
	work->bytes = load16(ip + 2);
	if (header_bytes < 20 || work->bytes < header_bytes)
		return 0;
	flags = load16(ip + 6);
	work->fragment = flags & 0x1fff ? FRAGMENT_LATER :
			 flags & 0x2000 ? FRAGMENT_FIRST : FRAGMENT_NO;
	work->id = load16(ip + 4);
	work->keep_whole = !!(flags & 0x4000);
	work->source[0] = work->destination[0] = 0;
	work->source[1] = V4_WORD | load32(ip + 12);
	work->destination[1] = V4_WORD | load32(ip + 16);
	work->protocol = *(__u8 *)(ip + 9);
	work->tos = *(__u8 *)(ip + 1);
	work->transport_at = ETHERNET_BYTES + header_bytes;
	work->version = 4;
	return 1;
}

static __always_inline int read_v6(struct work *work, void *ip, void *data_end)
{
	__u32 place;

	if (ip + 40 > data_end || *(__u8 *)ip >> 4 != 6)
		return 0;
	work->bytes = load16(ip + 4) + 40;
	work->fragment = FRAGMENT_NO;
	work->keep_whole = 1;
	work->source[0] = load64(ip + 8);
	work->source[1] = load64(ip + 16);
	work->destination[0] = load64(ip + 24);
	work->destination[1] = load64(ip + 32);
	work->protocol = *(__u8 *)(ip + 6);
	work->tos = load16(ip) >> 4;
	work->transport_at = ETHERNET_BYTES + 40;
	work->version = 6;
	if (work->protocol != IP_FRAGMENT)
		return 1;
	if (work->bytes < 48 || ip + 48 > data_end)
		return 0;
	place = load16(ip + 42);
	work->protocol = *(__u8 *)(ip + 40);
	work->id = load32(ip + 44);
	work->transport_at += 8;
	work->fragment = place & 0xfff8 ? FRAGMENT_LATER :
			 place & 1 ? FRAGMENT_FIRST : FRAGMENT_NO;
	return 1;
}

/* Reads the IP header of a frame for an address of these bytes; 0 if there is none that we know. */
static __always_inline int read_packet(struct work *work, struct xdp_md *ctx, __u32 mac_first,
				       __u16 mac_last)
{
	void *data = (void *)(long)ctx->data, *data_end = (void *)(long)ctx->data_end;
	int is_read = 0;

	if (data + ETHERNET_BYTES > data_end)
		return 0;
	if (*(__u32 *)data != mac_first || *(__u16 *)(data + 4) != mac_last)
		return 0;
	if (*(__be16 *)(data + 12) == to_be16(ETHER_IPV4))
		is_read = read_v4(work, data + ETHERNET_BYTES, data_end);
	else if (*(__be16 *)(data + 12) == to_be16(ETHER_IPV6))
		is_read = read_v6(work, data + ETHERNET_BYTES, data_end);
	return is_read && work->bytes + ETHERNET_BYTES <= work->frame_bytes;
}

/* `bytes` bytes that lie `at` bytes from the frame's start, if the packet has them. */
static __always_inline void *part(const struct work *work, struct xdp_md *ctx, __u32 at,
				  __u32 bytes)
{
	void *data = (void *)(long)ctx->data, *data_end = (void *)(long)ctx->data_end;

	if (at + bytes > work->bytes + ETHERNET_BYTES || at > 255)
		return 0;
	data += at & 255;
	return data + bytes > data_end ? 0 : data;
}

#endif
