# %% [markdown]
# # Packets in Python
# What there is in a recording, in cells. `python python-notebook.py TRACE` runs all of them;
# `--make TRACE` writes a small capture to begin with.

# %%
import struct
import sys
from pathlib import Path

import ringside


def make(path: str) -> None:
    """Two hosts that ask a third, 200 times, in classic pcap."""
    with Path(path).open("wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
        for number in range(200):
            host, port = 1 + number % 2, 4000 + number % 7
            payload = bytes(number % 50)
            ip = struct.pack(">BBHHHBBH4B4B", 0x45, 0, 28 + len(payload), number, 0, 64, 17, 0,
                             192, 0, 2, host, 192, 0, 2, 53)
            udp = struct.pack(">HHHH", port, 53, 8 + len(payload), 0)
            frame = bytes(12) + b"\x08\x00" + ip + udp + payload
            seconds, micros = 1_700_000_000 + number // 4, number % 4 * 250_000
            file.write(struct.pack("<IIII", seconds, micros, len(frame), len(frame)) + frame)


if sys.argv[1:2] == ["--make"]:
    make(sys.argv[2])
    sys.exit()

# %% [markdown]
# ## One by one

# %%
packets = ringside.open(sys.argv[1] if len(sys.argv) > 1 else "trace.pcap")
for packet in packets.limit(packets=5):
    print(packet.time, packet.layers, packet.src, packet.src_port, "->", packet.dst, len(packet))

# %% [markdown]
# ## Which ones

# %%
some = packets.filter("udp dst port 53").last("20s")
print(some.count(), "of", packets.count(), "packets match")
ledger = some.ledger()
assert ledger["packets_read"] == ledger["packets"] + ledger["packets_filtered"]
print({key: ledger[key] for key in ("packets", "packets_passed", "end")})

# %% [markdown]
# ## As columns

# %%
import polars as pl

columns = pl.DataFrame(packets.batches())
print(columns.group_by("src").agg(pl.len().alias("packets"), pl.col("wire_bytes").sum()).sort("src"))

# %% [markdown]
# ## What they meant

# %%
flows = packets.flows()
table = pl.DataFrame(flows)
print(table.select("src", "src_port", "dst", "packets", "bytes").sort("bytes", descending=True).head())
account = flows.ledger()
assert account is not None and account["records"]["balances"]
both_ways = table.select(pl.col("packets") + pl.col("reverse_packets")).sum().item()
assert both_ways == packets.count()

# %% [markdown]
# ## For others

# %%
print(packets.filter("src host 192.0.2.1").save("one-host.pcapng.zst"), "packets copied")
