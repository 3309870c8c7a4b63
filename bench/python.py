#!/usr/bin/env python3
"""Packets and bytes by sender of a capture, by several libraries of Python, one after the other.

    bench/python.py --make FILE PACKETS
    bench/python.py FILE [ROUNDS]

FILE is a pcap file of Ethernet, of which --make writes one: TCP segments and datagrams of 1,000
senders, of 64 to 1,500 bytes. Each library reads it in a process of its own, ROUNDS times (3), and
must come to the same numbers; real captures hold packets that not all of them take. Prints packets a second, the median of the rounds, and how many times
as fast ringside is. Needs the wheel, and `pip install pyarrow dpkt scapy`; what is missing is named.
"""

import json
import random
import statistics
import struct
import subprocess
import sys
import time

WAYS = {
    "ringside, columns": """
import pyarrow as pa, pyarrow.compute as pc, ringside
table = pa.table(ringside.open(path).filter("ip").batches())
sums = table.group_by("src").aggregate([("wire_bytes", "sum"), ("src", "count")])
found = {k: (n, b) for k, b, n in zip(*(sums.column(name).to_pylist()
         for name in ("src", "wire_bytes_sum", "src_count")))}
""",
    "ringside, one by one": """
import ringside
found = {}
for packet in ringside.open(path).filter("ip"):
    packets, octets = found.get(packet.src, (0, 0))
    found[packet.src] = (packets + 1, octets + packet.wire_bytes)
""",
    "dpkt": """
import dpkt, socket
found = {}
with open(path, "rb") as file:
    for _, frame in dpkt.pcap.UniversalReader(file):
        ether = dpkt.ethernet.Ethernet(frame)
        if isinstance(ether.data, dpkt.ip.IP):
            src = socket.inet_ntoa(ether.data.src)
            packets, octets = found.get(src, (0, 0))
            found[src] = (packets + 1, octets + len(frame))
""",
    "scapy": """
from scapy.utils import PcapReader
from scapy.layers.inet import IP
from scapy.layers.l2 import Ether
found = {}
with PcapReader(path) as reader:
    for frame in reader:
        if isinstance(frame.payload, IP) or IP in frame:
            src = frame[IP].src
            packets, octets = found.get(src, (0, 0))
            found[src] = (packets + 1, octets + frame.wirelen)
""",
}

PROGRAM = """
import json, sys, time
path = sys.argv[1]
{imports}
begin = time.perf_counter()
{work}
taken = time.perf_counter() - begin
print(json.dumps([taken, sorted(found.items())]))
"""


def run(work, path):
    """Seconds, and what was found; None if a library is missing. Imports are no part of the time."""
    lines = work.splitlines()
    imports = "\n".join(line for line in lines if line.startswith(("import", "from")))
    program = PROGRAM.format(imports=imports, work=work)
    done = subprocess.run([sys.executable, "-c", program, path], capture_output=True, text=True)
    if done.returncode != 0:
        print(done.stderr.strip().splitlines()[-1], file=sys.stderr)
        return None
    return json.loads(done.stdout)


def make(path, packets):
    """Numbered packets, from classic pcap's header on."""
    sizes = random.Random(1)
    with open(path, "wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
        for number in range(packets):
            payload = bytes(sizes.choice((10, 536, 1446)))
            is_tcp = number % 2
            ports = struct.pack(">HH", 1024 + number % 9973, 443)
            segment = struct.pack(">IIBBHHH", number, 0, 0x50, 0x10, 1000, 0, 0)
            upper = ports + (segment if is_tcp else struct.pack(">HH", 8 + len(payload), 0))
            host = number * 7 % 1000
            ip = struct.pack(">BBHHHBBH8B", 0x45, 0, 20 + len(upper) + len(payload), number % 65536,
                             0, 64, 6 if is_tcp else 17, 0, 10, 0, host // 250, 1 + host % 250,
                             192, 0, 2, 1)
            frame = bytes(12) + b"\x08\x00" + ip + upper + payload
            seconds, micros = 1_700_000_000 + number // 10_000, number % 10_000 * 100
            file.write(struct.pack("<IIII", seconds, micros, len(frame), len(frame)) + frame)


def main():
    if sys.argv[1] == "--make":
        return make(sys.argv[2], int(sys.argv[3]))
    path, rounds = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 3
    expected, rates = None, {}
    for name, work in WAYS.items():
        times = []
        for _ in range(rounds):
            done = run(work, path)
            if done is None:
                break
            taken, found = done
            expected = expected or found
            if found != expected:
                sys.exit(f"{name} finds something else")
            times.append(taken)
        if len(times) == rounds:
            packets = sum(count for _, (count, _) in expected)
            rates[name] = packets / statistics.median(times)
    first = rates.get("ringside, columns")
    if first is None:
        sys.exit("ringside or pyarrow is not there: make wheel, pip install pyarrow")
    for name, rate in rates.items():
        print(f"{name:22} {rate:12,.0f} packets/s {first / rate:8.1f}")
    print(time.strftime("%Y-%m-%d"), f"{packets:,} packets of IPv4, {len(expected):,} senders")


main()
