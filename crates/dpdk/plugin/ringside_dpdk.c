/* DPDK behind a table of functions over whole bursts. What DPDK inlines, and lays out anew with
 * each of its releases, stays in here: a new release is a new compilation of these files.
 * Refusals are reported as errno and in words. */
#include "internal.h"

#include <rte_lcore.h>
#include <rte_version.h>

static const struct ringside_dpdk_table table = {
	.version = RINGSIDE_DPDK_VERSION,
	.table_bytes = sizeof(struct ringside_dpdk_table),
	.frame_bytes = sizeof(struct ringside_dpdk_frame),
	.device_bytes = sizeof(struct ringside_dpdk_device),
	.request_bytes = sizeof(struct ringside_dpdk_request),
	.counters_bytes = sizeof(struct ringside_dpdk_counters),
	.release = rte_version,
	.why = why,
	.start = start,
	.limit_threads = limit_threads,
	.attach = attach,
	.describe = describe,
	.open = open_port,
	.link_is_up = link_is_up,
	.counters = counters,
	.close = close_port,
	.register_thread = register_thread,
	.unregister_thread = rte_thread_unregister,
	.memory = memory,
	.receive = receive,
	.discard = discard,
	.waiting = waiting,
	.finish = finish,
	.free_queue = free_queue,
	.room = room,
	.flush = flush,
	.abandon = abandon,
	.free_sender = free_sender,
};

__attribute__((visibility("default"))) const struct ringside_dpdk_table *
ringside_dpdk_table(void)
{
	return &table;
}
