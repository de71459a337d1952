"""Flow control: what counts, when a producer is blocked, and acknowledgements that do not add up."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcpdump.spec.opcodes import DCP_OPEN
from dcpdump.streams import intervals
from dcpdump.streams.counted import COUNTED, FIRST, LAST
from dcpdump.streams.intervals import Interval
from dcpdump.streams.leak import Leak, leak
from dcpdump.streams.window import Window
from dcpdump.wire.encode import encode
from tests.support.captures import Record, pcap
from tests.support.console import run
from tests.support.conversation import opening, packets, said
from tests.support.ledgers import damaged, ledger, ledger_of
from tests.support.packets import MILLISECOND, SECOND, TcpTalk

MARKER = 44
BEGUN = (
    opening(controls="connection_buffer_size=1000") + "STREAM vb=5\nRX snapshot-marker{start=0, end=100, flags=0x5}\n"
)


def window(conversation: str) -> Window:
    """Return the window of a conversation's only connection."""
    (connection,) = ledger(conversation).connections.values()
    return connection.window


def acknowledged(count: int) -> str:
    """Return an acknowledgement."""
    return f"TX buffer-acknowledgement{{buffer-bytes={count}}}\n"


def rounds(message: str, size: int, count: int = 9) -> str:
    """Return messages, each acknowledged with ``size`` bytes, the first with the marker."""
    texts = (message.replace("SEQNO", str(n)) + acknowledged(size + MARKER * (n == 1)) for n in range(1, count + 1))
    return "".join(texts)


OTHER = "RX mutation{vb=5, seqno:1, key=aa, value=#00, opaque=0x1005}\n"
MUTATION = "RX mutation{seqno:SEQNO, key=aa, value=#00}\n"


def test_the_counters_agree_when_everything_is_acknowledged() -> None:
    found = window(BEGUN + rounds(MUTATION, 58))
    counters = found.sent, found.acked, found.outstanding, found.peak, found.overacked, leak(found)
    assert counters == (566, 566, 0, MARKER + 58, 0, None)


def test_a_prepare_counts_two_bytes_more_than_it_has() -> None:
    prepare = "RX prepare{seqno:SEQNO, key=aa, value=#00}\n"
    assert (window(BEGUN + rounds(prepare, 60)).outstanding, leak(window(BEGUN + rounds(prepare, 60)))) == (0, None)
    text = "counts PREPARE as on the wire, without the 2 bytes more"
    assert leak(window(BEGUN + rounds(prepare, 58))) == Leak(
        18, "DCP_PREPARE size", 9, text, explained=True, fills_ns=982 * MILLISECOND
    )


def test_stream_ids_count_and_the_end_of_a_cache_transfer_counts_24() -> None:
    begun = opening(collections=True, controls="connection_buffer_size=1000, enable_stream_id=true")
    begun += 'STREAM vb=5, flags=0x100, value={"sid":2}\n'
    assert window(begun + "RX cache-transfer-end{sid=2}\n").sent == 24
    assert window(begun + "RX mutation{sid=2, seqno:1, key=aa, value=#00}\n").sent == 58 + 3


def test_what_is_no_message_of_a_stream_does_not_count() -> None:
    assert window(BEGUN + "RX noop{}\nTX noop-response{success}\n").sent == MARKER


def test_a_kind_that_is_never_acknowledged_is_found() -> None:
    both = "RX mutation{seqno:SEQNO, key=aa, value=#00}\nRX seqno-advanced{by-seqno=SEQNO}\n"
    text = "DCP_SEQNO_ADVANCED x 39 not acknowledged"
    assert leak(window(BEGUN + rounds(both, 58, 39))) == Leak(
        39 * 32, "DCP_SEQNO_ADVANCED", 39, text, explained=True, fills_ns=0
    )


def closing(vb: int, *, before: int, after: int) -> str:
    """Return how a stream is closed, and the messages that come before and after that is answered."""
    sent = [f"RX mutation{{vb={vb}, seqno:{at}, key=aa, value=#00}}\n" for at in range(1, before + after + 1)]
    return (
        f"TX close-stream{{vb={vb}}}\n{''.join(sent[:before])}RX close-stream-response{{success}}\n"
        f"{''.join(sent[before:])}RX stream-end{{vb={vb}, status=1}}\n"
    )


@pytest.mark.parametrize("runs", [False, True], ids=["frame by frame", "in runs"])
@pytest.mark.parametrize(
    ("forgotten", "found"),
    [
        (0, None),
        (
            3 * (58 + 28),
            Leak(
                *(258, "closed streams", 0, "messages of streams that were closed not acknowledged"),
                explained=True,
                fills_ns=66_147_286,
            ),
        ),
        (
            3 * (3 * 58 + 28),
            Leak(
                *(606, "closed streams", 0, "messages of streams that were to be closed not acknowledged"),
                explained=True,
                fills_ns=14_953_795,
            ),
        ),
    ],
    ids=["acknowledged", "forgotten when it is closed", "forgotten when it is asked to close"],
)
def test_messages_of_streams_that_a_consumer_has_closed_are_a_leak(
    forgotten: int, found: Leak | None, runs: bool
) -> None:
    marked = [f"STREAM vb={vb}\nRX snapshot-marker{{start=0, end=100, flags=0x5}}\n" for vb in (6, 7, 8)]
    ends = "".join(f"{closing(vb, before=2, after=1)}{acknowledged(3 * 58 + 28 - forgotten // 3)}" for vb in (6, 7, 8))
    text = BEGUN + "".join(marked) + acknowledged(4 * MARKER) + ends + OTHER + acknowledged(58)
    (connection,) = ledger_of(packets(said(text)), runs=runs).connections.values()
    assert (connection.window.outstanding, leak(connection.window)) == (forgotten, found)


@pytest.mark.parametrize(("before", "after", "state"), [(0, 1, "closed"), (1, 0, "to be closed")])
def test_streams_that_were_closed_leak_in_a_capture_that_starts_late_too(before: int, after: int, state: str) -> None:
    asked = "".join(f"STREAM vb={vb}\n" for vb in range(6, 20))
    marked = "".join(f"RX snapshot-marker{{vb={vb}, start=0, end=100, flags=0x5}}\n" for vb in range(6, 20))
    ends = "".join(closing(vb, before=before, after=after) + OTHER + acknowledged(58) for vb in range(6, 20))
    (connection,) = damaged(f"{BEGUN}{asked}----\n{marked}{ends}").connections.values()
    text = f"messages of streams that were {state} not acknowledged"
    assert leak(connection.window) == Leak(13 * (58 + 28), "closed streams", 0, text, explained=True)


def test_acknowledged_noops_are_found() -> None:
    text = BEGUN + "RX noop{}\nTX noop-response{success}\n" + MUTATION.replace("SEQNO", "1") + acknowledged(126)
    found = window(text)
    expected = Leak(-24, "DCP_NOOP", 1, "NOOPs acknowledged, which do not count")
    assert (found.outstanding, found.overacked, leak(found)) == (0, 24, expected)


def test_a_full_window_is_blocked_until_it_is_acknowledged() -> None:
    run = "".join(MUTATION.replace("SEQNO", str(n)) for n in range(1, 20))
    found = window(BEGUN + run + "WAIT 2\n" + acknowledged(1000))
    (interval,) = found.blocked.kept
    assert interval == Interval(interval.start_ns, interval.end_ns, 1146)
    assert (found.blocked_ns(None), found.is_blocked, found.peak) == (2_001_000_000, False, 1146)
    assert window(BEGUN + run).is_blocked


def test_a_size_of_zero_switches_it_off() -> None:
    found = window(BEGUN + MUTATION.replace("SEQNO", "1") + "CONTROL connection_buffer_size=0\n")
    assert (found.size, found.off, found.outstanding) == (None, True, 0)


def test_what_is_acknowledged_while_it_is_off_is_ignored_and_what_is_sent_counts() -> None:
    before = BEGUN.replace("CONTROL connection_buffer_size=1000\n", "") + MUTATION.replace("SEQNO", "1")
    found = window(before + acknowledged(102) + "CONTROL connection_buffer_size=1000\n" + acknowledged(2))
    counters = found.sent, found.acked, found.ignored, found.acks, found.outstanding
    assert counters == (MARKER + 58, 2, 102, 2, MARKER + 56)


def test_what_is_acknowledged_behind_a_control_that_is_accepted_later_counts() -> None:
    before = BEGUN.replace("CONTROL connection_buffer_size=1000\n", "")
    asked, answer = "TX control{key=connection_buffer_size, value=1000}\n", "RX control-response{success}\n"
    found = window(before + asked + acknowledged(40) + answer)
    assert (found.acked, found.ignored, found.outstanding) == (40, 0, MARKER - 40)
    refused = window(before + asked + acknowledged(40) + answer.replace("success", "einval"))
    assert (refused.acked, refused.ignored, refused.outstanding) == (0, 40, MARKER)


def test_a_window_knows_what_rules_ask_for() -> None:
    prepare = "RX prepare{seqno:1, key=aa, value=#00}\n"
    run = "".join(MUTATION.replace("SEQNO", str(n)) for n in range(2, 20))
    found = window(BEGUN + prepare + acknowledged(30) + run)
    wire = MARKER + 58 + 18 * 58
    assert (found.wire, found.sent, found.prepared, found.acked, found.size) == (wire, wire + 2, 1, 30, 1000)
    assert (found.beyond, found.last_sent_ns, found.blocked_since) == (2, found.last_sent_ns, found.last_sent_ns)
    assert (found.last_sent_ns or 0) - (found.last_ack_ns or 0) == 18_000_000


class BufferLog:
    """The producer's account of flow control, as its source has it: an oracle that shares nothing with Window."""

    def __init__(self) -> None:
        self.max_bytes = self.outstanding = self.acked = 0

    @property
    def full(self) -> bool:
        return self.max_bytes != 0 and not self.outstanding < self.max_bytes

    def insert(self, size: int) -> None:
        self.outstanding += size

    def acknowledge(self, size: int) -> None:
        if self.max_bytes:
            self.outstanding = 0 if size > self.outstanding else self.outstanding - size
            self.acked += size

    def set_buffer_size(self, size: int) -> None:
        self.max_bytes = size
        if not size:
            self.outstanding = self.acked = 0


SIZES = st.integers(0, 400)
EVENTS = st.one_of(
    st.tuples(st.just("send"), st.sampled_from([0x55, 0x56, 0x57, 0x60, 0x67]), st.integers(24, 200)),
    st.tuples(st.just("run"), st.integers(1, 5), st.integers(24, 100)),
    st.tuples(st.just("ack"), SIZES, st.just(0)),
    st.tuples(st.just("resize"), SIZES | st.just(0), st.just(0)),
)


@given(st.lists(EVENTS, max_size=60))
def test_the_counters_are_those_of_the_producer_at_each_step(events: list[tuple[str, int, int]]) -> None:
    found, log = Window(complete=True), BufferLog()
    beyond = 0
    for step, (event, first, second) in enumerate(events):
        now, was_full = step * SECOND, log.full
        if event == "send":
            found.sends(first, second, 0, now)
            log.insert({0x60: second + 2, 0x67: 24}.get(first, second))
            beyond += was_full
        elif event == "run" and not found.needs_each(first * second):
            found.sends_run([(0x57, first, first * second)], 0, now, now)
            log.insert(first * second)
            beyond += first * was_full
        elif event == "ack":
            found.acknowledges(first, now)
            log.acknowledge(first)
        elif event == "resize":
            found.resize(first, now)
            log.set_buffer_size(first)
        beyond = beyond if log.full else 0
        counters = found.size or 0, found.outstanding, found.acked, found.is_blocked, found.beyond
        assert counters == (log.max_bytes, log.outstanding, log.acked, log.full, beyond)
        assert found.sent - found.acked + found.overacked == found.outstanding


def test_after_lost_bytes_the_account_is_not_complete() -> None:
    captured = packets(said(BEGUN + rounds(MUTATION, 58)))
    assert ledger_of(captured).connections[0].window.complete
    del captured[-4]
    found = ledger_of(captured).connections[0].window
    assert (found.complete, leak(found)) == (False, None)


def test_every_message_that_counts_has_a_place_among_the_counters() -> None:
    """A message that is added to the table is counted without another edit."""
    assert [opcode for opcode in range(256) if COUNTED[opcode] and not FIRST <= opcode <= LAST] == []
    assert (DCP_OPEN, max(opcode for opcode in range(256) if COUNTED[opcode])) == (FIRST, LAST)


def test_how_long_it_was_blocked_counts_intervals_that_are_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The window is filled 1,100 times, each time for a millisecond, and for a second in the end."""
    monkeypatch.setattr(intervals, "MOST", 1_000)
    talk = TcpTalk(acks=False, step_ns=MILLISECOND)
    talk.send(0, encode("DCP_OPEN", {"flags": 1}, key=b"app", opaque=1))
    talk.send(1, encode("DCP_OPEN", response=True, opaque=1))
    talk.send(0, encode("DCP_CONTROL", key=b"connection_buffer_size", value=b"100", opaque=2))
    talk.send(1, encode("DCP_CONTROL", response=True, opaque=2))
    for seqno in range(1, 1_101):
        mutation = encode("DCP_MUTATION", {"by_seqno": seqno}, key=b"aa", value=bytes(100), vbucket=5, opaque=3)
        talk.send(1, mutation).wait(0 if seqno < 1_100 else 999 * MILLISECOND)
        talk.send(0, encode("DCP_BUFFER_ACKNOWLEDGEMENT", {"buffer_bytes": len(mutation)}))
    path = tmp_path / "slow.pcap"
    path.write_bytes(pcap([Record(each.ts_ns or 0, each.data) for each in talk]))
    found = json.loads(run(f"dcpdump flow {path} -q -f ndjson").out)
    assert (found["blocked_ms"], len(found["intervals"]), found["intervals_left"]) == (2_099, 1_000, 100)
    last = run(f"dcpdump flow {path} -q").out.splitlines()[-1]
    assert last == "  conn 0 980 shorter intervals are in -f ndjson; 100 later ones were not kept"
    assert "1,100 times, the longest of the first 1,000 from" in run(f"dcpdump diagnose {path} -q").out
