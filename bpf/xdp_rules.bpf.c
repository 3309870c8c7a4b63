// SPDX-License-Identifier: Apache-2.0
/*
 * Judges frames by rules inside the driver: the meaning is that of crates/rules, whose `Engine` a
 * test compares it with frame by frame. Exact rules come first, then wildcard rules by rising id;
 * which of these come into question for a conversation is remembered, until they change.
 *
 * Every frame is counted in one place. Where a capture stands behind (config.shares), a frame that
 * meets a rule which cannot be decided here goes on as if nobody had looked at it, and what goes
 * up to the capture is counted there.
 */
#include "checks.h"
#include "leaves.h"
#include "metadata.h"
#include "sources.h"

RULES_ARRAY(counts, sizeof(struct rule_counts)); /* of each slot, CPU after CPU */
RULES_ARRAY(samples, 8); /* frames that met a rule with a sample, by extras, CPU after CPU */
RULES_ARRAY(totals, sizeof(struct rules_totals));
RULES_ARRAY(reports, sizeof(struct rules_report));

/* What rules say in words, for user space alone: these go where the others go. */
RULES_ARRAY(titles, 8); /* of each slot: first piece of its text, and bytes */
RULES_ARRAY(texts, 16);

struct {
	__uint(type, BPF_MAP_TYPE_CPUMAP);
	__uint(max_entries, 1); /* from user space */
	__uint(key_size, 4);
	__uint(value_size, 4);
} cpus SEC(".maps");

/* Steps of a loop over rules: through every word and bit of the tables, and more than once. */
#define STEPS_OVER_RULES_MAX (1 << 22)

/* How often rules are looked for while they change: a change takes longer than a look. */
#define LOOKS_MAX 3

static __always_inline void count_rule(const struct judgement *judged, __u32 slot)
{
	__u32 index = judged->cpu * config.slots + slot;
	struct rule_counts *count = bpf_map_lookup_elem(&counts, &index);

	if (count) {
		count->frames++;
		count->bytes += judged->sight.wire_bytes;
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

/* One in so many, counted on each CPU. */
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

static long ask_exact_step(__u32 index, struct xdp_md **ctx)
{
	struct judgement *judged = this_judgement();
	const __u64 *flow;
	__u32 key;

	if (!judged)
		return 1;
	key = judged->next;
	flow = bpf_map_lookup_elem(&flows, &key);
	if (!flow)
		return 1;
	judged->next = flow[FLOW_NEXT];
	ask(*ctx, flow[FLOW_RULE]);
	return judged->is_over || !judged->next;
}

/* Asks the exact rules of a conversation, of which the first was found. */
__alone int ask_exact(struct xdp_md *ctx)
{
	bpf_loop(STEPS_OVER_RULES_MAX, ask_exact_step, &ctx, 0);
	return 0;
}

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
	judged->candidates[judged->candidate_count & (MEMORY_SLOTS - 1)] = slot;
	judged->candidate_count++;
	if (!(record->word & (~(0xffU | RULE_CHECKS) | asks))) {
		judged->is_plain = 1;
		judged->is_cut = 0;
		return 1;
	}
	return judged->candidate_count >= MEMORY_SLOTS;
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
 * Fills the list of candidates with the next rules of the search, up to one that ends it. Plain
 * loops: a call for each step would cost more than most of the steps.
 */
__alone int find_candidates(void)
{
	struct judgement *judged = this_judgement();
	struct search search;
	__u64 above, left;
	__u32 i, summary, word;

	if (!judged)
		return 0;
	judged->candidate_count = judged->is_plain = judged->is_cut = 0;
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

__alone int ask_candidates(struct xdp_md *ctx)
{
	struct judgement *judged = this_judgement();
	__u32 i;

	if (!judged)
		return 0;
	for (i = 0; i < MEMORY_SLOTS; i++) {
		if (i >= judged->candidate_count || judged->is_over)
			break;
		ask(ctx, judged->candidates[i]);
	}
	return 0;
}

static long ask_rest_step(__u32 index, struct xdp_md **ctx)
{
	struct judgement *judged = this_judgement();

	find_candidates();
	ask_candidates(*ctx);
	return !judged || judged->is_over || !judged->is_cut;
}

/* Asks all rules of the search behind the first candidates. */
__alone int ask_rest(struct xdp_md *ctx)
{
	bpf_loop(STEPS_OVER_RULES_MAX, ask_rest_step, &ctx, 0);
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
	known->address[0] = judged->sight.address[0];
	known->address[1] = judged->sight.address[1];
	known->address[2] = judged->sight.address[2];
	known->address[3] = judged->sight.address[3];
	known->rest = judged->sight.rest;
	known->generation = generation;
	known->count = count;
	known->slots[0] = slot;
	known->slots[1] = judged->candidates[1];
	known->slots[2] = judged->candidates[2];
	known->slots[3] = judged->candidates[3];
}

static __always_inline int is_about(const struct rules_memory *known, const struct sight *sight)
{
	return known->rest == sight->rest && known->address[0] == sight->address[0] &&
	       known->address[1] == sight->address[1] && known->address[2] == sight->address[2] &&
	       known->address[3] == sight->address[3];
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
	/* A zero in memory that nobody has written is no generation. */
	__u32 generation = (__u32)read_control(words, CONTROL_GENERATION) + 1;
	struct rules_memory *first = place_of(judged, hash >> 16), *second;

	if (!first)
		return 0;
	if (likely(first->generation == generation && is_about(first, &judged->sight)))
		return recall(judged, first);
	second = place_of(judged, hash >> 40);
	if (!second)
		return 0;
	if (likely(second->generation == generation && is_about(second, &judged->sight)))
		return recall(judged, second);
	begin_search(judged);
	find_candidates();
	if (judged->is_cut)
		return 0;
	/* The second place is taken by turns with the first, if both are in use. */
	if (first->generation == generation &&
	    (second->generation != generation || (judged->turns++ & 1)))
		first = second;
	remember(judged, first, generation);
	return 0;
}

/*
 * Finds the rules of a frame. Where they change meanwhile it looks again, so that it never sees a
 * rule gone and the one that was to replace it not yet come. True if one rule decides, whose fate
 * stands in place of the number of candidates.
 */
static __always_inline int look(struct judgement *judged, const __u64 *words)
{
	__u64 hash = hash_of(&judged->sight, words[CONTROL_SEED]), changes;
	__u32 looks;
	int is_plain = 0;

	for (looks = 0; looks < LOOKS_MAX; looks++) {
		changes = read_control(words, CONTROL_CHANGES);
		judged->next = find_exact(&judged->sight, words, hash);
		if (judged->next)
			return 0;
		if (read_control(words, CONTROL_WILDCARDS))
			is_plain = look_up(judged, words, hash);
		else
			is_plain = judged->candidate_count = judged->is_cut = 0;
		if (likely(read_control(words, CONTROL_CHANGES) == changes))
			break;
	}
	return is_plain;
}

/* Most conversations with an exact rule have one, which decides: true if that was so. */
static __always_inline int is_only_exact(struct judgement *judged)
{
	__u32 key = judged->next, slot;
	const __u64 *flow = bpf_map_lookup_elem(&flows, &key);
	const struct rule_record *record;

	if (!flow || flow[FLOW_NEXT])
		return 0;
	slot = flow[FLOW_RULE];
	record = bpf_map_lookup_elem(&records, &slot);
	if (!record || record->word & ~0xffU)
		return 0;
	meet(judged, slot);
	decide(judged, slot, record->word & 0xff, 0);
	return 1;
}

static __always_inline void judge(struct xdp_md *ctx, struct judgement *judged, const __u64 *words)
{
	judged->target = judged->is_over = judged->is_foreign = judged->met_count = 0;
	if (look(judged, words)) {
		meet(judged, judged->candidates[0]);
		decide(judged, judged->candidates[0], judged->candidate_count, 0);
		return;
	}
	if (judged->next) {
		if (likely(is_only_exact(judged)))
			return;
		ask_exact(ctx);
		if (judged->is_over || !read_control(words, CONTROL_WILDCARDS))
			return;
		/* Frames that an exact rule only counts are few. */
		begin_search(judged);
		find_candidates();
	}
	if (judged->candidate_count)
		ask_candidates(ctx);
	if (unlikely(judged->is_cut && !judged->is_over))
		ask_rest(ctx);
}

/* To the programs behind this one, and to the host. */
static __always_inline int go_behind(struct xdp_md *ctx)
{
	try_leaves(ctx, config.position + 1);
	if (config.metadata == METADATA_FULL)
		drop_metadata(ctx);
	return XDP_PASS;
}

/* Counts what the frame met; false if that is for others to do. */
static __always_inline int settle(struct judgement *judged, struct rules_totals *total,
				  const __u64 *words)
{
	__u32 i;

	if (judged->fate == FATE_NONE)
		judged->fate = (__u32)read_control(words, CONTROL_DEFAULT);
	if (config.shares) {
		if (judged->is_foreign || judged->fate == FATE_TAKE)
			return 0;
		for (i = 0; i < MET_MAX; i++) {
			if (i >= judged->met_count)
				break;
			count_rule(judged, judged->met[i]);
		}
	}
	if (!judged->decided_by) {
		total->undecided++;
		total->undecided_bytes += judged->sight.wire_bytes;
	}
	return 1;
}

/* Does what was decided. */
static __always_inline int carry_out(struct xdp_md *ctx, const struct judgement *judged,
				     struct rules_totals *total, __u64 seed)
{
	__u32 target = judged->target;

	if (judged->fate == FATE_DROP) {
		total->dropped++;
		if (config.offenders)
			note_offender(&judged->sight, seed, judged->cpu);
		return config.is_dry ? go_behind(ctx) : XDP_DROP;
	}
	if (config.sources && !may_send(&judged->sight, seed)) {
		total->limited++;
		if (config.offenders)
			note_offender(&judged->sight, seed, judged->cpu);
		return config.is_dry ? go_behind(ctx) : XDP_DROP;
	}
	if (judged->fate == FATE_TAKE) {
		total->taken++;
		return go_behind(ctx);
	}
	if (judged->fate == FATE_PASS) {
		total->passed++;
		if (!config.shares || config.is_dry)
			return go_behind(ctx);
		if (config.metadata == METADATA_FULL)
			drop_metadata(ctx);
		return XDP_PASS;
	}
	total->redirected++;
	if (config.is_dry)
		return go_behind(ctx);
	if (config.metadata == METADATA_FULL)
		drop_metadata(ctx);
	if (judged->fate == FATE_INTERFACE)
		return bpf_redirect(target, 0);
	return bpf_redirect_map(&cpus, target, XDP_PASS);
}

/* What tests ask about. */
__alone int report(struct xdp_md *ctx, __u32 is_judged)
{
	__u32 key = 0;
	struct rules_report *report = bpf_map_lookup_elem(&reports, &key);
	struct judgement *judged = this_judgement();
	struct walk *walk = this_walk();

	if (!report || !walk || !judged)
		return 0;
	walk_once(ctx, &judged->sight);
	report->address[0] = judged->sight.address[0];
	report->address[1] = judged->sight.address[1];
	report->address[2] = judged->sight.address[2];
	report->address[3] = judged->sight.address[3];
	report->rest = judged->sight.rest;
	report->count++;
	report->fate = judged->fate;
	report->decided_by = judged->decided_by;
	report->is_judged = is_judged;
	report->tcp_flags = judged->sight.tcp_flags;
	report->mac_at = walk->mac_at;
	report->network_at = walk->network_at;
	report->transport_at = walk->transport_at;
	report->payload_at = walk->payload_at;
	return 0;
}

SEC("xdp.frags")
int xdp_rules(struct xdp_md *ctx)
{
	__u32 key = 0, cpu = bpf_get_smp_processor_id();
	struct rules_totals *total = bpf_map_lookup_elem(&totals, &cpu);
	const __u64 *words = bpf_map_lookup_elem(&control, &key);
	struct judgement *judged = this_judgement();

	/* The maps have room for every CPU that the kernel may have. */
	if (!total || !words || !judged)
		return XDP_ABORTED;
	judged->cpu = cpu;
	judged->fate = FATE_NONE;
	judged->decided_by = 0;
	judged->sight.is_walked = 0;
	judged->sight.wire_bytes = bpf_xdp_get_buff_len(ctx);
	if (config.metadata == METADATA_FULL && metadata_of(ctx))
		judged->sight.wire_bytes += 4;
	if (unlikely(!see_plain(ctx, &judged->sight))) {
		total->walked++;
		if (!see_walked(ctx, config.metadata == METADATA_FULL)) {
			total->unjudged++;
			if (config.reports)
				report(ctx, 0);
			return go_behind(ctx);
		}
	}
	judge(ctx, judged, words);
	if (unlikely(!settle(judged, total, words))) {
		total->handed_up++;
		if (config.reports)
			report(ctx, 1);
		return go_behind(ctx);
	}
	if (config.reports)
		report(ctx, 1);
	return carry_out(ctx, judged, total, words[CONTROL_SEED]);
}

const char terms[] SEC("license") = "Apache-2.0";
