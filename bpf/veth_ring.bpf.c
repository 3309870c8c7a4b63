// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/*
 * Says where the ring of a veth pair's far end is in the kernel's memory, for a generator that
 * waits until it has room (room.h). Runs once as a test run, as if the frame had come in at the
 * near end. Whether the device is of a veth pair the caller knows.
 */
#include "room.h"

struct veth_rq {
	struct ptr_ring xdp_ring; /* drivers/net/veth.c */
} __attribute__((preserve_access_index));

struct net_device {
	unsigned int real_num_rx_queues;
	__u8 priv[1];
} __attribute__((preserve_access_index));

struct veth_priv {
	struct net_device *peer;
	struct veth_rq *rq;
} __attribute__((preserve_access_index));

struct xdp_rxq_info {
	struct net_device *dev;
} __attribute__((preserve_access_index));

struct xdp_buff {
	struct xdp_rxq_info *rxq;
} __attribute__((preserve_access_index));

extern void *bpf_cast_to_kern_ctx(void *ctx) __ksym __weak; /* Linux 6.2 */

/* The address; 0 if this kernel's is not known. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} far_ring SEC(".maps");

/* What the driver keeps of a device: right behind it. */
static __always_inline const struct veth_priv *private_of(const struct net_device *device)
{
	__u64 at = (__u64)device + field_offset(struct net_device, priv);

	return bpf_rdonly_cast((void *)at, type_id(struct veth_priv));
}

SEC("xdp.frags")
int veth_ring(struct xdp_md *ctx)
{
	const struct net_device *far;
	const struct veth_priv *own;
	const struct xdp_buff *frame;
	__u32 key = 0, queue;
	__u64 *found;

	found = bpf_map_lookup_elem(&far_ring, &key);
	if (!found || !bpf_rdonly_cast || !bpf_cast_to_kern_ctx || !type_id(struct veth_priv) ||
	    !field_exists(struct net_device, priv))
		return XDP_DROP;
	frame = bpf_cast_to_kern_ctx(ctx);
	own = private_of(frame->rxq->dev);
	far = bpf_rdonly_cast(own->peer, type_id(struct net_device));
	if (!far->real_num_rx_queues)
		return XDP_DROP;
	/* veth_select_rxq() */
	queue = bpf_get_smp_processor_id() % far->real_num_rx_queues;
	*found = (__u64)private_of(far)->rq + queue * (__u64)type_size(struct veth_rq) +
		 field_offset(struct veth_rq, xdp_ring);
	return XDP_DROP;
}

/* The kernel shows its devices to programs under its own terms only. */
const char terms[] SEC("license") = "GPL v2";
