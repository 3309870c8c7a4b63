// SPDX-License-Identifier: Apache-2.0
/*
 * Sends every packet of IPv4 out of another interface with one hop less, to a next hop of a small
 * table: the least that a router does with a packet, for the measurements. No header is judged
 * beyond that, nothing is counted, and the table says nothing.
 */
#include "abi.h"
#include "headers.h"
#include "onward.h"

#define HOPS 4096

/* Two hardware addresses: the next hop's and the interface's. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, HOPS);
	__uint(key_size, 4);
	__uint(value_size, 16);
} hops SEC(".maps");

SEC("xdp.frags")
int xdp_hop(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *data_end = (void *)(long)ctx->data_end;
	__u8 *ip = data + IP_AT, *hop;
	__u32 key;

	if (data + IP_AT + IPV4_BYTES > data_end)
		return XDP_DROP;
	if (*(__be16 *)(data + 12) != to_be16(ETHER_IPV4) || ip[8] <= 1)
		return XDP_PASS;
	key = mix(0, *(__u32 *)(ip + 16)) >> 20 & (HOPS - 1);
	hop = bpf_map_lookup_elem(&hops, &key);
	if (!hop)
		return XDP_DROP;
	__builtin_memcpy(data, hop, 6);
	__builtin_memcpy(data + 6, hop + 6, 6);
	take_hop(ip);
	return bpf_redirect_map(&redirect_to, 0, XDP_DROP);
}

const char terms[] SEC("license") = "Apache-2.0";
