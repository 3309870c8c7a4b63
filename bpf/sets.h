/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Address sets: a Bloom filter of the granules (/24, /16, /8; of IPv6 /48, /32, /16) that a set's
 * spans touch, each span in the finest that it touches few of; behind it a binary search.
 */
#ifndef RINGSIDE_SETS_H
#define RINGSIDE_SETS_H

#include "rules.h"

RULES_ARRAY(sets, sizeof(struct rule_set));
RULES_ARRAY(set_blooms, 8);
RULES_ARRAY(spans_v4, 8); /* first and last address, in host byte order, upper half first */
RULES_ARRAY(spans_v6, sizeof(struct rule_span_v6));

/* Halvings of a list of spans: it has fewer than 2^32. */
#define HALVINGS_MAX 32

/* True if the filter may know a granule; `salt` separates granules of different length. */
static __always_inline int may_have(const struct rule_set *set, __u64 granule, __u64 salt)
{
	__u64 hash = mix(salt, granule), wanted = bloom_bits(hash >> 32);
	__u32 index = set->bloom_first + ((__u32)(hash >> 12) & set->bloom_mask);
	const __u64 *word = bpf_map_lookup_elem(&set_blooms, &index);

	return word && (*word & wanted) == wanted;
}

/* Granules of a version: `shift` leaves the finest, `coarser` the others. */
static __always_inline int any_granule(const struct rule_set *set, __u64 finest, __u32 coarser,
				       __u32 which, __u64 version)
{
	return ((which & 1) && may_have(set, finest, version)) ||
	       ((which & 2) && may_have(set, finest >> coarser, version + 1)) ||
	       ((which & 4) && may_have(set, finest >> 2 * coarser, version + 2));
}

static __always_inline int has_v4(const struct rule_set *set, __u32 address)
{
	__u32 low = set->v4_first, high = low + set->v4_count, i;

	if (!any_granule(set, address >> 8, 8, set->granules, 4))
		return 0;
	for (i = 0; i < HALVINGS_MAX; i++) {
		__u32 middle = low + (high - low) / 2;
		const __u64 *span;

		if (low >= high)
			return 0;
		span = bpf_map_lookup_elem(&spans_v4, &middle);
		if (!span)
			return 0;
		if (address < *span >> 32)
			high = middle;
		else if (address > (__u32)*span)
			low = middle + 1;
		else
			return 1;
	}
	return 0;
}

static __always_inline int is_below(__u64 high, __u64 low, const __u64 *other)
{
	return high < other[0] || (high == other[0] && low < other[1]);
}

static __always_inline int is_above(__u64 high, __u64 low, const __u64 *other)
{
	return high > other[0] || (high == other[0] && low > other[1]);
}

static __always_inline int has_v6(const struct rule_set *set, __u64 upper, __u64 lower)
{
	__u32 low = set->v6_first, high = low + set->v6_count, i;

	if (!any_granule(set, upper >> 16, 16, set->granules >> 8, 16))
		return 0;
	for (i = 0; i < HALVINGS_MAX; i++) {
		__u32 middle = low + (high - low) / 2;
		const struct rule_span_v6 *span;

		if (low >= high)
			return 0;
		span = bpf_map_lookup_elem(&spans_v6, &middle);
		if (!span)
			return 0;
		if (is_below(upper, lower, span->first))
			high = middle;
		else if (is_above(upper, lower, span->last))
			low = middle + 1;
		else
			return 1;
	}
	return 0;
}

/* True if the set has the frame's address of one end. */
static __always_inline int has_end(const struct rule_set *set, const struct packet_fields *fields,
				   int is_source)
{
	const __u64 *word = fields->address;

	switch (version_of(fields)) {
	case 4:
		return has_v4(set, to_be32((__u32)(is_source ? *word : *word >> 32)));
	case 6:
		word = is_source ? fields->address : fields->address + 2;
		return has_v6(set, to_be64(word[0]), to_be64(word[1]));
	}
	return 0;
}

__alone int is_in_set(__u32 index, __u32 side)
{
	const struct rule_set *set = bpf_map_lookup_elem(&sets, &index);

	const struct judgement *judged = this_judgement();

	if (!set || !judged)
		return 0;
	return (side != SIDE_DESTINATION && has_end(set, &judged->fields, 1)) ||
	       (side != SIDE_SOURCE && has_end(set, &judged->fields, 0));
}

#endif
