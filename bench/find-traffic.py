#!/usr/bin/env python3
"""A capture to find something in: 2.1 million TCP frames of 701 bytes at a mean, 191,000 flows, of
which 400 live at a time. `find-traffic.py FILE N`: N moves its stamps by N times 1,000 seconds."""

import random
import struct
import sys

FRAMES, LIVE = 2_100_000, 400
random.seed(7)
payload = random.randbytes(1 << 16)
flows = 0


def new_flow():
    """Head of a frame, addresses, ports, and how many frames are left of the flow."""
    global flows
    number, flows = flows, flows + 1
    ethernet = b"\x02\0\0\0\0\1\x02\0\0\0" + struct.pack(">H", number % 300) + b"\x08\0"
    client = (10 << 24) + number * 2654435761 % (1 << 22)
    server = (192 << 24) + (168 << 16) + random.randrange(2000)
    ports = 1024 + random.randrange(60000), random.choice((80, 443, 53, 22, 8080))
    frames = 1 + int(random.expovariate(1 / 10.5))
    return [ethernet, struct.pack(">IIHH", client, server, *ports), frames]


def payload_bytes():
    """40 % are acknowledgements, as many are full."""
    kind = random.random()
    return 6 if kind < 0.4 else 1446 if kind < 0.7 else random.randrange(100, 1200)


with open(sys.argv[1], "wb", buffering=1 << 22) as out:
    out.write(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 262144, 1))
    live = [new_flow() for _ in range(LIVE)]
    for frame in range(FRAMES):
        place = random.randrange(LIVE)
        flow, length = live[place], payload_bytes()
        ip = struct.pack(">BBHHHBBH", 0x45, 0, 40 + length, frame & 0xFFFF, 0, 64, 6, 0)
        tcp = struct.pack(">IIBBHHH", frame, 0, 0x50, 0x10, 8192, 0, 0)
        start = random.randrange(1 << 15)
        data = flow[0] + ip + flow[1] + tcp + payload[start : start + length]
        time = (1_700_000_000 + int(sys.argv[2]) * 1000) * 10**9 + frame * 400_000
        out.write(struct.pack("<IIII", *divmod(time, 10**9), len(data), len(data)) + data)
        flow[2] -= 1
        if flow[2] == 0:
            live[place] = new_flow()
