/* What an extension of Ringside exports and imports, for C: docs/extensions.md. */
#ifndef RINGSIDE_EXTENSION_H
#define RINGSIDE_EXTENSION_H

#include <stdint.h>

/* Version of the interface, to be returned by ringside_abi. */
#define RINGSIDE_ABI 1
/* Bytes of the buffer for packets. */
#define RINGSIDE_PACKET_BYTES_MAX 65536

#define RINGSIDE_EXPORT(name) __attribute__((export_name(#name)))
#define RINGSIDE_IMPORT(name) __attribute__((import_module("ringside"), import_name(#name)))

/* A record: a JSON object without arrays and objects in it. 0 if it was taken. */
RINGSIDE_IMPORT(emit) int32_t ringside_emit(const char *record, uint32_t bytes);

/* Adds to a counter, which stands in the account. 0 if it was counted. */
RINGSIDE_IMPORT(count) int32_t ringside_count(const char *name, uint32_t bytes, uint64_t number);

/* Where the innermost header of an EtherType or IP protocol begins in the packet, or -1. */
RINGSIDE_IMPORT(header) int32_t ringside_header(uint32_t number);

/* Where what the innermost transport header carries begins, or -1; and how much there is of it. */
RINGSIDE_IMPORT(payload_offset) int32_t ringside_payload_offset(void);
RINGSIDE_IMPORT(payload_bytes) int32_t ringside_payload_bytes(void);

#endif
