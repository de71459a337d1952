"""dcpdump relay: a client and a producer speak through it; frames are printed and packets written."""

import json
import resource
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from dcpdump.capture import open_capture
from dcpdump.capture.relay import MadeConnection
from dcpdump.cli.relay import SavedPackets
from dcpdump.errors import OutputError
from dcpdump.wire.encode import encode
from tests.support.console import refusal, run
from tests.support.diagnoses import objects
from tests.support.live import PATIENCE, ROOT, ended, needs, stopped, wait_for

DOCUMENTS, VBUCKETS = 30, 2
GET, SET, QUIT, NOOP, GETKQ = 0x00, 0x01, 0x07, 0x0A, 0x0D


PIPES: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}


def started(*words: str) -> "subprocess.Popen[str]":
    """Start a program in a session of its own."""
    return subprocess.Popen([sys.executable, *words], cwd=ROOT, start_new_session=True, **PIPES)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


@pytest.fixture(scope="module")
def producer() -> Iterator[int]:
    """The port of a producer."""
    port, numbers = free_port(), ("--documents", str(DOCUMENTS), "--vbuckets", str(VBUCKETS))
    with ended(started("samples/talk.py", "producer", "--port", str(port), *numbers)) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("listening")
        yield port


@contextmanager
def relay(target: int, *words: str) -> Iterator[tuple["subprocess.Popen[str]", int]]:
    """Run a relay to a port, and return the process and the port of the relay."""
    with ended(started("-m", "dcpdump", "relay", "--to", f"127.0.0.1:{target}", *words)) as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        assert line.startswith("relaying 127.0.0.1:"), line + process.stderr.read()
        yield process, int(line.split()[1].rpartition(":")[2])


def client(port: int) -> "subprocess.Popen[str]":
    """Start the sample client."""
    numbers = ("--documents", str(DOCUMENTS), "--vbuckets", str(VBUCKETS))
    return started("samples/talk.py", "client", "--port", str(port), *numbers)


def but_file(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**row, "file": ""} for row in rows]


def test_what_passes_is_printed_and_written_as_it_was(producer: int, tmp_path: Path) -> None:
    written = tmp_path / "talk.pcapng"
    with relay(producer, "-f", "ndjson", "-w", str(written), "--summary", "json") as (process, port):
        with ended(client(port)) as taking:
            taken, why = taking.communicate(timeout=PATIENCE)
        assert taken == f"{VBUCKETS * DOCUMENTS} documents of {VBUCKETS} vbuckets\n", why
        code, out, err = stopped(process, signal.SIGINT)
    assert (code, run(f"dcpdump check {written} -q").code, written.stat().st_mode & 0o777) == (0, 0, 0o600)
    printed = [json.loads(line) for line in out.splitlines()]
    assert but_file(printed) == but_file(objects(f"dcpdump read {written}"))
    assert sum(each["name"] == "DCP_MUTATION" for each in printed) == VBUCKETS * DOCUMENTS
    balance = json.loads(err.splitlines()[-1])
    assert (balance["relayed_connections"], balance["payload"]["frames"]) == (1, balance["relayed_bytes"])


def test_filters_hold_and_a_count_ends_it(producer: int) -> None:
    words = ("--opcode", "mutation", "-c", "3", "-f", "line", "--summary", "none")
    with relay(producer, *words) as (process, port), ended(client(port)):
        out, err = process.communicate(timeout=PATIENCE)
    names = [line.partition("{")[0].split()[-1] for line in out.splitlines()]
    assert (process.returncode, err, names) == (0, "", ["mutation"] * 3)


def test_a_server_that_does_not_answer_is_named() -> None:
    target = free_port()
    with relay(target) as (process, port):
        with socket.create_connection(("127.0.0.1", port), PATIENCE) as refused_client:
            assert refused_client.recv(1) == b""
        code, out, err = stopped(process, signal.SIGINT)
    refused = f"dcpdump: note: 127.0.0.1:{target} does not accept a connection: connection refused"
    assert (code, out, err.splitlines()) == (0, "", [refused, "passed on 0 connections · 0 B"])


def test_a_port_that_is_taken_and_one_that_is_the_relay_s_are_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        taken = run(f"dcpdump relay --listen {port} --to localhost")
    error = f"dcpdump: error: cannot listen: address already in use (127.0.0.1:{port})"
    assert (taken.code, taken.err.splitlines()[0]) == (6, error)
    itself = refusal(6, f"the relay would connect to itself (127.0.0.1:{port})", "--listen takes another port")
    assert run(f"dcpdump relay --listen {port} --to 127.0.0.1:{port}") == itself


def test_a_file_that_cannot_grow_ends_with_a_whole_packet(tmp_path: Path) -> None:
    path, made = tmp_path / "full.pcapng", MadeConnection(("127.0.0.1", 50_000), ("127.0.0.1", 11210))
    frame = encode("SET", key=b"key", value=bytes(1_000))
    packets = [*made.opened(1), *(made.data(4 + at, 0, frame) for at in range(10))]
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (5_000, limits[1]))
    try:
        with pytest.raises(OutputError, match=r"cannot write: file too large"):
            list(SavedPackets(str(path), force=False).through(packets))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    with open_capture(str(path)) as capture:
        found = [packet.data for packet in capture]
    assert (found, capture.damage) == ([packet.data for packet in packets[:7]], [])


def test_a_real_server_answers_through_the_relay_as_it_answers_alone(tmp_path: Path) -> None:
    needs("memcached")
    written, rows, document = tmp_path / "memcached.pcapng", tmp_path / "rows", bytes(range(256)) * 1_000
    questions = [question(NOOP)]
    for at in range(50):
        key = b"key-%d" % at
        questions.append(question(SET, key, document[: at * 5_000], bytes(8)))
        questions.append(question(GET, key))
        questions.append(question(GETKQ, b"no-" + key))  # not there: not answered
    questions.append(question(QUIT))
    with memcached() as port:
        alone = answers(port, b"".join(questions))
    words = ("-f", "ndjson", "-o", str(rows), "-w", str(written))
    with memcached() as target, relay(target, *words) as (process, port):
        assert answers(port, b"".join(questions)) == alone
        code, _, _ = stopped(process, signal.SIGINT)
    assert (code, len(alone) > 6_000_000) == (0, True)
    printed = [json.loads(line) for line in rows.read_text().splitlines()]
    assert but_file(printed) == but_file(objects(f"dcpdump read {written}"))
    assert [each for each in printed if "problems" in each or each["name"].startswith("opcode")] == []
    assert Counter(each["kind"] for each in printed) == {"request": len(questions), "response": 102}


@contextmanager
def memcached() -> Iterator[int]:
    """Run a server, and return its port."""
    port = free_port()
    words = ("memcached", "-u", "nobody", "-l", "127.0.0.1", "-p", str(port), "-U", "0")
    with ended(subprocess.Popen(words, start_new_session=True, **PIPES)):
        wait_for(lambda: listens(port))
        yield port


def question(opcode: int, key: bytes = b"", value: bytes = b"", extras: bytes = b"") -> bytes:
    """Return a request of memcached's own binary protocol."""
    body = extras + key + value
    return struct.pack(">BBHBBHIIQ", 0x80, opcode, len(key), len(extras), 0, 0, len(body), 7, 0) + body


def listens(port: int) -> bool:
    """Return whether something accepts connections on a port."""
    with socket.socket() as attempt:
        return attempt.connect_ex(("127.0.0.1", port)) == 0


def answers(port: int, questions: bytes) -> bytes:
    """Return all that a server answers until it closes the connection."""
    with socket.create_connection(("127.0.0.1", port), PATIENCE) as connection:
        asking = threading.Thread(target=connection.sendall, args=(questions,))
        asking.start()
        found = b"".join(iter(lambda: connection.recv(1 << 16), b""))
        asking.join(PATIENCE)
        return found
