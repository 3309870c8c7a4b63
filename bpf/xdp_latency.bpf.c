// SPDX-License-Identifier: Apache-2.0
/*
 * Counts frames that the generator stamped (crates/transmit/src/shape/stamp.rs) and how long each
 * was under way, and discards them; everything else passes. It looks for the stamp where frames of
 * IPv4 and UDP without tags and options have it.
 *
 * Times fall into classes as HdrHistogram's do: up to 128 ns one for each nanosecond, beyond 64 for
 * each power of two, so that a class is at most a 64th of its time wide.
 */
#include "abi.h"

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct latency_counts);
} counts SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, LATENCY_CLASSES);
	__type(key, __u32);
	__type(value, __u64);
} classes SEC(".maps");

enum offset {
	STAMP_MAGIC_AT = 42,
	STAMP_NUMBER_AT = 46,
	STAMP_TIME_AT = 54,
	STAMP_END = 62,
};

/* "RTAI", as it lies. */
#define STAMP_MAGIC to_be32(0x52544149)

/* Position of the highest bit; 0 for 0. */
static __always_inline __u32 log2_of(__u64 value)
{
	__u32 log2 = 0;

	if (value >> 32) {
		value >>= 32;
		log2 += 32;
	}
	if (value >> 16) {
		value >>= 16;
		log2 += 16;
	}
	if (value >> 8) {
		value >>= 8;
		log2 += 8;
	}
	if (value >> 4) {
		value >>= 4;
		log2 += 4;
	}
	if (value >> 2) {
		value >>= 2;
		log2 += 2;
	}
	return log2 + (value >> 1);
}

static __always_inline __u32 class_of(__u64 time_ns)
{
	__u32 shift = log2_of(time_ns | (LATENCY_STEPS - 1)) - LATENCY_STEPS_LOG2 + 1;
	__u32 class = shift * (LATENCY_STEPS / 2) + (time_ns >> shift);

	return class < LATENCY_CLASSES ? class : LATENCY_CLASSES - 1;
}

SEC("xdp.frags")
int xdp_latency(struct xdp_md *ctx)
{
	__u8 *data = (void *)(long)ctx->data;
	void *data_end = (void *)(long)ctx->data_end;
	struct latency_counts *count;
	__u64 now, sent, number, *class;
	__u32 key = 0;

	if ((void *)(data + STAMP_END) > data_end)
		return XDP_PASS;
	if (*(__u32 *)(data + STAMP_MAGIC_AT) != STAMP_MAGIC)
		return XDP_PASS;
	count = bpf_map_lookup_elem(&counts, &key);
	if (!count)
		return XDP_ABORTED;
	number = to_be64(*(__u64 *)(data + STAMP_NUMBER_AT));
	sent = to_be64(*(__u64 *)(data + STAMP_TIME_AT));
	now = bpf_ktime_get_tai_ns();
	count->frames++;
	/* The stream's number is in the upper bits: of several, each frame may seem late. */
	if (number < count->next)
		count->reordered++;
	else
		count->next = number + 1;
	if (sent > now) {
		count->early++;
		return XDP_DROP;
	}
	key = class_of(now - sent);
	class = bpf_map_lookup_elem(&classes, &key);
	if (class)
		++*class;
	return XDP_DROP;
}

const char terms[] SEC("license") = "Apache-2.0";
