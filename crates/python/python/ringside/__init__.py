"""Packets, flows and records of recordings and running captures.

    import ringside

    packets = ringside.open("trace.pcapng").filter("tcp port 443").last("10m")
    for packet in packets:
        print(packet.time, packet.src, len(packet))

    polars.DataFrame(packets.flows())       # or pyarrow.table(), pandas, DuckDB
    packets.ledger()                        # where every packet is

Everything is explained in docs/howto/python.md.
"""

from ringside._ringside import (
    Batch,
    BatchIterator,
    Batches,
    Packet,
    PacketIterator,
    Packets,
    RingsideError,
    RingsideWarning,
    attach,
    open,
)

__all__ = [
    "Batch",
    "BatchIterator",
    "Batches",
    "Packet",
    "PacketIterator",
    "Packets",
    "RingsideError",
    "RingsideWarning",
    "attach",
    "open",
]
