// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/*
 * Forwards packets between the interfaces of a router, by the kernel's own tables: routes, policy
 * rules, neighbours, MTUs. One program for each device, with tables that all of them share; a
 * device may have interfaces of VLANs too. What is not forwarded goes on unmodified, to the
 * programs behind and to the host.
 */
#include "leaves.h"
#include "length.h"
#include "metadata.h"
#include "route.h"
#include "route_cache.h"

const volatile struct route_config config = {};

/* The router's interfaces by their numbers: slots. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, ROUTE_PORTS_MAX);
	__type(key, __u32);
	__type(value, __u32);
} route_slots SEC(".maps");

/* The same of the low numbers, which nearly all interfaces have: a slot and 1, or 0. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, ROUTE_NEAR);
	__type(key, __u32);
	__type(value, __u32);
} route_near SEC(".maps");

/* Slots of interfaces of VLANs, by id; above its 12 bits the device. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, ROUTE_PORTS_MAX);
	__type(key, __u32);
	__type(value, __u32);
} route_vlans SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, ROUTE_PORTS_MAX);
	__type(key, __u32);
	__type(value, struct route_port);
} route_ports SEC(".maps");

/* How a frame came in. */
struct arrival {
	const struct route_port *port;
	__u32 slot;
	__u32 tag_bytes;      /* of the interface's tag, if it stands in the frame */
	__u32 is_foreign_tag; /* it has a tag, of no interface */
};

/* The tag of a frame, or -1; -2: one that no interface has. */
static __always_inline int tag_of(struct xdp_md *ctx, __u32 *tag_bytes)
{
	void *data = (void *)(long)ctx->data, *data_end = (void *)(long)ctx->data_end;

	*tag_bytes = 0;
	if (config.metadata == METADATA_FULL) {
		const struct xdp_metadata *metadata = (void *)(long)ctx->data_meta;

		if ((void *)(metadata + 1) <= data && metadata->flags & METADATA_VLAN)
			return metadata->vlan_tpid == ETHER_VLAN ? metadata->vlan_tci : -2;
	}
	if (!config.vlans || data + ETHERNET_BYTES + TAG_BYTES > data_end ||
	    *(__be16 *)(data + 12) != to_be16(ETHER_VLAN))
		return -1;
	*tag_bytes = TAG_BYTES;
	return to_be16(*(__u16 *)(data + 14));
}

/* Finds the interface of a frame; false if it is for none of the router's. */
static __always_inline int arrive(struct xdp_md *ctx, struct arrival *arrival)
{
	int tag = tag_of(ctx, &arrival->tag_bytes);
	__u32 key, *slot = 0;

	arrival->slot = config.slot;
	arrival->is_foreign_tag = 0;
	if (tag != -1) {
		key = config.device << 12 | (tag & 0xfff);
		if (config.vlans && tag >= 0)
			slot = bpf_map_lookup_elem(&route_vlans, &key);
		if (slot) {
			arrival->slot = *slot;
		} else {
			arrival->is_foreign_tag = 1;
			arrival->tag_bytes = 0;
		}
	}
	arrival->port = bpf_map_lookup_elem(&route_ports, &arrival->slot);
	return arrival->port != 0;
}

/* Where frames leave, by slot: the number of an interface, and a program that counts them. */
struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, ROUTE_PORTS_MAX);
	__uint(key_size, 4);
	__uint(value_size, 8);
} route_egress SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, ROUTE_PORTS_MAX);
	__type(key, __u32);
	__type(value, struct route_counts);
} route_counts SEC(".maps");

/* From slot to slot: at ROUTE_PORTS_MAX times the one where they came in. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, ROUTE_PORTS_MAX *ROUTE_PORTS_MAX);
	__type(key, __u32);
	__type(value, struct route_flow);
} route_flows SEC(".maps");

/* Next hops that were used since user space looked: since when, not 0. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, ROUTE_HOPS);
	__type(key, __u32);
	__type(value, __u64);
} route_hops SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct route_report);
} route_reports SEC(".maps");

static __always_inline void report(__u32 cause, long answer, const struct bpf_fib_lookup *found)
{
	struct route_report *last;
	__u32 key = 0, i;

	if (!config.reports)
		return;
	last = bpf_map_lookup_elem(&route_reports, &key);
	if (!last)
		return;
	last->cause = cause;
	last->answer = answer;
	last->ifindex = found->ifindex;
	last->mtu = answer == BPF_FIB_TOO_LONG ? found->length : 0;
	last->family = found->family;
#pragma unroll
	for (i = 0; i < 4; i++)
		last->next_hop[i] = found->destination[i];
#pragma unroll
	for (i = 0; i < 6; i++)
		last->mac[i] = found->destination_mac[i];
}

/* What a frame asks: to whom it is in the link layer, and what it carries. */
static __always_inline __u32 ask_frame(struct xdp_md *ctx, const struct arrival *arrival,
				       struct bpf_fib_lookup *ask, __u64 bytes)
{
	const struct route_port *port = arrival->port;
	void *data = (void *)(long)ctx->data, *data_end = (void *)(long)ctx->data_end;
	__u64 there = bytes - ETHERNET_BYTES;
	void *ip = data + ETHERNET_BYTES;
	__u16 type;

	if (data + ETHERNET_BYTES > data_end)
		return ROUTE_NOT_IP;
	if (*(__u8 *)data & 1)
		return ROUTE_GROUP;
	if (*(__u32 *)data != *(__u32 *)port->mac ||
	    *(__u16 *)(data + 4) != *(__u16 *)(port->mac + 4))
		return ROUTE_FOREIGN;
	if (arrival->is_foreign_tag)
		return ROUTE_TAGGED;
	type = to_be16(*(__u16 *)(data + 12));
	if (config.vlans && arrival->tag_bytes) {
		if (data + ETHERNET_BYTES + TAG_BYTES > data_end)
			return ROUTE_MALFORMED;
		type = to_be16(*(__u16 *)(data + 16));
		ip = data + ETHERNET_BYTES + TAG_BYTES;
		there -= TAG_BYTES;
	}
	if (likely(type == ETHER_IPV4))
		return ask_ipv4(ask, ip, data_end, there);
	if (type == ETHER_IPV6)
		return ask_ipv6(ask, ip, data_end, there);
	return is_tag(type) ? ROUTE_TAGGED : ROUTE_NOT_IP;
}

/* True unless the host would not take a packet of IPv4 from where this one comes. */
static __always_inline int is_way_back(struct xdp_md *ctx, const struct route_port *port,
				       const struct bpf_fib_lookup *ask)
{
	struct bpf_fib_lookup back = { .family = AF_INET, .ifindex = port->ifindex };
	__u32 flags = port->flags;

	if (likely(!(flags & (ROUTE_PORT_STRICT | ROUTE_PORT_LOOSE))) || ask->family != AF_INET)
		return 1;
	back.protocol = ask->protocol;
	back.source_port = ask->destination_port;
	back.destination_port = ask->source_port;
	back.class = ask->class;
	back.source[0] = ask->destination[0];
	back.destination[0] = ask->source[0];
	if (bpf_fib_lookup(ctx, &back, sizeof(back), BPF_FIB_LOOKUP_SKIP_NEIGH))
		return 0;
	return flags & ROUTE_PORT_LOOSE || back.ifindex == port->ifindex;
}

/* The slot of an interface where frames leave, and 1; 0 if it is none of the router's. */
static __always_inline __u32 member(__u32 ifindex)
{
	const __u32 *found;

	if (likely(ifindex < ROUTE_NEAR)) {
		found = bpf_map_lookup_elem(&route_near, &ifindex);
		return found ? *found : 0;
	}
	found = bpf_map_lookup_elem(&route_slots, &ifindex);
	return found ? *found + 1 : 0;
}

/* Asks the kernel's tables, whose answer then stands in the question's place. */
static __always_inline __u32 ask_kernel(struct xdp_md *ctx, const struct arrival *arrival,
					struct bpf_fib_lookup *ask, struct way_out *way)
{
	const struct route_port *port = arrival->port;
	__u32 cause, found;
	long answer;

	if (!is_way_back(ctx, port, ask)) {
		report(ROUTE_REVERSE_PATH, ROUTE_NO_ANSWER, ask);
		return ROUTE_REVERSE_PATH;
	}
	ask->ifindex = port->ifindex;
	answer = bpf_fib_lookup(ctx, ask, sizeof(*ask), 0);
	cause = cause_of(answer);
	if (!cause) {
		found = member(ask->ifindex);
		if (ask->ifindex == port->ifindex)
			cause = ROUTE_SAME_INTERFACE;
		else if (!found)
			cause = ROUTE_NOT_MEMBER;
		else
			*way = (struct way_out){ found - 1, hop_place(ask) };
	}
	report(cause, answer, ask);
	return cause;
}

/* Where the frame goes, if the cause is ROUTE_FORWARDED; its addresses are in `ask` then. */
static __always_inline __u32 find_way(struct xdp_md *ctx, const struct arrival *arrival,
				      struct bpf_fib_lookup *ask, __u64 bytes, struct way_out *way)
{
	__u32 cause = ask_frame(ctx, arrival, ask, bytes), now;
	struct route_answer *answer;

	if (cause) {
		report(cause, ROUTE_NO_ANSWER, ask);
		return cause;
	}
	if (!(arrival->port->flags & ROUTE_PORT_TRANSPORT))
		ask->source_port = ask->destination_port = 0;
	answer = config.ticks ? answer_place(ask) : 0;
	if (!answer)
		return ask_kernel(ctx, arrival, ask, way);
	now = ticks_now();
	if (likely(is_answer(answer, ask, arrival->slot, now, config.ticks))) {
		__builtin_memcpy(ask->destination_mac, answer->destination_mac, 6);
		__builtin_memcpy(ask->source_mac, answer->source_mac, 6);
		*way = (struct way_out){ answer->out, answer->hop };
		return ROUTE_FORWARDED;
	}
	note_question(answer, ask, arrival->slot);
	cause = ask_kernel(ctx, arrival, ask, way);
	if (!cause)
		note_answer(answer, ask, way, now + config.ticks);
	return cause;
}

/*
 * Writes the next hop into the frame, and the tag of the VLAN that is not 0, and takes one hop from
 * what the packet has. False if there is no room for the tag.
 */
static __always_inline int rewrite(struct xdp_md *ctx, const struct bpf_fib_lookup *way,
				   __u32 had_bytes, __u32 vlan)
{
	__u32 bytes = vlan ? TAG_BYTES : 0, sum;
	void *data, *data_end;
	__u8 *ip;

	/* The addresses, which stand before the tag, are written anew. */
	if (config.vlans && had_bytes != bytes &&
	    bpf_xdp_adjust_head(ctx, bytes ? -TAG_BYTES : TAG_BYTES))
		return 0;
	data = (void *)(long)ctx->data;
	data_end = (void *)(long)ctx->data_end;
	ip = data + ETHERNET_BYTES;
	if (config.vlans && vlan)
		ip += TAG_BYTES;
	if ((void *)ip + IPV4_BYTES > data_end)
		return 0;
	__builtin_memcpy(data, way->destination_mac, 6);
	__builtin_memcpy(data + 6, way->source_mac, 6);
	if (config.vlans && vlan) {
		*(__be16 *)(data + 12) = to_be16(ETHER_VLAN);
		*(__be16 *)(data + 14) = to_be16(vlan);
	}
	/* The next hop of IPv4 may be one of IPv6: the frame says what it is. */
	if (*(__be16 *)(ip - 2) != to_be16(ETHER_IPV4)) {
		ip[7]--;
		return 1;
	}
	/* RFC 1624; the kernel's ip_decrease_ttl, bit for bit. */
	sum = *(__u16 *)(ip + 10) + to_be16(0x0100);
	*(__u16 *)(ip + 10) = sum + (sum >= 0xffff);
	ip[8]--;
	return 1;
}

/*
 * Marks a next hop as used. True if the host is to see that by itself: the mark is old, so that no
 * process looks at them.
 */
static __always_inline int use_hop(__u32 place)
{
	__u64 *hop = bpf_map_lookup_elem(&route_hops, &place), now, since;

	if (!hop)
		return 0;
	/* A line that many CPUs read stays with all of them. */
	if (!config.stays) {
		if (!*hop)
			*hop = 1;
		return 0;
	}
	now = bpf_ktime_get_coarse_ns() | 1;
	since = *hop;
	if (since && now - since < ROUTE_REFRESH_NS)
		return 0;
	*hop = now;
	return since != 0;
}

/* ROUTE_FORWARDED if the frame is on its way; else it is unmodified. */
static __always_inline __u32 forward(struct xdp_md *ctx, const struct arrival *arrival,
				     const struct bpf_fib_lookup *found, struct way_out way,
				     __u64 bytes)
{
	__u32 pair = arrival->slot * ROUTE_PORTS_MAX + way.slot, vlan = 0;
	struct route_flow *flow = bpf_map_lookup_elem(&route_flows, &pair);
	const struct route_port *out;

	if (!flow)
		return ROUTE_NOT_MEMBER;
	if (config.vlans) {
		out = bpf_map_lookup_elem(&route_ports, &way.slot);
		vlan = out ? out->vlan : 0;
	}
	if (use_hop(way.hop))
		return ROUTE_REFRESH;
	if (config.metadata == METADATA_FULL)
		drop_metadata(ctx);
	/* An interface that has just gone has no entry any more. */
	if (bpf_redirect_map(&route_egress, way.slot, XDP_PASS) != XDP_REDIRECT)
		return ROUTE_NOT_MEMBER;
	if (!rewrite(ctx, found, arrival->tag_bytes, vlan))
		return ROUTE_NOT_MEMBER;
	flow->frames++;
	flow->bytes += bytes;
	return ROUTE_FORWARDED;
}

SEC("xdp.frags")
int xdp_route(struct xdp_md *ctx)
{
	__u64 bytes = length_of(ctx);
	struct bpf_fib_lookup ask = {};
	struct route_counts *counts;
	struct way_out way = {};
	struct arrival arrival;
	__u32 cause;

	if (!arrive(ctx, &arrival)) {
		report(ROUTE_TAGGED, ROUTE_NO_ANSWER, &ask);
		goto pass;
	}
	counts = bpf_map_lookup_elem(&route_counts, &arrival.slot);
	if (!counts)
		goto pass;
	counts->received++;
	counts->received_bytes += bytes;
	cause = find_way(ctx, &arrival, &ask, bytes, &way);
	if (!cause)
		cause = forward(ctx, &arrival, &ask, way, bytes);
	if (cause < ROUTE_CAUSES)
		counts->causes[cause]++;
	if (!cause)
		return XDP_REDIRECT;
pass:
	try_leaves(ctx, config.position + 1);
	if (config.metadata == METADATA_FULL)
		drop_metadata(ctx);
	return XDP_PASS;
}

/* The kernel answers questions about its tables to programs under its own terms only. */
const char terms[] SEC("license") = "GPL v2";
