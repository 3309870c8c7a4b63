/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A frame into the flow cache or, if it cannot be read here, its beginning into the ring. The
 * program that includes this has `load_bytes`, which copies out of its kind of frame.
 */
#ifndef RINGSIDE_FLOWS_UP_H
#define RINGSIDE_FLOWS_UP_H

#include "flows.h"

/* A frame as it was on the wire. */
struct wire {
	__u64 bytes; /* without a tag that was taken out */
	__u64 packets;
	__u16 type; /* of the tag that was taken out, or 0 */
	__u16 tci;
};

#define ADDRESSES_BYTES 12

/* Hands up the frame's beginning, with its tag in place. False if the ring is full. */
static __always_inline int hand_up_frame(void *ctx, const struct wire *wire,
					 const struct seen_packet *packet)
{
	__u64 bytes = wire->bytes, skip = 0, room;
	__u32 cpu = packet->cpu;
	struct flow_ring *ring = bpf_map_lookup_elem(&flow_rings, &cpu);
	struct flow_record *record;
	__u8 *to;

	if (!ring || bytes < ADDRESSES_BYTES)
		return 0;
	if (bytes > FLOW_FRAME_BYTES_MAX - 4)
		bytes = FLOW_FRAME_BYTES_MAX - 4;
	room = (sizeof(*record) + bytes + (wire->type ? 4 : 0) + 7) & ~7ULL;
	record = reserve(ring, room);
	if (!record)
		return 0;
	to = (void *)(record + 1);
	if (wire->type) {
		if (load_bytes(ctx, 0, to, ADDRESSES_BYTES))
			return 0;
		to[12] = wire->type >> 8;
		to[13] = wire->type;
		to[14] = wire->tci >> 8;
		to[15] = wire->tci;
		to += 16;
		skip = ADDRESSES_BYTES;
		bytes -= skip;
	}
	asm volatile("" : "+r"(bytes));
	if (bytes < 1 || bytes > FLOW_FRAME_BYTES_MAX - 4)
		return 0;
	if (load_bytes(ctx, skip, to, bytes))
		return 0;
	record->kind = FLOW_RECORD_FRAME;
	record->bytes = bytes + (wire->type ? 16 : 0);
	record->stamp = packet->now;
	record->packets = packet->packets;
	record->frame_bytes = wire->bytes + (wire->type ? 4 : 0);
	record->octets = packet->octets;
	publish(ring, room);
	return 1;
}

static __always_inline void meter(void *ctx, void *data, void *data_end, const struct wire *wire)
{
	struct seen_packet packet = {};
	const __u64 *control;
	struct flow_counts *counts;
	enum seen seen;
	__u32 key = 0;
	__u16 tag = wire->type ? FLOW_HAS_VLAN | (wire->tci & 0xfff) : 0;

	packet.cpu = bpf_get_smp_processor_id();
	packet.packets = wire->packets;
	packet.octets = wire->bytes + (wire->type ? 4 : 0);
	control = bpf_map_lookup_elem(&flow_control, &key);
	counts = bpf_map_lookup_elem(&flow_counts, &packet.cpu);
	/* The maps have room for every CPU that the kernel may have. */
	if (!counts || !control)
		return;
	packet.now = bpf_ktime_get_tai_ns();
	seen = see(&packet, data, data_end, tag);
	count(counts->seen[config.is_sending ? 1 : 0], &packet);
	if (likely(seen == SEEN_FLOW))
		count(keep(&packet, counts, control) ? counts->cached : counts->no_room, &packet);
	else if (seen == SEEN_NOT_IP)
		count(counts->not_ip, &packet);
	else if (hand_up_frame(ctx, wire, &packet))
		count(counts->handed_up, &packet);
	else
		count(counts->no_room, &packet);
}

#endif
