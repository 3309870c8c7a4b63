// SPDX-License-Identifier: Apache-2.0
/*
 * Discards UDP over IPv4 to port 9 and passes everything else: the least that a program can do
 * about the generator's frames and leave the host alive, for the measurements. It looks where
 * those frames have the port: without VLAN tags and IP options.
 */
#include "abi.h"

enum offset {
	ETHERTYPE = 12,
	IP_VERSION = 14,
	IP_PROTOCOL = 23,
	UDP_DESTINATION = 36,
	HEADERS_BYTES = 42,
};

#define TYPE_IPV4 0x0800
#define VERSION_4_WITHOUT_OPTIONS 0x45
#define PROTOCOL_UDP 17
#define PORT_DISCARD 9

SEC("xdp.frags")
int xdp_drop_port(struct xdp_md *ctx)
{
	__u8 *data = (void *)(long)ctx->data;
	void *data_end = (void *)(long)ctx->data_end;

	if ((void *)(data + HEADERS_BYTES) > data_end)
		return XDP_PASS;
	if (*(__be16 *)(data + ETHERTYPE) != to_be16(TYPE_IPV4) ||
	    data[IP_VERSION] != VERSION_4_WITHOUT_OPTIONS || data[IP_PROTOCOL] != PROTOCOL_UDP ||
	    *(__be16 *)(data + UDP_DESTINATION) != to_be16(PORT_DISCARD))
		return XDP_PASS;
	return XDP_DROP;
}

const char terms[] SEC("license") = "Apache-2.0";
