/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Statistics of one stream of RTP: those of crates/calls/src/rtp, step for step and in the same
 * whole numbers; a test compares every field. Only the drift of clocks is not here.
 */
#ifndef RINGSIDE_RTP_H
#define RINGSIDE_RTP_H

#include "abi_rtp.h"
#include "headers.h"

/* crates/calls/src/rtp/sequence.rs */
#define DROPOUT_MAX 3000
#define MISORDER_MAX 100
#define WINDOW 128
/* crates/calls/src/rtp/bursts.rs */
#define GAP_MIN 16
/* crates/calls/src/rtp/jitter_buffer.rs */
#define BUFFER_DEPTH_NS 60000000ULL
#define BUFFER_SPAN_NS 5000000000ULL
/* crates/calls/src/rtp/timing.rs */
#define DEVIATION_MAX_NS (1ULL << 56)

#define NO_TIME ((__s64)(~0ULL >> 1))

/* crates/calls/src/codec.rs: Content */
enum rtp_content { CONTENT_MEDIA, CONTENT_NOISE, CONTENT_EVENT };

/* A packet of RTP. */
struct rtp_packet {
	__u64 now;
	__u32 timestamp;
	__u32 ssrc;
	__u32 payload_bytes;
	__u16 number;
	__u8 payload_type;
	__u8 is_marked;
	__u8 is_malformed;
};

static __always_inline void close_burst(struct rtp_stream *stream)
{
	if (stream->open_losses > 1) {
		stream->bursts++;
		stream->burst_packets += stream->open_packets;
		stream->burst_losses += stream->open_losses;
	}
	stream->open_packets = 0;
	stream->open_losses = 0;
}

static __always_inline void not_played(struct rtp_stream *stream)
{
	int is_first = !stream->open_losses;

	if (is_first || stream->played > 0)
		stream->runs++;
	if (is_first || stream->played >= GAP_MIN) {
		close_burst(stream);
		stream->open_packets = 1;
		stream->open_losses = 1;
	} else {
		stream->open_packets += stream->played + 1;
		stream->open_losses++;
	}
	stream->played = 0;
}

static __always_inline int has_bit(const __u64 words[2], __u64 bit)
{
	return (bit < 64 ? words[0] >> bit : words[1] >> (bit & 63)) & 1;
}

static __always_inline void set_bit(__u64 words[2], __u64 bit)
{
	if (bit < 64)
		words[0] |= 1ULL << bit;
	else
		words[1] |= 1ULL << (bit & 63);
}

static __always_inline void shift(__u64 words[2])
{
	words[1] = words[1] << 1 | words[0] >> 63;
	words[0] <<= 1;
}

/* The fate of the number that is so far behind the highest. */
static __always_inline void give(struct rtp_stream *stream, __u64 behind)
{
	if (stream->highest - behind < stream->first)
		return;
	stream->fates++;
	if (!has_bit(stream->seen, behind)) {
		stream->lost++;
		not_played(stream);
	} else if (has_bit(stream->discarded, behind)) {
		stream->discards++;
		not_played(stream);
	} else {
		stream->played++;
	}
}

static __always_inline void advance_one(struct rtp_stream *stream)
{
	give(stream, WINDOW - 1);
	stream->highest++;
	shift(stream->seen);
	shift(stream->discarded);
}

struct many {
	struct rtp_stream *stream;
};

static long advance_step(__u32 step, struct many *many)
{
	advance_one(many->stream);
	return 0;
}

static long flush_step(__u32 step, struct many *many)
{
	give(many->stream, WINDOW - 1 - (step & (WINDOW - 1)));
	return 0;
}

static __always_inline void begin(struct rtp_stream *stream, __u16 number)
{
	stream->first = (1ULL << 16) + number;
	stream->highest = stream->first;
	stream->seen[0] = 1;
	stream->seen[1] = 0;
	stream->discarded[0] = 0;
	stream->discarded[1] = 0;
	stream->flags &= ~RTP_HAS_STRAY;
	stream->flags |= RTP_HAS_NUMBERS;
}

enum order { ORDER_AHEAD, ORDER_LATE, ORDER_DUPLICATE, ORDER_STRAY, ORDER_RESTART };

static __always_inline enum order order_of(struct rtp_stream *stream, __u16 number)
{
	__u16 ahead = number - (__u16)stream->highest, behind = (__u16)stream->highest - number;
	struct many many = { .stream = stream };

	if (!ahead || behind <= MISORDER_MAX) {
		if (has_bit(stream->seen, behind))
			return ORDER_DUPLICATE;
		set_bit(stream->seen, behind);
		if (stream->highest - behind < stream->first)
			stream->first = stream->highest - behind;
		return ORDER_LATE;
	}
	if (ahead < DROPOUT_MAX) {
		stream->flags &= ~RTP_HAS_STRAY;
		if (likely(ahead == 1))
			advance_one(stream);
		else
			bpf_loop(ahead, advance_step, &many, 0);
		stream->seen[0] |= 1;
		return ORDER_AHEAD;
	}
	if (!(stream->flags & RTP_HAS_STRAY) || stream->next_of_stray != number) {
		stream->flags |= RTP_HAS_STRAY;
		stream->next_of_stray = (__u16)(number + 1);
		return ORDER_STRAY;
	}
	bpf_loop(WINDOW, flush_step, &many, 0);
	stream->expected_before += stream->highest - stream->first + 1;
	begin(stream, number - 1);
	advance_one(stream);
	stream->seen[0] |= 1;
	return ORDER_RESTART;
}

static __always_inline void add_sample(struct rtp_spread *spread, __s64 value)
{
	if (!spread->count || value < spread->min)
		spread->min = value;
	if (!spread->count || value > spread->max)
		spread->max = value;
	spread->sum += value;
	spread->count++;
}

/* Units of a timestamp, in nanoseconds. */
static __always_inline __s64 nominal_ns(__s64 units, __u32 clock_rate)
{
	__u64 ns = (__u64)(units < 0 ? -units : units) * 1000000000ULL / clock_rate;

	return units < 0 ? -(__s64)ns : (__s64)ns;
}

static __always_inline __u64 magnitude(__s64 value)
{
	return value < 0 ? -(__u64)value : (__u64)value;
}

/* crates/calls/src/rtp/timing.rs: Timing::take */
static __always_inline void time(struct rtp_stream *stream, const struct rtp_packet *packet,
				 __u32 content, __u32 clock_rate)
{
	int is_noise = content == CONTENT_NOISE;
	int follows_noise = !!(stream->flags & RTP_FOLLOWS_NOISE);
	__s64 delta, units, nominal = 0;

	stream->flags &= ~RTP_FOLLOWS_NOISE;
	if (is_noise)
		stream->flags |= RTP_FOLLOWS_NOISE;
	if (!(stream->flags & RTP_HAS_LAST)) {
		stream->flags |= RTP_HAS_LAST;
		stream->timed_ns = packet->now;
		stream->timed = packet->timestamp;
		return;
	}
	delta = packet->now - stream->timed_ns;
	units = (__s64)((__u64)(packet->timestamp - stream->timed) << 32) >> 32;
	if (content == CONTENT_EVENT)
		clock_rate = 0;
	if (clock_rate) {
		__u64 deviation;

		nominal = nominal_ns(units, clock_rate);
		deviation = magnitude(delta - nominal);
		if (deviation > DEVIATION_MAX_NS)
			deviation = DEVIATION_MAX_NS;
		stream->jitter_16 += deviation - ((stream->jitter_16 + 8) >> 4);
		stream->flags |= RTP_HAS_JITTER;
	}
	if (!packet->is_marked && !is_noise && !follows_noise && units >= 0) {
		add_sample(&stream->deltas, delta);
		if (clock_rate)
			add_sample(&stream->jitters, stream->jitter_16 >> 4);
	}
	if (units < 0)
		return;
	stream->timed_ns = packet->now;
	stream->timed = packet->timestamp;
	stream->arrival_ns += delta;
	stream->nominal_ns += clock_rate ? nominal : delta;
	if (clock_rate) {
		__s64 skew = stream->nominal_ns - stream->arrival_ns;

		if (magnitude(skew) > magnitude(stream->skew_max_ns))
			stream->skew_max_ns = skew;
	}
}

/* crates/calls/src/rtp/statistics.rs: Statistics::buffer */
static __always_inline void buffer(struct rtp_stream *stream, const struct rtp_packet *packet,
				   __u32 clock_rate)
{
	__s64 units, due, transit, fastest;
	__u16 behind;

	if (!(stream->flags & RTP_HAS_ORIGIN)) {
		stream->flags |= RTP_HAS_ORIGIN;
		stream->origin_ns = packet->now;
		stream->origin = packet->timestamp;
		stream->fastest[0] = NO_TIME;
		stream->fastest[1] = NO_TIME;
	}
	units = (__s64)((__u64)(packet->timestamp - stream->origin) << 32) >> 32;
	due = nominal_ns(units, clock_rate);
	transit = packet->now - stream->origin_ns - due;
	if (packet->now >= stream->span_begun_ns &&
	    packet->now - stream->span_begun_ns >= BUFFER_SPAN_NS) {
		stream->fastest[0] = stream->fastest[1];
		stream->fastest[1] = NO_TIME;
		stream->span_begun_ns = packet->now;
	}
	if (transit < stream->fastest[1])
		stream->fastest[1] = transit;
	fastest = stream->fastest[0];
	if (stream->fastest[1] < fastest)
		fastest = stream->fastest[1];
	behind = (__u16)stream->highest - packet->number;
	if ((__u64)transit - (__u64)fastest > BUFFER_DEPTH_NS && behind < WINDOW)
		set_bit(stream->discarded, behind);
	if (units > 1LL << 30) {
		stream->origin_ns += due;
		stream->origin = packet->timestamp;
	}
}

/* Takes a packet; a clock rate of 0 is not known. */
static __always_inline void take(struct rtp_stream *stream, const struct rtp_packet *packet,
				 __u32 codec, __u32 content, __u32 clock_rate)
{
	enum order order = ORDER_AHEAD;

	if (packet->now > stream->last_ns)
		stream->last_ns = packet->now;
	if (packet->is_malformed) {
		stream->malformed++;
		return;
	}
	if (content == CONTENT_MEDIA) {
		stream->codec = codec;
		stream->payload_type = packet->payload_type;
	}
	stream->packets++;
	stream->payload_bytes += packet->payload_bytes;
	if (stream->flags & RTP_HAS_NUMBERS)
		order = order_of(stream, packet->number);
	else
		begin(stream, packet->number);
	switch (order) {
	case ORDER_AHEAD:
		break;
	case ORDER_LATE:
		stream->out_of_order++;
		break;
	case ORDER_DUPLICATE:
		stream->duplicates++;
		return;
	case ORDER_STRAY:
		stream->stray++;
		return;
	case ORDER_RESTART:
		stream->stray--;
		stream->restarts++;
		stream->flags &= ~(RTP_HAS_LAST | RTP_HAS_ORIGIN);
		break;
	}
	time(stream, packet, content, clock_rate);
	if (clock_rate && content != CONTENT_EVENT)
		buffer(stream, packet, clock_rate);
}

#endif
