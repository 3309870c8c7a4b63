// SPDX-License-Identifier: Apache-2.0
/*
 * Counts the media of calls inside the driver, and discards them: packets of RTP to or from
 * endpoints that user space has named. Everything else goes on, to captures and to the host.
 *
 * An endpoint is a *rule*, which holds the statistics of its streams. User space writes it, and
 * the program those of its streams, while it has the rule's lock. User space takes a rule away by
 * closing its lock for good, and reads what it holds then: nothing changes any more, and what
 * comes afterwards goes on. So each packet is counted here, or seen in user space, and none twice.
 */
#include "arrays.h"
#include "behind.h"
#include "rtp.h"

const volatile struct rtp_config config = {};

/* Sizes are user space's. */
RULES_ARRAY(rtp_control, sizeof(struct rtp_control));
RULES_ARRAY(rtp_counts, sizeof(struct rtp_counts));
RULES_ARRAY(rtp_kinds, sizeof(struct rtp_kind));
RULES_ARRAY(rtp_sets, sizeof(struct rtp_set));
RULES_ARRAY(rtp_rules, sizeof(struct rtp_rule));

/* How often a lock is tried that another CPU has: longer than that counts a packet. */
#define LOCK_TRIES 1000

/* What names an endpoint, and who sends what to whom. */
struct ends {
	struct rtp_end source;
	struct rtp_end destination;
};

static __always_inline int is_end(const struct rtp_end *one, const struct rtp_end *other)
{
	return one->address[0] == other->address[0] && one->address[1] == other->address[1] &&
	       one->port == other->port;
}

/* crates/ebpf/src/rtp/table.rs: hash */
static __always_inline __u64 hash_of(const struct rtp_end *end)
{
	return mix(mix(mix(config.seed, end->address[0]), end->address[1]), end->port);
}

/*
 * Asks for what a packet will change, so that its lines come from memory at the same time and not
 * one after the other: nothing waits for these loads.
 */
static __always_inline void ask_for(const struct rtp_rule *rule)
{
	for (int line = 0; line < RTP_LINES; line++)
		(void)((volatile const __u64 *)rule)[line * 8];
}

/* The rule of an endpoint, or null. Whether it still is one is known once it is locked. */
static __always_inline struct rtp_rule *find(const struct rtp_end *end)
{
	struct rtp_rule *rule;
	__u64 hash = hash_of(end);
	__u32 tag = hash >> 32 & RTP_TAG_MASK, set_at = hash & (config.sets - 1), rule_at = 0;
	const struct rtp_set *set = bpf_map_lookup_elem(&rtp_sets, &set_at);

	if (!set)
		return 0;
	for (int way = 0; way < RTP_WAYS; way++) {
		__u32 entry = *(volatile const __u32 *)&set->ways[way];

		if (entry && (entry & RTP_TAG_MASK) == tag)
			rule_at = entry & ~RTP_TAG_MASK;
	}
	if (!rule_at)
		return 0;
	rule_at--;
	rule = bpf_map_lookup_elem(&rtp_rules, &rule_at);
	if (!rule)
		return 0;
	ask_for(rule);
	return is_end(&rule->end, end) ? rule : 0;
}

struct trial {
	struct rtp_rule *rule;
	__u64 found;
};

static long try_lock(__u32 step, struct trial *trial)
{
	trial->found = __sync_val_compare_and_swap(&trial->rule->lock, RTP_FREE, RTP_HELD);
	return trial->found != RTP_HELD;
}

/* What the lock was. With RTP_FREE it is ours now. */
static __always_inline __u64 lock(struct rtp_rule *rule)
{
	struct trial trial = { .rule = rule };

	trial.found = __sync_val_compare_and_swap(&rule->lock, RTP_FREE, RTP_HELD);
	if (unlikely(trial.found == RTP_HELD))
		bpf_loop(LOCK_TRIES, try_lock, &trial, 0);
	return trial.found;
}

static __always_inline void unlock(struct rtp_rule *rule)
{
	if (config.is_weakly_ordered) {
		__sync_lock_test_and_set(&rule->lock, RTP_FREE);
	} else {
		asm volatile("" ::: "memory");
		*(volatile __u64 *)&rule->lock = RTP_FREE;
	}
}

static __always_inline int is_of(const struct rtp_stream *stream, const struct ends *ends,
				 __u32 ssrc)
{
	return stream->ssrc == ssrc && is_end(&stream->source, &ends->source) &&
	       is_end(&stream->destination, &ends->destination);
}

/* The place of the packet's stream, which may begin, or null. */
static __always_inline struct rtp_stream *stream_of(struct rtp_rule *rule, const struct ends *ends,
						    const struct rtp_packet *packet)
{
	for (int at = 0; at < RTP_STREAMS; at++) {
		struct rtp_stream *stream = &rule->streams[at];

		if (!(stream->flags & RTP_IS_USED)) {
			stream->flags = RTP_IS_USED;
			stream->source = ends->source;
			stream->destination = ends->destination;
			stream->ssrc = packet->ssrc;
			stream->first_ns = packet->now;
			return stream;
		}
		if (likely(is_of(stream, ends, packet->ssrc)))
			return stream;
	}
	return 0;
}

/* Counts a packet, by the rule of where it goes or, if there is none, where it comes from. */
static __always_inline enum rtp_fate count(const struct ends *ends,
					   const struct rtp_packet *packet)
{
	struct rtp_rule *rule = find(&ends->destination);
	enum rtp_fate fate = RTP_OTHER;
	struct rtp_stream *stream;
	__u64 found;

	if (!rule)
		rule = find(&ends->source);
	if (!rule)
		return RTP_OTHER;
	found = lock(rule);
	if (unlikely(found != RTP_FREE))
		return found == RTP_HELD ? RTP_BUSY : RTP_OTHER;
	/* It may be another's by now. */
	if (likely(is_end(&rule->end, &ends->destination) || is_end(&rule->end, &ends->source))) {
		stream = stream_of(rule, ends, packet);
		fate = RTP_NO_ROOM;
		if (likely(stream)) {
			__u32 codec = rule->kinds[packet->payload_type & 127];
			const struct rtp_kind *kind = bpf_map_lookup_elem(&rtp_kinds, &codec);

			if (likely(kind))
				take(stream, packet, codec, kind->content, kind->clock_rate);
			fate = RTP_COUNTED;
		}
	}
	unlock(rule);
	return fate;
}

/* Where a UDP datagram lies in a frame. */
struct datagram {
	void *udp;
	__u32 bytes; /* of all that its IP header leaves to it */
};

static __always_inline int see_ip(void *ip, void *data_end, __u16 type, struct ends *ends,
				  struct datagram *datagram)
{
	__u32 header, total;

	if (type == ETHER_IPV4) {
		if (ip + 20 > data_end || *(__u8 *)ip >> 4 != 4 || *(__u8 *)(ip + 9) != IP_UDP)
			return 0;
		header = (*(__u8 *)ip & 15) * 4;
		total = to_be16(*(__u16 *)(ip + 2));
		/* Fragments are put together in user space. */
		if (header < 20 || *(__u16 *)(ip + 6) & to_be16(0x3fff))
			return 0;
		ends->source.address[0] = *(__u32 *)(ip + 12);
		ends->destination.address[0] = *(__u32 *)(ip + 16);
	} else if (type == ETHER_IPV6) {
		if (ip + 40 > data_end || *(__u8 *)ip >> 4 != 6 || *(__u8 *)(ip + 6) != IP_UDP)
			return 0;
		header = 40;
		total = to_be16(*(__u16 *)(ip + 4)) + 40;
		ends->source.address[0] = *(__u64 *)(ip + 8);
		ends->source.address[1] = *(__u64 *)(ip + 16);
		ends->destination.address[0] = *(__u64 *)(ip + 24);
		ends->destination.address[1] = *(__u64 *)(ip + 32);
		ends->source.port = ends->destination.port = RTP_END_V6;
	} else {
		return 0;
	}
	if (total < header + 8)
		return 0;
	datagram->udp = ip + header;
	datagram->bytes = total - header;
	return 1;
}

/* Finds the UDP datagram of a frame; false for what is not plain, or not whole. */
static __always_inline int see(struct xdp_md *ctx, struct ends *ends, struct datagram *datagram)
{
	void *data = (void *)(long)ctx->data, *data_end = (void *)(long)ctx->data_end;
	void *ip = data + 14;
	__u16 type;

	if (data + 34 > data_end)
		return 0;
	/* The addresses of ISL (crates/wire/src/isl.rs). */
	if (unlikely((to_be32(*(__u32 *)data) & 0x00ffffff) == 0x000c00))
		return 0;
	type = to_be16(*(__u16 *)(data + 12));
	if (is_tag(type)) {
		type = to_be16(*(__u16 *)(data + 16));
		ip += 4;
		if (is_tag(type)) {
			type = to_be16(*(__u16 *)(data + 20));
			ip += 4;
		}
	}
	if (!see_ip(ip, data_end, type, ends, datagram))
		return 0;
	return datagram->udp - data + datagram->bytes <= bpf_xdp_get_buff_len(ctx);
}

/* crates/proto/src/rtp.rs: what is behind sources and extension and before padding. */
static __always_inline void see_payload(struct xdp_md *ctx, struct rtp_packet *packet,
					__u32 rtp_at, __u8 first, __u32 bytes)
{
	__u32 start = 12 + 4 * (first & 15), padding = 0;
	__u8 last = 0;

	if (unlikely(first & 0x10)) {
		__u16 words[2];

		packet->is_malformed = 1;
		if (start + 4 > bytes ||
		    bpf_xdp_load_bytes(ctx, rtp_at + start, words, sizeof(words)))
			return;
		start += 4 + 4 * to_be16(words[1]);
	}
	if (unlikely(first & 0x20) && bytes > 12) {
		packet->is_malformed = 1;
		if (bpf_xdp_load_bytes(ctx, rtp_at + bytes - 1, &last, 1))
			return;
		padding = last ? last : 1;
	}
	packet->is_malformed = start + padding > bytes;
	if (!packet->is_malformed)
		packet->payload_bytes = bytes - start - padding;
}

/* SIP at its ports is none of ours, and neither is what may be a tunnel's. */
static __always_inline int is_elsewhere(__u16 from, __u16 to)
{
	return from == to_be16(5060) || to == to_be16(5060) || from == to_be16(5061) ||
	       to == to_be16(5061) || is_tunnel(from, to);
}

static __always_inline enum rtp_fate meter(struct xdp_md *ctx, const struct rtp_control *control)
{
	void *data_end = (void *)(long)ctx->data_end, *data = (void *)(long)ctx->data;
	struct rtp_packet packet = {};
	struct datagram datagram;
	struct ends ends = {};
	__u32 bytes;
	__u8 *rtp;

	if (!see(ctx, &ends, &datagram))
		return RTP_OTHER;
	rtp = datagram.udp + 8;
	if ((void *)rtp + 12 > data_end)
		return RTP_OTHER;
	bytes = to_be16(*(__u16 *)(datagram.udp + 4));
	if (bytes < 20 || bytes > datagram.bytes)
		return RTP_OTHER;
	bytes -= 8;
	/* Not RTP; or RTCP. */
	if (rtp[0] >> 6 != 2 || (rtp[1] >= 192 && rtp[1] <= 223))
		return RTP_OTHER;
	if (is_elsewhere(*(__u16 *)datagram.udp, *(__u16 *)(datagram.udp + 2)))
		return RTP_OTHER;
	/* Who should read the counters is gone. */
	if (unlikely(bpf_ktime_get_coarse_ns() > control->alive_until))
		return RTP_STALLED;
	ends.source.port |= to_be16(*(__u16 *)datagram.udp);
	ends.destination.port |= to_be16(*(__u16 *)(datagram.udp + 2));
	packet.now = config.is_test ? control->test_now : bpf_ktime_get_tai_ns();
	packet.number = to_be16(*(__u16 *)(rtp + 2));
	packet.timestamp = to_be32(*(__u32 *)(rtp + 4));
	packet.ssrc = to_be32(*(__u32 *)(rtp + 8));
	packet.is_marked = rtp[1] >> 7;
	packet.payload_type = rtp[1] & 127;
	see_payload(ctx, &packet, (void *)rtp - data, rtp[0], bytes);
	return count(&ends, &packet);
}

SEC("xdp.frags")
int xdp_rtp(struct xdp_md *ctx)
{
	__u32 cpu = bpf_get_smp_processor_id(), zero = 0;
	const struct rtp_control *control = bpf_map_lookup_elem(&rtp_control, &zero);
	struct rtp_counts *counts = bpf_map_lookup_elem(&rtp_counts, &cpu);
	enum rtp_fate fate;

	/* The maps have room for every CPU that the kernel may have. */
	if (!control || !counts)
		return go_behind(ctx, config.position, config.metadata);
	fate = meter(ctx, control);
	counts->fates[fate & (RTP_FATES - 1)]++;
	if (likely(fate == RTP_COUNTED))
		return XDP_DROP;
	return go_behind(ctx, config.position, config.metadata);
}

const char terms[] SEC("license") = "Apache-2.0";
