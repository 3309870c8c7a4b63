/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * The few definitions of the kernel's BPF interface that our programs use, so that a build does
 * not depend on the age of the kernel headers or of libbpf on the machine. Values are user API of
 * Linux (include/uapi/linux/bpf.h) and never change.
 */
#ifndef RINGSIDE_KERNEL_H
#define RINGSIDE_KERNEL_H

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef long long __s64;
typedef __u16 __be16;

#define SEC(name) __attribute__((section(name), used))
#define __always_inline inline __attribute__((always_inline))
#define __ksym __attribute__((section(".ksyms")))
#define __weak __attribute__((weak))
#define __noinline __attribute__((noinline))
/* A function that the verifier checks once for all callers: its pointers may be null. */
#define __alone __attribute__((noinline))
#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

enum xdp_action { XDP_ABORTED, XDP_DROP, XDP_PASS, XDP_TX, XDP_REDIRECT };

struct xdp_md {
	__u32 data;
	__u32 data_end;
	__u32 data_meta;
	__u32 ingress_ifindex;
	__u32 rx_queue_index;
	__u32 egress_ifindex;
};

/* A frame as programs of tc get it, as far as ours read it. */
struct __sk_buff {
	__u32 len;
	__u32 pkt_type;
	__u32 mark;
	__u32 before[2];
	__u32 vlan_present;
	__u32 vlan_tci;
	__u32 vlan_proto; /* network order */
	__u32 between[2];
	__u32 ifindex;
	__u32 behind_ifindex[8];
	__u32 data;
	__u32 data_end;
	__u32 behind[20];
	__u32 gso_segs;
};
_Static_assert(__builtin_offsetof(struct __sk_buff, ifindex) == 40, "as in linux/bpf.h");
_Static_assert(__builtin_offsetof(struct __sk_buff, data) == 76, "as in linux/bpf.h");
_Static_assert(__builtin_offsetof(struct __sk_buff, gso_segs) == 164, "as in linux/bpf.h");

/*
 * A question to the kernel's forwarding tables, and its answer. Of the unions of the kernel's
 * struct those members stand here that ours ask and read.
 */
struct bpf_fib_lookup {
	__u8 family; /* of the destination, then of the next hop */
	__u8 protocol;
	__be16 source_port;
	__be16 destination_port;
	__u16 length; /* of the packet; then the MTU that it does not fit */
	__u32 ifindex; /* where it comes in, then where it goes out */
	__u32 class; /* tos; of IPv6 traffic class and flow label; then the metric */
	__u32 source[4]; /* of IPv4 the first word */
	__u32 destination[4]; /* then the next hop */
	__u32 vlan;
	__u8 source_mac[6];
	__u8 destination_mac[6];
};
_Static_assert(sizeof(struct bpf_fib_lookup) == 64, "as in linux/bpf.h");
#define BPF_FIB_LOOKUP_SKIP_NEIGH 4
enum bpf_fib_answer {
	BPF_FIB_SUCCESS,
	BPF_FIB_BLACKHOLE,
	BPF_FIB_UNREACHABLE,
	BPF_FIB_PROHIBIT,
	BPF_FIB_NOT_FORWARDED,
	BPF_FIB_OFF,
	BPF_FIB_TUNNEL,
	BPF_FIB_NO_NEIGHBOUR,
	BPF_FIB_TOO_LONG,
};
/* A next hop, as bpf_redirect_neigh() takes it. */
struct bpf_redir_neigh {
	__u32 family;
	__u32 address[4]; /* of IPv4 the first word */
};
_Static_assert(sizeof(struct bpf_redir_neigh) == 20, "as in linux/bpf.h");
#define AF_INET 2
#define AF_INET6 10

/* Of a program of tcx: whatever stands behind it decides. */
#define TCX_NEXT -1
#define TCX_DROP 2

/* Where room is made in a packet, and for what. */
#define BPF_ADJ_ROOM_MAC 1
#define BPF_F_ADJ_ROOM_ENCAP_L3_IPV4 2
#define BPF_F_ADJ_ROOM_ENCAP_L3_IPV6 4
#define BPF_F_ADJ_ROOM_ENCAP_L4_UDP 16

/* A map's definition, as libbpf reads it from BTF. */
#define __uint(name, value) int(*name)[value]
#define __type(name, value) typeof(value) *name
enum bpf_map_type {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PROG_ARRAY = 3,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_DEVMAP = 14,
	BPF_MAP_TYPE_CPUMAP = 16,
	BPF_MAP_TYPE_XSKMAP = 17,
};

/* Of a map: user space may map its values. */
#define BPF_F_MMAPABLE 1024

/* Helpers are called by number. */
static void *(*const bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static __u64 (*const bpf_ktime_get_ns)(void) = (void *)5;
static __u32 (*const bpf_get_smp_processor_id)(void) = (void *)8;
static long (*const bpf_tail_call)(void *ctx, void *map, __u32 index) = (void *)12;
static long (*const bpf_skb_store_bytes)(struct __sk_buff *ctx, __u32 offset, const void *from,
					 __u32 bytes, __u64 flags) = (void *)9;
static long (*const bpf_skb_load_bytes)(const void *ctx, __u32 offset, void *to,
					__u32 bytes) = (void *)26;
static __s64 (*const bpf_csum_diff)(void *from, __u32 from_bytes, void *to, __u32 to_bytes,
				    __u32 seed) = (void *)28;
static long (*const bpf_xdp_adjust_head)(struct xdp_md *ctx, int delta) = (void *)44;
static long (*const bpf_redirect)(__u32 ifindex, __u64 flags) = (void *)23;
static long (*const bpf_skb_adjust_room)(struct __sk_buff *ctx, int delta, __u32 mode,
					 __u64 flags) = (void *)50;
static long (*const bpf_redirect_neigh)(__u32 ifindex, struct bpf_redir_neigh *hop, int bytes,
					__u64 flags) = (void *)152;
static long (*const bpf_redirect_map)(void *map, __u64 key, __u64 flags) = (void *)51;
static long (*const bpf_xdp_adjust_meta)(struct xdp_md *ctx, long delta) = (void *)54;
static long (*const bpf_fib_lookup)(void *ctx, struct bpf_fib_lookup *params, int bytes,
				    __u32 flags) = (void *)69;
static long (*const bpf_xdp_adjust_tail)(struct xdp_md *ctx, int delta) = (void *)65;
static long (*const bpf_xdp_store_bytes)(struct xdp_md *ctx, __u32 offset, void *from,
					 __u32 bytes) = (void *)190;
static __u64 (*const bpf_jiffies64)(void) = (void *)118;
static __u64 (*const bpf_ktime_get_coarse_ns)(void) = (void *)160;
static long (*const bpf_loop)(__u32 steps, void *step, void *context, __u64 flags) = (void *)181;
static __u64 (*const bpf_xdp_get_buff_len)(struct xdp_md *ctx) = (void *)188;
static long (*const bpf_xdp_load_bytes)(struct xdp_md *ctx, __u32 offset, void *to,
					__u64 bytes) = (void *)189;
static __u64 (*const bpf_ktime_get_tai_ns)(void) = (void *)208;

/* Network byte order; every machine that Ringside is built for is little-endian or the reverse. */
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define to_be16(x) __builtin_bswap16(x)
#define to_be32(x) __builtin_bswap32(x)
#define to_be64(x) __builtin_bswap64(x)
#else
#define to_be16(x) (x)
#define to_be32(x) (x)
#define to_be64(x) (x)
#endif

#endif
