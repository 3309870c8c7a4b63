/* What the files of the plug-in share. */
#ifndef INTERNAL_H
#define INTERNAL_H

#include "ringside_dpdk.h"

#include <rte_mbuf.h>
#include <rte_mempool.h>

/* Frames of a burst: what a batch of Ringside's holds. */
#define BURST 256u

/* Offset and flag of the drivers' stamps in a frame's header. */
extern int stamp_at;
extern uint64_t stamp_flag;

/* Notes what was refused, for the calling thread; returns the negative of its errno. */
__attribute__((format(printf, 2, 3))) int refused(int error, const char *format, ...);
const char *why(void);

int start(int count, char **words, ringside_dpdk_log log);
int limit_threads(void);
int register_thread(void);

int attach(const char *device, uint32_t *port);
int describe(uint32_t port, struct ringside_dpdk_device *device);
int open_port(const struct ringside_dpdk_request *request, struct ringside_dpdk_queue **queues,
	      struct ringside_dpdk_sender **senders);
int link_is_up(uint32_t port);
int counters(uint32_t port, struct ringside_dpdk_counters *counters);
int close_port(uint32_t port);

/* A pool for the frames of one queue of a port; NULL if there is no memory. */
struct rte_mempool *new_pool(const char *kind, const struct ringside_dpdk_request *request,
			     uint32_t number);

struct ringside_dpdk_queue *new_queue(const struct ringside_dpdk_request *request, uint32_t number,
				      uint16_t descriptors);
void memory(const struct ringside_dpdk_queue *queue, struct ringside_dpdk_memory *memory);
int receive(struct ringside_dpdk_queue *queue, struct ringside_dpdk_frame *frames, uint32_t most,
	    uint32_t *copied);
void discard(struct ringside_dpdk_queue *queue);
int waiting(struct ringside_dpdk_queue *queue);
int finish(struct ringside_dpdk_queue *queue);
void free_queue(struct ringside_dpdk_queue *queue);

struct ringside_dpdk_sender *new_sender(const struct ringside_dpdk_request *request,
					uint32_t number);
uint8_t *room(struct ringside_dpdk_sender *sender, uint32_t bytes);
int flush(struct ringside_dpdk_sender *sender);
int abandon(struct ringside_dpdk_sender *sender);
void free_sender(struct ringside_dpdk_sender *sender);

#endif
