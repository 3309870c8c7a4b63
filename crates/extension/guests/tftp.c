/* An extension: a record for each file that is asked for by TFTP (RFC 1350).
 *
 *   clang --target=wasm32 -O2 -nostdlib -Wl,--no-entry -o tftp.wasm tftp.c
 *   ringside analyze --extension tftp.wasm -r trace.pcap --json 'udp port 69'
 */
#include "ringside_extension.h"

#define UDP 17
#define TFTP_PORT 69
#define HEX "0123456789abcdef"

/* Room for a record; what does not fit is left out, since names come from anybody. */
#define RECORD_BYTES_MAX 4096
#define NAME_BYTES_MAX 512

static uint8_t packet[RINGSIDE_PACKET_BYTES_MAX];
static char record[RECORD_BYTES_MAX];

RINGSIDE_EXPORT(ringside_abi) int32_t abi(void)
{
	return RINGSIDE_ABI;
}

RINGSIDE_EXPORT(ringside_buffer) uint8_t *buffer(void)
{
	return packet;
}

static uint32_t put(uint32_t at, const char *text)
{
	while (*text)
		record[at++] = *text++;
	return at;
}

/* Text in JSON: every byte that is no printing ASCII as \u00HH, six bytes at most. */
static uint32_t put_escaped(uint32_t at, const uint8_t *text, uint32_t bytes)
{
	for (uint32_t i = 0; i < bytes; i++) {
		uint8_t c = text[i];

		if (c >= ' ' && c < 0x7f && c != '"' && c != '\\') {
			record[at++] = c;
			continue;
		}
		at = put(at, "\\u00");
		record[at++] = HEX[c >> 4];
		record[at++] = HEX[c & 15];
	}
	return at;
}

/* How long a text is that ends with a zero; -1 if it does not end. */
static int32_t length(const uint8_t *text, int32_t bytes)
{
	for (int32_t i = 0; i < bytes && i < NAME_BYTES_MAX; i++)
		if (!text[i])
			return i;
	return -1;
}

RINGSIDE_EXPORT(ringside_packet)
void on_packet(uint32_t bytes, uint32_t wire_bytes, uint64_t time_ns, uint32_t link_type,
	       uint32_t interface)
{
	int32_t udp = ringside_header(UDP);
	int32_t start = ringside_payload_offset();
	int32_t left = ringside_payload_bytes();

	if (udp < 0 || packet[udp + 2] != 0 || packet[udp + 3] != TFTP_PORT || left < 4)
		return;
	const uint8_t *message = packet + start;
	int opcode = message[0] << 8 | message[1];
	int32_t name_bytes = length(message + 2, left - 2);

	if ((opcode != 1 && opcode != 2) || name_bytes < 0) {
		ringside_count("no_request", 10, 1);
		return;
	}
	uint32_t at = put(0, opcode == 1 ? "{\"request\":\"read\",\"file\":\""
					 : "{\"request\":\"write\",\"file\":\"");

	at = put_escaped(at, message + 2, name_bytes);
	at = put(at, "\"}");
	ringside_emit(record, at);
}
