/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Numbers that headers hold, and a hash over words of them. */
#ifndef RINGSIDE_HEADERS_H
#define RINGSIDE_HEADERS_H

#include "kernel.h"

/* Of what a header may hold. */
enum ether_type {
	ETHER_LENGTH_MAX = 1500,
	ETHER_IPV4 = 0x0800,
	ETHER_ARP = 0x0806,
	ETHER_TEB = 0x6558,
	ETHER_RARP = 0x8035,
	ETHER_VLAN = 0x8100,
	ETHER_IPV6 = 0x86dd,
	ETHER_MPLS = 0x8847,
	ETHER_MPLS_UPSTREAM = 0x8848,
	ETHER_PPPOE_DISCOVERY = 0x8863,
	ETHER_PPPOE_SESSION = 0x8864,
	ETHER_QINQ = 0x88a8,
	ETHER_CMD = 0x8909,
	ETHER_VN_TAG = 0x8926,
	ETHER_QINQ_OLD = 0x9100,
};

enum ip_protocol {
	IP_HOP_BY_HOP = 0,
	IP_ICMP = 1,
	IP_IGMP = 2,
	IP_IN_IPV4 = 4,
	IP_TCP = 6,
	IP_UDP = 17,
	IP_IN_IPV6 = 41,
	IP_ROUTING = 43,
	IP_FRAGMENT = 44,
	IP_ESP = 50,
	IP_AUTH = 51,
	IP_ICMPV6 = 58,
	IP_DESTINATION_OPTIONS = 60,
	IP_SCTP = 132,
};

enum tcp_flag { TCP_FIN = 1, TCP_SYN = 2, TCP_RST = 4, TCP_ACK = 16 };

static __always_inline int is_tag(__u16 type)
{
	return type == ETHER_VLAN || type == ETHER_QINQ || type == ETHER_QINQ_OLD;
}

/* UDP between these ports may carry headers (crates/wire/src/dissect/transport.rs). */
static __always_inline int is_tunnel(__u16 from, __u16 to)
{
	return to == to_be16(4789) || to == to_be16(8472) || to == to_be16(6081) ||
	       to == to_be16(6635) || to == to_be16(2152) || from == to_be16(2152);
}

static __always_inline __u64 mix(__u64 hash, __u64 word)
{
	hash = (hash ^ word) * 0x9e3779b97f4a7c15ULL;
	return hash ^ hash >> 32;
}

#endif
