/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * The fast path of rules: the first of them, as far as each asks one thing, a port, a protocol or
 * an address of IPv4. For a frame one word is read for each kind of thing that is asked about. What
 * is not plain, and what none of these rules decides about while there are others, is for the
 * general program (xdp_rules.bpf.c), which has all rules; both count in the same places.
 *
 * What is here never changes: another set of rules gets another program. There is one for sets that
 * ask about ports and protocols (FAST_PORTS), one for those that ask about addresses
 * (FAST_PREFIXES), and one for both. What else rules do not ask about is known when it is loaded,
 * so that the kernel leaves the code for it out.
 */
#ifndef RINGSIDE_FAST_H
#define RINGSIDE_FAST_H

#include "behind.h"
#include "length.h"
#include "offenders.h"

const volatile struct fast_config config = {};

RULES_ARRAY(totals, sizeof(struct rules_totals)); /* these two are the general program's */
RULES_ARRAY(counts, sizeof(struct rule_counts));
/* Tables are one value each, whose size is set before they are made: places in them are computed
 * from what is known then, so that the verifier sees that they lie within, and nothing is checked
 * for a frame. */
RULES_ARRAY(pages, 4 * FAST_PAGE_ENTRIES);
RULES_ARRAY(prefixes, 8);
RULES_ARRAY(ranks, 8); /* the slot of each */

struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 1);
	__uint(key_size, 4);
	__uint(value_size, 4);
} general SEC(".maps");

/* Without the general program, as when it is going, frames are let through. */
static __always_inline int go_general(struct xdp_md *ctx)
{
	bpf_tail_call(ctx, &general, 0);
	return go_behind(ctx, config.position, config.metadata);
}

/* The first bytes of a frame of IPv4 without tags and options: type, version, length of header. */
#define IPV4_AT 14
#define IPV4_START (to_be32(0x08004500))
#define IPV4_START_MASK (to_be32(0xffffff00))

/*
 * Reads the most common frames as see_plain does, in fewer steps: IPv4 without tags and options, no
 * later fragment. False for others, and for all in which lengths are not as they should be.
 */
static __always_inline int see_common(struct xdp_md *ctx, struct packet_fields *fields)
{
	void *data = (void *)(long)ctx->data, *data_end = (void *)(long)ctx->data_end;
	void *ip = data + IPV4_AT, *transport = ip + 20;
	__u32 total_bytes, bytes;
	__u64 ports = NO_PORTS;
	__u8 protocol;

	if (unlikely(transport + 8 > data_end))
		return 0;
	/* ISL, as in see_plain. */
	if (unlikely((*(__u32 *)data & to_be32(0x00ffffff)) == to_be32(0x000c00)))
		return 0;
	if ((*(__u32 *)(data + 12) & IPV4_START_MASK) != IPV4_START)
		return 0;
	total_bytes = to_be16(*(__u16 *)(ip + 2));
	if (unlikely(total_bytes < 28 || (*(__u16 *)(ip + 6) & to_be16(0x1fff))))
		return 0;
	protocol = *(__u8 *)(ip + 9);
	if (FAST_PORTS) {
		if (protocol == IP_UDP) {
			if (unlikely(to_be16(*(__u16 *)(transport + 4)) < 8))
				return 0;
			ports = *(__u32 *)transport;
		} else if (protocol == IP_TCP) {
			if (unlikely(transport + 20 > data_end))
				return 0;
			bytes = (*(__u8 *)(transport + 12) >> 4) * 4;
			if (unlikely(bytes < 20 || 20 + bytes > total_bytes ||
				     transport + bytes > data_end))
				return 0;
			ports = *(__u32 *)transport;
		} else if (!is_portless(protocol, 4)) {
			return 0;
		}
	}
	fields->address[0] = *(__u32 *)(ip + 12) | (__u64) * (__u32 *)(ip + 16) << 32;
	fields->rest = rest_of(ports, protocol, 4);
	return 1;
}

/* The first of two rules, of which the second is an entry. */
static __always_inline __u32 first_of(__u32 found, __u32 entry)
{
	return entry - 1 < found ? entry - 1 : found;
}

/* The first of a rule and that of an entry of some pages in a row, from the one at first on. */
static __always_inline __u32 first_of_pages(__u32 found, __u32 first, __u32 at)
{
	__u32 key = 0;
	const __u32 *entries = bpf_map_lookup_elem(&pages, &key);

	return entries ? first_of(found, entries[first * FAST_PAGE_ENTRIES + at]) : found;
}

/* The same of a prefix, in a hash table. */
static __always_inline __u32 first_of_prefixes(__u32 found, __u32 first, __u32 mask, __u32 prefix)
{
	__u32 key = 0, i;
	const __u64 *word = bpf_map_lookup_elem(&prefixes, &key);

	if (!word)
		return found;
	word += first + ((__u32)(mix(config.seed, prefix) >> 16) & mask);
	for (i = 0; i < FAST_PROBES_MAX; i++) {
		if (!word[i])
			break;
		if (word[i] >> 32 == prefix)
			return first_of(found, word[i]);
	}
	return found;
}

#define FIRST_OF_PORTS(found, kind, port)                                                  \
	if (config.ports[kind] != FAST_NONE)                                               \
		found = first_of_pages(found, config.ports[kind], to_be16((__u16)(port)))
/* The address is in host byte order. */
#define FIRST_OF_LEVEL(found, side, level, address)                                        \
	if (config.tables[side][level].mask != FAST_NONE)                                  \
		found = first_of_prefixes(found, config.tables[side][level].first,         \
					  config.tables[side][level].mask,                 \
					  (address) & (0xffffffffU << 8 * (level)))

static __always_inline __u32 first_of_sources(__u32 found, __u32 address)
{
	FIRST_OF_LEVEL(found, 0, 0, address);
	FIRST_OF_LEVEL(found, 0, 1, address);
	FIRST_OF_LEVEL(found, 0, 2, address);
	FIRST_OF_LEVEL(found, 0, 3, address);
	return found;
}

static __always_inline __u32 first_of_destinations(__u32 found, __u32 address)
{
	FIRST_OF_LEVEL(found, 1, 0, address);
	FIRST_OF_LEVEL(found, 1, 1, address);
	FIRST_OF_LEVEL(found, 1, 2, address);
	FIRST_OF_LEVEL(found, 1, 3, address);
	return found;
}

/* The rule that decides about a frame, of these. */
static __always_inline __u32 find(const struct packet_fields *fields)
{
	__u8 version = version_of(fields), protocol = fields->rest >> 32;
	__u32 found = FAST_NONE;

	if (FAST_PORTS && config.protocols != FAST_NONE)
		found = first_of_pages(found, config.protocols,
				       (version == 6) * FAST_PAGE_ENTRIES + protocol);
	/* Of plain frames TCP and UDP alone have ports. */
	if (FAST_PORTS && !(fields->rest & NO_PORTS)) {
		if (protocol == IP_TCP) {
			FIRST_OF_PORTS(found, 0, fields->rest);
			FIRST_OF_PORTS(found, 1, fields->rest >> 16);
		} else {
			FIRST_OF_PORTS(found, 2, fields->rest);
			FIRST_OF_PORTS(found, 3, fields->rest >> 16);
		}
	}
	if (FAST_PREFIXES && version == 4) {
		found = first_of_sources(found, to_be32((__u32)fields->address[0]));
		found = first_of_destinations(found, to_be32((__u32)(fields->address[0] >> 32)));
	}
	return found;
}

/* Counts the frame for its rule; false if the tables are broken. */
static __always_inline int count(__u32 found, __u32 cpu, __u32 wire_bytes)
{
	__u32 rank = found >> FAST_FATE_BITS, index;
	struct rule_counts *counted;
	const __u64 *slot;

	if (!config.is_ordered) {
		slot = bpf_map_lookup_elem(&ranks, &rank);
		if (!slot)
			return 0;
		rank = *slot;
	}
	index = cpu * config.slots + rank;
	counted = bpf_map_lookup_elem(&counts, &index);
	if (!counted)
		return 0;
	counted->frames++;
	counted->bytes += wire_bytes;
	return 1;
}

/* True for one number in FAST_SAMPLE, evenly, but in step with no sender: multiples of the golden
 * ratio. Of all frames, noting their sources would take as long as all else here. */
static __always_inline int is_sampled(__u64 number)
{
	return number * 0x9e3779b97f4a7c15ULL < ~0ULL / FAST_SAMPLE;
}

static __always_inline int judge(struct xdp_md *ctx, const struct packet_fields *fields)
{
	__u32 cpu = bpf_get_smp_processor_id(), fate, wire_bytes, found;
	struct rules_totals *total;

	found = find(fields);
	if (found == FAST_NONE && !config.is_whole)
		return go_general(ctx);
	total = bpf_map_lookup_elem(&totals, &cpu);
	if (!total)
		return XDP_ABORTED;
	wire_bytes = length_of(ctx);
	if (config.metadata == METADATA_FULL && metadata_of(ctx))
		wire_bytes += 4;
	if (found == FAST_NONE) {
		total->undecided++;
		total->undecided_bytes += wire_bytes;
		fate = config.fallback;
	} else {
		if (!count(found, cpu, wire_bytes))
			return XDP_ABORTED;
		fate = found & ((1 << FAST_FATE_BITS) - 1);
	}
	if (likely(fate == FATE_DROP)) {
		total->dropped++;
		if (config.offenders && is_sampled(total->dropped))
			note_offender(fields, config.source_seed, cpu, config.offenders,
				      FAST_SAMPLE);
		return XDP_DROP;
	}
	if (fate == FATE_TAKE)
		total->taken++;
	else
		total->passed++;
	return go_behind(ctx, config.position, config.metadata);
}

static __always_inline int judge_fast(struct xdp_md *ctx)
{
	struct packet_fields fields;

	if (likely(see_common(ctx, &fields)))
		return judge(ctx, &fields);
	if (!see_plain(ctx, &fields) || (config.leaves_v6 && version_of(&fields) == 6))
		return go_general(ctx);
	return judge(ctx, &fields);
}

#endif
