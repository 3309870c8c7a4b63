/* Receiving: a queue is used by one thread at a time. */
#include "internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <rte_ethdev.h>
#include <rte_ether.h>

/* Frames that are asked of a driver at a time: all drivers take this number. */
#define PIECE 64u
/* Room for copies: the longest frame that is captured whole, once. */
#define COPIES_BYTES (256u << 10)

struct ringside_dpdk_queue {
	uint16_t port, number;
	struct rte_mempool *pool;
	const uint8_t *base;
	uint64_t bytes;
	uint8_t *copies;
	/* Taken from the driver; those from `first` on wait, of which `lent` are out. */
	struct rte_mbuf **taken;
	uint32_t first, end, room, lent;
	int has_ended;
};

static void note_chunk(struct rte_mempool *pool, void *found, struct rte_mempool_memhdr *chunk,
		       unsigned index)
{
	(void)pool, (void)index;
	struct ringside_dpdk_queue *queue = found;
	queue->base = chunk->addr;
	queue->bytes = chunk->len;
}

void free_queue(struct ringside_dpdk_queue *queue)
{
	if (queue == NULL)
		return;
	if (queue->end > queue->first)
		rte_pktmbuf_free_bulk(queue->taken + queue->first, queue->end - queue->first);
	rte_mempool_free(queue->pool);
	free(queue->copies);
	free(queue->taken);
	free(queue);
}

struct ringside_dpdk_queue *new_queue(const struct ringside_dpdk_request *request,
					     uint32_t number, uint16_t descriptors)
{
	struct ringside_dpdk_queue *queue = calloc(1, sizeof *queue);
	if (queue == NULL)
		return NULL;
	queue->port = request->port;
	queue->number = number;
	queue->room = request->frames_per_queue + BURST;
	queue->taken = calloc(queue->room, sizeof *queue->taken);
	queue->copies = calloc(1, COPIES_BYTES);
	queue->pool = new_pool("rx", request, number);
	if (queue->taken == NULL || queue->copies == NULL || queue->pool == NULL)
		goto none;
	/* Frames are lent as slots of one piece of memory. */
	if (rte_mempool_mem_iter(queue->pool, note_chunk, queue) != 1) {
		refused(ENOMEM, "the memory of a queue lies in several pieces; huge pages, and "
				"--iova-mode=va, give one");
		goto none;
	}
	int error = rte_eth_rx_queue_setup(request->port, number, descriptors,
					   rte_eth_dev_socket_id(request->port), NULL, queue->pool);
	if (error != 0) {
		refused(error, "rte_eth_rx_queue_setup: %s", rte_strerror(-error));
		goto none;
	}
	return queue;
none:
	free_queue(queue);
	return NULL;
}

void memory(const struct ringside_dpdk_queue *queue, struct ringside_dpdk_memory *memory)
{
	*memory = (struct ringside_dpdk_memory){
		.lent = queue->base,
		.lent_bytes = queue->bytes,
		.copies = queue->copies,
		.copies_bytes = COPIES_BYTES,
	};
}

/* Appends what the driver has, up to `most`. */
static void take(struct ringside_dpdk_queue *queue, uint32_t most)
{
	uint32_t end = queue->end + RTE_MIN(most, queue->room - queue->end);
	while (queue->end < end) {
		uint16_t wanted = RTE_MIN(end - queue->end, PIECE);
		uint16_t count = rte_eth_rx_burst(queue->port, queue->number,
						  queue->taken + queue->end, wanted);
		for (uint32_t at = queue->end; at < queue->end + count; at++) {
			/* A tag that the driver took out belongs to the frame. */
			if (queue->taken[at]->ol_flags & RTE_MBUF_F_RX_VLAN_STRIPPED)
				rte_vlan_insert(&queue->taken[at]);
		}
		queue->end += count;
		if (count < wanted)
			break;
	}
}

/* It is in several pieces, or in memory of somebody else's. */
static uint32_t is_elsewhere(const struct ringside_dpdk_queue *queue, const struct rte_mbuf *frame)
{
	uint64_t at = (uintptr_t)rte_pktmbuf_mtod(frame, const uint8_t *) - (uintptr_t)queue->base;
	return frame->nb_segs != 1 || at > queue->bytes ||
	       rte_pktmbuf_data_len(frame) > queue->bytes - at;
}

static void tell(const struct rte_mbuf *frame, struct ringside_dpdk_frame *reported)
{
	reported->wire_bytes = rte_pktmbuf_pkt_len(frame);
	reported->flags = 0;
	if (frame->ol_flags & RTE_MBUF_F_RX_RSS_HASH) {
		reported->hash = frame->hash.rss;
		reported->flags |= RINGSIDE_DPDK_HASHED;
	}
	if (frame->ol_flags & stamp_flag) {
		reported->stamp = *RTE_MBUF_DYNFIELD(frame, stamp_at, rte_mbuf_timestamp_t *);
		reported->flags |= RINGSIDE_DPDK_STAMPED;
	}
}

static void copy(struct ringside_dpdk_queue *queue, const struct rte_mbuf *frame, uint32_t offset,
		 struct ringside_dpdk_frame *reported)
{
	reported->offset = offset;
	reported->bytes = RTE_MIN(rte_pktmbuf_pkt_len(frame), COPIES_BYTES - offset);
	uint8_t *to = queue->copies + offset;
	const void *bytes = rte_pktmbuf_read(frame, 0, reported->bytes, to);
	if (bytes == NULL)
		reported->bytes = 0;
	else if (bytes != to)
		memcpy(to, bytes, reported->bytes);
}

static void give_back(struct ringside_dpdk_queue *queue)
{
	if (queue->lent == 0)
		return;
	rte_pktmbuf_free_bulk(queue->taken + queue->first, queue->lent);
	queue->first += queue->lent;
	queue->lent = 0;
}

int waiting(struct ringside_dpdk_queue *queue)
{
	give_back(queue);
	if (queue->first == queue->end && !queue->has_ended) {
		queue->first = queue->end = 0;
		take(queue, BURST);
	}
	return queue->end - queue->first;
}

int receive(struct ringside_dpdk_queue *queue, struct ringside_dpdk_frame *frames, uint32_t most,
	    uint32_t *copied)
{
	uint32_t there = waiting(queue), used = 0, count = 0;
	if (there == 0)
		return 0;
	*copied = is_elsewhere(queue, queue->taken[queue->first]);
	for (; count < RTE_MIN(there, most); count++) {
		const struct rte_mbuf *frame = queue->taken[queue->first + count];
		struct ringside_dpdk_frame *reported = frames + count;
		if (is_elsewhere(queue, frame) != *copied)
			break;
		if (*copied) {
			if (count > 0 && rte_pktmbuf_pkt_len(frame) > COPIES_BYTES - used)
				break;
			copy(queue, frame, used, reported);
			used += reported->bytes;
		} else {
			reported->offset = rte_pktmbuf_mtod(frame, const uint8_t *) - queue->base;
			reported->bytes = rte_pktmbuf_data_len(frame);
		}
		tell(frame, reported);
	}
	queue->lent = count;
	return count;
}

void discard(struct ringside_dpdk_queue *queue)
{
	give_back(queue);
	/* A driver that always has a frame must not hold this up. */
	for (uint32_t left = queue->room; left >= BURST; left -= BURST) {
		rte_pktmbuf_free_bulk(queue->taken + queue->first, queue->end - queue->first);
		queue->first = queue->end = 0;
		take(queue, BURST);
		if (queue->end == 0)
			return;
	}
	rte_pktmbuf_free_bulk(queue->taken, queue->end);
	queue->first = queue->end = 0;
}

int finish(struct ringside_dpdk_queue *queue)
{
	give_back(queue);
	uint32_t before = queue->has_ended ? queue->end : UINT32_MAX;
	while (queue->end != before) {
		before = queue->end;
		take(queue, queue->room);
	}
	queue->has_ended = 1;
	return queue->end - queue->first;
}
