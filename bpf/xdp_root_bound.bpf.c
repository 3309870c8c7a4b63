// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/*
 * The root (xdp_root.bpf.c) for a driver that knows more of a frame than its bytes: time, hash
 * and VLAN tag go in front of it. Only a program that is bound to its device may ask; a bound one
 * cannot stand in an array, but it may call plain ones that do. What cannot be had of a frame is
 * left out; the leaf that keeps the frame then reads the time, since most frames may pass.
 */
#include "leaves.h"
#include "metadata.h"

/* net/core/xdp.c; the kernel compares prototypes down to the enum. The last came in Linux 6.8. */
enum xdp_rss_hash_type { XDP_RSS_TYPE_NONE = 0, XDP_RSS_TYPE_MAX = 0x7fffffff };
extern int bpf_xdp_metadata_rx_timestamp(const struct xdp_md *ctx, __u64 *timestamp) __ksym;
extern int bpf_xdp_metadata_rx_hash(const struct xdp_md *ctx, __u32 *hash,
				    enum xdp_rss_hash_type *type) __ksym;
extern int bpf_xdp_metadata_rx_vlan_tag(const struct xdp_md *ctx, __be16 *protocol,
					__u16 *tci) __ksym __weak;

static __always_inline void describe(struct xdp_md *ctx, struct xdp_metadata *metadata)
{
	enum xdp_rss_hash_type type = XDP_RSS_TYPE_NONE;
	__u32 hash = 0, flags = 0;
	__be16 protocol = 0;
	__u64 stamp = 0;
	__u16 tci = 0;

	if (!bpf_xdp_metadata_rx_timestamp(ctx, &stamp) && stamp)
		flags |= METADATA_HARDWARE_STAMP;
	if (!bpf_xdp_metadata_rx_hash(ctx, &hash, &type))
		flags |= METADATA_HASH;
	if (bpf_xdp_metadata_rx_vlan_tag && !bpf_xdp_metadata_rx_vlan_tag(ctx, &protocol, &tci))
		flags |= METADATA_VLAN;
	metadata->stamp = flags & METADATA_HARDWARE_STAMP ? stamp : 0;
	metadata->flags = flags;
	metadata->hash = hash;
	metadata->vlan_tpid = to_be16(protocol);
	metadata->vlan_tci = tci;
	metadata->reserved = 0;
}

SEC("xdp.frags")
int xdp_root_bound(struct xdp_md *ctx)
{
	struct xdp_metadata *metadata = make_metadata(ctx, METADATA_FULL);

	if (metadata)
		describe(ctx, metadata);
	try_leaves(ctx, 0);
	drop_metadata(ctx);
	return XDP_PASS;
}

/* The kernel gives these functions to programs under its own terms only. */
const char terms[] SEC("license") = "GPL v2";
