/* An extension: how many connections are begun to each port. The same as syns.wat, in eBPF.
 *
 *   clang -O2 -g -target bpf -mcpu=v3 -c syns.bpf.c -o syns.o
 *   sudo ringside analyze --extension syns.o -r trace.pcap
 */
#include "ringside_bpf.h"

#define TCP 6
#define TCP_FLAGS_AT 13
#define SYN 0x02
#define SYN_ACK 0x12

struct port {
	__u16 port;
};

struct count {
	__u64 syns;
};

/* A row for each port that somebody wanted to connect to: each becomes a record at the end. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__type(key, struct port);
	__type(value, struct count);
} syns SEC(".maps");

SEC("xdp") int ringside_packet(struct xdp_md *ctx)
{
	const struct ringside_packet *packet = ringside_packet_of(ctx);
	const struct count one = { .syns = 1 };
	struct count *count;
	struct port port;
	const __u8 *tcp;

	if (!packet || packet->protocol != TCP)
		return XDP_PASS;
	tcp = ringside_at(ctx, packet->transport, TCP_FLAGS_AT + 1);
	if (!tcp || (tcp[TCP_FLAGS_AT] & SYN_ACK) != SYN)
		return XDP_PASS;
	port.port = tcp[2] << 8 | tcp[3];
	count = bpf_map_lookup_elem(&syns, &port);
	if (count)
		count->syns++;
	else
		bpf_map_update_elem(&syns, &port, &one, BPF_ANY);
	return XDP_PASS;
}
