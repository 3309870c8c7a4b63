/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Who sends what is dropped: a table of fixed size in which a source address has one place;
 * traffic causes no allocation.
 */
#ifndef RINGSIDE_OFFENDERS_H
#define RINGSIDE_OFFENDERS_H

#include "arrays.h"
#include "plain.h"

RULES_ARRAY(offenders, sizeof(struct rules_offender));

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
 * A dropped frame, which stands for some. In each place of a CPU's table the sources that share it
 * vote (Boyer and Moore): one that sends more than all others there has the place.
 */
static __always_inline void note_offender(const struct packet_fields *fields, __u64 seed, __u32 cpu,
					  __u32 places, __u32 frames)
{
	__u32 index = (source_hash(fields, seed) & (places - 1)) + cpu * places;
	struct rules_offender *offender = bpf_map_lookup_elem(&offenders, &index);
	__u64 low = source_low(fields), high = source_high(fields);

	if (!offender || !version_of(fields))
		return;
	if (offender->address[0] == low && offender->address[1] == high &&
	    offender->version == version_of(fields)) {
		offender->frames += frames;
	} else if (offender->frames < frames) {
		offender->address[0] = low;
		offender->address[1] = high;
		offender->version = version_of(fields);
		offender->frames = frames;
	} else {
		offender->frames -= frames;
	}
}

#endif
