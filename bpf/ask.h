/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What happens where a frame meets a rule: it is asked what the tables do not know, the rule
 * counts, and what it says is noted.
 */
#ifndef RINGSIDE_ASK_H
#define RINGSIDE_ASK_H

#include "checks.h"

RULES_ARRAY(counts, sizeof(struct rule_counts)); /* of each slot, CPU after CPU */
RULES_ARRAY(samples, 8); /* frames that met a rule with a sample, by extras, CPU after CPU */

static __always_inline void count_rule(const struct judgement *judged, __u32 slot)
{
	__u32 index = judged->cpu * config.slots + slot;
	struct rule_counts *count = bpf_map_lookup_elem(&counts, &index);

	if (count) {
		count->frames++;
		count->bytes += judged->fields.wire_bytes;
	}
}

/* A rule that the frame met; where others may have to count it, counting waits. */
static __always_inline void meet(struct judgement *judged, __u32 slot)
{
	if (!config.shares) {
		count_rule(judged, slot);
	} else if (judged->met_count < MET_MAX) {
		judged->met[judged->met_count & (MET_MAX - 1)] = slot;
		judged->met_count++;
	} else {
		judged->is_foreign = judged->is_over = 1;
	}
}

static __always_inline void decide(struct judgement *judged, __u32 slot, __u32 fate, __u32 target)
{
	if (judged->fate == FATE_NONE && fate != FATE_NONE) {
		judged->fate = fate;
		judged->target = target;
		judged->decided_by = slot + 1;
	}
}

/* True for one frame in `one_in`, counted on each CPU. */
static __always_inline int is_in_sample(__u32 cpu, __u32 extra, __u32 one_in)
{
	__u32 index = cpu * config.extras + extra;
	__u64 *met = bpf_map_lookup_elem(&samples, &index);

	return met && one_in && (*met)++ % one_in == 0;
}

/* Asks a rule that the tables found what they do not know of the frame; then does what it says. */
__alone int ask(struct xdp_md *ctx, __u32 slot)
{
	const struct rule_record *record = bpf_map_lookup_elem(&records, &slot);
	struct judgement *judged = this_judgement();
	const struct rule_extras *more;
	__u32 word, target = 0;

	if (!record || !judged)
		return 0;
	word = record->word;
	if (word & RULE_FOREIGN) {
		judged->is_foreign = judged->is_over = 1;
		return 0;
	}
	if (word & (RULE_CHECKS | RULE_SAMPLES | RULE_TARGETS)) {
		__u32 index = record->extras;

		more = bpf_map_lookup_elem(&extras, &index);
		if (!more)
			return 0;
		if (more->frame_checks &&
		    !all_hold(ctx, more->checks + more->flow_checks, more->frame_checks))
			return 0;
		if ((word & RULE_SAMPLES) && !is_in_sample(judged->cpu, index, more->one_in))
			return 0;
		target = more->target;
	}
	meet(judged, slot);
	decide(judged, slot, word & 0xff, target);
	if (!(word & RULE_CONTINUES))
		judged->is_over = 1;
	return 0;
}

#endif
