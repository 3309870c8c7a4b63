/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Answers of the kernel's forwarding tables that stand for further packets of the same flow, for a
 * time that is short next to what people and routing daemons do (route_config). All that a question
 * consists of is compared, so a flow never gets another one's answer; only answers that say where
 * to forward are kept. Each CPU has its own.
 */
#ifndef RINGSIDE_ROUTE_CACHE_H
#define RINGSIDE_ROUTE_CACHE_H

#include "route.h"

/* Where a frame is to leave. */
struct way_out {
	__u32 slot;
	__u32 hop; /* place of its next hop */
};

/* As many for each CPU as there are entries; a CPU beyond them has none, and asks each time. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE); /* begins at a page: an entry is one line of the cache */
	__uint(max_entries, ROUTE_CACHE_ENTRIES); /* set before it is made */
	__type(key, __u32);
	__type(value, struct route_answer);
} route_cache SEC(".maps");

static __always_inline __u32 ticks_now(void)
{
	return bpf_ktime_get_coarse_ns() >> ROUTE_CACHE_TICK_SHIFT;
}

/* Where the answer to a question is, if there is one. */
static __always_inline struct route_answer *answer_place(const struct bpf_fib_lookup *ask)
{
	__u64 hash = mix(ask->source[0] | (__u64)ask->destination[0] << 32,
			 ask->source_port | (__u64)ask->destination_port << 16);
	__u32 key;

	if (ask->family == AF_INET6) {
		hash = mix(hash, ask->source[1] | (__u64)ask->destination[1] << 32);
		hash = mix(hash, ask->source[2] | (__u64)ask->destination[2] << 32);
		hash = mix(hash, ask->source[3] | (__u64)ask->destination[3] << 32);
	}
	key = bpf_get_smp_processor_id() * ROUTE_CACHE_ENTRIES +
	      (hash >> 20 & (ROUTE_CACHE_ENTRIES - 1));
	return bpf_map_lookup_elem(&route_cache, &key);
}

/* True if it is the answer to this question of the interface of a slot, and still stands. */
static __always_inline int is_answer(const struct route_answer *answer,
				     const struct bpf_fib_lookup *ask, __u32 slot, __u32 now,
				     __u32 ticks)
{
	const __u32 *source = answer->source, *destination = answer->destination;

	/* The difference: one that ended is not taken for one to come until years have passed. */
	if (answer->until - now - 1 >= ticks)
		return 0;
	if (source[0] != ask->source[0] || destination[0] != ask->destination[0] ||
	    answer->source_port != ask->source_port ||
	    answer->destination_port != ask->destination_port || answer->class != ask->class ||
	    answer->protocol != ask->protocol || answer->family != ask->family ||
	    answer->slot != slot)
		return 0;
	/* What does not fit asks again: the kernel knows what that means. */
	if (ask->length > answer->mtu)
		return 0;
	return ask->family == AF_INET ||
	       (source[1] == ask->source[1] && source[2] == ask->source[2] &&
		source[3] == ask->source[3] && destination[1] == ask->destination[1] &&
		destination[2] == ask->destination[2] && destination[3] == ask->destination[3]);
}

/* Notes a question, before the kernel writes its answer over it. None stands there until then. */
static __always_inline void note_question(struct route_answer *answer,
					  const struct bpf_fib_lookup *ask, __u32 slot)
{
	__u32 i;

	answer->until = 0;
#pragma unroll
	for (i = 0; i < 4; i++) {
		answer->source[i] = ask->source[i];
		answer->destination[i] = ask->destination[i];
	}
	answer->source_port = ask->source_port;
	answer->destination_port = ask->destination_port;
	answer->class = ask->class;
	answer->protocol = ask->protocol;
	answer->family = ask->family;
	answer->slot = slot;
}

/* Notes the answer to it, which stands in the question's place now. */
static __always_inline void note_answer(struct route_answer *answer,
					const struct bpf_fib_lookup *found,
					const struct way_out *way, __u32 until)
{
	__builtin_memcpy(answer->destination_mac, found->destination_mac, 6);
	__builtin_memcpy(answer->source_mac, found->source_mac, 6);
	answer->mtu = found->length;
	answer->hop = way->hop;
	answer->out = way->slot;
	answer->until = until;
}

#endif
