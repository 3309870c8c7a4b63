// SPDX-License-Identifier: Apache-2.0
/*
 * Copies frames into a ring in memory that user space has mapped, one for each receive queue, and
 * discards them: the shortest way out of a driver that does not hand over its own memory. Frames of
 * queues without a ring pass. Behind a filter it stands twice, as xdp_capture.bpf.c does.
 *
 * Each ring has one writer: the kernel polls a queue of a device on one CPU at a time, and frames
 * of other devices, on which a driver has put the program too, pass. It has one reader, which takes
 * whole records and moves the tail behind them (crates/sys/src/xdp_ring.rs).
 */
#include "counters.h"
#include "leaves.h"
#include "metadata.h"

/* A reader that has not moved for this time is taken for dead: the host gets the frames. */
#define STALL_NS 1000000000ULL
/* Beyond a window: bytes between two looks whether the reader has come near. */
#define STEP_BYTES 0x10000
#define NO_ROOM (~0ULL)
#define PLACE(position) ((__u32)(position))

const volatile struct ring_config config = {};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* the number of rings, from user space */
	__uint(key_size, 4);
	__uint(value_size, RING_RECORDS_AT); /* and the room for records */
} rings SEC(".maps");

/* True if the reader has not moved for long. */
static __always_inline int has_stalled(struct ring_control *ring, __u64 tail)
{
	__u64 now = bpf_ktime_get_ns();

	if (ring->stalled_tail != tail || !ring->stalled_since) {
		ring->stalled_tail = tail;
		ring->stalled_since = now;
	}
	return now - ring->stalled_since > STALL_NS;
}

/* The bounds are checked where they are needed: older verifiers lose them on the way. */
static __always_inline long load(struct xdp_md *ctx, __u32 offset, void *to, __u64 bytes)
{
	asm volatile("" : "+r"(bytes));
	if (unlikely(bytes < 1 || bytes > 0xffff))
		return -1;
	return bpf_xdp_load_bytes(ctx, offset, to, bytes);
}

static __always_inline long copy(struct xdp_md *ctx, void *to, __u64 bytes)
{
	if (!unlikely(bytes > RING_PIECE_BYTES))
		return load(ctx, 0, to, bytes);
	if (load(ctx, 0, to, RING_PIECE_BYTES))
		return -1;
	bytes -= RING_PIECE_BYTES;
	return load(ctx, RING_PIECE_BYTES, to + RING_PIECE_BYTES, bytes);
}

/* What lies before head is the reader's. */
static __always_inline void publish(struct ring_control *ring, __u64 head)
{
	if (config.is_weakly_ordered) {
		__sync_lock_test_and_set(&ring->head, head);
	} else {
		asm volatile("" ::: "memory");
		*(volatile __u64 *)&ring->head = head;
	}
}

static __always_inline struct ring_record *record_at(struct ring_control *ring, __u64 head)
{
	return (void *)ring + RING_RECORDS_AT + (head & (config.ring_bytes - 1));
}

static __always_inline __u64 least(__u64 a, __u64 b)
{
	return a < b ? a : b;
}

/* Ends the lap. The next begins at a place, and may be written up to limit. Returns its start. */
static __always_inline __u64 next_lap(struct ring_control *ring, __u64 head, __u32 place,
				      __u64 limit)
{
	struct ring_record *end = record_at(ring, head);

	end->wire_bytes = place;
	end->bytes = RING_LAP_END;
	ring->lap = place;
	ring->limit = least(limit, place + config.window_bytes);
	head = ((head >> 32) + 1) << 32 | place;
	publish(ring, head);
	return head;
}

/*
 * Room for needed bytes beyond the limit: returns the position, or NO_ROOM.
 *
 * Laps follow each other round the ring, up to what is not read. But where the reader is near, the
 * next goes back by a window, over what has just been read: that stays in the caches, and in few
 * entries of the TLB. If the reader stops then, all is still there for a burst: the writer goes on
 * where it had been before it went back.
 */
static __always_inline __u64 find_room(struct ring_control *ring, __u64 head, __u64 needed,
				       __u64 tail)
{
	const __u64 window = config.window_bytes, all = config.ring_bytes;
	__u64 place = PLACE(head), read = PLACE(tail);
	/* All that was put before it has been read. */
	int is_run_read_to = (__s64)(tail - ring->run) >= 0;
	__u64 barrier = is_run_read_to || ring->ahead ? read : ring->floor;
	__u64 limit = barrier > place ? barrier : all;

	/* Positions are compared with those that are not old. */
	if (is_run_read_to)
		ring->run = tail;
	if (tail >> 32 == head >> 32 && place - ring->lap >= window &&
	    place - read <= window / 2) {
		__u64 back = read - ring->lap > window ? read - window : ring->lap;

		ring->ahead = place + sizeof(struct ring_record);
		head = next_lap(ring, head, back, read);
		ring->run = head;
		return head;
	}
	if (place + needed <= limit) {
		__u64 look = place + needed + STEP_BYTES;

		if (look < ring->lap + window)
			look = ring->lap + window;
		ring->limit = least(look, limit);
		return head;
	}
	if (ring->ahead && !is_run_read_to) {
		__u64 ahead = ring->ahead;

		barrier = ring->lap;
		limit = all;
		if (ahead + needed > all) {
			ahead = 0;
			limit = barrier;
		}
		if (ahead + needed > limit)
			return NO_ROOM;
		ring->floor = barrier;
		ring->ahead = 0;
		head = next_lap(ring, head, ahead, limit);
		ring->run = head;
		return head;
	}
	if (limit != all || needed > barrier)
		return NO_ROOM;
	return next_lap(ring, head, 0, barrier);
}

/*
 * Counts the frame and copies it, if it can. True if it is to go on all the same: it is lost to a
 * capture that stands still, but not to the host.
 */
static __always_inline int put(struct xdp_md *ctx, struct ring_control *ring,
			       struct capture_counters *count)
{
	__u64 wire_bytes = bpf_xdp_get_buff_len(ctx);
	__u64 bytes = wire_bytes, head = ring->head, needed;
	struct ring_record *record;

	if (bytes > config.kept_bytes_max)
		bytes = config.kept_bytes_max;
	if (unlikely(bytes > RING_FRAME_BYTES_MAX))
		goto too_long;
	needed = (sizeof(*record) + bytes + 7) & ~7ULL;
	/* Behind each record there is room for the end of the lap. */
	if (unlikely(PLACE(head) + needed + sizeof(*record) > ring->limit)) {
		__u64 tail = *(volatile __u64 *)&ring->tail;

		head = find_room(ring, head, needed + sizeof(*record), tail);
		if (head == NO_ROOM) {
			count->no_room++;
			return has_stalled(ring, tail);
		}
	}
	record = record_at(ring, head);
	if (copy(ctx, record + 1, bytes))
		goto too_long;
	record->stamp = config.has_stamps ? bpf_ktime_get_tai_ns() : 0;
	record->wire_bytes = wire_bytes;
	record->bytes = bytes;
	count->steered++;
	publish(ring, head + needed);
	return 0;

too_long:
	count->too_long++;
	return 0;
}

SEC("xdp.frags")
int xdp_ring(struct xdp_md *ctx)
{
	__u32 queue = ctx->rx_queue_index;
	struct capture_counters *count = bpf_map_lookup_elem(&counters, &queue);
	int is_known = !!count;
	struct ring_control *ring;

	if (unlikely(!is_known)) {
		queue = config.leaf.queues;
		count = bpf_map_lookup_elem(&counters, &queue);
		if (!count)
			return XDP_ABORTED;
	}
	count->seen++;
	if (is_known && !config.leaf.passes && ctx->ingress_ifindex == config.ifindex) {
		ring = bpf_map_lookup_elem(&rings, &queue);
		if (ring) {
			if (!put(ctx, ring, count))
				return XDP_DROP;
			goto go_on;
		}
	}
	count->passed++;
go_on:
	try_leaves(ctx, config.leaf.position + 1);
	if (config.leaf.metadata == METADATA_FULL)
		drop_metadata(ctx);
	return XDP_PASS;
}

const char terms[] SEC("license") = "Apache-2.0";
