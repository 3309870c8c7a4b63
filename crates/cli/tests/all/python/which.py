# Which packets: numbered.pcap has 100 datagrams, to ports from 5000 on.
path, copy = sys.argv[1:]
all_packets = ringside.open(path)
some = all_packets.filter("dst port 5010 or dst port 5011").filter("udp")

# Each one narrows, whatever was asked before.
begin, end = all_packets.between("1970-01-01T00:00:00Z", 1), all_packets.between(end=2)
assert begin.between(end=100).count() == begin.count() and end.between(1).count() == \
    all_packets.between(1, 2).count()
assert all_packets.limit(5).limit(100).count() == 5

print(json.dumps({
    "all": all_packets.count(),
    "some": some.count(),
    "no filter": all_packets.filter("").count(),
    "limited": all_packets.limit(packets=7).count(),
    "one": len(list(some.limit(1))),
    "last": all_packets.last("1h").count(),
    "early": all_packets.between("1970-01-01T00:00:00Z", 1).count(),
    "saved": some.filter("dst port 5011").save(copy),
    "ports": [packet.dst_port for packet in some],
    "payloads": [packet.payload[0] for packet in ringside.open(copy)],
}))
ledger = some.ledger()
print(json.dumps([ledger["packets"], ledger["packets_read"], ledger["packets_filtered"],
                  ledger["end"], all_packets.limit(3).ledger()["end"]]))
print(json.dumps([repr(some), repr(next(iter(some)))]))
