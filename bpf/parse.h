/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What rules ask of a frame first: addresses, ports and protocol of its outer IP header. The
 * answers are those of `Key::of` (crates/rules/src/key.rs) for every frame; a test compares.
 *
 * Nearly all frames are plain (plain.h). All others are walked header by header over a copy of
 * their beginning (walk.h), which also says where things are that few rules ask about.
 */
#ifndef RINGSIDE_PARSE_H
#define RINGSIDE_PARSE_H

#include "metadata.h"
#include "plain.h"

/* Rules that a frame may meet where counting waits for its fate; with more it is handed up. */
#define MET_MAX 8
/* Rows of a packet: which rules are live, and those that accept each of its five fields. */
#define ROWS 6

/*
 * Rules that are found before the first is asked, a power of two. These come from one state of the
 * tables, whatever changes meanwhile. A frame with more candidates may meet some rules of before a
 * change and some of after it. Most frames meet one.
 */
#define CANDIDATES_MAX 64

/*
 * A frame under judgement. It is in memory of the CPU: on one CPU no XDP program runs in the middle
 * of another. On the stack the verifier would follow each of its values.
 */
struct judgement {
	struct packet_fields fields;
	__u32 cpu;
	__u32 fate;
	__u32 target;     /* of a redirect */
	__u32 decided_by; /* slot and one */
	__u32 is_over;    /* no further rule is asked */
	__u32 is_foreign; /* it met a rule that is not for the driver */
	__u32 next;       /* the next exact rule, or 0 */
	__u32 met_count;
	__u32 met[MET_MAX];
	__u32 candidate_count;
	__u32 is_plain; /* the last candidate decides, and asks nothing more */
	__u32 is_cut;   /* there may be more candidates */
	/* Going through the rules that the tables find. */
	__u32 classes[ROWS];
	__u32 summary;
	__u32 word;
	__u32 last;  /* slot and one of the rule found last: it may have several bits */
	__u32 turns; /* of conversations in their memory */
	__u64 above; /* words that are still to be looked at, of the summary's word */
	__u64 left;  /* bits of the word that are still to be looked at */
	__u32 candidates[CANDIDATES_MAX]; /* slots of rules that come into question */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__uint(key_size, 4);
	__uint(value_size, sizeof(struct judgement));
} judgements SEC(".maps");

static __always_inline struct judgement *this_judgement(void)
{
	__u32 key = 0;

	return bpf_map_lookup_elem(&judgements, &key);
}

#endif
