/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who sends: a limit of frames for each source address, and the sources of dropped frames. Both
 * are tables of fixed size in which an address has one place; traffic causes no allocation.
 */
#ifndef RINGSIDE_SOURCES_H
#define RINGSIDE_SOURCES_H

#include "rules.h"

RULES_ARRAY(sources, sizeof(struct rules_source));
RULES_ARRAY(offenders, sizeof(struct rules_offender));

/* A frame, in tokens. */
#define TOKENS_PER_FRAME (1ULL << 20)
/* Longest time in calculations, so that nothing overflows: after it a source has all tokens. */
#define SAVED_US_MAX (1ULL << 24)

static __always_inline __u64 source_high(const struct packet_fields *fields)
{
	return version_of(fields) == 6 ? fields->address[1] : 0;
}

static __always_inline __u64 source_low(const struct packet_fields *fields)
{
	return version_of(fields) == 6 ? fields->address[0] : (__u32)fields->address[0];
}

/* A sender must not be able to predict places. */
static __always_inline __u32 source_hash(const struct packet_fields *fields, __u64 seed)
{
	return mix(mix(seed ^ version_of(fields), source_low(fields)), source_high(fields)) >> 16;
}

/*
 * Takes a token of the frame's source; false if it has none left. A source that finds another in
 * its place begins with all tokens. CPUs share the table without locks: two frames that come at
 * the same moment on two CPUs may take one token together. The clock is that of the timer's ticks.
 */
static __always_inline int may_send(const struct packet_fields *fields, __u64 seed)
{
	__u32 index = source_hash(fields, seed) & (config.sources - 1);
	__u64 now = bpf_ktime_get_coarse_ns(), passed_us, tokens;
	struct rules_source *source = bpf_map_lookup_elem(&sources, &index);
	__u64 low = source_low(fields), high = source_high(fields);

	if (!source || !version_of(fields))
		return 1;
	if (source->address[0] != low || source->address[1] != high) {
		source->address[0] = low;
		source->address[1] = high;
		source->at = now;
		source->tokens = config.tokens_max;
	}
	tokens = source->tokens;
	passed_us = now > source->at ? (now - source->at) / 1000 : 0;
	if (passed_us) {
		source->at = now;
		if (passed_us > SAVED_US_MAX)
			passed_us = SAVED_US_MAX;
		tokens += passed_us * config.tokens_per_us;
		if (tokens > config.tokens_max)
			tokens = config.tokens_max;
	}
	if (tokens < TOKENS_PER_FRAME) {
		source->tokens = tokens;
		return 0;
	}
	source->tokens = tokens - TOKENS_PER_FRAME;
	return 1;
}

/*
 * A dropped frame. In each place of a CPU's table the sources that share it vote (Boyer and Moore):
 * one that sends more than all others there has the place.
 */
static __always_inline void note_offender(const struct packet_fields *fields, __u64 seed, __u32 cpu)
{
	__u32 index = (source_hash(fields, seed) & (config.offenders - 1)) + cpu * config.offenders;
	struct rules_offender *offender = bpf_map_lookup_elem(&offenders, &index);
	__u64 low = source_low(fields), high = source_high(fields);

	if (!offender || !version_of(fields))
		return;
	if (offender->address[0] == low && offender->address[1] == high &&
	    offender->version == version_of(fields)) {
		offender->frames++;
	} else if (!offender->frames) {
		offender->address[0] = low;
		offender->address[1] = high;
		offender->version = version_of(fields);
		offender->frames = 1;
	} else {
		offender->frames--;
	}
}

#endif
