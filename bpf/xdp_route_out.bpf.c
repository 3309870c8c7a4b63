// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/*
 * Counts what a router sends out of one interface: it runs in the map of interfaces, when a frame
 * is about to be handed to the driver. What the driver then refuses the driver counts.
 */
#include "abi_route.h"
#include "length.h"

const volatile struct route_config config = {};

/* By slot. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, ROUTE_PORTS_MAX);
	__type(key, __u32);
	__type(value, struct route_flow);
} route_sent SEC(".maps");

SEC("xdp.frags/devmap")
int xdp_route_out(struct xdp_md *ctx)
{
	__u32 slot = config.slot;
	struct route_flow *flow = bpf_map_lookup_elem(&route_sent, &slot);

	if (flow) {
		flow->frames++;
		flow->bytes += length_of(ctx);
	}
	return XDP_PASS;
}

/* The kernel shows its view of a frame to programs under its own terms only. */
const char terms[] SEC("license") = "GPL v2";
