/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A limit of frames for each source address, in a table of fixed size in which an address has one
 * place; traffic causes no allocation.
 */
#ifndef RINGSIDE_SOURCES_H
#define RINGSIDE_SOURCES_H

#include "offenders.h"
#include "rules.h"

RULES_ARRAY(sources, sizeof(struct rules_source));

/* A frame, in tokens. */
#define TOKENS_PER_FRAME (1ULL << 20)
/* Longest time in calculations, so that nothing overflows: after it a source has all tokens. */
#define SAVED_US_MAX (1ULL << 24)

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

#endif
