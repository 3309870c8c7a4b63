/* Sending: a sender is used by one thread at a time. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

#include <rte_ethdev.h>

struct ringside_dpdk_sender {
	uint16_t port, number;
	struct rte_mempool *pool;
	struct rte_mbuf *put[BURST];
	uint32_t count;
};

void free_sender(struct ringside_dpdk_sender *sender)
{
	if (sender == NULL)
		return;
	rte_pktmbuf_free_bulk(sender->put, sender->count);
	rte_mempool_free(sender->pool);
	free(sender);
}

struct ringside_dpdk_sender *new_sender(const struct ringside_dpdk_request *request,
					       uint32_t number)
{
	struct ringside_dpdk_sender *sender = calloc(1, sizeof *sender);
	if (sender == NULL)
		return NULL;
	sender->port = request->port;
	sender->number = number;
	sender->pool = new_pool("tx", request, number);
	if (sender->pool == NULL) {
		free_sender(sender);
		return NULL;
	}
	return sender;
}

uint8_t *room(struct ringside_dpdk_sender *sender, uint32_t bytes)
{
	if (sender->count == BURST || bytes > UINT16_MAX)
		return NULL;
	struct rte_mbuf *frame = rte_pktmbuf_alloc(sender->pool);
	if (frame == NULL)
		return NULL;
	char *data = rte_pktmbuf_append(frame, bytes);
	if (data == NULL) {
		rte_pktmbuf_free(frame);
		return NULL;
	}
	sender->put[sender->count++] = frame;
	return (uint8_t *)data;
}

int flush(struct ringside_dpdk_sender *sender)
{
	uint16_t taken =
		rte_eth_tx_burst(sender->port, sender->number, sender->put, sender->count);
	sender->count -= taken;
	memmove(sender->put, sender->put + taken, sender->count * sizeof *sender->put);
	return taken;
}

int abandon(struct ringside_dpdk_sender *sender)
{
	uint32_t count = sender->count;
	rte_pktmbuf_free_bulk(sender->put, count);
	sender->count = 0;
	return count;
}
