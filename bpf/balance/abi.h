/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * What the balancer's programs share with Rust (crates/ebpf/src/balance/abi.rs). Both sides assert
 * the sizes: change them together. What the tables mean is said by crates/balance, whose `Balancer`
 * is the model of the program. Integers are in host byte order; words of addresses are numbers, the
 * first byte of the wire highest, IPv4 as its address within IPv6 (::ffff:0:0/96).
 */
#ifndef RINGSIDE_BALANCE_ABI_H
#define RINGSIDE_BALANCE_ABI_H

#include "../kernel.h"

/* How a balancer is cut; read-only for the program. Sizes are of one generation. */
struct balance_config {
	__u64 seed;       /* secret, of the hash of flows */
	__u32 cpus;       /* that the maps have room for */
	__u32 sets;       /* of flows, of each CPU, a power of two */
	__u32 vips;
	__u32 reals;
	__u32 slot_lines; /* of BALANCE_LINE_SLOTS each */
	__u32 keys;       /* a power of two */
	__u32 position;   /* its own place among the leaves */
	__u32 metadata;   /* METADATA_FULL if the root puts some there */
	__u8 mac[8];      /* six bytes: frames for others pass */
	__u32 stays;      /* 1: it is to outlive its process */
	__u32 is_weakly_ordered; /* stores of a CPU may be seen in another order */
};
_Static_assert(sizeof(struct balance_config) == 56, "balance_config: keep abi.rs in step");

/* The only word of control: bit 0 is the current generation; the bits above it are the time, by the
 * monotonic clock, until which the other one counts, too. */
struct balance_control {
	__u64 word;
};
_Static_assert(sizeof(struct balance_control) == 8, "balance_control: keep abi.rs in step");

/* Different lengths of prefixes for each version of IP. */
#define BALANCE_LENGTHS_MAX 8

/* What holds for all VIPs of a generation. */
struct balance_settings {
	__u64 key_seed;
	__u64 source_v6[2];
	__u64 source_v6_mask; /* bits of the lower word that follow the flow */
	__u32 source_v4;
	__u32 source_v4_mask;
	__u32 key_mask;       /* entries of keys that are used, less one */
	__u32 mtu;
	__u32 new_flows_max;  /* that a CPU remembers in a second */
	__u32 gue_port;
	__u8 lengths_v4[BALANCE_LENGTHS_MAX]; /* each and 1, longest first; 0: no more */
	__u8 lengths_v6[BALANCE_LENGTHS_MAX];
};
_Static_assert(sizeof(struct balance_settings) == 72, "balance_settings: keep abi.rs in step");

/* An entry of the index; with value 0 it is free. */
struct balance_key {
	__u64 words[2];
	__u64 what;
	__u64 value; /* number and 1 */
};
_Static_assert(sizeof(struct balance_key) == 32, "balance_key: keep abi.rs in step");
/* Places that are looked at for a key. */
#define BALANCE_PROBES_MAX 16
/* The lowest byte of what; above it bits of the prefix or a rotation, protocol, version, port. */
enum balance_key_kind { KEY_VIP = 1, KEY_ADDRESS = 2, KEY_SERVER = 3 };

enum balance_vip_flag { VIP_LIVE = 1, VIP_QUIC = 2, VIP_BY_SOURCE = 4, VIP_ECHO = 8 };

struct balance_vip {
	__u32 slots_at;
	__u32 slots;
	__u32 timeout; /* idle time, in units of 2^20 ns */
	__u32 flags;
	__u8 server_id_bytes[8]; /* by rotation; the last is 0 */
};
_Static_assert(sizeof(struct balance_vip) == 24, "balance_vip: keep abi.rs in step");

enum balance_path { PATH_DIRECT, PATH_IPIP4, PATH_IPIP6, PATH_GUE4, PATH_GUE6, PATH_COUNT };

struct balance_real {
	__u64 address[2];
	__u64 until; /* monotonic: flows go to it before that; 0: down, all bits: up */
	__u32 serial;
	__u32 vip;
	__u8 next_hop[6];
	__u8 has_next_hop;
	__u8 path;
	__u64 reserved[3];
};
_Static_assert(sizeof(struct balance_real) == 64, "balance_real: keep abi.rs in step");

/* Slots of a value: a line. */
#define BALANCE_LINE_SLOTS 16
struct balance_slots {
	__u32 reals[BALANCE_LINE_SLOTS]; /* BALANCE_NONE: no real */
};
_Static_assert(sizeof(struct balance_slots) == 64, "balance_slots: keep abi.rs in step");
#define BALANCE_NONE 0xffffffffU

/* A remembered flow: a line. */
struct balance_flow {
	__u64 source[2];
	__u64 destination[2];
	__u64 rest; /* protocol, BALANCE_FRAGMENT; VIP's and client's port, or an id */
	__u32 real;
	__u32 serial;
	__u64 reserved[2];
};
_Static_assert(sizeof(struct balance_flow) == 64, "balance_flow: keep abi.rs in step");
#define BALANCE_FRAGMENT (1 << 8)

#define BALANCE_WAYS 8
/* Flows with the same lower half of the hash; marks and times are one line. */
struct balance_set {
	__u32 marks[BALANCE_WAYS]; /* upper half of the hash, bit 0 set; 0: free */
	__u32 last[BALANCE_WAYS];  /* when the last packet came, in units of 2^20 ns */
	struct balance_flow flows[BALANCE_WAYS];
};
_Static_assert(sizeof(struct balance_set) == 576, "balance_set: keep abi.rs in step");

/* Sets of other CPUs that a CPU reads in a second, for each new flow that it may remember then
 * (ASKED_PER_NEW_FLOW of crates/balance/src/balancer.rs). */
#define BALANCE_ASKED_PER_NEW_FLOW 8

/* What a CPU did in this second: new flows that it remembered, sets of others that it read. */
struct balance_guard {
	__u64 until;
	__u32 flows;
	__u32 asked;
};
_Static_assert(sizeof(struct balance_guard) == 16, "balance_guard: keep abi.rs in step");

/* What is counted of a VIP; each frame of it is in one of the first nine. */
enum balance_count {
	COUNT_FORWARDED = 0,
	COUNT_ECHO = 1,
	COUNT_ANSWERED = 2,
	COUNT_NO_REAL = 3,
	COUNT_TOO_BIG = 4,
	COUNT_FRAGMENT = 5,
	COUNT_NO_NEIGHBOUR = 6,
	COUNT_NO_ROUTE = 7,
	COUNT_NO_ROOM = 8,
	COUNT_ERROR = 9,
	COUNT_REMEMBERED = 10,
	COUNT_CHOSEN = 11,
	COUNT_BEFORE = 12,
	COUNT_BY_ID = 13,
	COUNT_GUARDED = 14,
	COUNT_MOVED = 15,
	COUNT_ALL = 16,
};

/* Of one VIP on one CPU. */
struct balance_vip_counts {
	__u64 counts[COUNT_ALL];
};
_Static_assert(sizeof(struct balance_vip_counts) == 128, "balance_vip_counts: keep abi.rs in step");

/* Of one real on one CPU: as the frames came. */
struct balance_real_counts {
	__u64 frames;
	__u64 bytes;
};
_Static_assert(sizeof(struct balance_real_counts) == 16, "keep abi.rs in step");

/* Of one CPU: frames are passed, or counted at a VIP. */
struct balance_totals {
	__u64 seen;
	__u64 passed;
};
_Static_assert(sizeof(struct balance_totals) == 16, "balance_totals: keep abi.rs in step");

/*
 * Who has an index, in one generation, and what had been counted there before: the program counts
 * on where an index goes to another VIP or real. User space alone reads and writes these. They are
 * in force with their generation, so that an account that a process did not finish counts nothing.
 */
enum balance_owner_state { OWNER_NONE, OWNER_LIVE, OWNER_LEAVING };

struct balance_vip_owner {
	__u8 name[64];  /* zeros behind it */
	__u64 serial;   /* no other VIP or real of this balancer has or had it */
	__u64 state;
	__u64 before[COUNT_ALL];
	__u64 gone[2];  /* frames and bytes of its reals that went */
};
_Static_assert(sizeof(struct balance_vip_owner) == 224, "balance_vip_owner: keep abi.rs in step");

struct balance_real_owner {
	__u64 serial;
	__u64 vip;      /* serial of its VIP */
	__u32 state;
	__u32 entry;    /* serial of struct balance_real */
	__u64 before[2];
	__u64 reserved[3];
};
_Static_assert(sizeof(struct balance_real_owner) == 64, "balance_real_owner: keep abi.rs in step");

/* What VIPs counted that went. */
struct balance_gone {
	__u64 serials;  /* the last that was given */
	__u64 vips;
	__u64 counts[COUNT_ALL];
	__u64 reals[2]; /* frames and bytes of their reals */
};
_Static_assert(sizeof(struct balance_gone) == 160, "balance_gone: keep abi.rs in step");

/* Packets of one question to a real's health bear this mark, with the question's slot below. */
#define CHECK_MARK 0x52530000
#define CHECK_SLOTS 64

/* The way of a question: as a balancer sends a client's packets to the real. */
struct check_way {
	__u64 real[2];     /* its address */
	__u64 source[2];   /* where tunnels to it begin */
	__u8 outer[48];    /* headers in front of the packet, without lengths */
	__u32 outer_bytes; /* 0, 20, 28, 40 or 48 */
	__u32 is_used;
	__u8 next_hop[6];
	__u8 has_next_hop;
	__u8 reserved[9];
};
_Static_assert(sizeof(struct check_way) == 104, "check_way: keep check.rs in step");

/* Addresses at which tunnels may end. */
#define DECAP_ADDRESSES_MAX 8

/* Which tunnels a real server unpacks; read-only for the program. */
struct decap_config {
	__u64 addresses[DECAP_ADDRESSES_MAX][2]; /* where they end; the last is repeated */
	__u64 source_v6[2];      /* they begin in this prefix over IPv6, */
	__u64 source_v6_mask[2]; /* its bits; */
	__u32 source_v4;         /* over IPv4 in this one */
	__u32 source_v4_mask;
	__u32 has_v6;
	__u32 has_v4;
	__u32 gue_port;
	__u32 cpus;     /* that the map has room for */
	__u32 position; /* its own place among the leaves */
	__u32 metadata; /* METADATA_FULL if the root puts some there */
	__u8 mac[8];    /* six bytes: frames for others pass */
	__u32 stays;    /* 1: it is to outlive its process */
	__u32 reserved;
};
_Static_assert(sizeof(struct decap_config) == 208, "decap_config: keep decap.rs in step");

/* Frames of one CPU: each is in one of the last four. */
struct decap_counts {
	__u64 seen;
	__u64 passed;    /* no packet in a tunnel that ends here */
	__u64 unpacked;
	__u64 congested; /* dropped: the packet cannot say so of the way (RFC 6040) */
	__u64 no_room;   /* dropped: the driver cannot move the frame's start */
	__u64 reserved[3];
};
_Static_assert(sizeof(struct decap_counts) == 64, "decap_counts: keep decap.rs in step");

#endif
