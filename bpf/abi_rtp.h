/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * What user space and the program that counts media of calls share (bpf/xdp_rtp.bpf.c; Rust:
 * crates/ebpf/src/rtp/abi.rs).
 */
#ifndef RINGSIDE_ABI_RTP_H
#define RINGSIDE_ABI_RTP_H

#include "abi.h"

/* Endpoints of one set of the table of rules. */
#define RTP_WAYS 16
/* Of an entry there: bits of the hash; the others are the rule's number and one. */
#define RTP_TAG_MASK 0xfffe0000
/* Streams of a rule. Those beyond are left to user space. */
#define RTP_STREAMS 2
/* Of an endpoint's port: its address is IPv6. */
#define RTP_END_V6 0x10000

/* Who has a rule. */
enum rtp_lock { RTP_FREE, RTP_HELD, RTP_CLOSED };

/* What became of a frame. All but the counted ones go on. */
enum rtp_fate {
	RTP_COUNTED,
	RTP_OTHER,   /* no packet of RTP at an endpoint that has a rule */
	RTP_NO_ROOM, /* the rule has other streams */
	RTP_BUSY,    /* another CPU had the rule for too long */
	RTP_STALLED, /* no process reads the counters any more */
	RTP_FATES = 8,
};

/* Bits of a stream. */
#define RTP_IS_USED 1
#define RTP_HAS_NUMBERS 2
#define RTP_HAS_STRAY 4
#define RTP_HAS_LAST 8
#define RTP_FOLLOWS_NOISE 16
#define RTP_HAS_JITTER 32
#define RTP_HAS_ORIGIN 64

/* An address and a port. IPv4 has the lower half of the first word. */
struct rtp_end {
	__u64 address[2]; /* raw */
	__u64 port;       /* and RTP_END_V6 */
};
_Static_assert(sizeof(struct rtp_end) == 24, "rtp_end: keep abi.rs in step");

/* Least, greatest and sum of a number of values. */
struct rtp_spread {
	__u64 count;
	__s64 min;
	__s64 max;
	__s64 sum;
};
_Static_assert(sizeof(struct rtp_spread) == 32, "rtp_spread: keep abi.rs in step");

/*
 * A stream. Fields are those of crates/calls/src/rtp. What every packet changes comes first: with
 * thousands of streams each line of memory that a packet needs is one that the caches lack.
 */
struct rtp_stream {
	struct rtp_end source;
	struct rtp_end destination;
	__u32 ssrc;
	__u32 flags;
	__u32 payload_type;
	__u32 codec; /* number of its kind */
	__u32 timed; /* of the packet at timed_ns */
	__u32 origin;
	__u64 last_ns;
	__u64 packets;
	__u64 payload_bytes;
	/* Sequence */
	__u64 first;
	__u64 highest;
	__u64 seen[2];
	__u64 discarded[2];
	/* Bursts */
	__u64 fates;
	__u64 played;
	/* JitterBuffer */
	__s64 fastest[2];
	__u64 span_begun_ns;
	__u64 origin_ns;
	/* Timing */
	struct rtp_spread deltas;
	struct rtp_spread jitters;
	__s64 skew_max_ns;
	__u64 timed_ns;
	__u64 jitter_16;
	__s64 arrival_ns;
	__s64 nominal_ns;
	/* What few packets change */
	__u64 first_ns;
	__u64 next_of_stray;
	__u64 duplicates;
	__u64 out_of_order;
	__u64 stray;
	__u64 restarts;
	__u64 malformed;
	__u64 expected_before;
	__u64 lost;
	__u64 discards;
	__u64 bursts;
	__u64 burst_packets;
	__u64 burst_losses;
	__u64 runs;
	__u64 open_packets;
	__u64 open_losses;
};
_Static_assert(sizeof(struct rtp_stream) == 424, "rtp_stream: keep abi.rs in step");

/* An endpoint whose media are counted; as long as whole lines of memory. */
struct rtp_rule {
	__u64 lock;
	struct rtp_end end;
	struct rtp_stream streams[RTP_STREAMS];
	__u8 kinds[128]; /* of each payload type */
	__u64 reserved[2];
};
_Static_assert(sizeof(struct rtp_rule) == 1024, "rtp_rule: keep abi.rs in step");

/* Lines of memory with what every packet of a rule's first stream changes. */
#define RTP_LINES 6
_Static_assert(__builtin_offsetof(struct rtp_rule, streams[0].first_ns) <= RTP_LINES * 64,
	       "RTP_LINES: all that packets change");

/* Endpoints with one hash; 0 is none. */
struct rtp_set {
	__u32 ways[RTP_WAYS];
};
_Static_assert(sizeof(struct rtp_set) == 64, "rtp_set: keep abi.rs in step");

/* What packets of a codec are. */
struct rtp_kind {
	__u32 clock_rate; /* 0: unknown */
	__u32 content;
};
_Static_assert(sizeof(struct rtp_kind) == 8, "rtp_kind: keep abi.rs in step");

struct rtp_control {
	__u64 alive_until; /* monotonic: without another word from user space all goes on */
	__u64 test_now;    /* the time of a test run */
};
_Static_assert(sizeof(struct rtp_control) == 16, "rtp_control: keep abi.rs in step");

/* Frames of one CPU. */
struct rtp_counts {
	__u64 fates[RTP_FATES];
};
_Static_assert(sizeof(struct rtp_counts) == 64, "rtp_counts: keep abi.rs in step");

/* Read-only for the program. */
struct rtp_config {
	__u64 seed;
	__u32 sets;     /* a power of two */
	__u32 position; /* its own place among the leaves */
	__u32 metadata; /* METADATA_FULL if the root puts some there */
	__u32 is_weakly_ordered; /* stores of this CPU may be seen in another order */
	__u32 is_test;  /* 1: takes the time from the control */
	__u32 reserved;
};
_Static_assert(sizeof(struct rtp_config) == 32, "rtp_config: keep abi.rs in step");

#endif
