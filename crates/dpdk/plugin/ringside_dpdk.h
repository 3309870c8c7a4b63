/* The one table by which Ringside reaches DPDK: whole bursts, plain data, no layout of DPDK's.
 * src/table.rs says the same; both change together, with the version. */
#ifndef RINGSIDE_DPDK_H
#define RINGSIDE_DPDK_H

#include <stdint.h>

#define RINGSIDE_DPDK_VERSION 1

/* Flags of a frame. */
#define RINGSIDE_DPDK_STAMPED 1u /* the driver gave a stamp, in its own unit */
#define RINGSIDE_DPDK_HASHED 2u  /* the card gave the hash of its flow */

struct ringside_dpdk_frame {
	uint64_t offset; /* in the queue's memory, or in its copies */
	uint64_t stamp;
	uint32_t bytes;      /* that are there */
	uint32_t wire_bytes; /* that the frame has */
	uint32_t hash;
	uint32_t flags;
};

/* What a port can do. */
struct ringside_dpdk_device {
	char driver[64];
	uint32_t receive_queues_max;
	uint32_t mtu;
	uint32_t has_rss;
	uint32_t has_stamps;
	int32_t numa_node; /* -1: none */
	uint32_t reserved;
};

struct ringside_dpdk_request {
	uint32_t port;
	uint32_t receive_queues;
	uint32_t transmit_queues;
	uint32_t descriptors;       /* of a queue; fewer if the driver takes fewer */
	uint32_t frames_per_queue;  /* room of a queue's memory */
	uint32_t frame_bytes_max;
	uint32_t mtu;               /* 0: as it is */
	uint32_t promiscuous;
};

/* Of a port, since it was opened. */
struct ringside_dpdk_counters {
	uint64_t received, missed, damaged, no_memory, sent, refused;
};

struct ringside_dpdk_queue;
struct ringside_dpdk_sender;

/* What of a burst lies where. */
struct ringside_dpdk_memory {
	const uint8_t *lent;   /* one span, of the queue's own frames */
	uint64_t lent_bytes;
	const uint8_t *copies; /* of frames that lie elsewhere, or in several pieces */
	uint64_t copies_bytes;
};

typedef void (*ringside_dpdk_log)(const char *text, uint64_t bytes);

/* Functions return 0, or a count, or the negative of an errno. `why` of the calling thread then
 * says what was refused. */
struct ringside_dpdk_table {
	uint32_t version;
	uint32_t table_bytes, frame_bytes, device_bytes, request_bytes, counters_bytes;

	const char *(*release)(void);
	const char *(*why)(void);
	int (*start)(int count, char **words, ringside_dpdk_log log);
	int (*limit_threads)(void);
	int (*attach)(const char *device, uint32_t *port);
	int (*describe)(uint32_t port, struct ringside_dpdk_device *device);
	int (*open)(const struct ringside_dpdk_request *request,
		    struct ringside_dpdk_queue **queues, struct ringside_dpdk_sender **senders);
	int (*link_is_up)(uint32_t port);
	int (*counters)(uint32_t port, struct ringside_dpdk_counters *counters);
	int (*close)(uint32_t port);

	int (*register_thread)(void);
	void (*unregister_thread)(void);

	void (*memory)(const struct ringside_dpdk_queue *queue,
		       struct ringside_dpdk_memory *memory);
	/* Up to `most` frames; `copied` says which memory they are in. They stay as they are until
	 * the next call for the queue. */
	int (*receive)(struct ringside_dpdk_queue *queue, struct ringside_dpdk_frame *frames,
		       uint32_t most, uint32_t *copied);
	/* Throws away what waits. */
	void (*discard)(struct ringside_dpdk_queue *queue);
	/* How many frames receive would find. */
	int (*waiting)(struct ringside_dpdk_queue *queue);
	/* Takes what waits, for receive to lend: how many frames. Nothing is taken from the driver
	 * afterwards. */
	int (*finish)(struct ringside_dpdk_queue *queue);
	void (*free_queue)(struct ringside_dpdk_queue *queue);

	/* A frame's room, to be written; NULL if there is none now. */
	uint8_t *(*room)(struct ringside_dpdk_sender *sender, uint32_t bytes);
	/* Hands over what was written: how many of them the driver took. The rest stays. */
	int (*flush)(struct ringside_dpdk_sender *sender);
	/* Frees what was not taken: how many. */
	int (*abandon)(struct ringside_dpdk_sender *sender);
	void (*free_sender)(struct ringside_dpdk_sender *sender);
};

const struct ringside_dpdk_table *ringside_dpdk_table(void);

#endif
