/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Whether the ring of a veth pair's far end has room, as flow control tells a network card
 * (IEEE 802.3, clause 31). A card that sends to one that is full costs that one nothing; of a veth
 * pair the sending CPU gives each refused frame back to the pool of pages that the receiving CPU
 * returns its frames to, so that both wait for one lock.
 */
#ifndef RINGSIDE_ROOM_H
#define RINGSIDE_ROOM_H

#include "kernel.h"

/* include/linux/ptr_ring.h; a place that is not in use is 0. */
struct ptr_ring {
	int producer;
	int size;
	void **queue;
} __attribute__((preserve_access_index));

/* One pointer, of whatever: a type of the kernel's that begins with one. */
struct list_head {
	void *next;
} __attribute__((preserve_access_index));

extern void *bpf_rdonly_cast(const void *object, __u32 type) __ksym __weak; /* Linux 6.2 */

/* Of types of this kernel (BPF CO-RE): number or 0, size, place of a field, whether it is there. */
#define type_id(type) __builtin_btf_type_id(*(type *)0, 1)
#define type_size(type) __builtin_preserve_type_info(*(type *)0, 1)
#define field_offset(type, field) __builtin_preserve_field_info(((type *)0)->field, 0)
#define field_exists(type, field) __builtin_preserve_field_info(((type *)0)->field, 2)

/* Frames that are let through after one look: as many as the map of devices sends at once. */
#define ROOM_FRAMES 16
/* Of these and of those that wait to be sent at once. */
#define ROOM_PLACES (2 * ROOM_FRAMES)
/* Looks before a frame is given up: tens of microseconds, in which this CPU has no softirqs. */
#define ROOM_LOOKS 16384

/* True once the ring at this address has room for that many; false if it is full all the time. */
static __always_inline int awaits_room(__u64 address)
{
	struct list_head const volatile *place;
	struct ptr_ring const volatile *ring;
	__u32 at, i;

	if (!bpf_rdonly_cast || !type_id(struct ptr_ring) || !type_id(struct list_head))
		return 1;
	ring = bpf_rdonly_cast((void *)address, type_id(struct ptr_ring));
	at = ring->producer + ROOM_PLACES;
	if (at >= (__u32)ring->size)
		at -= ring->size;
	place = bpf_rdonly_cast((void *)((__u64)ring->queue + at * sizeof(void *)),
				type_id(struct list_head));
	for (i = 0; i < ROOM_LOOKS; i++) {
		if (!place->next)
			return 1;
	}
	return 0;
}

#endif
