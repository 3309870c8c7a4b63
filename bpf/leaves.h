/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * The array of programs that share one interface, as the root and every leaf declare it.
 *
 * The root tries the positions in order by tail calls; a leaf that does not keep a frame tries
 * those behind its own. An index that is known when a program is loaded becomes a direct jump,
 * and an empty position none at all.
 */
#ifndef RINGSIDE_LEAVES_H
#define RINGSIDE_LEAVES_H

#include "abi.h"

struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, ROOT_POSITIONS);
	__uint(key_size, 4);
	__uint(value_size, 4);
} ringside_leaves SEC(".maps");

/* Returns only if no program stands at `first` or behind. */
static __always_inline void try_leaves(struct xdp_md *ctx, __u32 first)
{
	if (first <= 0)
		bpf_tail_call(ctx, &ringside_leaves, 0);
	if (first <= 1)
		bpf_tail_call(ctx, &ringside_leaves, 1);
	if (first <= 2)
		bpf_tail_call(ctx, &ringside_leaves, 2);
	if (first <= 3)
		bpf_tail_call(ctx, &ringside_leaves, 3);
	_Static_assert(ROOT_POSITIONS == 4, "a call for each position");
}

#endif
