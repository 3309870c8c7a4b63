// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/*
 * Balances load at layer 4: takes packets to VIPs and sends each to one of the reals behind. What
 * becomes of a frame, and in which order that is found, is said by crates/balance/src/balancer.rs,
 * which a test compares with this program frame by frame. Every frame is counted once: as passed,
 * or at its VIP.
 */
#include "balance/send.h"
#include "leaves.h"
#include "length.h"
#include "metadata.h"

static __always_inline int is_of_flow(const struct work *work)
{
	return work->protocol == IP_TCP || work->protocol == IP_UDP;
}

/*
 * Sends what nearly all packets are, of a flow that is remembered, in one piece of code: each call
 * costs as much as ten of its steps. -1 of all that is not so simple, of which nothing is counted.
 */
static __always_inline int send_common(struct xdp_md *ctx, struct work *work)
{
	struct balance_settings *settings = settings_of(work);
	struct balance_key *entry;
	struct balance_real *real;
	struct balance_vip *vip;
	struct balance_set *set;
	struct prefix prefix;

	if (!settings || work->fragment != FRAGMENT_NO || !is_of_flow(work) ||
	    !read_flow(work, ctx) || !cut(work, settings, 0, &prefix))
		return -1;
	work->hash = hash_flow(work, config.seed, work->rest);
	set = set_of(work, work->hash);
	if (!set)
		return -1;
	ask_for(set);
	prefix.what |= service(work->protocol, work->rest >> 32);
	entry = key_at(work, settings,
		       place_of(settings, prefix.high, prefix.low, prefix.what));
	if (!entry || !is_key(entry, prefix.high, prefix.low, prefix.what))
		return -1;
	work->vip = entry->value - 1;
	vip = vip_at(work->generation, work->vip);
	if (!vip || (work->protocol == IP_UDP && vip->flags & VIP_QUIC))
		return -1;
	if (!find_in(work, set, work->rest, work->hash))
		return -1;
	real = real_of_found(work, vip->timeout);
	if (!real || !may_go_on(work, real))
		return -1;
	work->real = work->found;
	set->last[work->way & (BALANCE_WAYS - 1)] = ticks(work->now);
	count(work, COUNT_REMEMBERED);
	return send(ctx, work, settings, real);
}

static __always_inline int send_later_fragment(struct xdp_md *ctx, struct work *work)
{
	__u64 rest = work->protocol | BALANCE_FRAGMENT | (__u64)work->id << 32;
	struct balance_real *real;
	int found;

	work->hash = hash_flow(work, config.seed, rest);
	real = remembered(work, rest, work->hash, FRAGMENT_TICKS);
	if (real) {
		work->real = work->found;
		work->vip = real->vip;
		touch(work, work->hash);
		count(work, COUNT_REMEMBERED);
		return send_to_real(ctx);
	}
	found = find_vip(0, 0);
	if (!found)
		return XDP_PASS;
	if (find_elsewhere(rest, work->hash, FRAGMENT_TICKS)) {
		real = real_at(work->generation, work->found);
		if (!real)
			return XDP_PASS;
		work->real = work->found;
		work->vip = real->vip;
		count(work, COUNT_MOVED);
		return send_to_real(ctx);
	}
	work->vip = found - 1;
	return drop(work, COUNT_FRAGMENT);
}

static __always_inline int send_packet(struct xdp_md *ctx, struct work *work)
{
	struct balance_vip *vip;
	__u64 rest;
	int found;

	if (!read_flow(work, ctx))
		return XDP_PASS;
	found = find_vip(work->protocol, work->rest >> 32);
	if (!found)
		return XDP_PASS;
	work->vip = found - 1;
	work->hash = hash_flow(work, config.seed, work->rest);
	vip = vip_at(work->generation, work->vip);
	if (!vip)
		return XDP_PASS;
	if (work->protocol == IP_UDP && vip->flags & VIP_QUIC)
		open_quic(ctx);
	if (work->opening == OPENING_NAMED)
		count(work, COUNT_BY_ID);
	else if (!choose(work))
		return drop(work, COUNT_NO_REAL);
	if (work->fragment == FRAGMENT_FIRST) {
		rest = work->protocol | BALANCE_FRAGMENT | (__u64)work->id << 32;
		remember(rest, hash_flow(work, config.seed, rest));
	}
	return send_to_real(ctx);
}

/* An error of ICMP goes where the flow goes that it is about. */
static __always_inline int send_error(struct xdp_md *ctx, struct work *work)
{
	struct balance_real *real;
	struct balance_vip *vip;
	int found;

	if (!read_error(work, ctx))
		return XDP_PASS;
	found = find_vip((__u8)work->rest, work->rest >> 32);
	if (!found)
		return XDP_PASS;
	work->vip = found - 1;
	work->hash = hash_flow(work, config.seed, work->rest);
	work->is_error = 1;
	vip = vip_at(work->generation, work->vip);
	if (!vip)
		return XDP_PASS;
	real = remembered(work, work->rest, work->hash, vip->timeout);
	if (real && real->vip == work->vip) {
		work->real = work->found;
		count(work, COUNT_REMEMBERED);
	} else if (!find_moved(work, vip->timeout) && !choose_by_tables(1)) {
		return drop(work, COUNT_NO_REAL);
	}
	count(work, COUNT_ERROR);
	return send_to_real(ctx);
}

static __always_inline int answer_icmp(struct xdp_md *ctx, struct work *work)
{
	const __u8 *icmp = part(work, ctx, work->transport_at, ICMP_BYTES);
	int is_v4 = work->version == 4, found;
	struct balance_vip *vip;
	__u8 kind;

	if (!icmp)
		return XDP_PASS;
	kind = icmp[0];
	if (is_v4 ? kind == 3 || kind == 11 || kind == 12 : kind >= 1 && kind <= 4)
		return send_error(ctx, work);
	if (kind != (is_v4 ? 8 : 128) || icmp[1] ||
	    work->transport_at != ETHERNET_BYTES + (is_v4 ? V4_BYTES : V6_BYTES))
		return XDP_PASS;
	found = find_vip(0, 0);
	if (!found)
		return XDP_PASS;
	work->vip = found - 1;
	vip = vip_at(work->generation, work->vip);
	if (!vip || !(vip->flags & VIP_ECHO) || !write_echo_reply(ctx, work))
		return XDP_PASS;
	count(work, COUNT_ECHO);
	return XDP_TX;
}

/* What becomes of the packet that was read; XDP_PASS if it is not counted at a VIP. */
__alone int decide(struct xdp_md *ctx)
{
	struct work *work = this_work();
	int is_flow;

	if (!work || !ctx)
		return XDP_PASS;
	is_flow = is_of_flow(work);
	if (work->fragment == FRAGMENT_LATER)
		return is_flow ? send_later_fragment(ctx, work) : XDP_PASS;
	if (is_flow)
		return send_packet(ctx, work);
	if (work->fragment == FRAGMENT_NO &&
	    work->protocol == (work->version == 4 ? IP_ICMP : IP_ICMPV6))
		return answer_icmp(ctx, work);
	return XDP_PASS;
}

/*
 * Deadlines are seconds: what the clock said when this CPU first saw a frame in this tick will do.
 * The kernel has the number of the tick read in place; the clock is a call.
 */
static __always_inline void read_clock(struct work *work)
{
	__u64 tick = bpf_jiffies64();

	if (likely(work->tick == tick))
		return;
	work->tick = tick;
	work->now = bpf_ktime_get_coarse_ns();
}

/* What becomes of a frame; XDP_PASS if it is not counted at a VIP. */
static __always_inline int judge(struct xdp_md *ctx, struct work *work)
{
	__u32 mac_first = *(const volatile __u32 *)config.mac;
	__u16 mac_last = *(const volatile __u16 *)(config.mac + 4);
	int verdict;

	if (!read_packet(work, ctx, mac_first, mac_last))
		return XDP_PASS;
	verdict = send_common(ctx, work);
	return likely(verdict >= 0) ? verdict : decide(ctx);
}

SEC("xdp.frags")
int xdp_balance(struct xdp_md *ctx)
{
	__u32 key = 0, cpu = bpf_get_smp_processor_id();
	struct balance_control *control = bpf_map_lookup_elem(&balance_controls, &key);
	struct balance_totals *total = bpf_map_lookup_elem(&balance_total, &cpu);
	struct work *work = this_work();
	int verdict = XDP_PASS;
	__u64 word;

	/* The maps have room for every CPU that the kernel may have. */
	if (!control || !total || !work)
		return XDP_ABORTED;
	word = *(volatile __u64 *)&control->word;
	work->cpu = cpu;
	work->generation = word & 1;
	work->before_until = word >> 1;
	read_clock(work);
	work->is_error = 0;
	work->frame_bytes = length_of(ctx);
	total->seen++;
	/* A tag that the card took out belongs to the frame, and what has a tag is not ours. */
	if (config.metadata != METADATA_FULL || !metadata_of(ctx))
		verdict = judge(ctx, work);
	if (verdict == XDP_PASS) {
		total->passed++;
		try_leaves(ctx, config.position + 1);
	}
	if (config.metadata == METADATA_FULL)
		drop_metadata(ctx);
	return verdict;
}

/* The kernel lets its own terms alone look at routes. */
const char terms[] SEC("license") = "GPL v2";
