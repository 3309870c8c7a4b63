// SPDX-License-Identifier: Apache-2.0
/*
 * Counts frames that the generator numbered (crates/transmit/src/shape/stamp.rs), and of those that
 * it stamped also how long each was under way, and discards them; everything else passes. It looks
 * for the number where frames of IPv4 and UDP without tags and options have it.
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
	MAGIC_AT = 42,
	NUMBER_AT = 50,
	NUMBER_END = 58,
	STAMP_NUMBER_AT = 46,
	STAMP_TIME_AT = 54,
	STAMP_END = 60,
};

/* "RINGSIDE" and "RTAI", as they lie. */
#define NUMBER_MAGIC to_be64(0x52494e4753494445ULL)
#define STAMP_MAGIC to_be32(0x52544149)
/* Longer times under way are times in the future. */
#define FUTURE (STAMP_MASK / 2)

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

static __always_inline void note_number(struct latency_counts *count, __u64 number)
{
	count->frames++;
	/* The stream's number is in the upper bits: of several, each frame may seem late. */
	if (number < count->next)
		count->reordered++;
	else
		count->next = number + 1;
}

static __always_inline void note_time(struct latency_counts *count, const __u8 *at)
{
	__u64 sent = (__u64)to_be16(*(__u16 *)at) << 32 | to_be32(*(__u32 *)(at + 2));
	__u64 time_ns = (bpf_ktime_get_tai_ns() - sent) & STAMP_MASK, *class;
	__u32 key = class_of(time_ns);

	if (time_ns > FUTURE) {
		count->early++;
		return;
	}
	class = bpf_map_lookup_elem(&classes, &key);
	if (class)
		++*class;
}

SEC("xdp.frags")
int xdp_latency(struct xdp_md *ctx)
{
	__u8 *data = (void *)(long)ctx->data;
	void *data_end = (void *)(long)ctx->data_end;
	struct latency_counts *count;
	__u32 key = 0;

	if ((void *)(data + NUMBER_END) > data_end)
		return XDP_PASS;
	count = bpf_map_lookup_elem(&counts, &key);
	if (!count)
		return XDP_ABORTED;
	if (*(__u64 *)(data + MAGIC_AT) == NUMBER_MAGIC) {
		note_number(count, to_be64(*(__u64 *)(data + NUMBER_AT)));
		return XDP_DROP;
	}
	if (*(__u32 *)(data + MAGIC_AT) != STAMP_MAGIC || (void *)(data + STAMP_END) > data_end)
		return XDP_PASS;
	note_number(count, to_be64(*(__u64 *)(data + STAMP_NUMBER_AT)));
	note_time(count, data + STAMP_TIME_AT);
	return XDP_DROP;
}

const char terms[] SEC("license") = "Apache-2.0";
