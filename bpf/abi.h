/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * The only structs that C programs and Rust share (Rust: crates/ebpf/src/abi.rs). Both sides
 * assert the sizes: change them together. Integers are in host byte order unless named be.
 */
#ifndef RINGSIDE_ABI_H
#define RINGSIDE_ABI_H

#include "kernel.h"

/* Bytes at the start of a generated frame that may differ from flow to flow: headers and number. */
#define GENERATE_HEADER_BYTES_MAX 192

/* Of a time, what stands in a frame: 78 hours. */
#define STAMP_MASK ((1ULL << 48) - 1)

/* Entries of the table of frame sizes: enough for a uniform spread over every Ethernet size. */
#define GENERATE_SIZES_MAX 1024

/*
 * What a generator sends; read-only for the program. Places are bytes from the start of a frame;
 * 0 where there is no such field.
 */
struct generate_config {
	__u32 ifindex;      /* interface to redirect to */
	__u32 flow_count;   /* at least 1, the entries of the map of headers */
	__u32 size_count;   /* used entries of sizes, at least 1 */
	__u32 input_bytes;  /* of the input frame: the longest size, and at least header_bytes */
	__u32 header_bytes; /* bytes of one header, a multiple of 8 */
	__u32 payload_at;   /* where the headers end: lengths in them are never shorter */
	__u32 ipv4_at;      /* IPv4 header */
	__u32 ipv6_at;      /* IPv6 header */
	__u32 transport_at; /* TCP or UDP header */
	__u32 udp_at;       /* UDP header */
	__u32 checksum_at;  /* checksum of the transport */
	__u32 number_at;    /* number of the frame */
	__u32 stamp_at;     /* when the frame was made, 6 bytes */
	__u32 is_kept;      /* 1: a page keeps the frame that it was given first */
	__u32 discards;     /* 1: what the interface receives is dropped, else it passes */
	__u32 reserved;     /* 0 */
	__u64 gap;          /* from frame to frame, in 1/256 ns; 0: as fast as it goes */
	__u16 sizes[GENERATE_SIZES_MAX]; /* frame sizes in bytes, each 14 or more */
	__u16 sums[GENERATE_SIZES_MAX];  /* of each size: what its payload adds to the checksum */
};
_Static_assert(sizeof(struct generate_config) == 4168, "generate_config: keep abi.rs in step");

/* What frames of one flow begin with; as long as header_bytes says, which the loader sets. */
struct generate_header {
	__u64 words[GENERATE_HEADER_BYTES_MAX / 8];
};
_Static_assert(sizeof(struct generate_header) == 192, "generate_header: keep abi.rs in step");

/* Where one CPU's stream is; written by the program, read by user space. */
struct generate_state {
	__u64 stream;        /* added to each sequence number: the sender's, bits 48 to 63 */
	__u64 next_sequence; /* frames that were made, without the stream */
	__u64 refused;       /* frames that could not be shaped: always 0, else a bug */
	__u64 due;           /* when the next frame is, monotonic, in 1/256 ns; without gap 0 */
	__u64 earliest;      /* before which it must not leave though it is due; without gap 0 */
	__u64 ring;          /* address of the far end's, if frames wait for room there, else 0 */
	__u32 next_flow;
	__u32 granted; /* frames that may leave before the clock is read again */
	__u32 fitting; /* frames that have room for sure */
	__u32 reserved;
};
_Static_assert(sizeof(struct generate_state) == 64, "generate_state: keep abi.rs in step");

/* Segments of one run: at 1,448 bytes 1.4 MiB, which stay in a second-level cache. */
#define SEGMENT_PLACES 1024
/* A live frame: a page less what the kernel keeps of it. */
#define SEGMENT_FRAME_BYTES_MAX 3408

/* How segments are sent; read-only for the program. */
struct segment_config {
	__u32 ifindex;      /* interface to redirect to */
	__u32 input_bytes;  /* of the input frame: the longest segment */
	__u32 memory_bytes; /* at least SEGMENT_FRAME_BYTES_MAX beyond the last part's first byte */
	__u32 reserved;     /* 0 */
};
_Static_assert(sizeof(struct segment_config) == 16, "segment_config: keep abi.rs in step");

/* Where the parts of one segment lie in the memory; payload_bytes may be 0. */
struct segment_place {
	__u32 header_at;
	__u32 header_bytes;
	__u32 payload_at;
	__u32 payload_bytes;
};
_Static_assert(sizeof(struct segment_place) == 16, "segment_place: keep abi.rs in step");

/* How far a run is. */
struct segment_state {
	__u32 next;    /* place of the next segment; user space sets it to 0 before a run */
	__u32 refused; /* segments whose place is wrong: always 0, else a bug */
};
_Static_assert(sizeof(struct segment_state) == 8, "segment_state: keep abi.rs in step");

/* Classes of times under way: for each power of two half as many as there are steps. */
#define LATENCY_STEPS_LOG2 7
#define LATENCY_STEPS (1 << LATENCY_STEPS_LOG2)
/* Up to 2^41 ns, half an hour; what is longer falls into the last. */
#define LATENCY_CLASSES ((41 - LATENCY_STEPS_LOG2 + 2) * (LATENCY_STEPS / 2))

/* Of one CPU; written by the program, read and set to 0 by user space. */
struct latency_counts {
	__u64 frames;    /* that bore a number */
	__u64 reordered; /* after one with a higher number */
	__u64 early;     /* whose stamp is in the future: clocks that disagree */
	__u64 next;      /* one more than the highest number */
};
_Static_assert(sizeof(struct latency_counts) == 32, "latency_counts: keep abi.rs in step");

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
	__u32 window_bytes;         /* of the ring, used again and again */
	__u32 kept_bytes_max;       /* of each frame, at least 1 */
	__u32 has_stamps;
	__u32 is_weakly_ordered; /* stores of this CPU may be seen in another order */
	__u32 ifindex;           /* the interface whose frames go there */
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

/*
 * A record with this number of bytes is no frame, but the end of a lap. The next lap begins at the
 * place in its wire_bytes.
 */
#define RING_LAP_END 0xffffffffU

/*
 * The control words of a ring: each writer has a cache line of its own. A position is the number of
 * a lap in its upper half, and in the lower where in the records it is. Later ones are greater, by
 * less than 2^63: laps are numbered round and round, too.
 */
struct ring_control {
	__u64 head; /* here the next record goes; the program's */
	__u64 reserved_a[7];
	__u64 tail; /* what lies before it has been read; user space's */
	__u64 reserved_b[7];
	__u64 limit;         /* a place: up to here the program writes without looking at tail */
	__u64 lap;           /* a place: where this lap began */
	__u64 run;           /* a position: laps followed round the ring from here or earlier */
	__u64 floor;         /* a place: what was put before the run and is not read begins here */
	__u64 ahead;         /* a place: where the lap ended that the run went back from; or 0 */
	__u64 stalled_tail;  /* where user space stood when the ring was first found full */
	__u64 stalled_since; /* and when that was, by the monotonic clock */
	__u64 reserved_c[1];
};
_Static_assert(sizeof(struct ring_control) == 192, "ring_control: keep abi.rs in step");

/*
 * Frames of one queue on one CPU: each is counted when it comes, and once more by what became of
 * it, unmarked ones among those passed.
 */
struct capture_counters {
	__u64 seen;     /* whatever became of it */
	__u64 passed;   /* left to the programs behind this one and to the host */
	__u64 steered;  /* handed to the queue's socket, or put into its ring */
	__u64 unmarked; /* of those passed: no room for the metadata */
	__u64 no_room;  /* the ring was full */
	__u64 too_long; /* for a record, or not to be copied */
};
_Static_assert(sizeof(struct capture_counters) == 48, "capture_counters: keep abi.rs in step");

/* What becomes of a frame, and what a rule says (crates/rules/src/language/actions.rs). */
enum rules_fate {
	FATE_PASS = 0,  /* to the host */
	FATE_TAKE = 1,  /* to the programs behind this one */
	FATE_DROP = 2,
	FATE_INTERFACE = 3, /* out of another interface */
	FATE_CPU = 4,       /* to the host's stack on another CPU */
	FATE_NONE = 5,      /* no rule has decided */
};

/* Bits of a rule's record above its fate, a byte. */
#define RULE_CONTINUES (1 << 8) /* later rules are asked too */
#define RULE_FOREIGN (1 << 9)   /* asks or does what a driver cannot */
#define RULE_SAMPLES (1 << 10)  /* one frame in N is meant, the others are not */
#define RULE_CHECKS (1 << 11)   /* asks what the tables do not know */
#define RULE_TARGETS (1 << 12)  /* sends frames elsewhere */
/* In the note next to an exact rule: it is plain, and its fate is in the note. */
#define RULE_NOTE_PLAIN (1ULL << 32)

/* What a rule says, by slot; zero bits above the fate: it decides, and that is all. */
struct rule_record {
	__u32 word;   /* fate and bits */
	__u32 extras; /* index of its extras, if it samples, checks or has a target */
};
_Static_assert(sizeof(struct rule_record) == 8, "rule_record: keep abi.rs in step");

/* What few rules need. */
struct rule_extras {
	__u32 checks;       /* index of its first check */
	__u16 flow_checks;  /* checks whose answers are those of the flow; they come first */
	__u16 frame_checks; /* checks whose answers may differ from frame to frame */
	__u32 one_in;       /* of a sample */
	__u32 target;       /* of a redirect: number of the interface or CPU */
};
_Static_assert(sizeof(struct rule_extras) == 16, "rule_extras: keep abi.rs in step");

/* Checks of one rule. */
#define RULE_CHECKS_MAX 24

enum rule_check_kind {
	CHECK_TCP_FLAGS = 1, /* number: bits that are set; spans[0]: bits that are not */
	CHECK_LENGTH = 2,    /* of the frame, in spans */
	CHECK_BYTES = 3,     /* bits: value and mask, as they lie; count bytes at base + number */
	CHECK_VLAN = 4,      /* an identifier of a tag in spans */
	CHECK_ETHER_TYPE = 5, /* a type in spans */
	CHECK_MPLS = 6,      /* a label in spans */
	CHECK_MAC = 7,       /* bits: value and mask, as they lie, of a side */
	CHECK_SET = 8,       /* an address of a side in an address set */
};

/* Where the offset of CHECK_BYTES counts from. */
enum rule_check_base { BASE_FRAME = 0, BASE_NETWORK = 1, BASE_TRANSPORT = 2, BASE_PAYLOAD = 3 };

/* Which end of a frame's way. */
enum rule_check_side { SIDE_EITHER = 0, SIDE_SOURCE = 1, SIDE_DESTINATION = 2 };

/* Spans of one check. */
#define CHECK_SPANS_MAX 3

/* One question about a frame. */
struct rule_check {
	__u8 kind;
	__u8 is_negated;
	__u8 place; /* a base or a side */
	__u8 count; /* spans, or bytes from 1 to 8 */
	__u32 number; /* offset of bytes, index of a set, flags that are set */
	union {
		__u32 spans[2 * CHECK_SPANS_MAX]; /* first and last of each */
		struct {
			__u64 value;
			__u64 mask;
			__u64 reserved;
		} bits;
	};
};
_Static_assert(sizeof(struct rule_check) == 32, "rule_check: keep abi.rs in step");

/* Granules per address in the Bloom filter of a set: prefixes of this number of lengths. */
#define SET_GRANULES 3

/* An address set: sorted spans, and before them a Bloom filter of the granules that they touch. */
struct rule_set {
	__u32 v4_first; /* index of the first of its spans of IPv4 */
	__u32 v4_count;
	__u32 v6_first;
	__u32 v6_count;
	__u32 bloom_first; /* index of the first word */
	__u32 bloom_mask;  /* words, less one */
	__u32 granules;    /* bits: which granules of IPv4 it has, from bit 8 on of IPv6 */
	__u32 reserved;
};
_Static_assert(sizeof(struct rule_set) == 32, "rule_set: keep abi.rs in step");

/* A span of IPv6 addresses, in host byte order: high and low half of the first, then the last. */
struct rule_span_v6 {
	__u64 first[2];
	__u64 last[2];
};
_Static_assert(sizeof(struct rule_span_v6) == 32, "rule_span_v6: keep abi.rs in step");

/* What a rule counted on one CPU. */
struct rule_counts {
	__u64 frames;
	__u64 bytes; /* on the wire */
};
_Static_assert(sizeof(struct rule_counts) == 16, "rule_counts: keep abi.rs in step");

/* Frames of one CPU: each is in one of the first seven. */
struct rules_totals {
	__u64 passed;     /* to the host */
	__u64 taken;      /* handed to the programs behind by a rule, or the default */
	__u64 dropped;    /* by a rule, or the default */
	__u64 limited;    /* dropped: their source sent too many */
	__u64 redirected;
	__u64 handed_up;  /* to the programs behind, uncounted by rules: theirs to judge */
	__u64 unjudged;   /* what this program cannot read; they go on */
	__u64 walked;     /* of all: frames that were not plain */
	__u64 undecided;  /* of those judged: no rule decided */
	__u64 undecided_bytes;
	__u64 reserved[6];
};
_Static_assert(sizeof(struct rules_totals) == 128, "rules_totals: keep abi.rs in step");

/* What the rules said of a conversation. A line of the CPU's memory. */
#define MEMORY_SLOTS 4
struct rules_memory {
	__u64 address[4];
	__u64 rest;
	__u32 generation;
	__u32 count; /* slots; with MEMORY_PLAIN one, whose fate is in the second byte */
	__u32 slots[MEMORY_SLOTS];
};
#define MEMORY_PLAIN (1 << 16)
_Static_assert(sizeof(struct rules_memory) == 64, "rules_memory: keep abi.rs in step");

/* A source of frames, and how many more it may send: its bucket of tokens. */
struct rules_source {
	__u64 address[2];
	__u64 tokens; /* in frames * 2^20 */
	__u64 at;     /* when `tokens` was set, in nanoseconds of the monotonic clock */
};
_Static_assert(sizeof(struct rules_source) == 32, "rules_source: keep abi.rs in step");

/* A source of dropped frames: of those that share its place, the one that has it. */
struct rules_offender {
	__u64 address[2];
	__u64 version; /* 4 or 6 */
	__u64 frames;  /* a lower bound: frames of others in its place are subtracted */
};
_Static_assert(sizeof(struct rules_offender) == 32, "rules_offender: keep abi.rs in step");

/* What was found out about the last frame, for tests. */
struct rules_report {
	__u64 address[4];
	__u64 rest;
	__u64 count;     /* frames */
	__u32 fate;
	__u32 decided_by; /* slot + 1 */
	__u32 is_judged;
	__u32 tcp_flags;
	__u32 mac_at; /* offsets, or NOWHERE */
	__u32 network_at;
	__u32 transport_at;
	__u32 payload_at;
};
_Static_assert(sizeof(struct rules_report) == 80, "rules_report: keep abi.rs in step");
#define NOWHERE 0xffffffff

/* What a leaf with rules does; read-only for the program. */
struct rules_config {
	__u32 position;  /* its own place among the leaves */
	__u32 metadata;  /* METADATA_FULL if the root puts some there */
	__u32 shares;    /* 1: a capture is behind: it gets what cannot be decided here */
	__u32 is_dry;    /* 1: frames are judged and counted, and go on */
	__u32 reports;   /* 1: reports each frame, for tests */
	__u32 cpus;      /* that the maps have room for */
	__u32 slots;     /* rules that there is room for */
	__u32 words;     /* of a row, without its summary */
	__u32 summary;   /* words of a row's summary */
	__u32 memory;    /* conversations that each CPU remembers, a power of two */
	__u32 sources;   /* of the table of sources, a power of two; 0: no limit */
	__u32 offenders; /* of the table of dropped sources of each CPU, a power of two; 0: none */
	__u32 extras;    /* rules with extras that there is room for */
	__u32 stays;     /* 1: it is to be left in its place when its process is gone */
	__u64 tokens_per_us; /* frames * 2^20 that a source gets each microsecond */
	__u64 tokens_max;    /* frames * 2^20 that it may save */
};
_Static_assert(sizeof(struct rules_config) == 72, "rules_config: keep abi.rs in step");

/*
 * The fast path (fast.h). An entry of its tables names a rule: one more than
 * rank << FAST_FATE_BITS | fate, where lower ranks come first; 0: no rule.
 */
#define FAST_FATE_BITS 3
/* No such page, and no rule. */
#define FAST_NONE 0xffffffff
/* Entries of a page: one for each value of a byte. */
#define FAST_PAGE_ENTRIES 256
/* Prefixes of IPv4 are looked for by these lengths: 32, 24, 16, 8. */
#define FAST_LEVELS 4
/* Places of a hash table behind its first at which a key may lie. */
#define FAST_PROBES_MAX 16
/* Of this number of dropped frames the source of one is noted, and counts for all. */
#define FAST_SAMPLE 16

/* One of the hash tables of prefixes: a key in the upper half of a word, its entry in the lower. */
struct fast_table {
	__u32 first; /* index of its first word */
	__u32 mask;  /* first places, a power of two, less one; FAST_NONE: no such prefix */
};

/* What the fast path does; read-only for the program. */
struct fast_config {
	__u32 position;    /* its own place among the leaves */
	__u32 metadata;    /* METADATA_FULL if the root puts some there */
	__u32 slots;       /* rules that there is room for */
	__u32 offenders;   /* places for sources of dropped frames of each CPU; 0: none */
	__u32 stays;       /* 1: it is to be left in its place when its process is gone */
	__u32 is_whole;    /* 1: all rules are here, and frames that none is for have `fallback` */
	__u32 fallback;    /* fate of frames that no rule decides about */
	__u32 is_ordered;  /* 1: ranks are slots */
	__u32 leaves_v6;   /* 1: IPv6 is for the general program */
	__u32 protocols;   /* page of protocols above IPv4; behind it that of IPv6 */
	__u32 ports[4];    /* first of 256 pages: of TCP the source and destination port, of UDP */
	struct fast_table tables[2][FAST_LEVELS]; /* of sources, of destinations */
	__u64 seed;        /* of the hash tables */
	__u64 source_seed; /* of the table of sources of dropped frames */
};
_Static_assert(sizeof(struct fast_config) == 136, "fast_config: keep abi/fast.rs in step");

/*
 * The flow cache (bpf/flows.h; Rust: crates/ebpf/src/flows/abi.rs). Its arrays are mapped: user
 * space reads them, and writes the control words, a ring's tail, and what it has taken.
 */

/* Entries of one set. */
#define FLOW_WAYS 8

/* What tells flows apart, one direction each. A key without a protocol is that of no flow. */
struct flow_key {
	__u64 address[4]; /* raw: source and destination; of IPv4 both in the first word */
	__u32 ports;      /* raw: source, then destination; of ICMP type, then type or code */
	__u16 vlan;       /* FLOW_HAS_VLAN and the id nearest to the IP header, or 0 */
	__u8 protocol;
	__u8 flags;       /* FLOW_V6, FLOW_ONE_WAY */
};
_Static_assert(sizeof(struct flow_key) == 40, "flow_key: keep abi.rs in step");
#define FLOW_HAS_VLAN 0x1000
#define FLOW_V6 1
#define FLOW_ONE_WAY 2 /* a message of ICMP that has no answer */

/*
 * A flow's sums since its place was taken: they only grow. What belongs to an epoch is kept for
 * two of them, the latest even and the latest odd one. Two lines.
 */
struct flow_entry {
	struct flow_key key;
	__u64 packets;
	__u64 octets; /* of frames on the wire */
	__u64 last;   /* stamps: nanoseconds since 1970, TAI */
	__u64 ip_octets;
	__u64 first;
	__u64 since[2];   /* the first packet of an epoch */
	__u32 epoch[2];
	__u32 generation; /* how often the place was taken */
	__u32 index;      /* of the place in the array */
	__u16 epoch_flags[2]; /* TCP flags of an epoch's packets, all together */
	__u16 all_flags;
	__u16 first_flags; /* of the first packet */
	__u8 tos;          /* of the first packet */
	__u8 reserved[7];
};
_Static_assert(sizeof(struct flow_entry) == 128, "flow_entry: keep abi.rs in step");

/*
 * What is looked at first of a set, a line: of each entry the upper byte of its hash, and below it
 * when its last packet came (1/954 s, and round again after 4.9 h). An entry's version is odd while
 * it is written, and 0 until its place is first taken.
 */
struct flow_set {
	__u32 marks[FLOW_WAYS];
	__u32 versions[FLOW_WAYS];
};
_Static_assert(sizeof(struct flow_set) == 64, "flow_set: keep abi.rs in step");

/* Words of control. */
enum flow_control { FLOW_EPOCH = 0, FLOW_WAYS_USED = 1 };

/* Of one CPU. Every frame is in `seen`, and once more in cached, handed_up, not_ip or no_room. */
struct flow_counts {
	__u64 seen[2][2]; /* received, sent: packets, octets */
	__u64 cached[2];  /* packets and octets: added to an entry */
	__u64 handed_up[2];
	__u64 not_ip[2];
	__u64 no_room[2]; /* lost: the ring was full */
	__u64 places;     /* entries whose place was ever taken */
	__u64 evicted;    /* entries that went for another flow */
	__u64 renewed;    /* entries that went for a new connection between the same ports */
	__u64 reserved;
};
_Static_assert(sizeof(struct flow_counts) == 128, "flow_counts: keep abi.rs in step");

/* The control words of a ring; positions only grow. Records begin at RING_RECORDS_AT. */
struct flow_ring {
	__u64 head; /* here the next record goes; the program's */
	__u64 reserved_a[7];
	__u64 tail; /* what lies before it has been read; user space's */
	__u64 reserved_b[7];
	__u64 limit; /* up to here the program writes without looking at tail */
};
_Static_assert(sizeof(struct flow_ring) == 136, "flow_ring: keep abi.rs in step");

/* In front of what is handed up: an entry, or the beginning of a frame. */
enum flow_record_kind { FLOW_RECORD_ENTRY = 1, FLOW_RECORD_FRAME = 2 };
struct flow_record {
	__u32 kind;
	__u32 bytes; /* behind this; the next record follows at a multiple of 8 */
	__u64 stamp;
	__u32 packets; /* of a frame: more than 1 if the host puts segments together or cuts them */
	__u32 frame_bytes; /* of the frame, with its tag */
	__u64 octets; /* of all packets on the wire */
};
_Static_assert(sizeof(struct flow_record) == 32, "flow_record: keep abi.rs in step");
/* Most bytes of a frame that are handed up. */
#define FLOW_FRAME_BYTES_MAX 512
/* Behind the records: one that begins in the ring may end there. */
#define FLOW_RING_BEHIND 4096

/* What was taken of an entry, twice: the one with the greater number is valid. User space's. */
struct flow_taken {
	struct {
		__u32 generation;
		__u32 number;
		__u64 packets;
		__u64 octets;
		__u64 ip_octets;
	} slots[2];
};
_Static_assert(sizeof(struct flow_taken) == 64, "flow_taken: keep abi.rs in step");

/* How a flow cache is cut, and where it stands; read-only for the program. */
struct flow_config {
	__u64 seed; /* of the hash */
	__u32 cpus; /* that the maps have room for */
	__u32 sets; /* of each CPU, a power of two */
	__u32 ring_bytes; /* of each CPU, a power of two */
	__u32 position;   /* its own place among the leaves */
	__u32 metadata;   /* METADATA_FULL if the root puts some there */
	__u32 is_sending; /* 1: it sees what the host sends */
	__u32 is_weakly_ordered; /* stores of this CPU may be seen in another order */
	__u32 reserved;
};
_Static_assert(sizeof(struct flow_config) == 40, "flow_config: keep abi.rs in step");

/* What a replay sends; read-only for the program. */
struct replay_config {
	__u32 ifindex; /* interface to redirect to; 0: to the first leaf */
	__u32 count;   /* headers */
	__u32 rtp_at;  /* a header of RTP, which counts on from frame to frame; 0: there is none */
	__u32 reserved;
	__u64 gap; /* 1/256 ns from one frame to the next; 0: as fast as it goes */
};
_Static_assert(sizeof(struct replay_config) == 24, "replay_config: keep replay.rs in step");

/* Where one CPU's replay is; written by the program, read by user space. */
struct replay_state {
	__u64 made;     /* frames */
	__u64 due;      /* as in generate_state */
	__u64 earliest; /* as in generate_state */
	__u32 granted;  /* as in generate_state */
	__u32 next;     /* header */
};
_Static_assert(sizeof(struct replay_state) == 32, "replay_state: keep replay.rs in step");

/* The first bytes of a frame: Ethernet, IPv6 and TCP, and a little more. */
struct replay_header {
	__u64 words[10];
};
_Static_assert(sizeof(struct replay_header) == 80, "replay_header: keep replay.rs in step");

#endif
