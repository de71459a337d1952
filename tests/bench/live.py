"""Measure what ``dcpdump sniff`` loses, on loopback in a network namespace of its own. Needs root.

    python -m tests.bench.live [--format F] [RATE:SEGMENT:VALUE …]

A producer sends DCP as fast as a RATE in MB/s says, in TCP segments of SEGMENT bytes, documents of about VALUE
bytes each, and a consumer reads it. Printed are the share of packets that the kernel dropped, and that dcpdump
did because decoding fell behind, and the CPU seconds of dcpdump for each second of traffic.
"""

import argparse
import json
import os
import random
import socket
import subprocess
import sys
import tempfile
import time
from multiprocessing import Process
from typing import IO, Any

from dcpdump.wire.encode import encode
from tests.bench.captures import documents, opening

NAMESPACE = f"dcpdump-bench-{os.getpid()}"
PORT, SECONDS = 11210, 5
WIRE, LOOPBACK = 1448, 65483
#: MB/s, bytes of a segment, of a document (0: a mixture around 300)
RUNS = ((20, WIRE, 0), (20, WIRE, 1024), (45, WIRE, 0), (45, WIRE, 1024), (200, LOOPBACK, 1024), (200, LOOPBACK, 16384))
_VBUCKETS = range(64)
_PASS = 16 * 1024 * 1024  #: bytes that are made, and sent over and over


def traffic(value: int) -> list[bytes]:
    """Return pieces of about 64 KiB: snapshots and documents."""
    chance = random.Random(1)
    if not value:
        source = documents(chance, _VBUCKETS)
    else:
        text = json.dumps({"type": "user", "note": "lorem ipsum " * (value // 12)}, separators=(",", ":")).encode()
        given: dict[str, Any] = {"layout": "1", "value": text, "datatype": 1}
        source = (
            encode("DCP_MUTATION", {"by_seqno": n, "rev_seqno": 1}, key=b"user::%08d" % n, vbucket=vbucket, **given)
            for n, vbucket in enumerate(iter(lambda: chance.choice(_VBUCKETS), -1), 1)
        )
    pieces: list[bytes] = []
    for _ in range(_PASS // (64 * 1024)):
        piece = b""
        while len(piece) < 64 * 1024:
            piece += next(source)
        pieces.append(piece)
    return pieces


def produce(listening: socket.socket, rate: float, value: int) -> None:
    """Answer one consumer's requests, then send at a rate."""
    pieces = traffic(value)
    connection, _ = listening.accept()
    for asked, answered in opening(_VBUCKETS):
        _receive(connection, len(asked))
        connection.sendall(answered)
    begun = time.monotonic()
    sent = at = 0
    while (now := time.monotonic() - begun) < SECONDS:
        if sent > now * rate * 1e6:
            time.sleep(0.001)
            continue
        connection.sendall(pieces[at])
        sent += len(pieces[at])
        at = (at + 1) % len(pieces)
    connection.close()


def consume(segment: int) -> float:
    """Request streams, and read what arrives; return the MB/s received."""
    connection = socket.socket()
    _limit(connection, segment)
    connection.connect(("127.0.0.1", PORT))
    for asked, answered in opening(_VBUCKETS):
        connection.sendall(asked)
        _receive(connection, len(answered))
    room = bytearray(1 << 20)
    got, begun = 0, time.monotonic()
    while size := connection.recv_into(room):
        got += size
    return got / (time.monotonic() - begun) / 1e6


def _limit(sock: socket.socket, segment: int) -> None:
    if segment < LOOPBACK:  # else it is what loopback does by itself
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, segment)


def _receive(connection: socket.socket, size: int) -> None:
    while size:
        size -= len(connection.recv(size))


def run(rate: float, segment: int, value: int, form: str) -> str:
    """Measure one kind of traffic, and return a row of the table."""
    with socket.socket() as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        _limit(listening, segment)
        listening.bind(("127.0.0.1", PORT))
        listening.listen()
        producer = Process(target=produce, args=(listening, rate, value))
        with tempfile.TemporaryFile("w+") as reported, open(os.devnull, "wb") as nowhere:
            command = [sys.executable, "-m", "dcpdump", "sniff", "-i", "lo", "--summary", "json", "-f", form]
            sniff = subprocess.Popen(command, stdout=nowhere, stderr=reported)
            while "capturing" not in _text(reported):
                time.sleep(0.05)
            producer.start()
            came = consume(segment)
            producer.join()
            time.sleep(0.3)
            sniff.send_signal(2)
            _, status, usage = os.wait4(sniff.pid, 0)
            sniff.returncode = os.waitstatus_to_exitcode(status)
            books = json.loads(_text(reported).splitlines()[-1])
    received, kernel, ours = books["received"], books["dropped_by_kernel"], books["dropped_by_dcpdump"]
    cpu = (usage.ru_utime + usage.ru_stime) / SECONDS
    return (
        f"{rate:5.0f} {came:7.1f} {segment:8} {value or 'mixed':>6} {received:9,} {kernel / (received + kernel):8.2%} "
        f"{ours / received:8.2%} {books['frames']:10,} {cpu:6.2f} {usage.ru_maxrss / 1024:7.0f}"
    )


def _text(reported: IO[str]) -> str:
    reported.seek(0)
    return reported.read()


def main() -> None:
    """Measure what was requested, inside a namespace."""
    options = argparse.ArgumentParser(prog="python -m tests.bench.live", description=__doc__)
    options.formatter_class = argparse.RawDescriptionHelpFormatter
    options.add_argument("runs", nargs="*", metavar="RATE:SEGMENT:VALUE")
    options.add_argument("--format", default="line")
    options.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    given = options.parse_args()
    if not given.inside:
        subprocess.run(["ip", "netns", "add", NAMESPACE], check=True)
        try:
            inside = ["ip", "netns", "exec", NAMESPACE]
            # Packets of more than one segment are what loopback would make of them otherwise.
            subprocess.run([*inside, "ip", "link", "set", "lo", "up"], check=True)
            subprocess.run([*inside, sys.executable, "-m", "tests.bench.live", "--inside", *sys.argv[1:]], check=True)
        finally:
            subprocess.run(["ip", "netns", "del", NAMESPACE], check=True)
        return
    runs = [tuple(map(int, each.split(":"))) for each in given.runs] or RUNS
    print(" MB/s    came  segment  value   packets   kernel  dcpdump     frames  CPU/s  peak MB")
    for rate, segment, value in runs:
        most = "1" if segment <= WIRE else "65535"
        subprocess.run(["ip", "link", "set", "lo", "gso_max_segs", most], check=True)
        print(run(rate, segment, value, given.format), flush=True)


if __name__ == "__main__":
    main()
