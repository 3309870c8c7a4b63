// SPDX-License-Identifier: Apache-2.0
/*
 * Hands frames to the AF_XDP socket of their queue; passes those of queues without one. A capture
 * with a filter has this program twice, behind the filter: for what it accepts, and, without the
 * first part, for what it rejects (crates/ebpf/src/capture/filter.rs).
 *
 * The configuration is constant when the verifier sees the program, so that only what this run
 * needs is left: without metadata, a redirection and one addition.
 */
#include "counters.h"
#include "leaves.h"
#include "metadata.h"

const volatile struct capture_config config = {};

struct {
	__uint(type, BPF_MAP_TYPE_XSKMAP);
	__uint(max_entries, 1); /* the number of queues, from user space */
	__uint(key_size, 4);
	__uint(value_size, 4);
} sockets SEC(".maps");

/* Puts the time in front of the frame, where the driver has not given it; 0 if it cannot. */
static __always_inline int mark(struct xdp_md *ctx)
{
	struct xdp_metadata *metadata = (void *)(long)ctx->data_meta;
	__u64 *stamp;

	if (config.metadata == METADATA_FULL) {
		/* The root made room, if there was some. */
		if ((void *)(metadata + 1) > (void *)(long)ctx->data)
			return 0;
		if (!metadata->stamp)
			metadata->stamp = bpf_ktime_get_tai_ns();
		return 1;
	}
	stamp = make_metadata(ctx, METADATA_STAMP);
	if (!stamp)
		return 0;
	*stamp = bpf_ktime_get_tai_ns();
	return 1;
}

SEC("xdp.frags")
int xdp_capture(struct xdp_md *ctx)
{
	__u32 queue = ctx->rx_queue_index;
	struct capture_counters *count = bpf_map_lookup_elem(&counters, &queue);
	int is_known = !!count;

	if (unlikely(!is_known)) {
		queue = config.queues;
		count = bpf_map_lookup_elem(&counters, &queue);
		if (!count)
			return XDP_ABORTED;
	}
	count->seen++;
	if (is_known && !config.passes &&
	    bpf_redirect_map(&sockets, queue, XDP_PASS) == XDP_REDIRECT) {
		if (config.metadata == METADATA_NONE || mark(ctx)) {
			count->steered++;
			return XDP_REDIRECT;
		}
		/* A socket's reader would take other bytes for the metadata. */
		count->unmarked++;
	}
	count->passed++;
	try_leaves(ctx, config.position + 1);
	if (config.metadata == METADATA_FULL)
		drop_metadata(ctx);
	return XDP_PASS;
}

const char terms[] SEC("license") = "Apache-2.0";
