/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a capture leaf counts, by queue. The counters need no atomic operations: on one CPU the
 * kernel runs no XDP program in the middle of another.
 */
#ifndef RINGSIDE_COUNTERS_H
#define RINGSIDE_COUNTERS_H

#include "abi.h"

/* A value for each queue, and one behind them for queues that appeared later. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 2); /* one more than queues, from user space */
	__type(key, __u32);
	__type(value, struct capture_counters);
} counters SEC(".maps");

#endif
