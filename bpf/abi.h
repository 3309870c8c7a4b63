/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * The only structs that C programs and Rust share (Rust: crates/ebpf/src/abi.rs). Both sides
 * assert the sizes: change them together. Integers are in host byte order unless named be.
 */
#ifndef RINGSIDE_ABI_H
#define RINGSIDE_ABI_H

#include "kernel.h"

/* Ethernet, IPv4, UDP, magic, sequence, flow, and two bytes of the pattern: eight words. */
#define GENERATE_HEADER_BYTES 64

/* Entries of the table of frame sizes: enough for a uniform spread over every Ethernet size. */
#define GENERATE_SIZES_MAX 1024

/* What a generator sends; read-only for the program. */
struct generate_config {
	__u32 ifindex;      /* interface to redirect to */
	__u32 flow_count;   /* at least 1 */
	__u32 size_count;   /* used entries of sizes, at least 1 */
	__u32 address_base; /* source address of flow 0; flow f has address_base + f */
	__u32 port_base;    /* source port of flow 0 */
	__u32 port_count;   /* flow f has source port port_base + f % port_count */
	__u32 ip_sum;       /* sum of the IPv4 header's words without length, checksum and source */
	__u32 input_bytes;  /* length of the input frame: the longest size, and at least 64 */
	__u64 header[GENERATE_HEADER_BYTES / 8]; /* first bytes of every frame, as they lie */
	__u16 sizes[GENERATE_SIZES_MAX];         /* frame sizes in bytes, each 14 or more */
};
_Static_assert(sizeof(struct generate_config) == 2144, "generate_config: keep abi.rs in step");

/* Where one CPU's stream is; written by the program, read by user space. */
struct generate_state {
	__u64 stream;        /* added to each sequence number: the sender's, bits 48 to 63 */
	__u64 next_sequence; /* frames that were made, without the stream */
	__u64 refused;       /* frames that could not be shaped: always 0, else a bug */
	__u32 next_flow;
	__u32 reserved;
};
_Static_assert(sizeof(struct generate_state) == 32, "generate_state: keep abi.rs in step");

/* Positions for programs that share an interface, tried in this order (crates/ebpf/src/root.rs). */
#define ROOT_POSITIONS 4

/* What stands in front of every frame that goes to a socket; the numbers are its bytes. */
enum metadata_kind {
	METADATA_NONE = 0,
	METADATA_STAMP = 8, /* the first member of struct xdp_metadata alone */
	METADATA_FULL = 24,
};

/* Bits of the metadata's flags. */
#define METADATA_HARDWARE_STAMP 1 /* the stamp is the NIC's, by its own clock */
#define METADATA_HASH 2           /* hash is valid */
#define METADATA_VLAN 4           /* a tag was taken out of the frame: vlan_tpid, vlan_tci */

/* In front of a frame's first byte. */
struct xdp_metadata {
	__u64 stamp;     /* nanoseconds since 1970, of TAI unless the flags say hardware; 0: none */
	__u32 flags;
	__u32 hash;      /* what receive-side scaling computed */
	__u16 vlan_tpid; /* type of the tag, 0x8100 or 0x88a8 */
	__u16 vlan_tci;
	__u32 reserved;  /* 0 */
};
_Static_assert(sizeof(struct xdp_metadata) == METADATA_FULL, "xdp_metadata: keep abi.rs in step");

/* What a leaf does that hands frames to sockets; read-only for the program. */
struct capture_config {
	__u32 queues;   /* entries of the map of sockets */
	__u32 position; /* its own place among the leaves */
	__u32 metadata; /* enum metadata_kind */
	__u32 passes;   /* 1: takes nothing, is what a rejected frame goes to */
};
_Static_assert(sizeof(struct capture_config) == 16, "capture_config: keep abi.rs in step");

/* What a leaf does that copies frames into rings; read-only for the program. */
struct ring_config {
	struct capture_config leaf; /* metadata: METADATA_FULL if the root puts some there */
	__u32 ring_bytes;           /* of each queue, a power of two */
	__u32 kept_bytes_max;       /* of each frame, at least 1 */
	__u32 has_stamps;
	__u32 is_weakly_ordered; /* stores of this CPU may be seen in another order */
	__u32 ifindex;           /* the interface whose frames go there */
	__u32 reserved;          /* 0 */
};
_Static_assert(sizeof(struct ring_config) == 40, "ring_config: keep abi.rs in step");

/* Most bytes that are kept of a frame: two calls of bpf_xdp_load_bytes, each of at most 64 KiB less
 * one and from there on (net/core/filter.c, bpf_xdp_pointer). The largest MTU fits. */
#define RING_PIECE_BYTES 0x8000
#define RING_FRAME_BYTES_MAX (RING_PIECE_BYTES + 0xffff)

/* Where in a queue's value its records begin: behind a page of control words. */
#define RING_RECORDS_AT 4096

/* In front of a frame in a ring; the next record follows at a multiple of 8 bytes. */
struct ring_record {
	__u64 stamp;      /* nanoseconds since 1970, TAI; 0: none */
	__u32 wire_bytes; /* of the frame */
	__u32 bytes;      /* kept of it */
};
_Static_assert(sizeof(struct ring_record) == 16, "ring_record: keep abi.rs in step");

/* The control words of a ring: each writer has a cache line of its own. */
struct ring_control {
	__u64 head; /* bytes put since the start; the program's */
	__u64 reserved_a[7];
	__u64 tail; /* bytes taken since the start; user space's */
	__u64 reserved_b[7];
	__u64 tail_seen;     /* what the program knows of it */
	__u64 stalled_tail;  /* where user space stood when the ring was first found full */
	__u64 stalled_since; /* and when that was, by the monotonic clock */
	__u64 reserved_c[5];
};
_Static_assert(sizeof(struct ring_control) == 192, "ring_control: keep abi.rs in step");

/* Frames of one queue on one CPU: each is counted once, unmarked ones among those passed. */
struct capture_counters {
	__u64 passed;   /* left to the programs behind this one and to the host */
	__u64 steered;  /* handed to the queue's socket, or put into its ring */
	__u64 unmarked; /* of those passed: no room for the metadata */
	__u64 no_room;  /* the ring was full */
	__u64 too_long; /* for a record, or not to be copied */
};
_Static_assert(sizeof(struct capture_counters) == 40, "capture_counters: keep abi.rs in step");

#endif
