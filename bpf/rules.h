/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rules' tables, which user space changes while this program looks (crates/rules/src/book.rs
 * and memory.rs say what is in them): exact rules by a hash behind a Bloom filter, wildcard rules
 * as bit vectors. Sizes of the maps are set before they are made; what is read from them is only
 * believed as far as the verifier has it checked.
 */
#ifndef RINGSIDE_RULES_H
#define RINGSIDE_RULES_H

#include "arrays.h"
#include "parse.h"

const volatile struct rules_config config = {};

RULES_ARRAY(control, 64);
RULES_ARRAY(nodes, 1024);
RULES_ARRAY(rows, 8); /* values as long as a row */
RULES_ARRAY(bits, 8);
RULES_ARRAY(flows, 64);
RULES_ARRAY(buckets, 64);
RULES_ARRAY(bloom, 8);
RULES_ARRAY(records, sizeof(struct rule_record));
RULES_ARRAY(extras, sizeof(struct rule_extras));
RULES_ARRAY(memory, sizeof(struct rules_memory));

/* Words of control. */
enum control_word {
	CONTROL_GENERATION = 0,
	CONTROL_SEED = 1,
	CONTROL_BUCKET_MASK = 2,
	CONTROL_BLOOM_MASK = 3,
	CONTROL_EXACT = 4,
	CONTROL_WILDCARDS = 5,
	CONTROL_CHANGES = 6,
	CONTROL_DEFAULT = 7, /* fate of frames that no rule decides about: the lower half */
};

/* Words of a flow's entry. */
enum flow_word { FLOW_REST = 4, FLOW_RULE = 5, FLOW_NEXT = 6, FLOW_NOTE = 7 };

static __always_inline __u64 hash_of(const struct packet_fields *fields, __u64 seed)
{
	__u64 hash = mix(seed, fields->address[0]);

	if (version_of(fields) == 6) {
		hash = mix(hash, fields->address[1]);
		hash = mix(hash, fields->address[2]);
		hash = mix(hash, fields->address[3]);
	}
	return mix(hash, fields->rest);
}

/* Four bits of a word, by the upper half of a hash. */
static __always_inline __u64 bloom_bits(__u32 tag)
{
	return 1ULL << (tag & 63) | 1ULL << (tag >> 6 & 63) | 1ULL << (tag >> 12 & 63) |
	       1ULL << (tag >> 18 & 63);
}

/* The first rule of a key in a bucket, as an index of flows; 0: none. */
static __always_inline __u32 find_in(const struct packet_fields *fields, __u32 index, __u32 tag)
{
	const __u64 *bucket = bpf_map_lookup_elem(&buckets, &index);
	int i;

	if (!bucket)
		return 0;
#pragma unroll
	for (i = 0; i < 8; i++) {
		__u32 key = bucket[i];
		const __u64 *flow;

		if (bucket[i] >> 32 != tag || !key)
			continue;
		flow = bpf_map_lookup_elem(&flows, &key);
		if (flow && flow[0] == fields->address[0] && flow[1] == fields->address[1] &&
		    flow[2] == fields->address[2] && flow[3] == fields->address[3] &&
		    flow[FLOW_REST] == fields->rest)
			return key;
	}
	return 0;
}

/* The first exact rule of a frame with this hash, as an index of flows; 0: none. */
static __always_inline __u32 find_exact(const struct packet_fields *fields, const __u64 *words,
					__u64 hash)
{
	__u32 tag = hash >> 32, index = hash >> 12 & words[CONTROL_BLOOM_MASK];
	const __u64 *filter;
	__u64 wanted = bloom_bits(tag);

	if (fields->rest & NO_PORTS)
		return 0;
	filter = bpf_map_lookup_elem(&bloom, &index);
	if (likely(!filter || (*filter & wanted) != wanted))
		return 0;
	index = hash & words[CONTROL_BUCKET_MASK];
	tag = find_in(fields, index, tag);
	if (tag)
		return tag;
	tag = hash >> 32;
	index = (index ^ tag * 0x5bd1e995U) & words[CONTROL_BUCKET_MASK];
	return find_in(fields, index, tag);
}

/* Where the tries of the two addresses begin among the nodes, and the node of packets without IP,
 * behind the roots of IPv4 and IPv6. */
enum node {
	NODE_SOURCE_PORT = 0,
	NODE_DESTINATION_PORT = 257,
	NODE_NO_PORT = 256,
	NODE_PROTOCOL = 514,
	NODE_SOURCE = 516,
	NODE_DESTINATION = 1029,
	NODE_V6 = 256,
	NODE_NO_IP = 512,
};
#define NODE_INNER 0x80000000U

static __always_inline __u32 node_entry(__u32 node, __u32 entry)
{
	const __u32 *value = bpf_map_lookup_elem(&nodes, &node);

	return value ? value[entry & 255] : 0;
}

/* One step down a trie, or none from a class. Without a branch: which it is cannot be predicted,
 * and the next node is in no cache. */
static __always_inline __u32 descend(__u32 entry, __u32 byte)
{
	__u32 is_inner = -(entry >> 31);
	__u32 below = node_entry(entry & ~NODE_INNER & is_inner, byte);

	return (below & is_inner) | (entry & ~is_inner);
}

/* The classes of both addresses of IPv4, raw, side by side. */
static __always_inline void classes_of_v4(__u64 addresses, __u32 *source, __u32 *destination)
{
	__u32 from = addresses, to = addresses >> 32;

	*source = node_entry(NODE_SOURCE + (from & 255), from >> 8);
	*destination = node_entry(NODE_DESTINATION + (to & 255), to >> 8);
	*source = descend(*source, from >> 16);
	*destination = descend(*destination, to >> 16);
	*source = descend(*source, from >> 24);
	*destination = descend(*destination, to >> 24);
}

/* The class of an address of IPv6, raw. */
static __always_inline __u32 class_of_v6(__u64 high, __u64 low, __u32 trie)
{
	__u32 entry = node_entry(trie + NODE_V6 + (high & 255), high >> 8);
	__u64 rest = high >> 16;
	int i;

	for (i = 2; i < 16; i++) {
		if (!(entry & NODE_INNER))
			break;
		if (i == 8)
			rest = low;
		entry = node_entry(entry & ~NODE_INNER, rest);
		rest >>= 8;
	}
	return entry;
}

static __always_inline __u32 class_of_port(__u64 rest, __u32 port, __u32 trie)
{
	if (rest & NO_PORTS)
		return node_entry(trie + NODE_NO_PORT, 0);
	return node_entry(trie + (port & 255), port >> 8);
}

/* The rows of a packet, while its rules are looked for. */
struct search {
	const __u64 *rows[ROWS];
};

/* Finds the classes of a packet's fields, and begins before its first rule. */
static __always_inline void begin_search(struct judgement *judged)
{
	const struct packet_fields *fields = &judged->fields;
	__u64 rest = fields->rest;
	__u32 source, destination;

	switch (version_of(fields)) {
	case 4:
		classes_of_v4(fields->address[0], &source, &destination);
		break;
	case 6:
		source = class_of_v6(fields->address[0], fields->address[1], NODE_SOURCE);
		destination = class_of_v6(fields->address[2], fields->address[3], NODE_DESTINATION);
		break;
	default:
		source = node_entry(NODE_SOURCE + NODE_NO_IP, 0);
		destination = node_entry(NODE_DESTINATION + NODE_NO_IP, 0);
	}
	/* Which rules are live is read before what they accept (crates/rules/src/table.rs). */
	judged->classes[0] = 0;
	judged->classes[1] = source;
	judged->classes[2] = destination;
	judged->classes[3] = class_of_port(rest, rest >> 16, NODE_DESTINATION_PORT);
	judged->classes[4] = class_of_port(rest, rest, NODE_SOURCE_PORT);
	judged->classes[5] = version_of(fields) ? node_entry(NODE_PROTOCOL, rest >> 32)
					       : node_entry(NODE_PROTOCOL + 1, 0);
	judged->above = judged->left = 0;
	judged->summary = judged->last = 0;
}

/* False if the tables are broken. */
static __always_inline int find_rows(const struct judgement *judged, struct search *search)
{
	int i;

#pragma unroll
	for (i = 0; i < ROWS; i++) {
		__u32 class = judged->classes[i];

		search->rows[i] = bpf_map_lookup_elem(&rows, &class);
		if (!search->rows[i])
			return 0;
	}
	return 1;
}

/*
 * The bits that all rows have at a place. Most are gone after the rows of addresses, and most of
 * these are in no cache: the first three are loaded together, without a branch between them. Which
 * rules are live is read first.
 */
static __always_inline __u64 common(const struct search *search, __u32 at)
{
	__u64 live = *(const volatile __u64 *)(search->rows[0] + at);

	live &= search->rows[1][at] & search->rows[2][at];
	if (!live)
		return 0;
	return live & search->rows[3][at] & search->rows[4][at] & search->rows[5][at];
}

/* Number of the lowest bit: a multiplication by a de Bruijn sequence puts it on top. User space
 * writes the read-only data of the configuration as a whole; this lies elsewhere. */
static const __u8 BIT_NUMBERS[64] SEC(".rodata.bits") = {
	0,  1,  2,  53, 3,  7,  54, 27, 4,  38, 41, 8,  34, 55, 48, 28, 62, 5,  39, 46, 44, 42,
	22, 9,  24, 35, 59, 56, 49, 18, 29, 11, 63, 52, 6,  26, 37, 40, 33, 47, 61, 45, 43, 21,
	23, 58, 17, 10, 51, 25, 36, 32, 60, 20, 57, 16, 50, 31, 19, 15, 30, 14, 13, 12,
};

static __always_inline __u32 lowest_bit(__u64 bits)
{
	return BIT_NUMBERS[(bits & -bits) * 0x022fdd63cc95386dULL >> 58];
}

/* A bit's rule: id in the upper half, slot in the lower. */
static __always_inline __u64 rule_of(__u32 bit)
{
	const __u64 *rule = bpf_map_lookup_elem(&bits, &bit);

	return rule ? *rule : 0;
}

/* Bits of a word are not in order of their rules, words are. */
__alone __u32 bit_of_lowest(__u64 left, __u32 word)
{
	__u64 lowest = ~0ULL;
	__u32 best = 0;
	int i;

	for (i = 0; i < 64; i++) {
		__u32 bit;
		__u64 rule;

		if (!left)
			break;
		bit = lowest_bit(left);
		left &= left - 1;
		rule = rule_of(word * 64 + bit);
		if (rule < lowest) {
			lowest = rule;
			best = bit;
		}
	}
	return best;
}

#endif
