"""TCP faults: which end did not read, or did not answer, and when."""

import json
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dcpdump.arrow.other_tables import Judging
from dcpdump.batch.block import blocks
from dcpdump.net.event import TcpChange
from dcpdump.net.packet import Packet
from dcpdump.streams.dissection import Watching
from dcpdump.streams.window import Interval, Intervals, Recurring
from dcpdump.wire.encode import encode
from tests.support.console import run
from tests.support.packets import ACK, MILLISECOND, PSH, RST, TcpTalk
from tests.support.secret_talk import saved

SECOND = 1000 * MILLISECOND
REQUEST = {"start_seqno": 0, "end_seqno": 2**64 - 1, "snap_start_seqno": 0, "snap_end_seqno": 0}
LOG = b"\0" * 7 + b"\1" + bytes(8)


def asked(talk: TcpTalk, name: str, opaque: int, *, key: bytes = b"", value: bytes = b"") -> TcpTalk:
    """Send a request and its success."""
    talk.send(0, encode(name, {"flags": 1} if key and not value else None, key=key, value=value, opaque=opaque))
    return talk.send(1, encode(name, response=True, opaque=opaque))


def kept_alive() -> TcpTalk:
    """Return a stream of which all of a snapshot came, on a connection with a NOOP each 20 seconds."""
    talk = asked(TcpTalk(), "DCP_OPEN", 1, key=b"kafka-7f")
    asked(talk, "DCP_CONTROL", 11, key=b"enable_noop", value=b"true")
    asked(talk, "DCP_CONTROL", 12, key=b"set_noop_interval", value=b"20")
    return mutations(granted(talk, 5), 1, 5)


def noop(talk: TcpTalk, opaque: int) -> TcpTalk:
    return talk.send(1, encode("DCP_NOOP", opaque=opaque)).send(0, encode("DCP_NOOP", response=True, opaque=opaque))


def mutations(talk: TcpTalk, first: int, last: int) -> TcpTalk:
    """Send mutations from one seqno to another."""
    for seqno in range(first, last + 1):
        talk.send(
            1, encode("DCP_MUTATION", {"by_seqno": seqno}, key=b"%d" % seqno, value=bytes(100), vbucket=5, opaque=3)
        )
    return talk


def begun() -> TcpTalk:
    """Return a stream in the middle of a snapshot of 9 mutations."""
    return mutations(granted(asked(TcpTalk(), "DCP_OPEN", 1, key=b"kafka-7f"), 9), 1, 5)


def granted(talk: TcpTalk, last: int) -> TcpTalk:
    """Request a stream, which is granted, and begin its first snapshot."""
    talk.send(0, encode("DCP_STREAM_REQ", REQUEST, vbucket=5, opaque=3))
    talk.send(1, encode("DCP_STREAM_REQ", response=True, opaque=3, value=LOG))
    return talk.send(1, encode("DCP_SNAPSHOT_MARKER", {"end_seqno": last, "snapshot_type": 1}, vbucket=5, opaque=3))


def written(talk: TcpTalk, folder: Path) -> str:
    """Write a conversation, and return the path of the capture."""
    return str(saved(talk, folder / "zero.pcap"))


def probed(talk: TcpTalk, seconds: int) -> TcpTalk:
    """Have the producer ask each second whether its consumer reads again, which it does not."""
    talk.write(0, window=0)
    for _ in range(seconds):
        talk.wait(SECOND).write(1, seq=talk.seq(1) - 1)
        talk.write(0, window=0)
    return talk


def unanswered(talk: TcpTalk, times: int, *, keepalive: bool = False) -> TcpTalk:
    """Have the producer send its last bytes again, and wait for twice as long each time; nothing comes back."""
    last = encode("DCP_MUTATION", {"by_seqno": 5}, key=b"5", value=bytes(100), vbucket=5, opaque=3)
    for turn in range(times):
        talk.wait(200 * MILLISECOND << turn)
        if keepalive:
            talk.write(1, seq=talk.seq(1) - 1)
        else:
            talk.write(1, last, seq=talk.seq(1) - len(last))
    return talk


def toggled() -> TcpTalk:
    """Return a conversation in which both ends stop reading now and then, and the consumer to answer."""
    chance = random.Random(4)
    talk = begun()
    for seqno in range(6, 26):
        mutations(talk, seqno, seqno)
        if seqno % 10 == 0:
            unanswered(talk, 5, keepalive=seqno == 20)
        for _ in range(chance.randrange(3)):
            talk.write(chance.randrange(2), window=chance.choice((0, 0, 900)))
    return talk


def changes(packets: list[Packet], size: int) -> list[TcpChange]:
    """Return the changes of windows that blocks of a size make known."""
    dissection = Watching()
    dissection.watch(with_rules=False)
    for block in blocks(packets, size):
        for _ in dissection.feed_block(block):
            pass
    return dissection.tcp_changes


def faults(packets: list[Packet]) -> dict[tuple[str, int], Recurring]:
    """Return what the ledger knows of the windows of the only connection."""
    dissection = Watching()
    judging = Judging(dissection, rules=False)
    for block in blocks(packets):
        judging.observe(block)
        for parts in dissection.feed_block(block):
            judging.feed(parts)
    (connection,) = judging.ledger.connections.values()
    return connection.tcp_faults


def verdict(path: str) -> str:
    return str(json.loads(run(f"dcpdump streams {path} -q -f ndjson").out)["verdict"])


def findings(path: str) -> list[str]:
    return [json.loads(line)["message"] for line in run(f"dcpdump check {path} -q -f ndjson").out.splitlines()]


def shown(path: str) -> str:
    """Return what is said: the verdict, faults of TCP, findings."""
    flow = json.loads(run(f"dcpdump flow {path} -q -f ndjson").out)
    faults = [
        " ".join(
            [f"{each['fault']} of the {each['role']} for {each['fault_ms']} ms:"]
            + [f"{times['from'][17:23]}..{times.get('to', '')[17:23]}" for times in each["intervals"]]
        )
        for each in flow.get("tcp_faults", [])
    ]
    return "; ".join([verdict(path), *faults, *findings(path)])


def without_acks(talk: TcpTalk) -> TcpTalk:
    talk.acks = False
    return talk


def repeated(times: int) -> TcpTalk:
    """Return a conversation in which the last bytes were captured so often."""
    talk = begun()
    last = encode("DCP_MUTATION", {"by_seqno": 5}, key=b"5", value=bytes(100), vbucket=5, opaque=3)
    for _ in range(times):
        talk.write(1, last, seq=talk.seq(1) - len(last))
    return talk.wait(20 * SECOND).write(1)


def probes(*, answered: bool, captured: bool = True) -> TcpTalk:
    """Return a connection that is idle and is probed now and then."""
    talk = begun()
    for _ in range(9):
        talk.wait(SECOND).write(1, seq=talk.seq(1) - 1)
        if answered:
            talk.write(0)
    if not captured:
        talk.packets = [each for each in talk.packets if each.data[26:30] == talk.packets[1].data[26:30]]
    return talk


def stopped(talk: TcpTalk, seconds: int, direction: int) -> TcpTalk:
    """Have one end stop reading for so long."""
    return talk.write(direction, window=0).wait(seconds * SECOND).write(direction, window=0)


def full() -> TcpTalk:
    """Return a stream that fills the window of its connection."""
    talk = asked(
        asked(TcpTalk(), "DCP_OPEN", 1, key=b"kafka-7f"), "DCP_CONTROL", 11, key=b"connection_buffer_size", value=b"500"
    )
    return mutations(granted(talk, 5), 1, 5)


def not_answered() -> TcpTalk:
    """Return a request whose answer cannot be sent."""
    talk = asked(TcpTalk(), "DCP_OPEN", 1, key=b"kafka-7f")
    talk.send(1, encode("DCP_NOOP", opaque=9)).write(0, window=0)
    talk.write(0, encode("DCP_STREAM_REQ", REQUEST, vbucket=5, opaque=3), flags=ACK | PSH, window=0)
    return talk.wait(20 * SECOND).write(1)


def closing() -> TcpTalk:
    talk = probed(kept_alive(), 20)
    talk.write(0, encode("DCP_CLOSE_STREAM", vbucket=5, opaque=4), flags=ACK | PSH, window=0)
    return probed(talk, 40)


def late_ack() -> TcpTalk:
    talk = begun()
    late = talk.seq(1) - 30
    return mutations(talk, 6, 6).write(0, ack=late, window=0).wait(20 * SECOND).write(1)


OUTSIDE = "; MUTATION seqno 6 is outside snapshot 0..5; MUTATION seqno 7 is outside snapshot 0..5"
OUTSIDE += "; MUTATION seqno 8 is outside snapshot 0..5"
ZERO = "its TCP receive window is zero since 12:00:00."
#: What happens, and what is said of it: the verdict, faults of TCP, findings.
CASES = {
    "a consumer does not read": (lambda: probed(begun(), 30),
        f"blocked by TCP (its consumer does not read: {ZERO}024); zero-window of the consumer for 30060 ms: 00.024.."),
    "a consumer reads again": (lambda: probed(mutations(probed(begun(), 3).write(0), 6, 8), 2).write(0),
        "open and flowing; zero-window of the consumer for 5012 ms: 00.024..03.031 03.038..05.043"),
    "a producer does not read": (lambda: stopped(begun(), 20, 1),
        "stuck (in the middle of snapshot 0..9, at seqno 5, for 20 s); zero-window of the producer for 20001 ms: "
        "00.024.."),
    "a producer cannot take acknowledgements": (lambda: stopped(full(), 90, 1),
        "blocked by flow control (824 of 500 bytes not acknowledged since 12:00:00.026; its producer does not read: "
        f"{ZERO}028); zero-window of the producer for 90001 ms: 00.028.."),
    "an answer cannot be sent": (not_answered,
        f"blocked by TCP (its consumer does not read: {ZERO}010); zero-window of the consumer for 20002 ms: "
        "00.010..; NOOP was not answered in 20.0 s; then the capture ends; NOOP, and enable_noop is not on; "
        "STREAM_REQ was not answered in 20.0 s; then the capture ends"),
    "a close that is not answered": (closing,
        f"blocked by TCP (its consumer does not read: {ZERO}032); zero-window of the consumer for 60122 ms: "
        "00.032..; CLOSE_STREAM was not answered in 40.1 s; then the capture ends"),
    "NOOPs do not pass": (lambda: probed(kept_alive(), 100).rst(1),
        "ended (connection reset by its server at 12:01:40.233, no STREAM_END; its consumer did not read: its TCP "
        "receive window was zero since 12:00:00.032; not reopened before the capture ends, 0 ms later); zero-window "
        "of the consumer for 100201 ms: 00.032.."),
    "NOOPs come behind what waited": (lambda: noop(mutations(probed(kept_alive(), 100).write(0), 6, 8), 9),
        f"open and flowing; zero-window of the consumer for 100201 ms: 00.032..40.233{OUTSIDE}"),
    "NOOPs do not come": (
        lambda: mutations(mutations(probed(kept_alive(), 100).write(0), 6, 6).wait(100 * SECOND), 7, 8),
        "open and flowing; zero-window of the consumer for 100201 ms: 00.032..40.233; no NOOP for 100 s, the "
        f"interval is 20 s{OUTSIDE}"),
    "the window of a reset": (lambda: begun().write(0, flags=RST, window=0),
        "ended (connection reset by its client at 12:00:00.024, no STREAM_END; not reopened before the capture "
        "ends, 0 ms later)"),
    "an acknowledgement that was captured late": (late_ack,
        "stuck (in the middle of snapshot 0..9, at seqno 6, for 20 s)"),
    "messages show that a window opened": (
        lambda: mutations(without_acks(probed(begun(), 3)), 6, 8).wait(5 * SECOND).write(1), "open and flowing"),
    "a consumer does not answer": (lambda: unanswered(begun(), 7),
        "blocked by TCP (its consumer acknowledges nothing: what is sent is sent again since 12:00:00.224); "
        "no-answer of the consumer for 25206 ms: 00.224.."),
    "a consumer does not answer keep-alives": (lambda: unanswered(begun(), 7, keepalive=True),
        "blocked by TCP (its consumer acknowledges nothing: what is sent is sent again since 12:00:00.224); "
        "no-answer of the consumer for 25206 ms: 00.224.."),
    "a consumer answers again": (lambda: mutations(unanswered(begun(), 5).write(0), 6, 9),
        "open and flowing; no-answer of the consumer for 6005 ms: 00.224..06.229"),
    "new bytes show that an answer came": (
        lambda: mutations(without_acks(unanswered(begun(), 5)), 6, 8).wait(5 * SECOND).write(1),
        "open and flowing; no-answer of the consumer for 6005 ms: 00.224..06.229"),
    "reset for want of answers": (lambda: unanswered(begun(), 6).wait(SECOND).rst(1),
        "ended (connection reset by its server at 12:00:13.630, no STREAM_END; its consumer acknowledged nothing: "
        "what was sent was sent again since 12:00:00.224; not reopened before the capture ends, 0 ms later); "
        "no-answer of the consumer for 13406 ms: 00.224.."),
    "bytes that were captured twice": (lambda: repeated(20),
        "stuck (in the middle of snapshot 0..9, at seqno 5, for 20 s)"),
    "probes of one direction alone": (lambda: probes(answered=True, captured=False),
        "open and flowing (since before the capture; as far as was captured: messages of only one direction of the "
        "connection were captured)"),
    "probes that are answered": (lambda: probes(answered=True), "open and flowing"),
}  # fmt: skip


@pytest.mark.parametrize(("talk", "said"), CASES.values(), ids=CASES)
def test_who_holds_the_other_up_is_said(talk: Callable[[], TcpTalk], said: str, tmp_path: Path) -> None:
    assert shown(written(talk(), tmp_path)) == said


@pytest.mark.parametrize(
    ("talk", "flow", "diagnosed"),
    [
        (
            CASES["a consumer does not read"][0],
            "the consumer did not read 12:00:00.024 to the end (30.1 s): its TCP receive window was zero",
            "the consumer of kafka-7f does not read since 12:00:00.024, 30.1 s up to the end",
        ),
        (
            CASES["a consumer reads again"][0],
            "the consumer did not read twice, 5.01 s in all, for longest 12:00:00.024 to 12:00:03.031 (3.01 s): its "
            "TCP receive window was zero",
            "the consumer of kafka-7f did not read for 5.01 s (",
        ),
        (
            CASES["a consumer does not answer"][0],
            "the consumer acknowledged nothing 12:00:00.224 to the end (25.2 s): what was sent was sent again",
            "the consumer of kafka-7f acknowledges nothing since 12:00:00.224, 25.2 s up to the end",
        ),
    ],
)
def test_flow_and_diagnose_say_so_too(talk: Any, flow: str, diagnosed: str, tmp_path: Path) -> None:
    path = written(talk(), tmp_path)
    assert run(f"dcpdump flow {path} -q").out.splitlines()[-1] == f"  conn 0 {flow}"
    assert diagnosed in run(f"dcpdump diagnose {path} -q").out
    blocked = "blocked by TCP" in verdict(path)
    assert run(f"dcpdump streams {path} -q --stuck").out.count("blocked by TCP") == 2 * blocked


def test_what_a_window_was_is_said_of_the_past(tmp_path: Path) -> None:
    talk = probed(kept_alive(), 10).write(0)
    found = run(f"dcpdump diagnose {written(noop(talk, 9), tmp_path)} -q").out
    assert "the consumer of kafka-7f did not read for 10 s (100 %)\n" in found
    detail = "its TCP receive window was zero; nothing could be sent to it: 1 time, the longest from 12:00:00.032, 10 s"
    assert detail in found


def test_a_window_that_was_zero_before_the_first_frame_was_so_for_a_share_of_the_capture(tmp_path: Path) -> None:
    count = len(begun().packets)
    talk = mutations(probed(begun(), 30).write(0), 6, 9)
    del talk.packets[:count]
    assert "did not read for 30.1 s (100 %)\n" in run(f"dcpdump diagnose {written(talk, tmp_path)} -q").out


def test_a_window_that_is_zero_before_the_first_frame_is_remembered() -> None:
    count = len(probed(begun(), 3).packets)
    packets = mutations(probed(begun(), 3).write(0), 6, 9).packets[count - 4 :]
    zero = Interval(packets[1].ts_ns, packets[4].ts_ns)
    assert faults(packets) == {("zero-window", 1): Recurring(over=Intervals([zero]))}


def test_a_consumer_that_sends_but_does_not_read_is_remembered_not_to_read() -> None:
    talk = probed(begun(), 3)
    count = len(talk.packets)
    talk.write(0, encode("DCP_BUFFER_ACKNOWLEDGEMENT", {"buffer_bytes": 9}), flags=ACK | PSH, window=0)
    packets = talk.packets[count - 4 :]
    assert faults(packets) == {("zero-window", 1): Recurring(True, packets[1].ts_ns)}


@pytest.mark.parametrize(
    ("talk", "mark"),
    [
        (probed(begun(), 30), "ZERO WINDOW"),
        (unanswered(begun(), 7), "NO ANSWER"),
        (begun().write(1, window=0).wait(20 * SECOND).write(1, window=0), "ZERO WINDOW"),
        (begun(), ""),
    ],
)
def test_top_marks_the_connection_of_an_end_that_holds_the_other_up(talk: TcpTalk, mark: str, tmp_path: Path) -> None:
    row = run(f"dcpdump top {written(talk, tmp_path)} -q").out.splitlines()[2]
    assert re.split(" {2,}", row)[6:] == ([mark] if mark else [])


def test_packets_in_blocks_change_what_single_ones_do() -> None:
    packets = toggled().packets
    assert changes(packets, 1 << 20) == changes(packets, 1)
    assert {each.fault for each in changes(packets, 1)} == {"zero-window", "no-answer"}


def test_later_intervals_are_counted_and_not_kept() -> None:
    times = Intervals()
    for start in range(0, 30_000, 2):
        times.add(Interval(start, start + 1))
    assert (len(times), len(times.kept), times.further, times.total_ns) == (15_000, 10_000, 5_000, 15_000)
