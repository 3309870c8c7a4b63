/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What rules ask beyond the tables, one question after the other; all must hold. The answers are
 * those of crates/rules/src/question/term.rs.
 */
#ifndef RINGSIDE_CHECKS_H
#define RINGSIDE_CHECKS_H

#include "sets.h"
#include "walk_ip.h"

RULES_ARRAY(checks, sizeof(struct rule_check));

static __always_inline int is_in_spans(const struct rule_check *check, __u32 value)
{
	int i;

#pragma unroll
	for (i = 0; i < CHECK_SPANS_MAX; i++) {
		if (i < check->count && value >= check->spans[2 * i] &&
		    value <= check->spans[2 * i + 1])
			return 1;
	}
	return 0;
}

/* Walks over this frame, unless that was done; most frames do not need it. */
static __always_inline void walk_once(struct xdp_md *ctx, const struct packet_fields *fields)
{
	if (!fields->is_walked)
		see_walked(ctx, config.metadata == METADATA_FULL);
}

static __always_inline int any_of(const __u16 *list, __u32 count, const struct rule_check *check)
{
	__u32 i;

	for (i = 0; i < LAYERS_MAX; i++) {
		if (i >= count)
			break;
		if (is_in_spans(check, list[i]))
			return 1;
	}
	return 0;
}

static __always_inline int any_label(const struct walk *walk, const struct rule_check *check)
{
	__u32 i;

	if (walk->mpls_at == NOWHERE)
		return 0;
	for (i = 0; i < LABELS_MAX; i++) {
		const __u8 *entry = walk->bytes + ((walk->mpls_at + 4 * i) & (COPY_BYTES - 1));

		if (i >= walk->mpls_count)
			break;
		if (is_in_spans(check, entry[0] << 12 | entry[1] << 4 | entry[2] >> 4))
			return 1;
	}
	return 0;
}

static __always_inline __u64 word_of(const struct walk *walk, __u32 at)
{
	__u64 word = 0;

	__builtin_memcpy(&word, walk->bytes + (at & (COPY_BYTES - 1)), 8);
	return word;
}

static __always_inline int has_mac(const struct walk *walk, const struct rule_check *check)
{
	__u64 mask = check->bits.mask, value = check->bits.value;
	__u32 at = walk->mac_at;

	if (at == NOWHERE)
		return 0;
	return (check->place != SIDE_DESTINATION && (word_of(walk, at + 6) & mask) == value) ||
	       (check->place != SIDE_SOURCE && (word_of(walk, at) & mask) == value);
}

/* Bytes that lie behind the copy. */
static __always_inline int has_far_bytes(struct xdp_md *ctx, const struct rule_check *check,
					 __u64 at, const struct walk *walk)
{
	__u64 word = 0, frame_bytes = bpf_xdp_get_buff_len(ctx), count = check->count;

	/* The tag that was put back. */
	at -= walk->end_of_frame - frame_bytes;
	if (count < 1 || count > 8 || at > 0xffff)
		return 0;
	if (bpf_xdp_load_bytes(ctx, at, &word, count))
		return 0;
	return (word & check->bits.mask) == check->bits.value;
}

static __always_inline int has_bytes(struct xdp_md *ctx, const struct rule_check *check,
				     const struct walk *walk)
{
	__u32 base = 0;
	__u64 at;

	switch (check->place) {
	case BASE_NETWORK:
		base = walk->network_at;
		break;
	case BASE_TRANSPORT:
		base = walk->transport_at;
		break;
	case BASE_PAYLOAD:
		base = walk->payload_at;
		break;
	}
	if (base == NOWHERE)
		return 0;
	at = (__u64)base + check->number;
	if (at + check->count > walk->end_of_frame)
		return 0;
	if (at + check->count > walk->copied)
		return has_far_bytes(ctx, check, at, walk);
	return (word_of(walk, at) & check->bits.mask) == check->bits.value;
}

/* Asks about headers that a walk has found. */
__alone int holds_walked(struct xdp_md *ctx, __u32 index)
{
	const struct rule_check *check = bpf_map_lookup_elem(&checks, &index);
	const struct walk *walk = this_walk();

	if (!check || !walk)
		return 0;
	switch (check->kind) {
	case CHECK_BYTES:
		return has_bytes(ctx, check, walk);
	case CHECK_VLAN:
		return any_of(walk->vlans, walk->vlan_count, check);
	case CHECK_ETHER_TYPE:
		return any_of(walk->types, walk->type_count, check);
	case CHECK_MPLS:
		return any_label(walk, check);
	case CHECK_MAC:
		return has_mac(walk, check);
	}
	return 0;
}

static __always_inline int holds(struct xdp_md *ctx, const struct packet_fields *fields,
				 __u32 index, const struct rule_check *check)
{
	switch (check->kind) {
	case CHECK_TCP_FLAGS:
		return !(fields->tcp_flags & NO_TCP) &&
		       (fields->tcp_flags & check->number) == check->number &&
		       !(fields->tcp_flags & check->spans[0]);
	case CHECK_LENGTH:
		return is_in_spans(check, fields->wire_bytes);
	}
	walk_once(ctx, fields);
	return holds_walked(ctx, index);
}

/* True if some checks in a row hold, from `first` on. */
__alone int all_hold(struct xdp_md *ctx, __u32 first, __u32 count)
{
	const struct judgement *judged = this_judgement();
	__u32 i;

	if (!judged)
		return 0;
	for (i = 0; i < RULE_CHECKS_MAX; i++) {
		const struct rule_check *check;
		__u32 index = first + i;

		if (i >= count)
			return 1;
		check = bpf_map_lookup_elem(&checks, &index);
		if (!check || holds(ctx, &judged->fields, index, check) == check->is_negated)
			return 0;
	}
	return 1;
}

/* The same of checks whose answers are those of the flow: they are about address sets. */
__alone int all_hold_of_flow(__u32 first, __u32 count)
{
	__u32 i;

	for (i = 0; i < RULE_CHECKS_MAX; i++) {
		const struct rule_check *check;
		__u32 index = first + i;

		if (i >= count)
			return 1;
		check = bpf_map_lookup_elem(&checks, &index);
		if (!check || is_in_set(check->number, check->place) == check->is_negated)
			return 0;
	}
	return 1;
}

#endif
