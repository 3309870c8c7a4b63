/* What an extension of Ringside as an eBPF object is made of, for C: docs/extensions.md. Nothing
 * else needs to be installed; `bpf/bpf_helpers.h` of libbpf serves as well. */
#ifndef RINGSIDE_BPF_H
#define RINGSIDE_BPF_H

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;

#define SEC(name) __attribute__((section(name), used))
#define __uint(name, value) int(*name)[value]
#define __type(name, of) typeof(of) *name

/* linux/bpf.h: what XDP programs get, what they return, kinds of maps, flags of updates. */
struct xdp_md {
	__u32 data, data_end, data_meta, ingress_ifindex, rx_queue_index, egress_ifindex;
};
enum { XDP_ABORTED, XDP_DROP, XDP_PASS };
enum {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_HASH = 5,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_LRU_PERCPU_HASH = 10,
};
enum { BPF_ANY, BPF_NOEXIST, BPF_EXIST };

static void *(*const bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static long (*const bpf_map_update_elem)(void *map, const void *key, const void *value,
					 __u64 flags) = (void *)2;
static long (*const bpf_map_delete_elem)(void *map, const void *key) = (void *)3;
static long (*const bpf_xdp_load_bytes)(struct xdp_md *ctx, __u32 offset, void *to,
					__u32 bytes) = (void *)189;

/* What is known of the packet. It stands in front of it. */
struct ringside_packet {
	__u64 time_ns;	     /* its stamp, since 1970 */
	__u32 bytes;	     /* of it that are there */
	__u32 wire_bytes;    /* of it on the wire */
	__u32 interface;     /* where it was received */
	__u16 link_type;     /* how it begins: LINKTYPE numbers, 1 is Ethernet */
	__u16 network;	     /* where its innermost IP header begins, or RINGSIDE_NONE */
	__u16 transport;     /* where its innermost transport header begins */
	__u16 payload;	     /* where what that carries begins */
	__u16 payload_bytes; /* and how much of it there is, without padding */
	__u8 protocol;	     /* of the transport header, or RINGSIDE_NO_PROTOCOL */
	__u8 reserved;
};

#define RINGSIDE_NONE 0xffff
#define RINGSIDE_NO_PROTOCOL 0xff
/* Bytes of a packet at most; what is behind that is cut off. */
#define RINGSIDE_PACKET_BYTES_MAX 3072

/* What is known of the packet; 0 never comes, but the kernel wants to see it asked. */
static inline const struct ringside_packet *ringside_packet_of(const struct xdp_md *ctx)
{
	const struct ringside_packet *packet = (const void *)(long)ctx->data_meta;

	return (const void *)(packet + 1) <= (const void *)(long)ctx->data ? packet : 0;
}

/* Some bytes of the packet, by their number a constant; 0 if they are not all there. */
static inline const __u8 *ringside_at(const struct xdp_md *ctx, __u32 offset, __u32 bytes)
{
	/* The mask is for the verifier; RINGSIDE_NONE becomes an offset where nothing is. */
	const __u8 *at = (const __u8 *)(long)ctx->data + (offset & 0xfff);

	return at + bytes <= (const __u8 *)(long)ctx->data_end ? at : 0;
}

#endif
