// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/*
 * Sends every packet of IPv4 out of another interface, to the next hop that the kernel's tables
 * say, and does nothing else: no header is judged, nothing is counted. The limit of all that ask
 * these tables for each packet, for the measurements.
 */
#include "headers.h"
#include "kernel.h"
#include "onward.h"

SEC("xdp.frags")
int xdp_forward(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *data_end = (void *)(long)ctx->data_end;
	struct bpf_fib_lookup ask = { .family = AF_INET, .ifindex = ctx->ingress_ifindex };
	__u8 *ip = data + IP_AT;

	if (data + IP_AT + IPV4_BYTES > data_end)
		return XDP_DROP;
	if (*(__be16 *)(data + 12) != to_be16(ETHER_IPV4))
		return XDP_PASS;
	ask.source[0] = *(__u32 *)(ip + 12);
	ask.destination[0] = *(__u32 *)(ip + 16);
	if (bpf_fib_lookup(ctx, &ask, sizeof(ask), 0))
		return XDP_DROP;
	__builtin_memcpy(data, ask.destination_mac, 6);
	__builtin_memcpy(data + 6, ask.source_mac, 6);
	take_hop(ip);
	return bpf_redirect_map(&redirect_to, 0, XDP_DROP);
}

/* The kernel answers questions about its tables to programs under its own terms only. */
const char terms[] SEC("license") = "GPL v2";
