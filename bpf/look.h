/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which rules come into question for a frame. All are found before the first is asked, in one state
 * of the tables; those of a conversation are remembered, until they change.
 */
#ifndef RINGSIDE_LOOK_H
#define RINGSIDE_LOOK_H

#include "ask.h"

/*
 * How often rules are looked for while they change. A lookup is repeated only if a change ended in
 * the middle. Even with changes one after the other that does not happen 64 times in a row.
 */
#define LOOKS_MAX 64

/* Adds a rule that the search found to the candidates; 1 if it ends them. */
static __always_inline int add_candidate(struct judgement *judged, __u32 slot)
{
	const struct rule_record *record = bpf_map_lookup_elem(&records, &slot);
	const struct rule_extras *more;
	__u32 index, asks = RULE_CHECKS;

	if (!record)
		return 1;
	if (record->word & RULE_CHECKS) {
		index = record->extras;
		more = bpf_map_lookup_elem(&extras, &index);
		if (!more)
			return 1;
		/* What the conversation alone says is asked once for all its frames. */
		if (more->flow_checks && !all_hold_of_flow(more->checks, more->flow_checks))
			return 0;
		asks = more->frame_checks ? RULE_CHECKS : 0;
	}
	judged->candidates[judged->candidate_count & (CANDIDATES_MAX - 1)] = slot;
	judged->candidate_count++;
	if (!(record->word & (~(0xffU | RULE_CHECKS) | asks))) {
		judged->is_plain = 1;
		judged->is_cut = 0;
		return 1;
	}
	return judged->candidate_count >= CANDIDATES_MAX;
}

/* Adds the rules of a word's bits to the candidates; 1 if one ends them. */
__alone int add_word(__u64 left, __u32 word)
{
	struct judgement *judged = this_judgement();
	__u32 i;

	if (!judged)
		return 1;
	for (i = 0; i < 64; i++) {
		__u32 bit, slot;

		if (!left)
			return 0;
		/* Bits of a word are not in order of their rules, words are. */
		bit = left & (left - 1) ? bit_of_lowest(left, word) : lowest_bit(left);
		left &= ~(1ULL << (bit & 63));
		slot = rule_of(word * 64 + bit);
		if (slot + 1 == judged->last)
			continue;
		judged->last = slot + 1;
		if (add_candidate(judged, slot)) {
			judged->left = left;
			return 1;
		}
	}
	return 0;
}

/*
 * Adds the next rules of the search to the candidates, up to one that ends it. Plain loops: a call
 * for each step would cost more than most of the steps.
 */
__alone int find_candidates(void)
{
	struct judgement *judged = this_judgement();
	struct search search;
	__u64 above, left;
	__u32 i, summary, word;

	if (!judged)
		return 0;
	judged->is_plain = judged->is_cut = 0;
	if (!find_rows(judged, &search))
		return 0;
	judged->is_cut = 1;
	left = judged->left;
	judged->left = 0;
	if (left && add_word(left, judged->word))
		return 0;
	for (summary = 0; summary < config.summary; summary++) {
		if (summary < judged->summary)
			continue;
		/* Where it was left, or from the first on. */
		above = judged->above;
		judged->above = 0;
		if (!above)
			above = common(&search, summary);
		for (i = 0; i < 64; i++) {
			if (!above)
				break;
			word = summary * 64 + lowest_bit(above);
			above &= above - 1;
			if (word >= config.words)
				break;
			left = common(&search, config.summary + word);
			if (left && add_word(left, word)) {
				judged->word = word;
				judged->above = above;
				/* A word that is empty now was the last of its summary. */
				judged->summary = above ? summary : summary + 1;
				return 0;
			}
		}
	}
	judged->is_cut = 0;
	judged->summary = config.summary;
	return 0;
}

/* Writes down which rules come into question for the conversation. */
static __always_inline void remember(const struct judgement *judged, struct rules_memory *known,
				     __u32 generation)
{
	__u32 count = judged->candidate_count, slot = judged->candidates[0];

	if (count == 1 && judged->is_plain) {
		const struct rule_record *record = bpf_map_lookup_elem(&records, &slot);

		count |= MEMORY_PLAIN | (record ? record->word & 0xff : FATE_NONE) << 8;
	}
	known->address[0] = judged->fields.address[0];
	known->address[1] = judged->fields.address[1];
	known->address[2] = judged->fields.address[2];
	known->address[3] = judged->fields.address[3];
	known->rest = judged->fields.rest;
	known->generation = generation;
	known->count = count;
	known->slots[0] = slot;
	known->slots[1] = judged->candidates[1];
	known->slots[2] = judged->candidates[2];
	known->slots[3] = judged->candidates[3];
}

static __always_inline int is_about(const struct rules_memory *known,
				    const struct packet_fields *fields)
{
	return known->rest == fields->rest && known->address[0] == fields->address[0] &&
	       known->address[1] == fields->address[1] && known->address[2] == fields->address[2] &&
	       known->address[3] == fields->address[3];
}

/* A word of control, which may have changed since it was read last. */
static __always_inline __u64 read_control(const __u64 *words, enum control_word word)
{
	return *(const volatile __u64 *)(words + word);
}

/* What is remembered at one of the two places of a conversation. */
static __always_inline struct rules_memory *place_of(const struct judgement *judged, __u32 hash)
{
	__u32 index = judged->cpu * config.memory + (hash & (config.memory - 1));

	return bpf_map_lookup_elem(&memory, &index);
}

/* Takes up what is remembered; true if one rule decides. */
static __always_inline int recall(struct judgement *judged, const struct rules_memory *known)
{
	__u32 count = known->count;

	judged->is_cut = 0;
	judged->candidates[0] = known->slots[0];
	if (likely(count & MEMORY_PLAIN)) {
		judged->candidate_count = count >> 8 & 0xff;
		return 1;
	}
	judged->candidate_count = count;
	judged->candidates[1] = known->slots[1];
	judged->candidates[2] = known->slots[2];
	judged->candidates[3] = known->slots[3];
	return 0;
}

/* Finds which wildcard rules come into question; true if one decides. */
static __always_inline int look_up(struct judgement *judged, const __u64 *words, __u64 hash)
{
	/* Memory that was never written holds zero, which is no generation. */
	__u32 generation = (__u32)read_control(words, CONTROL_GENERATION) + 1;
	struct rules_memory *first = place_of(judged, hash >> 16), *second;

	if (!first)
		return 0;
	if (likely(first->generation == generation && is_about(first, &judged->fields)))
		return recall(judged, first);
	second = place_of(judged, hash >> 40);
	if (!second)
		return 0;
	if (likely(second->generation == generation && is_about(second, &judged->fields)))
		return recall(judged, second);
	begin_search(judged);
	find_candidates();
	if (judged->is_cut || judged->candidate_count > MEMORY_SLOTS)
		return 0;
	/* The second place is taken by turns with the first, if both are in use. */
	if (first->generation == generation &&
	    (second->generation != generation || (judged->turns++ & 1)))
		first = second;
	remember(judged, first, generation);
	return 0;
}

/* What decides about a frame, as far as is known. */
enum look { LOOK_ASK, LOOK_PLAIN, LOOK_DECIDED };

/* Most conversations with an exact rule have one, which decides: true if that was so. Its fate is
 * next to its key, so that its record in another cache line is not read. */
static __always_inline int is_only_exact(struct judgement *judged)
{
	__u32 key = judged->next, slot;
	const __u64 *flow = bpf_map_lookup_elem(&flows, &key);

	if (!flow || flow[FLOW_NEXT] || !(flow[FLOW_NOTE] & RULE_NOTE_PLAIN))
		return 0;
	slot = flow[FLOW_RULE];
	meet(judged, slot);
	decide(judged, slot, flow[FLOW_NOTE] & 0xff, 0);
	return 1;
}

/*
 * Adds the exact rules of a conversation to the candidates, of which the first was found, and the
 * wildcard rules behind them. Frames that an exact rule only counts are few.
 */
__alone int find_behind_exact(__u32 has_wildcards)
{
	struct judgement *judged = this_judgement();
	__u32 i;

	if (!judged)
		return 0;
	for (i = 0; i < CANDIDATES_MAX; i++) {
		const struct rule_record *record;
		__u32 key = judged->next, slot;
		const __u64 *flow = bpf_map_lookup_elem(&flows, &key);

		if (!flow)
			return 0;
		slot = flow[FLOW_RULE];
		judged->next = flow[FLOW_NEXT];
		judged->candidates[i] = slot;
		judged->candidate_count = i + 1;
		record = bpf_map_lookup_elem(&records, &slot);
		if (!record || !(record->word & ~0xffU)) {
			judged->next = 0;
			return 0;
		}
		if (!judged->next)
			break;
	}
	begin_search(judged);
	if (judged->candidate_count >= CANDIDATES_MAX)
		judged->is_cut = 1;
	else if (has_wildcards)
		find_candidates();
	return 0;
}

/* Finds the rules of a frame, once. If one rule decides that is plain, its fate stands in place of
 * the number of candidates. */
static __always_inline enum look look_once(struct judgement *judged, const __u64 *words)
{
	__u64 hash = hash_of(&judged->fields, words[CONTROL_SEED]);

	judged->candidate_count = judged->is_cut = 0;
	judged->next = find_exact(&judged->fields, words, hash);
	if (judged->next) {
		if (likely(is_only_exact(judged)))
			return LOOK_DECIDED;
		find_behind_exact(read_control(words, CONTROL_WILDCARDS) != 0);
		return LOOK_ASK;
	}
	if (!read_control(words, CONTROL_WILDCARDS))
		return LOOK_ASK;
	return look_up(judged, words, hash) ? LOOK_PLAIN : LOOK_ASK;
}

__alone int look_again_once(void)
{
	struct judgement *judged = this_judgement();
	__u32 key = 0;
	const __u64 *words = bpf_map_lookup_elem(&control, &key);

	return judged && words ? look_once(judged, words) : LOOK_DECIDED;
}

/* Looks until nothing changes meanwhile. */
__alone int look_again(void)
{
	__u32 key = 0, looks;
	const __u64 *words = bpf_map_lookup_elem(&control, &key);
	int found = LOOK_ASK;

	if (!words)
		return LOOK_DECIDED;
	for (looks = 0; looks < LOOKS_MAX; looks++) {
		__u64 changes = read_control(words, CONTROL_CHANGES);

		found = look_again_once();
		if (found == LOOK_DECIDED || read_control(words, CONTROL_CHANGES) == changes)
			break;
	}
	return found;
}

/*
 * Finds the rules of a frame. Where they change meanwhile it looks again, so that it never sees a
 * rule gone and the one that was to replace it not yet come.
 */
static __always_inline int look(struct judgement *judged, const __u64 *words)
{
	__u64 changes = read_control(words, CONTROL_CHANGES);
	enum look found = look_once(judged, words);

	if (likely(found == LOOK_DECIDED || read_control(words, CONTROL_CHANGES) == changes))
		return found;
	return look_again();
}

#endif
