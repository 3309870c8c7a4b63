/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * What user space and the programs that forward between interfaces share (bpf/route.h; Rust:
 * crates/ebpf/src/abi/route.rs).
 */
#ifndef RINGSIDE_ABI_ROUTE_H
#define RINGSIDE_ABI_ROUTE_H

#include "abi.h"

/* Interfaces of one router: its tables have a place for each pair. */
#define ROUTE_PORTS_MAX 32

/* Places of next hops that are in use, a power of two; several may share one. */
#define ROUTE_HOPS 4096
/* Numbers of interfaces that are looked up without a hash. */
#define ROUTE_NEAR 4096

/* Answers of the kernel's tables that each CPU keeps, a power of two. */
#define ROUTE_CACHE_ENTRIES 8192
/* Of nanoseconds, for a time that fits into a word: 17 ms, and 2.3 years until it begins anew. */
#define ROUTE_CACHE_TICK_SHIFT 24

/* How often the host gets a packet to a next hop, if no process keeps it fresh, in nanoseconds. */
#define ROUTE_REFRESH_NS 1000000000ULL

/* What became of a frame. All but the first go on unmodified, to the host's stack. */
enum route_cause {
	ROUTE_FORWARDED = 0,
	ROUTE_FOREIGN = 1,         /* not to the interface's own address in the link layer */
	ROUTE_GROUP = 2,           /* to all or to a group in the link layer */
	ROUTE_NOT_IP = 3,
	ROUTE_TAGGED = 4,          /* behind a VLAN tag, of no interface of the router's */
	ROUTE_MALFORMED = 5,       /* version, lengths or checksum; or more behind than padding */
	ROUTE_OPTIONS = 6,         /* of IPv4 */
	ROUTE_EXTENSIONS = 7,      /* headers of IPv6 between it and the transport */
	ROUTE_ADDRESSES = 8,       /* none that a router forwards */
	ROUTE_HOP_LIMIT = 9,       /* it ends here */
	ROUTE_ICMP_ERROR = 10,     /* goes the way of the packet that it is about */
	ROUTE_HOST = 11,           /* for this host, or there is no route */
	ROUTE_BLACKHOLE = 12,
	ROUTE_UNREACHABLE = 13,
	ROUTE_PROHIBITED = 14,
	ROUTE_OFF = 15,            /* forwarding is off on the interface where it came */
	ROUTE_ENCAPSULATED = 16,   /* the route says to put it into a tunnel */
	ROUTE_NO_NEIGHBOUR = 17,   /* the next hop's address in the link layer is not known */
	ROUTE_TOO_LONG = 18,       /* for the route's MTU */
	ROUTE_SAME_INTERFACE = 19, /* back where it came from */
	ROUTE_NOT_MEMBER = 20,     /* the route leads out of an interface of others */
	ROUTE_REVERSE_PATH = 21,   /* its source is not where it came from */
	ROUTE_UNKNOWN = 22,        /* another answer of the kernel's */
	ROUTE_REFRESH = 23,        /* shows the host that the next hop is used */
	ROUTE_CAUSES = 24,
};

/* Bits of an interface. */
#define ROUTE_PORT_STRICT 1 /* the way back to a source of IPv4 leads out of this interface */
#define ROUTE_PORT_LOOSE 2  /* there is a way back */
#define ROUTE_PORT_TRANSPORT 4 /* ports decide about routes */

/* An interface; written by user space. */
struct route_port {
	__u8 mac[6];
	__u16 flags;
	__u32 ifindex; /* 0: there is none */
	__u16 vlan;    /* id of its VLAN; 0: its frames have no tag */
	__u16 reserved;
};
_Static_assert(sizeof(struct route_port) == 16, "route_port: keep abi.rs in step");

/* Frames that came in by one interface, of one CPU: the sum of causes is `received`. */
struct route_counts {
	__u64 received;
	__u64 received_bytes;
	__u64 causes[ROUTE_CAUSES];
};
_Static_assert(sizeof(struct route_counts) == 208, "route_counts: keep abi.rs in step");

/* Frames of one CPU from one interface to another, or out of one. */
struct route_flow {
	__u64 frames;
	__u64 bytes;
};
_Static_assert(sizeof(struct route_flow) == 16, "route_flow: keep abi.rs in step");

/* An answer of the kernel's tables, and the question: the program's alone. */
struct route_answer {
	__u32 source[4];
	__u32 destination[4];
	__u16 source_port;
	__u16 destination_port;
	__u32 class;
	__u8 protocol;
	__u8 family;
	__u8 slot; /* where packets come in */
	__u8 out;  /* the slot where they leave */
	__u32 until; /* in ticks */
	__u8 destination_mac[6];
	__u8 source_mac[6];
	__u16 mtu;
	__u16 hop; /* place of the next hop */
};
_Static_assert(sizeof(struct route_answer) == 64, "route_answer: one line of the cache");

/* What was found out about the last frame, for a dry run. */
struct route_report {
	__u32 cause;
	__u32 answer;     /* of the kernel's look-up, or ROUTE_NO_ANSWER */
	__u32 ifindex;    /* where the route leads, as far as the kernel said */
	__u32 mtu;        /* of the route, if the packet is too long */
	__u32 next_hop[4]; /* raw; of IPv4 the first word */
	__u32 family;     /* of next_hop */
	__u8 mac[6];      /* of the next hop */
	__u16 reserved;
};
_Static_assert(sizeof(struct route_report) == 44, "route_report: keep abi.rs in step");
#define ROUTE_NO_ANSWER 0xffffffff

/* Of a device whose frames without a tag are not for the router. */
#define ROUTE_NO_SLOT 0xffffffff

/* Where a leaf that forwards stands; read-only for the program. */
struct route_config {
	__u32 device;   /* its number among those of the router */
	__u32 slot;     /* of the interface whose frames have no tag, or ROUTE_NO_SLOT */
	__u32 position; /* its own place among the leaves */
	__u32 metadata; /* METADATA_FULL if the root puts some there */
	__u32 reports;  /* 1: reports each frame, for a dry run */
	__u32 stays;    /* 1: it is to be left in its place when its process is gone */
	__u32 vlans;    /* 1: the router has interfaces of VLANs */
	__u32 ticks;    /* how long an answer of the kernel's stands; 0: every packet asks */
};
_Static_assert(sizeof(struct route_config) == 32, "route_config: keep abi.rs in step");

#endif
