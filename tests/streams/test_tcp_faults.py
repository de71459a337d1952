"""TCP faults: which end did not read, or did not answer, and when."""

import json
import random
import re
from pathlib import Path

import pytest

from dcpdump.batch.block import blocks
from dcpdump.net.half import TcpChange
from dcpdump.net.packet import Packet
from dcpdump.spark.event_log import EventReplay
from dcpdump.streams.intervals import Interval, Intervals, Recurring
from dcpdump.streams.watching import Watching
from dcpdump.wire.encode import encode
from tests.support.captures import Record, pcap
from tests.support.console import run
from tests.support.packets import ACK, MILLISECOND, PSH, RST, TcpTalk
from tests.support.splitting import cut

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
    path = folder / "zero.pcap"
    path.write_bytes(pcap([Record(each.ts_ns or 0, each.data) for each in talk]))
    return str(path)


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
    for seqno in range(6, 46):
        mutations(talk, seqno, seqno)
        if seqno % 20 == 0:
            unanswered(talk, 5, keepalive=seqno == 40)
        for _ in range(chance.randrange(3)):
            talk.write(chance.randrange(2), window=chance.choice((0, 0, 900)))
    return talk


def changes(packets: list[Packet], size: int) -> list[TcpChange]:
    """Return the changes of windows that blocks of a size make known."""
    dissection = Watching()
    dissection.watch(closely=False)
    for block in blocks(packets, size):
        for _ in dissection.feed_block(block):
            pass
    return dissection.tcp_changes


def replayed(events: list[bytes]) -> dict[tuple[str, int], Recurring]:
    """Return what the ledger knows of the windows of the only connection, from the events of splits."""
    replay = EventReplay()
    for each in events:
        replay.feed(each)
    (connection,) = replay.close().ledger.connections.values()
    return connection.tcp_faults


def verdict(path: str) -> str:
    return str(json.loads(run(f"dcpdump streams {path} -q -f ndjson").out)["verdict"])


def faults(path: str) -> list[dict[str, object]]:
    return list(json.loads(run(f"dcpdump flow {path} -q -f ndjson").out).get("tcp_faults", []))


def findings(path: str) -> list[str]:
    return [json.loads(line)["message"] for line in run(f"dcpdump check {path} -q -f ndjson").out.splitlines()]


def test_a_stream_whose_consumer_does_not_read_is_not_stuck(tmp_path: Path) -> None:
    path = written(probed(begun(), 30), tmp_path)
    why = "its consumer does not read: its TCP receive window is zero since 12:00:00.024"
    assert verdict(path) == f"blocked by TCP ({why})"
    assert run(f"dcpdump streams {path} -q --stuck --cause zero-window").out.count("blocked by TCP") == 2
    found = run(f"dcpdump diagnose {path} -q").out
    assert "the consumer of kafka-7f does not read since 12:00:00.024, 30.1 s up to the end" in found
    assert faults(path) == [
        {
            "fault": "zero-window",
            "role": "consumer",
            "fault_ms": 30_060,
            "intervals": [{"from": "2025-11-20T12:00:00.024000Z"}],
        }
    ]


def test_a_consumer_that_reads_again_did_not_for_a_time(tmp_path: Path) -> None:
    talk = probed(begun(), 3).write(0)
    path = written(probed(mutations(talk, 6, 8), 2).write(0), tmp_path)
    assert verdict(path) == "open and flowing"
    assert faults(path) == [
        {
            "fault": "zero-window",
            "role": "consumer",
            "fault_ms": 5_012,
            "intervals": [
                {"from": "2025-11-20T12:00:00.024000Z", "to": "2025-11-20T12:00:03.031000Z"},
                {"from": "2025-11-20T12:00:03.038000Z", "to": "2025-11-20T12:00:05.043000Z"},
            ],
        }
    ]
    assert run(f"dcpdump flow {path} -q").out.splitlines()[-1] == (
        "  conn 0 the consumer did not read twice, 5.01 s in all, for longest 12:00:00.024 to "
        "12:00:03.031 (3.01 s): its TCP receive window was zero"
    )
    found = run(f"dcpdump diagnose {path} -q").out
    assert "the consumer of kafka-7f did not read for 5.01 s (" in found
    assert "2 times, the longest from 12:00:00.024, 3.01 s" in found


def test_a_producer_that_does_not_read_is_named(tmp_path: Path) -> None:
    talk = begun()
    talk.write(1, window=0)
    path = written(talk.wait(20 * SECOND).write(1, window=0), tmp_path)
    assert verdict(path).startswith("stuck (in the middle of snapshot 0..9, at seqno 5, for ")
    assert "the producer did not read 12:00:00.024 to the end" in run(f"dcpdump flow {path} -q").out


def test_a_producer_that_does_not_read_cannot_take_acknowledgements(tmp_path: Path) -> None:
    talk = asked(TcpTalk(), "DCP_OPEN", 1, key=b"kafka-7f")
    asked(talk, "DCP_CONTROL", 11, key=b"connection_buffer_size", value=b"500")
    mutations(granted(talk, 5), 1, 5).write(1, window=0)
    path = written(talk.wait(90 * SECOND).write(1, window=0), tmp_path)
    assert findings(path) == []
    assert verdict(path) == (
        "blocked by flow control (824 of 500 bytes not acknowledged since 12:00:00.026; "
        "its producer does not read: its TCP receive window is zero since 12:00:00.028)"
    )


def test_a_request_whose_answer_cannot_be_sent_is_not_left_unanswered_by_the_producer(tmp_path: Path) -> None:
    talk = asked(TcpTalk(), "DCP_OPEN", 1, key=b"kafka-7f")
    talk.send(1, encode("DCP_NOOP", opaque=9)).write(0, window=0)
    talk.write(0, encode("DCP_STREAM_REQ", REQUEST, vbucket=5, opaque=3), flags=ACK | PSH, window=0)
    path = written(talk.wait(20 * SECOND).write(1), tmp_path)
    why = "its consumer does not read: its TCP receive window is zero since 12:00:00.010"
    assert verdict(path) == f"blocked by TCP ({why})"


def test_requests_whose_answers_cannot_be_sent_are_no_findings(tmp_path: Path) -> None:
    talk = probed(kept_alive(), 20)
    talk.write(0, encode("DCP_CLOSE_STREAM", vbucket=5, opaque=4), flags=ACK | PSH, window=0)
    path = written(probed(talk, 40), tmp_path)
    assert findings(path) == ["CLOSE_STREAM was not answered in 40.1 s; then the capture ends"]


def test_noops_that_tcp_does_not_let_through_are_not_missing(tmp_path: Path) -> None:
    path = written(probed(kept_alive(), 100).rst(1), tmp_path)
    assert verdict(path) == (
        "ended (connection reset by its server at 12:01:40.233, no STREAM_END; its consumer did not read: its TCP "
        "receive window was zero since 12:00:00.032; not reopened before the capture ends, 0 ms later)"
    )
    assert findings(path) == []
    found = run(f"dcpdump diagnose {path} -q").out
    assert "the consumer of kafka-7f did not read since 12:00:00.032, 100 s up to the end" in found
    assert "its TCP receive window was zero; nothing could be sent to it: 1 time" in found


def test_noops_may_come_behind_what_waited_for_a_consumer_that_did_not_read(tmp_path: Path) -> None:
    talk = probed(kept_alive(), 100).write(0)
    path = written(noop(mutations(talk, 6, 8), 9), tmp_path)
    assert [each for each in findings(path) if "NOOP" in each] == []


def test_noops_that_do_not_come_once_a_consumer_reads_again_are_missing(tmp_path: Path) -> None:
    talk = mutations(probed(kept_alive(), 100).write(0), 6, 6)
    path = written(mutations(talk.wait(100 * SECOND), 7, 8), tmp_path)
    assert [each for each in findings(path) if "NOOP" in each] == ["no NOOP for 100 s, the interval is 20 s"]


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


@pytest.mark.parametrize("flags", [RST, RST | 16])
def test_the_window_of_a_reset_says_nothing(tmp_path: Path, flags: int) -> None:
    assert faults(written(begun().write(0, flags=flags, window=0), tmp_path)) == []


def test_an_acknowledgement_that_was_captured_late_says_nothing(tmp_path: Path) -> None:
    talk = begun()
    late = talk.seq(1) - 30
    path = written(mutations(talk, 6, 6).write(0, ack=late, window=0).wait(20 * SECOND).write(1), tmp_path)
    assert faults(path) == []


def test_messages_show_that_a_window_opened_though_that_was_not_captured(tmp_path: Path) -> None:
    talk = probed(begun(), 3)
    talk.acks = False
    path = written(mutations(talk, 6, 8).wait(5 * SECOND).write(1), tmp_path)
    assert (verdict(path), faults(path)) == ("open and flowing", [])


def test_a_window_that_is_zero_before_the_first_frame_is_remembered() -> None:
    count = len(probed(begun(), 3).packets)
    packets = mutations(probed(begun(), 3).write(0), 6, 9).packets[count - 4 :]
    zero = Interval(packets[1].ts_ns, packets[4].ts_ns)
    assert replayed(cut(packets, [3]).events) == {("zero-window", 1): Recurring(over=Intervals([zero]))}


def test_a_consumer_that_sends_but_does_not_read_is_remembered_not_to_read() -> None:
    talk = probed(begun(), 3)
    count = len(talk.packets)
    talk.write(0, encode("DCP_BUFFER_ACKNOWLEDGEMENT", {"buffer_bytes": 9}), flags=ACK | PSH, window=0)
    packets = talk.packets[count - 4 :]
    assert replayed(cut(packets, [3]).events) == {("zero-window", 1): Recurring(True, packets[1].ts_ns)}


@pytest.mark.parametrize("keepalive", [False, True])
def test_a_stream_whose_consumer_acknowledges_nothing_is_not_stuck(tmp_path: Path, *, keepalive: bool) -> None:
    path = written(unanswered(begun(), 7, keepalive=keepalive), tmp_path)
    why = "its consumer acknowledges nothing: what is sent is sent again since 12:00:00.224"
    assert verdict(path) == f"blocked by TCP ({why})"
    assert faults(path) == [
        {
            "fault": "no-answer",
            "role": "consumer",
            "fault_ms": 25_206,
            "intervals": [{"from": "2025-11-20T12:00:00.224000Z"}],
        }
    ]
    said = run(f"dcpdump diagnose {path} -q").out
    assert "the consumer of kafka-7f acknowledges nothing since 12:00:00.224, 25.2 s up to the end" in said
    line = "  conn 0 the consumer acknowledged nothing 12:00:00.224 to the end (25.2 s): what was sent was sent again"
    assert run(f"dcpdump flow {path} -q").out.splitlines()[-1] == line


def test_a_consumer_that_answers_again_did_not_for_a_time(tmp_path: Path) -> None:
    talk = unanswered(begun(), 5).write(0)
    path = written(mutations(talk, 6, 9), tmp_path)
    assert verdict(path) == "open and flowing"
    times = {"from": "2025-11-20T12:00:00.224000Z", "to": "2025-11-20T12:00:06.229000Z"}
    assert faults(path) == [{"fault": "no-answer", "role": "consumer", "fault_ms": 6_005, "intervals": [times]}]


def test_new_bytes_show_that_an_answer_came_though_it_was_not_captured(tmp_path: Path) -> None:
    talk = unanswered(begun(), 5)
    talk.acks = False
    path = written(mutations(talk, 6, 8).wait(5 * SECOND).write(1), tmp_path)
    assert verdict(path) == "open and flowing"
    assert [each["intervals"] for each in faults(path)] == [
        [{"from": "2025-11-20T12:00:00.224000Z", "to": "2025-11-20T12:00:06.229000Z"}]
    ]


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


def test_a_connection_that_is_reset_for_want_of_answers_says_so(tmp_path: Path) -> None:
    said = verdict(written(unanswered(begun(), 6).wait(SECOND).rst(1), tmp_path))
    assert said.startswith("ended (connection reset by its server at 12:00:13.630, no STREAM_END; ")
    assert "its consumer acknowledged nothing: what was sent was sent again since 12:00:00.224" in said


def test_bytes_that_were_captured_twice_are_not_sent_again(tmp_path: Path) -> None:
    talk = begun()
    last = encode("DCP_MUTATION", {"by_seqno": 5}, key=b"5", value=bytes(100), vbucket=5, opaque=3)
    for _ in range(20):
        talk.write(1, last, seq=talk.seq(1) - len(last))
    assert faults(written(talk.wait(20 * SECOND).write(1), tmp_path)) == []


def test_nothing_is_said_of_an_end_that_was_not_captured(tmp_path: Path) -> None:
    """A connection that is idle is probed now and then; the answers may be there."""
    talk = begun()
    for _ in range(9):
        talk.wait(SECOND).write(1, seq=talk.seq(1) - 1)
    talk.packets = [each for each in talk.packets if each.data[26:30] == talk.packets[1].data[26:30]]
    assert faults(written(talk, tmp_path)) == []


def test_probes_that_are_answered_show_that_the_consumer_is_there(tmp_path: Path) -> None:
    talk = begun()
    for _ in range(9):
        talk.wait(SECOND).write(1, seq=talk.seq(1) - 1)
        talk.write(0)
    assert faults(written(talk, tmp_path)) == []


def test_packets_in_blocks_change_what_single_ones_do() -> None:
    packets = toggled().packets
    assert changes(packets, 1 << 20) == changes(packets, 1)
    assert {each.fault for each in changes(packets, 1)} == {"zero-window", "no-answer"}


def test_faults_do_not_depend_on_splits() -> None:
    """Cut before and behind each packet in turn; what a split does not have is from the one before it."""
    packets = toggled().packets
    expected = replayed(cut(packets, []).events)
    assert sorted(expected) == [("no-answer", 0), ("zero-window", 0), ("zero-window", 1)]
    again = 0
    for at in range(1, len(packets)):
        found = cut(packets, [at, at + 1])
        assert replayed(found.events) == expected, at
        again += len(found.decodes) > 1
    assert again == 5  # a split that begins with a probe: what was before it is guessed wrong, and read again


def test_later_intervals_are_counted_and_not_kept() -> None:
    times = Intervals()
    for start in range(0, 30_000, 2):
        times.add(Interval(start, start + 1))
    assert (len(times), len(times.kept), times.further, times.total_ns) == (15_000, 10_000, 5_000, 15_000)
