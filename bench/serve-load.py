#!/usr/bin/env python3
"""A recorder next to a service that many look at: pages that are open, and questions that are asked
over and over, while frames come at a share of the highest rate that it records without loss alone.

    bench/serve-load.py BINARY [PAGES QUESTIONS SHARE SECONDS]

100 pages (streams of events), 20 clients that ask (packets, flows and talkers of what was just
recorded), 0.95 and 20 s without numbers. The rate is found first, by halving. As root, on an idle
machine. Prints what was asked and answered, and the recorder's ledger; status 1 if a frame was lost.
"""

import collections
import http.client
import json
import socket
import subprocess
import sys
import tempfile
import threading
import time

BINARY = sys.argv[1]
WORDS = sys.argv[2:] + [None] * 4
PAGES, QUESTIONS = int(WORDS[0] or 100), int(WORDS[1] or 20)
SHARE, SECONDS = float(WORDS[2] or 0.95), float(WORDS[3] or 20)
NETWORK = "serving"
SIZE, FLOWS = "imix", "10000"
# Where the search for the rate begins, in frames a second, and how close it comes.
LOW, HIGH, CLOSE = 10_000, 1_000_000, 0.05
ASKED = (
    "/api/v1/find?last=3s&filter=udp",
    "/api/v1/records/flows?last=1s&limit=100",
    "/api/v1/talkers?last=1s&limit=20",
    "/api/v1/find?last=3s&filter=host+10.99.0.1",
)


class Local(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path):
        super().__init__("localhost", timeout=60)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(60)
        self.sock.connect(self.path)


def ringside(*args):
    return subprocess.run([BINARY, *args], capture_output=True, text=True)


def recorder(directory):
    command = [BINARY, "capture", "--netns", f"ringside-{NETWORK}-b", "-i", "rx0", "-w", directory]
    command += ["--json", "-C", "256MiB", "--limit-bytes", "2GiB", "--control", directory + ".control"]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    for line in running.stderr:
        if line.startswith("listening on"):
            threading.Thread(target=running.stderr.read, daemon=True).start()
            return running
    sys.exit("no recorder")


def send(rate, seconds):
    words = ["lab", "send", "--name", NETWORK, "--size", SIZE, "--flows", FLOWS]
    return subprocess.Popen(
        [BINARY, *words, "--rate", str(rate), "--for", f"{seconds}s"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )


def ledger_of(running):
    running.terminate()
    lines = running.communicate()[0].strip().split("\n")
    return next(json.loads(one)["ledger"] for one in reversed(lines) if '"ledger"' in one)


def lost(ledger):
    return sum(count for cause, count in (ledger.get("dropped") or {}).items())


def record(folder, rate, seconds, meanwhile=lambda directory, until: None):
    """Records frames at a rate; the ledger."""
    with tempfile.TemporaryDirectory(dir=folder) as directory:
        running = recorder(directory)
        load = send(rate, seconds)
        meanwhile(directory, time.monotonic() + seconds)
        load.wait()
        time.sleep(1)
        return ledger_of(running)


def highest_rate(folder):
    low, high = LOW, HIGH
    while high - low > CLOSE * low:
        middle = (low + high) // 2
        found = record(folder, middle, 3)
        # A generator that cannot send so fast is the limit as well.
        is_reached = found["received"] >= 0.97 * middle * 3
        low, high = (middle, high) if is_reached and not lost(found) else (low, middle)
    return low


class Service:
    """The service, its pages and those that ask."""

    def __init__(self):
        self.answers = collections.Counter()
        self.events = 0
        self.lock = threading.Lock()

    def page(self, path, until):
        connection = Local(path)
        connection.request("GET", "/api/v1/events")
        answer = connection.getresponse()
        while time.monotonic() < until:
            line = answer.readline()
            if not line:
                with self.lock:
                    self.answers[f"page ended, {answer.status}"] += 1
                return
            with self.lock:
                self.events += line.startswith(b"data:")
        connection.close()

    def ask(self, path, until, first):
        turn = first
        while time.monotonic() < until:
            turn += 1
            connection = Local(path)
            connection.request("GET", ASKED[turn % len(ASKED)])
            answer = connection.getresponse()
            answer.read()
            connection.close()
            with self.lock:
                self.answers[answer.status] += 1
            # Turned away at once: a client waits before it asks again.
            time.sleep(0.1)

    def __call__(self, directory, until):
        path = directory + ".serve"
        command = [BINARY, "serve", "--listen", f"unix:{path}", "--recordings", directory]
        command += ["--control", directory + ".control"]
        running = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        running.stderr.readline()
        threading.Thread(target=running.stderr.read, daemon=True).start()
        clients = [threading.Thread(target=self.page, args=(path, until)) for _ in range(PAGES)]
        clients += [threading.Thread(target=self.ask, args=(path, until, n)) for n in range(QUESTIONS)]
        for client in clients:
            client.start()
        for client in clients:
            client.join()
        running.terminate()
        running.wait()


def main():
    up = ringside("lab", "up", "--name", NETWORK)
    if up.returncode:
        sys.exit(up.stderr)
    try:
        with tempfile.TemporaryDirectory() as folder:
            best = highest_rate(folder)
            service = Service()
            found = record(folder, int(SHARE * best), SECONDS, service)
    finally:
        ringside("lab", "down", "--name", NETWORK)
    print(f"without loss alone: {best:,} frames/s; then {SHARE:.0%} of it for {SECONDS:.0f} s")
    print(f"{PAGES} pages: {service.events:,} events; {QUESTIONS} ask: {dict(service.answers)}")
    print(f"received {found['received']:,}, taken {found['taken']:,}, lost {found.get('dropped') or 'none'}")
    sys.exit(1 if lost(found) else 0)


main()
