/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Which VIP a packet is to, and which real gets it: as crates/balance/src/balancer.rs says. */
#ifndef RINGSIDE_BALANCE_CHOOSE_H
#define RINGSIDE_BALANCE_CHOOSE_H

#include "read.h"

#define SECOND_NS 1000000000ULL
/* Seed of flows; the same on every instance (crates/balance/src/hash.rs). */
#define SEED_FLOW 0x52494e47464c4f57ULL

static __always_inline __u32 ticks(__u64 now)
{
	return now >> 20;
}

/* A second: so far ahead another CPU's clock may be, which it reads once a tick. */
#define AHEAD_TICKS ((__u32)(SECOND_NS >> 20))

/* Half a minute. */
#define FRAGMENT_TICKS ((__u32)(30 * SECOND_NS >> 20))

/* The hash of a flow; the 0 behind the words has the last one reach every bit. */
static __always_inline __u64 hash_flow(const struct work *work, __u64 seed, __u64 rest)
{
	__u64 hash = mix(seed, work->source[0]);

	hash = mix(hash, work->source[1]);
	hash = mix(hash, work->destination[0]);
	hash = mix(hash, work->destination[1]);
	return mix(mix(hash, rest), 0);
}

/* Where the index has a key, unless others are there. */
static __always_inline __u32 place_of(const struct balance_settings *settings, __u64 high,
				      __u64 low, __u64 what)
{
	return mix(mix(mix(mix(settings->key_seed, high), low), what), 0);
}

/* The entry at a place, if there is one. */
static __always_inline struct balance_key *key_at(const struct work *work,
						  const struct balance_settings *settings,
						  __u32 place)
{
	__u32 mask = settings->key_mask & (config.keys - 1);
	__u32 key = work->generation * config.keys + (place & mask);
	struct balance_key *entry = bpf_map_lookup_elem(&balance_keys, &key);

	return entry && entry->value ? entry : 0;
}

static __always_inline int is_key(const struct balance_key *entry, __u64 high, __u64 low,
				  __u64 what)
{
	return entry->words[0] == high && entry->words[1] == low && entry->what == what;
}

/* The number of a key and 1; 0 if there is none. */
__alone int find_key(__u64 high, __u64 low, __u64 what)
{
	struct work *work = this_work();
	struct balance_settings *settings;
	struct balance_key *entry;
	__u32 i, first;

	if (!work)
		return 0;
	settings = settings_of(work);
	if (!settings)
		return 0;
	first = place_of(settings, high, low, what);
	for (i = 0; i < BALANCE_PROBES_MAX; i++) {
		entry = key_at(work, settings, first + i);
		if (!entry)
			return 0;
		if (is_key(entry, high, low, what))
			return entry->value;
	}
	return 0;
}

static __always_inline __u64 mask_of(__u32 bits)
{
	return bits >= 64 ? ~0ULL : bits ? ~0ULL << (64 - bits) : 0;
}

/* A prefix of the destination, as keys have it. */
struct prefix {
	__u64 high;
	__u64 low;
	__u64 what;
};

/* The prefix of the destination with a length that VIPs have; 0 if there is no such length. */
static __always_inline int cut(const struct work *work, const struct balance_settings *settings,
			       __u32 length, struct prefix *prefix)
{
	__u32 bits = work->version == 4 ? settings->lengths_v4[length] :
					  settings->lengths_v6[length];

	if (!bits--)
		return 0;
	prefix->what = (__u64)bits << 8 | (__u64)work->version << 24;
	if (work->version == 4)
		bits += 96;
	prefix->high = work->destination[0] & mask_of(bits);
	prefix->low = work->destination[1] & mask_of(bits > 64 ? bits - 64 : 0);
	return 1;
}

/* What a key of a VIP says of protocol and port. */
static __always_inline __u64 service(__u32 protocol, __u32 port)
{
	return KEY_VIP | (__u64)(protocol & 255) << 16 | (__u64)(port & 0xffff) << 32;
}

/*
 * The VIP of the destination, its number and 1: of this port and protocol; with protocol 0 any that
 * has the address.
 */
__alone int find_vip(__u32 protocol, __u32 port)
{
	struct work *work = this_work();
	struct balance_settings *settings;
	struct prefix prefix;
	__u64 what;
	__u32 i;
	int found;

	if (!work)
		return 0;
	settings = settings_of(work);
	if (!settings)
		return 0;
	for (i = 0; i < BALANCE_LENGTHS_MAX; i++) {
		if (!cut(work, settings, i, &prefix))
			return 0;
		what = protocol ? service(protocol, port) : KEY_ADDRESS;
		found = find_key(prefix.high, prefix.low, prefix.what | what);
		if (!found && protocol && (port & 0xffff))
			found = find_key(prefix.high, prefix.low,
					 prefix.what | service(protocol, 0));
		if (found)
			return found;
	}
	return 0;
}

/* Where flows with a hash are, of a CPU. */
static __always_inline struct balance_set *set_on(__u32 cpu, __u64 hash)
{
	__u32 key = cpu * config.sets + ((__u32)hash & (config.sets - 1));

	return bpf_map_lookup_elem(&balance_flows, &key);
}

/* The same of this CPU. */
static __always_inline struct balance_set *set_of(const struct work *work, __u64 hash)
{
	return set_on(work->cpu, hash);
}

/*
 * Asks for what find_in() will read, where a set has one flow, before what else is looked up:
 * nothing waits for these loads.
 */
static __always_inline void ask_for(const struct balance_set *set)
{
	(void)*(volatile const __u32 *)&set->marks[0];
	(void)*(volatile const __u64 *)&set->flows[0];
}

/* Finds a flow of this packet's addresses in a set, whether or not it is still good. */
static __always_inline int find_in(struct work *work, const struct balance_set *set, __u64 rest,
				   __u64 hash)
{
	__u32 way, mark = hash >> 32 | 1;
	const struct balance_flow *flow;

	for (way = 0; way < BALANCE_WAYS; way++) {
		flow = &set->flows[way];
		if (set->marks[way] != mark || flow->rest != rest)
			continue;
		if (flow->source[0] != work->source[0] || flow->source[1] != work->source[1] ||
		    flow->destination[0] != work->destination[0] ||
		    flow->destination[1] != work->destination[1])
			continue;
		work->found = flow->real;
		work->serial = flow->serial;
		work->idle = ticks(work->now) - set->last[way];
		work->way = way;
		return 1;
	}
	return 0;
}

/* The same of all sets. */
__alone int find_flow(__u64 rest, __u64 hash)
{
	struct work *work = this_work();
	struct balance_set *set = work ? set_of(work, hash) : 0;

	return set && find_in(work, set, rest, hash);
}

/* The real of the flow found last, if it is there, and the flow was not idle for too long. */
static __always_inline struct balance_real *real_of_found(const struct work *work, __u32 idle_max)
{
	struct balance_real *real = real_at(work->generation, work->found);

	if (!real || real->serial != work->serial || work->now >= real->until ||
	    work->idle > idle_max)
		return 0;
	return real;
}

/* The real with which a flow is remembered; 0 if it is not, or no longer. */
static __always_inline struct balance_real *remembered(struct work *work, __u64 rest, __u64 hash,
						       __u32 idle_max)
{
	return find_flow(rest, hash) ? real_of_found(work, idle_max) : 0;
}

/* This CPU's account of this second, or null. */
static __always_inline struct balance_guard *guard_of(const struct work *work)
{
	struct balance_guard *guard = bpf_map_lookup_elem(&balance_guards, &work->cpu);

	if (guard && work->now >= guard->until) {
		guard->until = work->now + SECOND_NS;
		guard->flows = 0;
		guard->asked = 0;
	}
	return guard;
}

/* A question to all CPUs but this one. */
struct asking {
	__u64 rest;
	__u64 hash;
	__u32 idle_max;
	__u32 idle;  /* of what was found */
	__u32 asked; /* sets that were read */
	__u32 real;  /* BALANCE_NONE: nothing was */
};

/*
 * What another CPU writes meanwhile is not believed: it takes the mark away first. Where loads are
 * seen out of order a flow may, at worst, go on where the flow in that place went before.
 */
static long ask_cpu(__u32 cpu, struct asking *asking)
{
	struct balance_totals *total = bpf_map_lookup_elem(&balance_total, &cpu);
	struct work *work = this_work();
	struct balance_set *set;
	int found;

	/* One that saw no frame, as most that a machine may have, remembers nothing. */
	if (!work || cpu == work->cpu || !total || !total->seen)
		return 0;
	asking->asked++;
	set = set_on(cpu, asking->hash);
	if (!set)
		return 0;
	found = find_in(work, set, asking->rest, asking->hash);
	asm volatile("" ::: "memory");
	if (!found ||
	    *(volatile __u32 *)&set->marks[work->way & (BALANCE_WAYS - 1)] !=
		    (__u32)(asking->hash >> 32 | 1))
		return 0;
	if (-work->idle < AHEAD_TICKS)
		work->idle = 0;
	if (!real_of_found(work, asking->idle_max) ||
	    (asking->real != BALANCE_NONE && work->idle >= asking->idle))
		return 0;
	asking->real = work->found;
	asking->idle = work->idle;
	return 0;
}

/*
 * Finds a flow that another CPU remembers, of several the one whose packet came last; its real is
 * what was found last then.
 */
__alone int find_elsewhere(__u64 rest, __u64 hash, __u32 idle_max)
{
	struct asking asking = { .rest = rest, .hash = hash, .real = BALANCE_NONE };
	struct work *work = this_work();
	struct balance_settings *settings;
	struct balance_guard *guard;

	if (!work)
		return 0;
	settings = settings_of(work);
	guard = guard_of(work);
	if (!settings || !guard ||
	    guard->asked >= (__u64)settings->new_flows_max * BALANCE_ASKED_PER_NEW_FLOW)
		return 0;
	asking.idle_max = idle_max;
	bpf_loop(config.cpus, ask_cpu, &asking, 0);
	guard->asked += asking.asked;
	work->found = asking.real;
	return asking.real != BALANCE_NONE;
}

/* The same of a flow of this VIP. */
static __always_inline int find_moved(struct work *work, __u32 idle_max)
{
	struct balance_real *real;

	if (!find_elsewhere(work->rest, work->hash, idle_max))
		return 0;
	real = real_at(work->generation, work->found);
	if (!real || real->vip != work->vip)
		return 0;
	work->real = work->found;
	count(work, COUNT_MOVED);
	return 1;
}

/* A real that drains takes no new flows, also not of ports that were used before. */
static __always_inline int may_go_on(const struct work *work, const struct balance_real *real)
{
	return real->vip == work->vip && (work->opening != OPENING_NEW || !~real->until);
}

/* What was written before is seen before by all CPUs. */
static __always_inline void set_mark(__u32 *mark, __u32 value)
{
	if (config.is_weakly_ordered) {
		__sync_lock_test_and_set(mark, value);
	} else {
		asm volatile("" ::: "memory");
		*(volatile __u32 *)mark = value;
		asm volatile("" ::: "memory");
	}
}

/* Says that a packet came of the flow found last. */
static __always_inline void touch(const struct work *work, __u64 hash)
{
	struct balance_set *set = set_of(work, hash);

	if (set)
		set->last[work->way & (BALANCE_WAYS - 1)] = ticks(work->now);
}

/* Remembers a flow with the real that was chosen, unless too many came in this second. */
__alone int remember(__u64 rest, __u64 hash)
{
	struct work *work = this_work();
	__u64 idle, longest = 0;
	struct balance_settings *settings;
	struct balance_guard *guard;
	struct balance_real *real;
	struct balance_flow *flow;
	struct balance_set *set;
	__u32 way, best = 0;

	if (!work)
		return 0;
	settings = settings_of(work);
	guard = guard_of(work);
	real = real_at(work->generation, work->real);
	if (!settings || !guard || !real)
		return 0;
	if (guard->flows >= settings->new_flows_max) {
		count(work, COUNT_GUARDED);
		return 0;
	}
	guard->flows++;
	set = set_of(work, hash);
	if (!set)
		return 0;
	if (find_flow(rest, hash)) {
		best = work->way & (BALANCE_WAYS - 1);
	} else {
		for (way = 0; way < BALANCE_WAYS; way++) {
			idle = set->marks[way] ? ticks(work->now) - set->last[way] : ~0ULL;
			if (way && idle <= longest)
				continue;
			longest = idle;
			best = way;
		}
		best &= BALANCE_WAYS - 1;
	}
	flow = &set->flows[best];
	set_mark(&set->marks[best], 0);
	set->last[best] = ticks(work->now);
	flow->source[0] = work->source[0];
	flow->source[1] = work->source[1];
	flow->destination[0] = work->destination[0];
	flow->destination[1] = work->destination[1];
	flow->rest = rest;
	flow->real = work->real;
	flow->serial = real->serial;
	set_mark(&set->marks[best], hash >> 32 | 1);
	return 0;
}

/* The real that a generation's slots have for a hash; BALANCE_NONE if there is none. */
static __always_inline __u32 named(__u32 generation, __u32 index, __u64 hash)
{
	struct balance_vip *vip = vip_at(generation, index);
	struct balance_slots *line;
	__u32 at, key;

	if (!vip || !(vip->flags & VIP_LIVE))
		return BALANCE_NONE;
	at = vip->slots_at + (__u32)((hash >> 32) * vip->slots >> 32);
	key = at / BALANCE_LINE_SLOTS;
	if (key >= config.slot_lines)
		return BALANCE_NONE;
	key += generation * config.slot_lines;
	line = bpf_map_lookup_elem(&balance_lines, &key);
	return line ? line->reals[at & (BALANCE_LINE_SLOTS - 1)] : BALANCE_NONE;
}

/* Chooses the real that tables name; 0 if there is none. */
__alone int choose_by_tables(__u32 continues)
{
	struct work *work = this_work();
	struct balance_real *real, *before;
	struct balance_vip *vip;
	__u64 hash;
	__u32 index;

	if (!work)
		return 0;
	vip = vip_at(work->generation, work->vip);
	if (!vip)
		return 0;
	hash = vip->flags & VIP_BY_SOURCE ?
	       mix(mix(mix(SEED_FLOW, work->source[0]), work->source[1]), 0) :
	       hash_flow(work, SEED_FLOW, work->rest);
	if (continues && work->now < work->before_until) {
		index = named(work->generation ^ 1, work->vip, hash);
		before = real_at(work->generation ^ 1, index);
		real = real_at(work->generation, index);
		if (before && real && before->serial == real->serial &&
		    work->now < real->until) {
			work->real = index;
			count(work, COUNT_BEFORE);
			return 1;
		}
	}
	index = named(work->generation, work->vip, hash);
	real = real_at(work->generation, index);
	if (!real || work->now >= real->until)
		return 0;
	work->real = index;
	count(work, COUNT_CHOSEN);
	return 1;
}

/* The real of a flow, which is remembered from now on; 0 if there is none. */
static __always_inline int choose(struct work *work)
{
	struct balance_vip *vip = vip_at(work->generation, work->vip);
	struct balance_real *real;

	if (!vip)
		return 0;
	real = remembered(work, work->rest, work->hash, vip->timeout);
	if (real && may_go_on(work, real)) {
		work->real = work->found;
		touch(work, work->hash);
		count(work, COUNT_REMEMBERED);
		return 1;
	}
	if (!(work->opening == OPENING_CONTINUES && find_moved(work, vip->timeout)) &&
	    !choose_by_tables(work->opening == OPENING_CONTINUES))
		return 0;
	remember(work->rest, work->hash);
	return 1;
}

/* Reads what a datagram of QUIC says; the real that its connection id names is chosen. */
__alone int open_quic(struct xdp_md *ctx)
{
	struct work *work = this_work();
	__u32 at = 0, bytes = 0, rotation = 0;
	struct balance_real *real;
	struct balance_vip *vip;
	__u64 number = 0;
	int found;

	if (!work || !ctx)
		return 0;
	vip = vip_at(work->generation, work->vip);
	if (!vip)
		return 0;
	work->opening = read_quic(work, ctx, &at, &bytes);
	if (work->opening != OPENING_CONTINUES ||
	    !read_server_id(work, ctx, vip, at, bytes, &number, &rotation))
		return 0;
	found = find_key(number, work->vip, KEY_SERVER | (__u64)rotation << 8);
	if (!found)
		return 0;
	real = real_at(work->generation, found - 1);
	if (real && work->now < real->until) {
		work->real = found - 1;
		work->opening = OPENING_NAMED;
	}
	return 0;
}

#endif
