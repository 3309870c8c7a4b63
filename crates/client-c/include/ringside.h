/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a running capture from another process: `ringside capture -i IF --share SOCKET`.
 *
 * Link with -lringside_client_c. A reader belongs to one thread at a time. It holds the capture up
 * in no way; what it is too slow for is counted, exactly, by ringside_missed().
 */
#ifndef RINGSIDE_H
#define RINGSIDE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* An attached reader. */
typedef struct ringside_reader ringside_reader;

/* A frame. `bytes` is valid until the next call with the same reader. */
struct ringside_frame {
	uint64_t time_ns;	 /* nanoseconds since 1970 UTC */
	const uint8_t *bytes;	 /* as on the wire, VLAN tags in place */
	uint32_t captured_bytes; /* length of bytes */
	uint32_t wire_bytes;	 /* length on the wire */
	uint32_t interface_id;	 /* see ringside_interface_name() */
	uint32_t reserved;	 /* 0 */
};

/* ringside_attach(): begin with what is received from now on. */
#define RINGSIDE_FROM_NOW UINT64_MAX

/* What ringside_next() returns. */
#define RINGSIDE_FRAME 1   /* *frame is filled */
#define RINGSIDE_TIMEOUT 0 /* none came within the time-out */
#define RINGSIDE_END (-1)  /* the capture has ended and every frame was given out */

/*
 * Attaches to the socket at path `socket`. Frames stamped at or after `from_ns` are given out, as
 * far back as the capture's memory reaches (0: all there is). NULL on error, with a message in
 * `error` (cut to `error_bytes` with its NUL; may be NULL).
 */
ringside_reader *ringside_attach(const char *socket, uint64_t from_ns, char *error,
				 size_t error_bytes);

/* The next frame of all lanes, merged by time. Waits up to `timeout_ms`. */
int ringside_next(ringside_reader *reader, struct ringside_frame *frame, uint32_t timeout_ms);

/* Frames given out, and frames overwritten before they were read. */
uint64_t ringside_delivered(const ringside_reader *reader);
uint64_t ringside_missed(const ringside_reader *reader);

/* Interfaces of the capture: how many, the name (valid until detached; NULL beyond the last), and
 * the LINKTYPE_ value (https://www.tcpdump.org/linktypes.html; -1 beyond the last). */
uint32_t ringside_interface_count(const ringside_reader *reader);
const char *ringside_interface_name(const ringside_reader *reader, uint32_t interface_id);
int ringside_link_type(const ringside_reader *reader, uint32_t interface_id);

/* Ends the reader and frees it. NULL does nothing. */
void ringside_detach(ringside_reader *reader);

#ifdef __cplusplus
}
#endif
#endif
