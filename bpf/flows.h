/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The flow cache: sums of packets by flow, one part for each CPU, in sets of a few entries.
 *
 * A part has one writer: on one CPU no program of an interface runs in the middle of another, and
 * XDP and tc are not attached together. User space takes nothing out and sets nothing to 0: it
 * reads sums and has the differences (crates/meter). An entry goes when its place is needed, and
 * only after its sums were handed up; a frame that cannot be read here is handed up itself. What
 * finds no room in the ring is counted as lost.
 */
#ifndef RINGSIDE_FLOWS_H
#define RINGSIDE_FLOWS_H

#include "abi.h"
#include "headers.h"

const volatile struct flow_config config = {};

/* An array of so large values, as many as user space says. */
#define FLOW_ARRAY(name, bytes)                             \
	struct {                                            \
		__uint(type, BPF_MAP_TYPE_ARRAY);           \
		__uint(map_flags, BPF_F_MMAPABLE);          \
		__uint(max_entries, 1);                     \
		__uint(key_size, 4);                        \
		__uint(value_size, bytes);                  \
	} name SEC(".maps")

FLOW_ARRAY(flow_control, 64);
FLOW_ARRAY(flow_counts, sizeof(struct flow_counts));
FLOW_ARRAY(flow_sets, sizeof(struct flow_set));
FLOW_ARRAY(flow_entries, sizeof(struct flow_entry));
/* Of each CPU; the room for records is added before it is made. */
FLOW_ARRAY(flow_rings, RING_RECORDS_AT);
/* User space's alone: what it has taken of each entry, for a process that goes on for it. */
FLOW_ARRAY(flow_taken, sizeof(struct flow_taken));

/* A millisecond or so: in steps of it the last packet's time stands in a mark. */
#define MARK_STEP_LOG2 20
#define MARK_TIME_MASK 0xffffff

enum seen { SEEN_FLOW, SEEN_NOT_IP, SEEN_UNREAD };

/* What flows need of a frame: of one packet, or of all that the host put together in it. */
struct seen_packet {
	struct flow_key key;
	__u64 octets;
	__u64 ip_octets;
	__u64 packets;
	__u64 now;
	__u32 cpu;
	__u16 flags;
	__u8 tos;
};

static __always_inline void see_ports(struct flow_key *key, __u16 from, __u16 to)
{
	key->ports = from | (__u32)to << 16;
}

/* The other type of a question and its answer (crates/flow/src/packet/icmp.rs), or 256. */
static __always_inline __u32 counterpart(__u8 type)
{
	switch (type) {
	case 8: return 0;
	case 0: return 8;
	case 10: return 9;
	case 9: return 10;
	case 13: return 14;
	case 14: return 13;
	case 15: return 16;
	case 16: return 15;
	case 17: return 18;
	case 18: return 17;
	}
	return 256;
}

static __always_inline __u32 counterpart_v6(__u8 type)
{
	if ((type >= 128 && type <= 131) || type == 144 || type == 145)
		return type ^ 1;
	switch (type) {
	case 133: return 134;
	case 134: return 133;
	case 135: return 136;
	case 136: return 135;
	case 139: return 140;
	case 140: return 139;
	}
	return 256;
}

static __always_inline void see_icmp(struct flow_key *key, const __u8 *here, int is_v6)
{
	__u32 other = is_v6 ? counterpart_v6(here[0]) : counterpart(here[0]);

	if (other == 256) {
		other = here[1];
		key->flags |= FLOW_ONE_WAY;
	}
	see_ports(key, to_be16(here[0]), to_be16((__u16)other));
}

/* The transport header; the packet ends at `end`. Returns its bytes, or -1 if it is not read. */
static __always_inline int see_transport(struct seen_packet *packet, void *here, void *data_end,
					 void *end)
{
	struct flow_key *key = &packet->key;
	__u32 bytes;

	switch (key->protocol) {
	case IP_TCP:
		if (here + 20 > data_end)
			return -1;
		bytes = (*(__u8 *)(here + 12) >> 4) * 4;
		if (bytes < 20 || here + bytes > end)
			return -1;
		key->ports = *(__u32 *)here;
		packet->flags = to_be16(*(__u16 *)(here + 12)) & 0xfff;
		return bytes;
	case IP_UDP:
		if (here + 8 > data_end || here + 8 > end)
			return -1;
		bytes = to_be16(*(__u16 *)(here + 4));
		if ((bytes && bytes < 8) || is_tunnel(*(__u16 *)here, *(__u16 *)(here + 2)))
			return -1;
		key->ports = *(__u32 *)here;
		return 8;
	case IP_ICMP:
		if ((key->flags & FLOW_V6) || here + 8 > data_end || here + 8 > end)
			return -1;
		see_icmp(key, here, 0);
		return 8;
	case IP_ICMPV6:
		if (!(key->flags & FLOW_V6) || here + 4 > data_end || here + 4 > end)
			return -1;
		see_icmp(key, here, 1);
		return 4;
	case IP_ESP:
		return 0;
	}
	return -1;
}

/* An IP packet's bytes by its header or, if that leaves it open, by the frame. */
static __always_inline int see_ipv4(struct seen_packet *packet, void *ip, void *data_end,
				    __u64 ip_bytes)
{
	struct flow_key *key = &packet->key;
	__u32 header_bytes, total_bytes;
	void *end = data_end;
	int transport;

	if (ip + 20 > data_end || *(__u8 *)ip >> 4 != 4)
		return -1;
	header_bytes = (*(__u8 *)ip & 15) * 4;
	total_bytes = to_be16(*(__u16 *)(ip + 2));
	/* Fragments are for user space, which remembers the ports of their first. */
	if (header_bytes < 20 || ip + header_bytes > data_end ||
	    *(__u16 *)(ip + 6) & to_be16(0x3fff))
		return -1;
	if (total_bytes) {
		if (total_bytes < header_bytes)
			return -1;
		if (ip + total_bytes < data_end)
			end = ip + total_bytes;
		ip_bytes = total_bytes;
	}
	key->address[0] = *(__u32 *)(ip + 12) | (__u64) * (__u32 *)(ip + 16) << 32;
	key->protocol = *(__u8 *)(ip + 9);
	packet->tos = *(__u8 *)(ip + 1);
	packet->ip_octets = ip_bytes;
	transport = see_transport(packet, ip + header_bytes, data_end, end);
	return transport < 0 ? -1 : header_bytes + transport;
}

static __always_inline int see_ipv6(struct seen_packet *packet, void *ip, void *data_end,
				    __u64 ip_bytes)
{
	struct flow_key *key = &packet->key;
	__u32 payload_bytes;
	void *end = data_end;
	int transport;

	if (ip + 40 > data_end || *(__u8 *)ip >> 4 != 6)
		return -1;
	payload_bytes = to_be16(*(__u16 *)(ip + 4));
	if (payload_bytes) {
		if (ip + 40 + payload_bytes < data_end)
			end = ip + 40 + payload_bytes;
		ip_bytes = payload_bytes + 40;
	}
	key->address[0] = *(__u64 *)(ip + 8);
	key->address[1] = *(__u64 *)(ip + 16);
	key->address[2] = *(__u64 *)(ip + 24);
	key->address[3] = *(__u64 *)(ip + 32);
	key->protocol = *(__u8 *)(ip + 6);
	key->flags = FLOW_V6;
	packet->tos = to_be16(*(__u16 *)ip) >> 4;
	packet->ip_octets = ip_bytes;
	transport = see_transport(packet, ip + 40, data_end, end);
	return transport < 0 ? -1 : 40 + transport;
}

/*
 * Reads a frame of `octets` on the wire, whose outer tag may be elsewhere (`tag`: FLOW_HAS_VLAN and
 * its id, else 0). What is read here is what PacketReader reads (crates/flow/src/packet.rs).
 */
static __always_inline enum seen see(struct seen_packet *packet, void *data, void *data_end,
				     __u16 tag)
{
	__u64 octets = packet->octets - (tag ? 4 : 0), ip_bytes = octets - 14;
	void *here = data + 14;
	__u32 link_bytes = 14;
	int headers;
	__u16 type;

	if (data + 34 > data_end)
		return SEEN_UNREAD;
	/* The addresses of ISL (crates/wire/src/isl.rs). */
	if (unlikely((to_be32(*(__u32 *)data) & 0x00ffffff) == 0x000c00))
		return SEEN_UNREAD;
	type = to_be16(*(__u16 *)(data + 12));
	packet->key.vlan = tag;
	if (is_tag(type)) {
		packet->key.vlan = FLOW_HAS_VLAN | (to_be16(*(__u16 *)(data + 14)) & 0xfff);
		type = to_be16(*(__u16 *)(data + 16));
		link_bytes = 18;
		if (is_tag(type)) {
			packet->key.vlan = FLOW_HAS_VLAN | (to_be16(*(__u16 *)(data + 18)) & 0xfff);
			type = to_be16(*(__u16 *)(data + 20));
			link_bytes = 22;
		}
		here = data + link_bytes;
	}
	ip_bytes = octets - link_bytes;
	if (type == ETHER_IPV4)
		headers = see_ipv4(packet, here, data_end, ip_bytes);
	else if (type == ETHER_IPV6)
		headers = see_ipv6(packet, here, data_end, ip_bytes);
	else
		return type == ETHER_ARP ? SEEN_NOT_IP : SEEN_UNREAD;
	if (headers < 0)
		return SEEN_UNREAD;
	if (packet->packets > 1) {
		__u64 more = packet->packets - 1;

		packet->octets += more * (link_bytes + (tag ? 4 : 0) + headers);
		packet->ip_octets += more * headers;
	}
	return SEEN_FLOW;
}

static __always_inline void count(__u64 sums[2], const struct seen_packet *packet)
{
	sums[0] += packet->packets;
	sums[1] += packet->octets;
}

/* What was written before is seen before. */
static __always_inline void set_version(__u32 *version, __u32 value)
{
	if (config.is_weakly_ordered) {
		__sync_lock_test_and_set(version, value);
	} else {
		asm volatile("" ::: "memory");
		*(volatile __u32 *)version = value;
		asm volatile("" ::: "memory");
	}
}

/* Room for a record in the ring, or null. It is there for user space when it is published. */
static __always_inline struct flow_record *reserve(struct flow_ring *ring, __u64 bytes)
{
	__u64 head = ring->head;

	if (unlikely(head + bytes > ring->limit)) {
		ring->limit = *(volatile __u64 *)&ring->tail + config.ring_bytes;
		if (head + bytes > ring->limit)
			return 0;
	}
	return (void *)ring + RING_RECORDS_AT + (head & (config.ring_bytes - 1) & ~7ULL);
}

static __always_inline void publish(struct flow_ring *ring, __u64 bytes)
{
	__u64 head = ring->head + bytes;

	if (config.is_weakly_ordered) {
		__sync_lock_test_and_set(&ring->head, head);
	} else {
		asm volatile("" ::: "memory");
		*(volatile __u64 *)&ring->head = head;
	}
}

/* Hands up the sums of an entry that is to go. False if the ring is full. */
static __always_inline int hand_up_entry(__u32 cpu, const struct flow_entry *entry, __u64 now)
{
	const __u64 bytes = sizeof(struct flow_record) + sizeof(struct flow_entry);
	struct flow_ring *ring = bpf_map_lookup_elem(&flow_rings, &cpu);
	struct flow_record *record = ring ? reserve(ring, bytes) : 0;

	if (!record)
		return 0;
	record->kind = FLOW_RECORD_ENTRY;
	record->bytes = sizeof(struct flow_entry);
	record->stamp = now;
	__builtin_memcpy(record + 1, entry, sizeof(*entry));
	publish(ring, bytes);
	return 1;
}

static __always_inline int is_key(const struct flow_key *a, const struct flow_key *b)
{
	const __u64 *left = (const void *)a, *right = (const void *)b;
	__u64 differences = (left[0] ^ right[0]) | (left[4] ^ right[4]);

	if (b->flags & FLOW_V6)
		differences |= (left[1] ^ right[1]) | (left[2] ^ right[2]) | (left[3] ^ right[3]);
	return !differences;
}

static __always_inline __u64 hash_of(const struct flow_key *key)
{
	const __u64 *words = (const void *)key;
	__u64 hash = mix(config.seed, words[0]);

	if (key->flags & FLOW_V6) {
		hash = mix(hash, words[1]);
		hash = mix(hash, words[2]);
		hash = mix(hash, words[3]);
	}
	return mix(hash, words[4]);
}

/* Adds a packet to its entry. */
static __always_inline void add(struct flow_entry *entry, const struct seen_packet *packet,
				__u32 epoch)
{
	__u32 turn = epoch & 1;

	entry->packets += packet->packets;
	entry->octets += packet->octets;
	entry->ip_octets += packet->ip_octets;
	entry->last = packet->now;
	entry->all_flags |= packet->flags;
	if (entry->epoch[turn] != epoch) {
		entry->epoch[turn] = epoch;
		entry->since[turn] = packet->now;
		entry->epoch_flags[turn] = packet->flags;
	} else {
		entry->epoch_flags[turn] |= packet->flags;
	}
}

/* Begins an entry anew, as the next generation of its place. */
static __always_inline void begin(struct flow_entry *entry, const struct seen_packet *packet,
				  __u32 index)
{
	entry->key = packet->key;
	entry->packets = entry->octets = entry->ip_octets = 0;
	entry->first = packet->now;
	entry->epoch[0] = entry->epoch[1] = 0;
	entry->generation++;
	entry->index = index;
	entry->all_flags = 0;
	entry->first_flags = packet->flags;
	entry->tos = packet->tos;
}

/* True if the packet begins a connection (SYN), and the entry is of one before: it had answers. */
static __always_inline int is_next(const struct flow_entry *entry, const struct seen_packet *packet)
{
	return (packet->flags & (TCP_SYN | TCP_ACK)) == TCP_SYN &&
	       (entry->all_flags & (TCP_FIN | TCP_RST | TCP_ACK));
}

/* The way to use for a new flow: a free one, or that of the entry that was silent for longest. */
static __always_inline __u32 place(const struct flow_set *set, __u32 ways, __u32 time)
{
	__u32 chosen = 0, longest = 0, way;

#pragma unroll
	for (way = 0; way < FLOW_WAYS; way++) {
		__u32 silent = ((time - set->marks[way]) & MARK_TIME_MASK) + 1;

		if (!set->versions[way])
			silent = MARK_TIME_MASK + 2;
		if (way < ways && silent > longest) {
			longest = silent;
			chosen = way;
		}
	}
	return chosen;
}

/* The way of a flow's entry, or FLOW_WAYS. */
static __always_inline __u32 find(const struct flow_set *set, __u32 first, __u32 ways,
				  const struct flow_key *key, __u32 tag)
{
	__u32 way;

#pragma unroll
	for (way = 0; way < FLOW_WAYS; way++) {
		if (set->marks[way] >> 24 == tag && way < ways) {
			__u32 index = first + way;
			struct flow_entry *entry = bpf_map_lookup_elem(&flow_entries, &index);

			if (entry && is_key(&entry->key, key))
				return way;
		}
	}
	return FLOW_WAYS;
}

/* Adds a packet to the cache. False if it is lost: there is neither a place nor room. */
static __always_inline int keep(const struct seen_packet *packet, struct flow_counts *counts,
				const __u64 *control)
{
	__u32 epoch = *(volatile __u64 *)&control[FLOW_EPOCH];
	__u32 ways = *(volatile __u64 *)&control[FLOW_WAYS_USED];
	__u64 hash = hash_of(&packet->key);
	__u32 index = packet->cpu * config.sets + (hash & (config.sets - 1));
	__u32 time = packet->now >> MARK_STEP_LOG2 & MARK_TIME_MASK, tag = hash >> 56;
	struct flow_set *set = bpf_map_lookup_elem(&flow_sets, &index);
	struct flow_entry *entry;
	__u32 way, version, mark = tag << 24 | time;
	int is_new;

	if (!set)
		return 0;
	way = find(set, index * FLOW_WAYS, ways, &packet->key, tag);
	is_new = way == FLOW_WAYS;
	if (is_new)
		way = place(set, ways, time);
	way &= FLOW_WAYS - 1;
	index = index * FLOW_WAYS + way;
	entry = bpf_map_lookup_elem(&flow_entries, &index);
	if (!entry)
		return 0;
	version = set->versions[way];
	if (unlikely(is_new || is_next(entry, packet))) {
		if (version && !hand_up_entry(packet->cpu, entry, packet->now))
			return 0;
		counts->places += !version;
		counts->evicted += version && is_new;
		counts->renewed += !is_new;
		set_version(&set->versions[way], version + 1);
		begin(entry, packet, index);
	} else {
		set_version(&set->versions[way], version + 1);
	}
	add(entry, packet, epoch);
	if (set->marks[way] != mark)
		set->marks[way] = mark;
	/* 0 is a place that was never taken. */
	set_version(&set->versions[way], version + 2 ? version + 2 : 2);
	return 1;
}

#endif
