"""Flow control: what counts, when a producer is blocked, and acknowledgements that do not add up."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcpdump.spec.opcodes import DCP_OPEN
from dcpdump.streams import window as flow_window
from dcpdump.streams.flow import Leak, leak
from dcpdump.streams.window import COUNTED, FIRST, LAST, Window
from dcpdump.wire.encode import encode
from tests.streams.test_flow_state import acknowledged
from tests.support.console import run
from tests.support.conversation import opening, packets, said
from tests.support.ledgers import damaged, ledger_of
from tests.support.packets import MILLISECOND, SECOND, TcpTalk
from tests.support.secret_talk import saved

MARKER = 44
BEGUN = (
    opening(controls="connection_buffer_size=1000") + "STREAM vb=5\nRX snapshot-marker{start=0, end=100, flags=0x5}\n"
)


OTHER = "RX mutation{vb=5, seqno:1, key=aa, value=#00, opaque=0x1005}\n"


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
        (3 * (58 + 28), Leak(*(258, "closed streams", 0, "messages of streams that were closed not acknowledged"),
         explained=True, fills_ns=66_147_286)),
        (3 * (3 * 58 + 28), Leak(*(606, "closed streams", 0,
         "messages of streams that were to be closed not acknowledged"), explained=True, fills_ns=14_953_795)),
    ],
    ids=["acknowledged", "forgotten when it is closed", "forgotten when it is asked to close"],
)  # fmt: skip
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
        counters = (
            found.size or 0,
            found.outstanding,
            found.acked,
            found.full is not None,
            found.full.beyond if found.full else 0,
        )
        assert counters == (log.max_bytes, log.outstanding, log.acked, log.full, beyond)
        assert found.counted.sent - found.acked + found.overacked == found.outstanding


def test_every_message_that_counts_has_a_place_among_the_counters() -> None:
    """A message that is added to the table is counted without another edit."""
    assert [opcode for opcode in range(256) if COUNTED[opcode] and not FIRST <= opcode <= LAST] == []
    assert (DCP_OPEN, max(opcode for opcode in range(256) if COUNTED[opcode])) == (FIRST, LAST)


def test_how_long_it_was_blocked_counts_intervals_that_are_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The window is filled 1,100 times, each time for a millisecond, and for a second in the end."""
    monkeypatch.setattr(flow_window, "MOST", 1_000)
    talk = TcpTalk(acks=False, step_ns=MILLISECOND)
    talk.send(0, encode("DCP_OPEN", {"flags": 1}, key=b"app", opaque=1))
    talk.send(1, encode("DCP_OPEN", response=True, opaque=1))
    talk.send(0, encode("DCP_CONTROL", key=b"connection_buffer_size", value=b"100", opaque=2))
    talk.send(1, encode("DCP_CONTROL", response=True, opaque=2))
    for seqno in range(1, 1_101):
        mutation = encode("DCP_MUTATION", {"by_seqno": seqno}, key=b"aa", value=bytes(100), vbucket=5, opaque=3)
        talk.send(1, mutation).wait(0 if seqno < 1_100 else 999 * MILLISECOND)
        talk.send(0, encode("DCP_BUFFER_ACKNOWLEDGEMENT", {"buffer_bytes": len(mutation)}))
    path = saved(talk, tmp_path / "slow.pcap")
    found = json.loads(run(f"dcpdump flow {path} -q -f ndjson").out)
    assert (found["blocked_ms"], len(found["intervals"]), found["intervals_left"]) == (2_099, 1_000, 100)
    last = run(f"dcpdump flow {path} -q").out.splitlines()[-1]
    assert last == "  conn 0 980 shorter intervals are in -f ndjson; 100 later ones were not kept"
    assert "1,100 times, the longest of the first 1,000 from" in run(f"dcpdump diagnose {path} -q").out
