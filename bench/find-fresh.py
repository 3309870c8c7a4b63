#!/usr/bin/env python3
"""How soon a packet is found that was just received: sends frames into a test network, one at a
time, and asks `find` for each until it is there.

    bench/find-fresh.py BINARY FRAMES SECONDS [LOAD]

FRAMES frames, one each SECONDS; with LOAD, next to that many other frames a second. As root.
Prints the times in milliseconds: the smallest, the median, the 99th percentile, the largest.
"""

import json
import random
import re
import subprocess
import sys
import tempfile
import time

BINARY, FRAMES, SECONDS = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
LOAD = sys.argv[4] if len(sys.argv) > 4 else None
NETWORK = "fresh"
SEND = """
import socket, sys
out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
out.bind(("tx0", 0))
for line in sys.stdin:
    out.send(bytes.fromhex(line))
    print("sent", flush=True)
"""


def ringside(*args, **more):
    return subprocess.run([BINARY, *args], capture_output=True, text=True, **more)


def frame(port):
    payload = b"fresh"
    udp = (9).to_bytes(2, "big") + port.to_bytes(2, "big") + (8 + len(payload)).to_bytes(2, "big")
    ip = bytes.fromhex("45000021000100004011") + b"\0\0" + bytes([10, 99, 0, 1, 10, 99, 0, 2])
    link = bytes.fromhex("ffffffffffff") + bytes.fromhex("020000000001") + bytes.fromhex("0800")
    return (link + ip + udp + b"\0\0" + payload).ljust(60, b"\0")


def found(directory, port):
    asked = ["find", "-r", directory, "--count", "--last", "10s", f"udp dst port {port}"]
    return ringside(*asked).stdout.split("\n")[0] == "1"


def measure(directory):
    namespace = f"ringside-{NETWORK}-a"
    sender = subprocess.Popen(
        ["ip", "netns", "exec", namespace, "python3", "-c", SEND],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )
    times = []
    for number in range(FRAMES):
        time.sleep(SECONDS * random.uniform(0.8, 1.2))
        port = 20_000 + number
        begin = time.monotonic()
        sender.stdin.write(frame(port).hex() + "\n")
        sender.stdin.flush()
        sender.stdout.readline()
        while not found(directory, port):
            if time.monotonic() - begin > 60:
                sys.exit(f"frame {number} is not found after a minute")
        times.append(1000 * (time.monotonic() - begin))
    sender.stdin.close()
    sender.wait()
    return sorted(times)


def main():
    up = ringside("lab", "up", "--name", NETWORK)
    if up.returncode:
        sys.exit(up.stderr)
    with tempfile.TemporaryDirectory(dir=".") as directory:
        receiver = f"ringside-{NETWORK}-b"
        capture = [BINARY, "capture", "--netns", receiver, "-i", "rx0", "-w", directory, "--json"]
        recorder = subprocess.Popen(
            [*capture, "-C", "256MiB", "--limit-bytes", "2GiB"],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )
        recorder.stdout.readline()
        load = None
        if LOAD:
            seconds = str(int(FRAMES * (SECONDS * 1.2 + 3)) + 5)
            load = [BINARY, "lab", "send", "--name", NETWORK, "--size", "imix", "--flows", "10000"]
            load = subprocess.Popen(
                [*load, "--rate", LOAD, "--for", seconds + "s"],
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )
        times = measure(directory)
        if load:
            load.terminate()
            load.wait()
        recorder.terminate()
        last = recorder.stdout.read().strip().split("\n")
        ledger = next(json.loads(one)["ledger"] for one in reversed(last) if '"ledger"' in one)
        lost = re.sub(r"[{}]", "", json.dumps(ledger.get("dropped")))
    ringside("lab", "down", "--name", NETWORK)
    at = lambda share: times[min(len(times) - 1, int(share * len(times)))]
    print(f"{len(times)} frames: {times[0]:.0f}, {at(0.5):.0f}, {at(0.99):.0f}, {times[-1]:.0f} ms")
    print(f"received {ledger.get('received')}, lost: {lost or 'none'}")


main()
