/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * The balancer's maps. The frame under decision lies in memory of the CPU: on one CPU no XDP
 * program runs in the middle of another, and on the stack the verifier would follow each of its
 * values through every function.
 */
#ifndef RINGSIDE_BALANCE_WORK_H
#define RINGSIDE_BALANCE_WORK_H

#include "abi.h"
#include "frame.h"

const volatile struct balance_config config = {};

/* An array that user space has mapped, of as many values as it says. */
#define BALANCE_ARRAY(name, bytes)                          \
	struct {                                            \
		__uint(type, BPF_MAP_TYPE_ARRAY);           \
		__uint(map_flags, BPF_F_MMAPABLE);          \
		__uint(max_entries, 1);                     \
		__uint(key_size, 4);                        \
		__uint(value_size, bytes);                  \
	} name SEC(".maps")

BALANCE_ARRAY(balance_controls, sizeof(struct balance_control));
/* Two generations, one behind the other. */
BALANCE_ARRAY(balance_setting, sizeof(struct balance_settings));
BALANCE_ARRAY(balance_keys, sizeof(struct balance_key));
BALANCE_ARRAY(balance_vips, sizeof(struct balance_vip));
BALANCE_ARRAY(balance_reals, sizeof(struct balance_real));
BALANCE_ARRAY(balance_lines, sizeof(struct balance_slots));
BALANCE_ARRAY(balance_vip_own, sizeof(struct balance_vip_owner));
BALANCE_ARRAY(balance_real_own, sizeof(struct balance_real_owner));
BALANCE_ARRAY(balance_gones, sizeof(struct balance_gone));
/* A part for each CPU, which is its only writer. */
BALANCE_ARRAY(balance_flows, sizeof(struct balance_set));
BALANCE_ARRAY(balance_guards, sizeof(struct balance_guard));
BALANCE_ARRAY(balance_vip_count, sizeof(struct balance_vip_counts));
BALANCE_ARRAY(balance_real_count, sizeof(struct balance_real_counts));
BALANCE_ARRAY(balance_total, sizeof(struct balance_totals));

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__uint(key_size, 4);
	__uint(value_size, sizeof(struct work));
} works SEC(".maps");

static __always_inline struct work *this_work(void)
{
	__u32 key = 0;

	return bpf_map_lookup_elem(&works, &key);
}

static __always_inline struct balance_settings *settings_of(const struct work *work)
{
	__u32 key = work->generation;

	return bpf_map_lookup_elem(&balance_setting, &key);
}

/* What tables say is believed as far as it is an index. */
static __always_inline struct balance_vip *vip_at(__u32 generation, __u32 index)
{
	__u32 key = generation * config.vips + index;

	return index < config.vips ? bpf_map_lookup_elem(&balance_vips, &key) : 0;
}

static __always_inline struct balance_real *real_at(__u32 generation, __u32 index)
{
	__u32 key = generation * config.reals + index;

	return index < config.reals ? bpf_map_lookup_elem(&balance_reals, &key) : 0;
}

static __always_inline void count(const struct work *work, enum balance_count what)
{
	__u32 key = work->cpu * config.vips + work->vip;
	struct balance_vip_counts *counts = bpf_map_lookup_elem(&balance_vip_count, &key);

	if (counts && work->vip < config.vips)
		counts->counts[what]++;
}

/* The interface's hardware address. */
static __always_inline void own_mac(__u8 *mac)
{
	*(__u32 *)mac = *(const volatile __u32 *)config.mac;
	*(__u16 *)(mac + 4) = *(const volatile __u16 *)(config.mac + 4);
}

/* Counts a frame that goes no further. */
static __always_inline int drop(const struct work *work, enum balance_count cause)
{
	count(work, cause);
	return XDP_DROP;
}

#endif
