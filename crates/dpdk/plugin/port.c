/* Ports: one thread at a time opens, counts and closes them. */
#include "internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <rte_dev.h>
#include <rte_errno.h>
#include <rte_ethdev.h>

/* Frames that a thread's own cache of a pool holds. */
#define CACHE 256

struct rte_mempool *new_pool(const char *kind, const struct ringside_dpdk_request *request,
			     uint32_t number)
{
	char name[RTE_MEMPOOL_NAMESIZE];
	snprintf(name, sizeof name, "ringside_%s_%u_%u", kind, request->port, number);
	uint32_t room = request->frame_bytes_max + RTE_PKTMBUF_HEADROOM;
	room = RTE_MIN(room, (uint32_t)UINT16_MAX);
	uint32_t cache = request->frames_per_queue >= 2 * CACHE ? CACHE : 0;
	struct rte_mempool *pool =
		rte_pktmbuf_pool_create(name, request->frames_per_queue, cache, 0, room,
					rte_eth_dev_socket_id(request->port));
	if (pool == NULL)
		refused(rte_errno, "no memory for %u frames of %u bytes: %s",
			request->frames_per_queue, room, rte_strerror(rte_errno));
	return pool;
}

int attach(const char *device, uint32_t *port)
{
	struct rte_dev_iterator iterator;
	uint16_t found, first = RTE_MAX_ETHPORTS;
	int error = rte_dev_probe(device);
	if (error != 0)
		return refused(error, "no driver takes %s: %s", device, rte_strerror(-error));
	RTE_ETH_FOREACH_MATCHING_DEV(found, device, &iterator) {
		first = found;
		rte_eth_iterator_cleanup(&iterator);
		break;
	}
	if (first == RTE_MAX_ETHPORTS)
		return refused(ENODEV, "%s has no port", device);
	*port = first;
	return 0;
}

int describe(uint32_t port, struct ringside_dpdk_device *device)
{
	struct rte_eth_dev_info info;
	int error = rte_eth_dev_info_get(port, &info);
	if (error != 0)
		return refused(error, "rte_eth_dev_info_get: %s", rte_strerror(-error));
	uint16_t mtu = 0;
	rte_eth_dev_get_mtu(port, &mtu);
	*device = (struct ringside_dpdk_device){
		.receive_queues_max = info.max_rx_queues,
		.mtu = mtu,
		.has_rss = info.flow_type_rss_offloads != 0,
		.has_stamps = (info.rx_offload_capa & RTE_ETH_RX_OFFLOAD_TIMESTAMP) != 0,
		.numa_node = rte_eth_dev_socket_id(port),
	};
	snprintf(device->driver, sizeof device->driver, "%s", info.driver_name);
	return 0;
}

static int configure(const struct ringside_dpdk_request *request, uint32_t *transmit_queues,
		     const struct rte_eth_dev_info *info)
{
	/* Both directions of a flow have one hash (Woo and Park, 2012). */
	static uint8_t symmetric[64];
	for (unsigned at = 0; at < sizeof symmetric; at += 2) {
		symmetric[at] = 0x6d;
		symmetric[at + 1] = 0x5a;
	}
	struct rte_eth_conf conf = { .rxmode.mtu = request->mtu };
	uint64_t wanted = RTE_ETH_RSS_IP | RTE_ETH_RSS_TCP | RTE_ETH_RSS_UDP;
	if (request->receive_queues > 1 && (info->flow_type_rss_offloads & wanted) != 0) {
		conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
		conf.rx_adv_conf.rss_conf.rss_hf = wanted & info->flow_type_rss_offloads;
		if (info->hash_key_size > 0 && info->hash_key_size <= sizeof symmetric) {
			conf.rx_adv_conf.rss_conf.rss_key = symmetric;
			conf.rx_adv_conf.rss_conf.rss_key_len = info->hash_key_size;
		}
	}
	conf.rxmode.offloads = info->rx_offload_capa & RTE_ETH_RX_OFFLOAD_TIMESTAMP;
	int error = rte_eth_dev_configure(request->port, request->receive_queues, *transmit_queues,
					  &conf);
	/* Some drivers want as many of the one kind as of the other. */
	uint32_t most = RTE_MAX(request->receive_queues, *transmit_queues);
	if (error != 0 && *transmit_queues < most) {
		*transmit_queues = most;
		error = rte_eth_dev_configure(request->port, request->receive_queues, most, &conf);
	}
	return error == 0 ? 0 : refused(error, "rte_eth_dev_configure with %u queues: %s",
					request->receive_queues, rte_strerror(-error));
}

int close_port(uint32_t port)
{
	struct rte_eth_dev_info info;
	int error = rte_eth_dev_info_get(port, &info);
	if (error != 0)
		return refused(error, "rte_eth_dev_info_get: %s", rte_strerror(-error));
	rte_eth_dev_stop(port);
	rte_eth_dev_close(port);
	error = rte_dev_remove(info.device);
	return error == 0 ? 0 : refused(error, "rte_dev_remove: %s", rte_strerror(-error));
}

static int set_up(const struct ringside_dpdk_request *request, struct ringside_dpdk_queue **queues,
		  struct ringside_dpdk_sender **senders)
{
	struct rte_eth_dev_info info;
	int error = rte_eth_dev_info_get(request->port, &info);
	if (error != 0)
		return refused(error, "rte_eth_dev_info_get: %s", rte_strerror(-error));
	uint32_t transmit_queues = request->transmit_queues;
	error = configure(request, &transmit_queues, &info);
	if (error != 0)
		return error;
	uint16_t receive = request->descriptors, transmit = request->descriptors;
	error = rte_eth_dev_adjust_nb_rx_tx_desc(request->port, &receive, &transmit);
	if (error != 0)
		return refused(error, "%u descriptors: %s", request->descriptors,
			       rte_strerror(-error));
	for (uint32_t number = 0; number < request->receive_queues; number++) {
		queues[number] = new_queue(request, number, receive);
		if (queues[number] == NULL)
			return -ENOMEM;
	}
	for (uint32_t number = 0; number < transmit_queues; number++) {
		error = rte_eth_tx_queue_setup(request->port, number, transmit,
					       rte_eth_dev_socket_id(request->port), NULL);
		if (error != 0)
			return refused(error, "rte_eth_tx_queue_setup: %s", rte_strerror(-error));
	}
	for (uint32_t number = 0; number < request->transmit_queues; number++) {
		senders[number] = new_sender(request, number);
		if (senders[number] == NULL)
			return -ENOMEM;
	}
	/* What a driver cannot change it refuses; the state is what counts. */
	if (request->promiscuous && rte_eth_promiscuous_enable(request->port) != 0 &&
	    rte_eth_promiscuous_get(request->port) != 1)
		return refused(ENOTSUP, "the driver has no promiscuous mode; -p leaves it off");
	error = rte_eth_dev_start(request->port);
	return error == 0 ? 0 : refused(error, "rte_eth_dev_start: %s", rte_strerror(-error));
}

int open_port(const struct ringside_dpdk_request *request,
		     struct ringside_dpdk_queue **queues, struct ringside_dpdk_sender **senders)
{
	memset(queues, 0, request->receive_queues * sizeof *queues);
	memset(senders, 0, request->transmit_queues * sizeof *senders);
	int error = set_up(request, queues, senders);
	if (error == 0)
		return 0;
	/* Closing may be refused, too. */
	char kept[256];
	snprintf(kept, sizeof kept, "%s", why());
	close_port(request->port);
	for (uint32_t number = 0; number < request->receive_queues; number++)
		free_queue(queues[number]);
	for (uint32_t number = 0; number < request->transmit_queues; number++)
		free_sender(senders[number]);
	return refused(error, "%s", kept);
}

int link_is_up(uint32_t port)
{
	struct rte_eth_link link = { 0 };
	int error = rte_eth_link_get_nowait(port, &link);
	return error == 0 ? link.link_status == RTE_ETH_LINK_UP
			  : refused(error, "rte_eth_link_get_nowait: %s", rte_strerror(-error));
}

int counters(uint32_t port, struct ringside_dpdk_counters *counters)
{
	struct rte_eth_stats stats;
	int error = rte_eth_stats_get(port, &stats);
	if (error != 0)
		return refused(error, "rte_eth_stats_get: %s", rte_strerror(-error));
	*counters = (struct ringside_dpdk_counters){
		.received = stats.ipackets,
		.missed = stats.imissed,
		.damaged = stats.ierrors,
		.no_memory = stats.rx_nombuf,
		.sent = stats.opackets,
		.refused = stats.oerrors,
	};
	return 0;
}
