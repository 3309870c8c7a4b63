#!/usr/bin/env python3
"""Whether `find` gives what tcpdump gives: random expressions and spans of time over the recording
of `bench/find prepare DIR`, compared packet by packet in time, lengths, bytes and order.

    bench/find-identity.py BINARY RECORDING QUESTIONS [SEED]

Says each question that is answered differently, and at the end how many packets were compared.
"""

import glob
import random
import struct
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

BINARY, RECORDING, QUESTIONS = sys.argv[1], sys.argv[2], int(sys.argv[3])
random.seed(int(sys.argv[4]) if len(sys.argv) > 4 else 27)
FILES = sorted(glob.glob(RECORDING + "/*.pcapng"))
# Five runs of 840 s each, which begin 1,000 s one after another.
START_S, END_S = 1_700_000_000, 1_700_000_000 + 4_840


def packets(pcap):
    """Time in nanoseconds, length on the wire and bytes of each packet."""
    found, at = [], 24
    while at < len(pcap):
        seconds, nanoseconds, kept, wire = struct.unpack_from("<IIII", pcap, at)
        found.append((seconds * 10**9 + nanoseconds, wire, pcap[at + 16 : at + 16 + kept]))
        at += 16 + kept
    return found


def output(command, **more):
    run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more)
    return run.stdout, run.stderr


def by_tcpdump(expression, span):
    def of_file(file):
        pcap, _ = output(["tcpdump", "--nano", "-r", file, "-w", "-", expression])
        return [packet for packet in packets(pcap) if span[0] <= packet[0] < span[1]]

    with ThreadPoolExecutor(2) as pool:
        return [packet for found in pool.map(of_file, FILES) for packet in found]


def by_find(expression, span):
    limits = [f"{name}={at // 10**9}.{at % 10**9:09}" for name, at in zip(("--from", "--to"), span)]
    pcapng, said = output([BINARY, "find", "-r", RECORDING, *limits, "-w", "-", expression])
    assert b"complete: all that was recorded was searched" in said, said
    pcap, _ = output(["tcpdump", "--nano", "-r", "-", "-w", "-"], input=pcapng)
    return packets(pcap)


def expression():
    """Of one flow, a host, a network, ports, lengths, flags, and what is put together of these."""
    host = lambda: f"10.{random.randrange(64)}.{random.randrange(256)}.{random.randrange(256)}"
    server = lambda: f"192.168.{random.randrange(8)}.{random.randrange(256)}"
    one = lambda: random.choice(
        (
            f"host {host()}",
            f"host {server()}",
            f"src net 10.{random.randrange(64)}.{random.randrange(256)}.0/24",
            f"net 192.168.{random.randrange(8)}.{random.randrange(0, 256, 16)}/28",
            f"port {random.randrange(1024, 61024)}",
            f"portrange {(low := random.randrange(1024, 61024))}-{low + 20}",
            f"ether src 02:00:00:00:{random.randrange(2):02x}:{random.randrange(256):02x}",
            f"host {server()} and port {random.choice((80, 443, 53, 22, 8080))}",
            f"dst host {server()} and greater {random.randrange(60, 1500)}",
            f"tcp[4:4] = {random.randrange(2_100_000)}",
            f"ip[4:2] = {random.randrange(65_536)} and dst host {server()}",
        )
    )
    return random.choice((one(), one(), f"({one()}) or ({one()})", f"{one()} and not ({one()})"))


def span():
    """Most of the recording, or a little of it, which may lie between two runs."""
    start = START_S * 10**9 + random.randrange((END_S - START_S) * 10**9)
    return random.choice(((0, 2**62), (start, start + random.randrange(1, 2_000 * 10**9))))


different = compared = 0
for question in range(QUESTIONS):
    asked, limits = expression(), span()
    expected, found = by_tcpdump(asked, limits), by_find(asked, limits)
    compared += len(expected)
    if found != expected:
        different += 1
        print(f"{asked!r} {limits}: {len(found)} packets, tcpdump {len(expected)}")
print(f"{QUESTIONS} questions, {different} answered differently, {compared} packets compared")
sys.exit(different > 0)
