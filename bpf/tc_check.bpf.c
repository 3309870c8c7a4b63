// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/*
 * Sends the packets of questions to reals' health the way on which a balancer sends those of
 * clients: the host's own socket asks a VIP, and its mark says which real is meant. The program
 * stands where the host's packets leave; without such a mark they go on as they are.
 */
#include "balance/abi.h"
#include "balance/way.h"
#include "headers.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, CHECK_SLOTS);
	__uint(key_size, 4);
	__uint(value_size, sizeof(struct check_way));
} check_ways SEC(".maps");

#define ETHERNET_BYTES 14
#define V4_BYTES 20
#define V6_BYTES 40
#define UDP_BYTES 8

static __always_inline __u16 folded(__u32 sum)
{
	sum = (sum & 0xffff) + (sum >> 16);
	return (sum & 0xffff) + (sum >> 16);
}

/* Puts the packet, of `bytes`, into the tunnel; 0 if there is no room. */
static __always_inline int encapsulate(struct __sk_buff *ctx, const struct check_way *way,
				       __u32 bytes)
{
	__u32 outer_bytes = way->outer_bytes, is_v6 = outer_bytes >= V6_BYTES, ip_bytes;
	__u64 flags = is_v6 ? BPF_F_ADJ_ROOM_ENCAP_L3_IPV6 : BPF_F_ADJ_ROOM_ENCAP_L3_IPV4;
	__u16 outer[24], type = is_v6 ? to_be16(ETHER_IPV6) : to_be16(ETHER_IPV4);

	ip_bytes = is_v6 ? V6_BYTES : V4_BYTES;
	if (outer_bytes != ip_bytes && outer_bytes != ip_bytes + UDP_BYTES)
		return 0;
	__builtin_memcpy(outer, way->outer, sizeof(outer));
	if (is_v6) {
		outer[2] = to_be16((__u16)(bytes + outer_bytes - V6_BYTES));
		outer[22] = to_be16((__u16)(bytes + UDP_BYTES));
	} else {
		outer[1] = to_be16((__u16)(bytes + outer_bytes));
		/* The sum was made with a length of 0. */
		outer[5] = ~folded((__u32)(__u16)~outer[5] + outer[1]);
		outer[12] = to_be16((__u16)(bytes + UDP_BYTES));
	}
	if (outer_bytes != ip_bytes)
		flags |= BPF_F_ADJ_ROOM_ENCAP_L4_UDP;
	if (bpf_skb_adjust_room(ctx, outer_bytes, BPF_ADJ_ROOM_MAC, flags))
		return 0;
	/* Lengths that the verifier knows. */
	if (outer_bytes == V4_BYTES)
		bpf_skb_store_bytes(ctx, ETHERNET_BYTES, outer, V4_BYTES, 0);
	else if (outer_bytes == V4_BYTES + UDP_BYTES)
		bpf_skb_store_bytes(ctx, ETHERNET_BYTES, outer, V4_BYTES + UDP_BYTES, 0);
	else if (outer_bytes == V6_BYTES)
		bpf_skb_store_bytes(ctx, ETHERNET_BYTES, outer, V6_BYTES, 0);
	else
		bpf_skb_store_bytes(ctx, ETHERNET_BYTES, outer, V6_BYTES + UDP_BYTES, 0);
	return !bpf_skb_store_bytes(ctx, 12, &type, sizeof(type), 0);
}

/* By the host's routes, as if it came in by the balancer's interface. */
static __always_inline int send_by_route(struct __sk_buff *ctx, const struct check_way *way)
{
	struct bpf_fib_lookup params = { .ifindex = ctx->ifindex };
	struct bpf_redir_neigh hop = {};
	long result;

	params.protocol = IP_UDP;
	put_ends(&params, way->real, (__u32)way->source[1], way->source);
	result = bpf_fib_lookup(ctx, &params, sizeof(params), 0);
	/* A neighbour that is not known is asked for, so that clients' packets find it. */
	if (result != BPF_FIB_SUCCESS && result != BPF_FIB_NO_NEIGHBOUR)
		return TCX_DROP;
	hop.family = params.family;
	__builtin_memcpy(hop.address, params.destination, sizeof(hop.address));
	return bpf_redirect_neigh(params.ifindex, &hop, sizeof(hop), 0);
}

SEC("tc")
int tc_check(struct __sk_buff *ctx)
{
	__u32 slot = ctx->mark ^ CHECK_MARK;
	struct check_way *way;

	if (slot >= CHECK_SLOTS)
		return TCX_NEXT;
	way = bpf_map_lookup_elem(&check_ways, &slot);
	/* What a socket that was given up still has to say would reach another real. */
	if (!way || !way->is_used)
		return TCX_DROP;
	/* It comes by here once more when it leaves. */
	ctx->mark = 0;
	if (way->outer_bytes && !encapsulate(ctx, way, ctx->len - ETHERNET_BYTES))
		return TCX_DROP;
	if (!way->has_next_hop)
		return send_by_route(ctx, way);
	bpf_skb_store_bytes(ctx, 0, way->next_hop, sizeof(way->next_hop), 0);
	return TCX_NEXT;
}

/* The kernel lets its own terms alone look at routes. */
const char terms[] SEC("license") = "GPL v2";
