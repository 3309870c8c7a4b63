/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A frame walked header by header, down to the transport header behind its first IP header: the
 * walk of crates/wire/src/dissect.rs, step for step. It goes over a copy of the frame's beginning
 * in memory of this CPU, with the VLAN tag that a driver took out back in its place: so it also
 * reads frames that lie in pieces, and the verifier need not follow where it is.
 */
#ifndef RINGSIDE_WALK_H
#define RINGSIDE_WALK_H

#include "parse.h"

/* Bytes of a frame that are looked at: twenty headers of common length several times over. */
#define COPY_BYTES 1024
/* Behind any place within the copy this number of bytes may be read. */
#define COPY_PAD 64

/* Headers of a frame, and labels of an MPLS stack, that are followed (layers.rs, mpls.rs). */
#define LAYERS_MAX 20
#define LABELS_MAX 16
/* Each header takes at most three steps. */
#define STEPS_MAX (3 * LAYERS_MAX + 4)

enum step {
	STEP_ETHERNET,
	STEP_TYPE,
	STEP_TYPE_OR_LENGTH,
	STEP_LLC,
	STEP_PPP,
	STEP_MPLS,
	STEP_VERSION,
	STEP_IPV4,
	STEP_IPV6,
	STEP_PROTOCOL,
};

/* The walk, and what it found. On one CPU no XDP program runs in the middle of another. */
struct walk {
	__u8 bytes[COPY_BYTES + COPY_PAD];
	__u32 copied; /* bytes of the frame that are here */
	__u32 at;     /* where the next header begins */
	__u32 end;    /* where the frame ends, or a header says that it does */
	__u32 end_of_frame;
	__u32 step;
	__u32 type; /* of what comes: Ethernet type, or IP protocol */
	__u32 layers;
	__u32 ethernets;
	__u32 is_beyond; /* it would go on behind the copy */
	__u32 mac_at;    /* offsets, or NOWHERE */
	__u32 network_at;
	__u32 transport_at;
	__u32 payload_at;
	__u32 mpls_at;
	__u32 mpls_count;
	__u32 vlan_count;
	__u32 type_count;
	__u16 vlans[32]; /* identifiers of tags; LAYERS_MAX at most */
	__u16 types[32];
	__u64 address[4];
	__u32 ports; /* raw */
	__u32 has_ports;
	__u32 version;
	__u32 tcp_flags;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__uint(key_size, 4);
	__uint(value_size, sizeof(struct walk));
} walks SEC(".maps");

static __always_inline struct walk *this_walk(void)
{
	__u32 key = 0;

	return bpf_map_lookup_elem(&walks, &key);
}

/* A byte so far behind the place of the walk; `more` is a constant below COPY_PAD. */
static __always_inline __u8 byte_at(const struct walk *walk, __u32 more)
{
	return walk->bytes[(walk->at & (COPY_BYTES - 1)) + more];
}

static __always_inline __u16 be16_at(const struct walk *walk, __u32 more)
{
	return byte_at(walk, more) << 8 | byte_at(walk, more + 1);
}

/* True if this number of bytes follows. */
static __always_inline int has(struct walk *walk, __u32 bytes)
{
	__u32 behind = walk->at + bytes;

	if (behind > walk->end)
		return 0;
	if (behind > walk->copied) {
		walk->is_beyond = 1;
		return 0;
	}
	return 1;
}

/* Goes behind a header whose bytes are there; false at the limit. */
static __always_inline int push(struct walk *walk, __u32 bytes)
{
	if (walk->layers >= LAYERS_MAX)
		return 0;
	walk->layers++;
	walk->at += bytes;
	return 1;
}

/* A header says that this number of bytes follows. */
static __always_inline void limit(struct walk *walk, __u32 bytes)
{
	if (walk->at + bytes < walk->end)
		walk->end = walk->at + bytes;
}

/* Goes on with what a type field names. */
static __always_inline long go_on(struct walk *walk, __u32 step, __u32 type)
{
	walk->step = step;
	walk->type = type;
	return 0;
}

/* A type field of the outer link layer, which ends before a second Ethernet header. */
static __always_inline void note_type(struct walk *walk, __u16 type)
{
	if (type > ETHER_LENGTH_MAX && walk->ethernets <= 1) {
		walk->types[walk->type_count & 31] = type;
		walk->type_count++;
	}
}

static __always_inline long walk_ethernet(struct walk *walk)
{
	__u32 start = walk->at;
	__u8 first = byte_at(walk, 0);
	__u16 type;

	if (has(walk, 5) && (first == 1 || first == 3 || first == 12) && !byte_at(walk, 1) &&
	    byte_at(walk, 2) == 12 && !byte_at(walk, 3) && !byte_at(walk, 4)) {
		__u8 kind = byte_at(walk, 5) >> 4;

		if (!has(walk, 26) || !push(walk, 26) || kind)
			return 1;
		return go_on(walk, STEP_ETHERNET, 0);
	}
	if (!has(walk, 14))
		return 1;
	type = be16_at(walk, 12);
	if (!push(walk, 14))
		return 1;
	walk->ethernets++;
	if (walk->ethernets == 1)
		walk->mac_at = start;
	note_type(walk, type);
	return go_on(walk, STEP_TYPE_OR_LENGTH, type);
}

static __always_inline long walk_arp(struct walk *walk)
{
	__u32 start = walk->at, bytes;

	if (!has(walk, 8))
		return 1;
	bytes = 8 + 2 * (byte_at(walk, 4) + byte_at(walk, 5));
	if (has(walk, bytes) && push(walk, bytes))
		walk->network_at = start;
	return 1;
}

static __always_inline long walk_tag(struct walk *walk)
{
	__u16 type;

	if (!has(walk, 4))
		return 1;
	type = be16_at(walk, 2);
	if (walk->ethernets <= 1 && walk->layers < LAYERS_MAX) {
		walk->vlans[walk->vlan_count & 31] = be16_at(walk, 0) & 0xfff;
		walk->vlan_count++;
	}
	if (!push(walk, 4))
		return 1;
	note_type(walk, type);
	return go_on(walk, STEP_TYPE_OR_LENGTH, type);
}

static __always_inline long walk_vn_tag(struct walk *walk)
{
	__u16 type;

	if (!has(walk, 6))
		return 1;
	type = be16_at(walk, 4);
	if (!push(walk, 6))
		return 1;
	note_type(walk, type);
	return go_on(walk, STEP_TYPE_OR_LENGTH, type);
}

static __always_inline long walk_cmd(struct walk *walk)
{
	__u32 bytes;
	__u16 type;

	if (!has(walk, 2))
		return 1;
	bytes = 4 + 4 * byte_at(walk, 1);
	if (!has(walk, bytes) || !push(walk, bytes - 2))
		return 1;
	type = be16_at(walk, 0);
	walk->at += 2;
	note_type(walk, type);
	return go_on(walk, STEP_TYPE_OR_LENGTH, type);
}

static __always_inline long walk_pppoe(struct walk *walk)
{
	__u16 length;
	__u8 code;

	if (!has(walk, 6) || byte_at(walk, 0) != 0x11)
		return 1;
	code = byte_at(walk, 1);
	length = be16_at(walk, 4);
	if (!push(walk, 6))
		return 1;
	limit(walk, length);
	if (code)
		return 1;
	return go_on(walk, STEP_PPP, 0);
}

static __always_inline long walk_type(struct walk *walk)
{
	switch (walk->type) {
	case ETHER_IPV4:
		return go_on(walk, STEP_IPV4, 0);
	case ETHER_IPV6:
		return go_on(walk, STEP_IPV6, 0);
	case ETHER_ARP:
	case ETHER_RARP:
		return walk_arp(walk);
	case ETHER_VLAN:
	case ETHER_QINQ:
	case ETHER_QINQ_OLD:
		return walk_tag(walk);
	case ETHER_MPLS:
	case ETHER_MPLS_UPSTREAM:
		return go_on(walk, STEP_MPLS, 0);
	case ETHER_PPPOE_SESSION:
	case ETHER_PPPOE_DISCOVERY:
		return walk_pppoe(walk);
	case ETHER_VN_TAG:
		return walk_vn_tag(walk);
	case ETHER_CMD:
		return walk_cmd(walk);
	case ETHER_TEB:
		return go_on(walk, STEP_ETHERNET, 0);
	}
	return 1;
}

/* A SNAP header, behind its LLC header. */
static __always_inline long walk_snap(struct walk *walk)
{
	__u32 organisation;
	__u16 type;

	if (!has(walk, 5))
		return 1;
	organisation = byte_at(walk, 0) << 16 | be16_at(walk, 1);
	type = be16_at(walk, 3);
	if (!push(walk, 5))
		return 1;
	if (!organisation || organisation == 0xf8) {
		note_type(walk, type);
		return go_on(walk, STEP_TYPE, type);
	}
	if (organisation == 0x80c2 && (type == 1 || type == 7))
		return go_on(walk, STEP_ETHERNET, 0);
	return 1;
}

static __always_inline long walk_llc(struct walk *walk)
{
	__u32 bytes = 3;
	__u16 points;
	__u8 control;

	if (!has(walk, 3))
		return 1;
	points = be16_at(walk, 0);
	control = byte_at(walk, 2);
	if ((control & 3) != 3)
		bytes = 4;
	if (!has(walk, bytes) || !push(walk, bytes) || bytes == 4 || control != 3)
		return 1;
	if (points == 0x0606)
		return go_on(walk, STEP_TYPE, ETHER_IPV4);
	if (points == 0xaaaa)
		return walk_snap(walk);
	return 1;
}

static __always_inline long walk_ppp(struct walk *walk)
{
	__u32 framing = 0, bytes;
	const __u8 *here;
	__u16 protocol;

	if (!has(walk, 1))
		return 1;
	if (byte_at(walk, 0) == 0xff) {
		if (!has(walk, 2))
			return 1;
		if (byte_at(walk, 1) == 3)
			framing = 2;
	}
	if (!has(walk, framing + 1))
		return 1;
	here = walk->bytes + ((walk->at + framing) & (COPY_BYTES - 1));
	protocol = here[0];
	bytes = framing + 1;
	if (!(protocol & 1)) {
		if (!has(walk, framing + 2))
			return 1;
		protocol = protocol << 8 | here[1];
		bytes = framing + 2;
	}
	if (!push(walk, bytes))
		return 1;
	switch (protocol) {
	case 0x0021:
		return go_on(walk, STEP_TYPE, ETHER_IPV4);
	case 0x0057:
		return go_on(walk, STEP_TYPE, ETHER_IPV6);
	case 0x0281:
	case 0x0283:
		return go_on(walk, STEP_MPLS, 0);
	}
	return 1;
}

static __always_inline long walk_mpls(struct walk *walk)
{
	__u32 count = 0, start = walk->at, i;

	for (i = 0; i < LABELS_MAX; i++) {
		if (!has(walk, 4 * (i + 1)))
			return 1;
		if (byte_at(walk, 4 * i + 2) & 1) {
			count = i + 1;
			break;
		}
	}
	if (!count || !push(walk, 4 * count))
		return 1;
	if (walk->mpls_at == NOWHERE && walk->ethernets <= 1) {
		walk->mpls_at = start;
		walk->mpls_count = count;
	}
	/* Nothing says what follows; 0 is the control word of a pseudowire. */
	if (!has(walk, 1))
		return 1;
	if (byte_at(walk, 0) >> 4)
		return go_on(walk, STEP_VERSION, 0);
	if (!has(walk, 4) || !push(walk, 4))
		return 1;
	return go_on(walk, STEP_ETHERNET, 0);
}

#endif
