/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a walk: IP, its extension headers, and the transport header. */
#ifndef RINGSIDE_WALK_IP_H
#define RINGSIDE_WALK_IP_H

#include "walk.h"

/* A network header that was found: what it protects is found no more than once. */
static __always_inline long found(struct walk *walk, __u32 version, __u32 start, __u8 protocol)
{
	walk->version = version;
	walk->network_at = start;
	return go_on(walk, STEP_PROTOCOL, protocol);
}

static __always_inline __u64 word_at(const struct walk *walk, __u32 more)
{
	const __u8 *from = walk->bytes + (walk->at & (COPY_BYTES - 1)) + more;
	__u64 word = 0;

	__builtin_memcpy(&word, from, 8);
	return word;
}

static __always_inline long walk_ipv4(struct walk *walk)
{
	__u32 start = walk->at, bytes, total, part;
	__u8 protocol;

	if (!has(walk, 20) || byte_at(walk, 0) >> 4 != 4)
		return 1;
	bytes = (byte_at(walk, 0) & 15) * 4;
	total = be16_at(walk, 2);
	if (bytes < 20 || !has(walk, bytes) || (total && total < bytes))
		return 1;
	part = be16_at(walk, 6) & 0x1fff;
	protocol = byte_at(walk, 9);
	if (walk->layers < LAYERS_MAX) {
		walk->address[0] = word_at(walk, 12);
		walk->address[1] = walk->address[2] = walk->address[3] = 0;
	}
	if (!push(walk, bytes))
		return 1;
	if (total)
		limit(walk, total - bytes);
	found(walk, 4, start, protocol);
	return part ? 1 : 0;
}

static __always_inline long walk_ipv6(struct walk *walk)
{
	__u32 start = walk->at, length;
	__u8 next;

	if (!has(walk, 40) || byte_at(walk, 0) >> 4 != 6)
		return 1;
	length = be16_at(walk, 4);
	next = byte_at(walk, 6);
	if (walk->layers < LAYERS_MAX) {
		walk->address[0] = word_at(walk, 8);
		walk->address[1] = word_at(walk, 16);
		walk->address[2] = word_at(walk, 24);
		walk->address[3] = word_at(walk, 32);
	}
	if (!push(walk, 40))
		return 1;
	if (length)
		limit(walk, length);
	return found(walk, 6, start, next);
}

static __always_inline long walk_version(struct walk *walk)
{
	if (!has(walk, 1))
		return 1;
	switch (byte_at(walk, 0) >> 4) {
	case 4:
		return walk_ipv4(walk);
	case 6:
		return walk_ipv6(walk);
	}
	return 1;
}

/* The transport header is there: `bytes` long. */
static __always_inline long transport(struct walk *walk, __u32 bytes, __u32 has_ports)
{
	__u32 start = walk->at;
	__u32 ports = word_at(walk, 0);

	if (!push(walk, bytes))
		return 0;
	walk->transport_at = start;
	walk->payload_at = walk->at;
	if (has_ports) {
		walk->ports = ports;
		walk->has_ports = 1;
	}
	return 1;
}

static __always_inline void walk_tcp(struct walk *walk)
{
	__u32 bytes;
	__u16 flags;

	if (!has(walk, 20))
		return;
	bytes = (byte_at(walk, 12) >> 4) * 4;
	flags = be16_at(walk, 12) & 0xfff;
	if (bytes >= 20 && has(walk, bytes) && transport(walk, bytes, 1))
		walk->tcp_flags = flags;
}

static __always_inline void walk_udp(struct walk *walk)
{
	__u32 length;

	if (!has(walk, 8))
		return;
	length = be16_at(walk, 4);
	if (!length || length >= 8)
		transport(walk, 8, 1);
}

/* A header with a length in units, whose first byte names the next. */
static __always_inline long walk_extension(struct walk *walk, __u32 unit, __u32 more)
{
	__u32 bytes;
	__u8 next;

	if (!has(walk, 2))
		return 1;
	bytes = unit * (byte_at(walk, 1) + more);
	next = byte_at(walk, 0);
	if (!has(walk, bytes) || !push(walk, bytes))
		return 1;
	return go_on(walk, STEP_PROTOCOL, next);
}

static __always_inline long walk_fragment(struct walk *walk)
{
	__u32 part;
	__u8 next;

	if (!has(walk, 8))
		return 1;
	part = be16_at(walk, 2) & 0xfff8;
	next = byte_at(walk, 0);
	if (!push(walk, 8))
		return 1;
	go_on(walk, STEP_PROTOCOL, next);
	return part ? 1 : 0;
}

/* What follows IP or one of its extension headers. */
static __always_inline long walk_protocol(struct walk *walk)
{
	__u32 fixed = 0;

	switch (walk->type) {
	case IP_TCP:
		walk_tcp(walk);
		return 1;
	case IP_UDP:
		walk_udp(walk);
		return 1;
	case IP_SCTP:
		if (has(walk, 12))
			transport(walk, 12, 1);
		return 1;
	case IP_ICMP:
	case IP_IGMP:
		fixed = 8;
		break;
	case IP_ICMPV6:
		fixed = 4;
		break;
	case IP_AUTH:
		return walk_extension(walk, 4, 2);
	}
	if (fixed) {
		if (has(walk, fixed))
			transport(walk, fixed, 0);
		return 1;
	}
	if (walk->version != 6)
		return 1;
	switch (walk->type) {
	case IP_HOP_BY_HOP:
	case IP_ROUTING:
	case IP_DESTINATION_OPTIONS:
		return walk_extension(walk, 8, 1);
	case IP_FRAGMENT:
		return walk_fragment(walk);
	}
	return 1;
}

/* One step; 1 at the end. */
static long take_step(__u32 index, void *unused)
{
	struct walk *walk = this_walk();

	if (!walk)
		return 1;
	switch (walk->step) {
	case STEP_TYPE_OR_LENGTH:
		if (walk->type <= ETHER_LENGTH_MAX) {
			limit(walk, walk->type);
			return go_on(walk, STEP_LLC, 0);
		}
		return walk_type(walk);
	case STEP_TYPE:
		return walk_type(walk);
	case STEP_ETHERNET:
		return walk_ethernet(walk);
	case STEP_LLC:
		return walk_llc(walk);
	case STEP_PPP:
		return walk_ppp(walk);
	case STEP_MPLS:
		return walk_mpls(walk);
	case STEP_VERSION:
		return walk_version(walk);
	case STEP_IPV4:
		return walk_ipv4(walk);
	case STEP_IPV6:
		return walk_ipv6(walk);
	case STEP_PROTOCOL:
		return walk_protocol(walk);
	}
	return 1;
}

/* Copies the frame's beginning; the tag that a driver took out goes back behind the addresses. */
static __always_inline int copy_frame(struct xdp_md *ctx, struct walk *walk, __u32 has_metadata)
{
	const struct xdp_metadata *metadata = has_metadata ? metadata_of(ctx) : 0;
	__u64 frame_bytes = bpf_xdp_get_buff_len(ctx);
	__u64 bytes = frame_bytes, skip = 0;
	__u8 *to = walk->bytes;

	walk->end = frame_bytes;
	if (metadata && frame_bytes >= 12) {
		if (bpf_xdp_load_bytes(ctx, 0, to, 12))
			return 0;
		to[12] = metadata->vlan_tpid >> 8;
		to[13] = metadata->vlan_tpid;
		to[14] = metadata->vlan_tci >> 8;
		to[15] = metadata->vlan_tci;
		to += 16;
		skip = 12;
		bytes -= 12;
		walk->end += 4;
	}
	walk->end_of_frame = walk->end;
	if (bytes > COPY_BYTES - 16)
		bytes = COPY_BYTES - 16;
	asm volatile("" : "+r"(bytes));
	if (bytes < 1 || bytes > COPY_BYTES - 16)
		return skip != 0;
	if (bpf_xdp_load_bytes(ctx, skip, to, bytes))
		return 0;
	walk->copied = bytes + (skip ? 16 : 0);
	return 1;
}

/*
 * Walks over a frame. False if it cannot be read here: its headers go beyond the copy. What was
 * found stays in this CPU's walk.
 */
__alone int see_walked(struct xdp_md *ctx, __u32 has_metadata)
{
	struct judgement *judged = this_judgement();
	struct walk *walk = this_walk();
	struct packet_fields *fields;
	__u32 protocol;

	if (!walk || !judged)
		return 0;
	fields = &judged->fields;
	walk->copied = walk->at = walk->layers = walk->ethernets = walk->is_beyond = 0;
	walk->step = STEP_ETHERNET;
	walk->mac_at = walk->network_at = walk->transport_at = walk->payload_at = NOWHERE;
	walk->mpls_at = NOWHERE;
	walk->mpls_count = walk->vlan_count = walk->type_count = 0;
	walk->ports = walk->has_ports = walk->version = 0;
	walk->tcp_flags = NO_TCP;
	if (!copy_frame(ctx, walk, has_metadata))
		return 0;
	bpf_loop(STEPS_MAX, take_step, 0, 0);
	fields->is_walked = 1;
	fields->tcp_flags = walk->tcp_flags;
	if (!walk->version) {
		fields->address[0] = fields->address[1] = 0;
		fields->address[2] = fields->address[3] = 0;
		fields->rest = NO_PORTS;
		return !walk->is_beyond;
	}
	fields->address[0] = walk->address[0];
	fields->address[1] = walk->address[1];
	fields->address[2] = walk->address[2];
	fields->address[3] = walk->address[3];
	protocol = walk->type;
	fields->rest = rest_of(walk->has_ports ? walk->ports : NO_PORTS, protocol, walk->version);
	return !walk->is_beyond;
}

#endif
