// SPDX-License-Identifier: Apache-2.0
/*
 * Sends every packet of UDP over IPv4 back, to the real of a small table that the hash of its flow
 * says: the least that a balancer in the same link layer does with a packet, for the measurements.
 * No flow is remembered, nothing is counted, and the table says nothing.
 */
#include "abi.h"
#include "headers.h"

#define IP_AT 14
#define UDP_AT 34
#define UDP_BYTES 8
#define REALS 128

/* A hardware address each. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, REALS);
	__uint(key_size, 4);
	__uint(value_size, 8);
} reals SEC(".maps");

SEC("xdp.frags")
int xdp_hash(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *data_end = (void *)(long)ctx->data_end;
	__u8 *ip = data + IP_AT, *real, was[6];
	__u32 key;

	if (data + UDP_AT + UDP_BYTES > data_end)
		return XDP_DROP;
	if (*(__be16 *)(data + 12) != to_be16(ETHER_IPV4) || ip[0] != 0x45 || ip[9] != IP_UDP)
		return XDP_PASS;
	key = mix(mix(0, *(__u32 *)(ip + 12) | (__u64)*(__u32 *)(ip + 16) << 32),
		  *(__u32 *)(data + UDP_AT)) >> 20 & (REALS - 1);
	real = bpf_map_lookup_elem(&reals, &key);
	if (!real)
		return XDP_DROP;
	__builtin_memcpy(was, data, 6);
	__builtin_memcpy(data, real, 6);
	__builtin_memcpy(data + 6, was, 6);
	return XDP_TX;
}

const char terms[] SEC("license") = "Apache-2.0";
