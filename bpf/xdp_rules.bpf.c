// SPDX-License-Identifier: Apache-2.0
/*
 * Judges frames by rules inside the driver: the meaning is that of crates/rules, whose `Engine` a
 * test compares it with frame by frame. Exact rules come first, then wildcard rules by rising id;
 * which of these come into question for a conversation is remembered, until they change.
 *
 * Every frame is counted in one place. Where a capture stands behind (config.shares), a frame that
 * meets a rule which cannot be decided here goes on as if no rule had been asked, and what goes
 * up to the capture is counted there.
 */
#include "behind.h"
#include "look.h"
#include "sources.h"

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

/* Asks the exact rules of a conversation from the next on. */
__alone int ask_exact(struct xdp_md *ctx)
{
	bpf_loop(STEPS_OVER_RULES_MAX, ask_exact_step, &ctx, 0);
	return 0;
}

__alone int ask_candidates(struct xdp_md *ctx)
{
	struct judgement *judged = this_judgement();
	__u32 i;

	if (!judged)
		return 0;
	for (i = 0; i < CANDIDATES_MAX; i++) {
		if (i >= judged->candidate_count || judged->is_over)
			break;
		ask(ctx, judged->candidates[i]);
	}
	return 0;
}

static long ask_rest_step(__u32 index, struct xdp_md **ctx)
{
	struct judgement *judged = this_judgement();

	if (!judged)
		return 1;
	judged->candidate_count = 0;
	find_candidates();
	ask_candidates(*ctx);
	return judged->is_over || !judged->is_cut;
}

/* Asks all rules of the search behind the first candidates. */
__alone int ask_rest(struct xdp_md *ctx)
{
	bpf_loop(STEPS_OVER_RULES_MAX, ask_rest_step, &ctx, 0);
	return 0;
}

static __always_inline void judge(struct xdp_md *ctx, struct judgement *judged, const __u64 *words)
{
	judged->target = judged->is_over = judged->is_foreign = judged->met_count = 0;
	switch (look(judged, words)) {
	case LOOK_DECIDED:
		return;
	case LOOK_PLAIN:
		meet(judged, judged->candidates[0]);
		decide(judged, judged->candidates[0], judged->candidate_count, 0);
		return;
	case LOOK_ASK:
		break;
	}
	if (judged->candidate_count)
		ask_candidates(ctx);
	if (likely(!judged->is_cut || judged->is_over))
		return;
	if (judged->next)
		ask_exact(ctx);
	if (!judged->is_over)
		ask_rest(ctx);
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
		total->undecided_bytes += judged->fields.wire_bytes;
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
			note_offender(&judged->fields, seed, judged->cpu, config.offenders, 1);
		return config.is_dry ? go_behind(ctx, config.position, config.metadata) : XDP_DROP;
	}
	if (config.sources && !may_send(&judged->fields, seed)) {
		total->limited++;
		if (config.offenders)
			note_offender(&judged->fields, seed, judged->cpu, config.offenders, 1);
		return config.is_dry ? go_behind(ctx, config.position, config.metadata) : XDP_DROP;
	}
	if (judged->fate == FATE_TAKE) {
		total->taken++;
		return go_behind(ctx, config.position, config.metadata);
	}
	if (judged->fate == FATE_PASS) {
		total->passed++;
		if (!config.shares || config.is_dry)
			return go_behind(ctx, config.position, config.metadata);
		if (config.metadata == METADATA_FULL)
			drop_metadata(ctx);
		return XDP_PASS;
	}
	total->redirected++;
	if (config.is_dry)
		return go_behind(ctx, config.position, config.metadata);
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
	walk_once(ctx, &judged->fields);
	report->address[0] = judged->fields.address[0];
	report->address[1] = judged->fields.address[1];
	report->address[2] = judged->fields.address[2];
	report->address[3] = judged->fields.address[3];
	report->rest = judged->fields.rest;
	report->count++;
	report->fate = judged->fate;
	report->decided_by = judged->decided_by;
	report->is_judged = is_judged;
	report->tcp_flags = judged->fields.tcp_flags;
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
	judged->fields.is_walked = 0;
	judged->fields.wire_bytes = bpf_xdp_get_buff_len(ctx);
	if (config.metadata == METADATA_FULL && metadata_of(ctx))
		judged->fields.wire_bytes += 4;
	if (unlikely(!see_plain(ctx, &judged->fields))) {
		total->walked++;
		if (!see_walked(ctx, config.metadata == METADATA_FULL)) {
			total->unjudged++;
			if (config.reports)
				report(ctx, 0);
			return go_behind(ctx, config.position, config.metadata);
		}
	}
	judge(ctx, judged, words);
	if (unlikely(!settle(judged, total, words))) {
		total->handed_up++;
		if (config.reports)
			report(ctx, 1);
		return go_behind(ctx, config.position, config.metadata);
	}
	if (config.reports)
		report(ctx, 1);
	return carry_out(ctx, judged, total, words[CONTROL_SEED]);
}

const char terms[] SEC("license") = "Apache-2.0";
