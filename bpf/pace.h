/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* When a program that makes frames by live test runs makes one, at an even rate. */
#ifndef RINGSIDE_PACE_H
#define RINGSIDE_PACE_H

#include "abi.h"

/* Of the gap and of times: nanoseconds in units of 1/256. */
#define TIME_SHIFT 8
/*
 * Two schedules say when a frame leaves. By the first it is due: what a generator missed that was
 * held up (a stalled CPU: 4 ms) it makes up for, so that the mean rate is kept; beyond 100 ms it is
 * not made up, and the rate shows it.
 */
#define DEBT_MAX (100000000ULL << TIME_SHIFT)
/*
 * By the second, whose gaps are an eighth shorter, it may leave: a frame may come early by 48 us,
 * at five million a second what a ring of 256 holds. So a generator that catches up does so an
 * eighth above its rate, and not in a burst that the receiver has no room for.
 */
#define EARLY_MAX (48000ULL << TIME_SHIFT)
/*
 * Frames that leave in a row when as many are overdue. Reading the clock costs 31 ns, a quarter of
 * a frame; a receiver's ring does not notice eight.
 */
#define GRANT_MAX 8

/*
 * True if there is a frame to be made now: without a gap always. The rest is the state of a CPU, at
 * first 0. Differences only, so that the clock may wrap.
 */
static __always_inline int is_due(__u64 gap, __u64 *due, __u64 *earliest, __u32 *granted)
{
	__u64 now, overdue, short_gap = gap - gap / 8;

	if (!gap)
		return 1;
	if (*granted) {
		(*granted)--;
		return 1;
	}
	now = bpf_ktime_get_ns() << TIME_SHIFT;
	if (!*due)
		*due = *earliest = now;
	if ((__s64)(now - *due) < 0 || (__s64)(now - *earliest) < 0)
		return 0;
	if (now - *due > DEBT_MAX)
		*due = now - DEBT_MAX;
	if (now - *earliest > EARLY_MAX)
		*earliest = now - EARLY_MAX;
	overdue = now - *due < now - *earliest ? now - *due : now - *earliest;
	overdue /= gap;
	if (overdue > GRANT_MAX - 1)
		overdue = GRANT_MAX - 1;
	*granted = overdue;
	*due += gap * (overdue + 1);
	*earliest += short_gap * (overdue + 1);
	return 1;
}

#endif
