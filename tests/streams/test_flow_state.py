"""How a window stands: what is seen of it, what is inferred from a producer's waits, and what stays unknown."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcpdump.render import flow
from dcpdump.render.lines import LineKind
from dcpdump.render.text_columns import fitted
from dcpdump.streams.facts import Excess
from dcpdump.streams.flow_state import FlowEvidence, FlowState, Standing, standing, stands_still
from dcpdump.streams.ledger import Ledger
from dcpdump.streams.state import ConnectionState
from dcpdump.streams.verdict import Judge
from dcpdump.streams.window import Window
from tests.support.console import run
from tests.support.conversation import Said, opening, packets, said
from tests.support.diagnoses import rows
from tests.support.ledgers import ledger_of
from tests.support.packets import SECOND

SIZE, MESSAGE = 1000, 58
BEGUN = (
    opening(controls=f"connection_buffer_size={SIZE}") + "STREAM vb=5\nRX snapshot-marker{start=0, end=999, flags=5}\n"
)
MINUTE = "WAIT 60\nRX noop{}\nTX noop-response{success}\n"


def mutations(first: int, last: int) -> str:
    """Return mutations that count 58 bytes each."""
    return "".join(f"RX mutation{{seqno:{seqno}, key=aa, value=#00}}\n" for seqno in range(first, last + 1))


def acknowledged(count: int) -> str:
    """Return an acknowledgement."""
    return f"TX buffer-acknowledgement{{buffer-bytes={count}}}\n"


def slow_consumer(rounds: int = 10) -> str:
    """Return a producer that fills the window, and waits for the half of it to be acknowledged, again and again."""
    text, seqno, outstanding = BEGUN, 0, 44
    for _ in range(rounds):
        while outstanding < SIZE:
            seqno += 1
            outstanding += MESSAGE
            text += mutations(seqno, seqno)
        text += "WAIT 0.5\n" + acknowledged(8 * MESSAGE)
        outstanding -= 8 * MESSAGE
    while outstanding < SIZE:
        seqno += 1
        outstanding += MESSAGE
        text += mutations(seqno, seqno)
    return text


def late(frames: list[Said]) -> list[Said]:
    """Return frames from the third acknowledgement on."""
    acks = [at for at, frame in enumerate(frames) if frame.data[:2] == b"\x80\x5d"]
    return frames[acks[2] :]


def joined(text: str) -> Ledger:
    """Return the ledger of a conversation whose beginning was not captured: neither its handshake nor DCP_OPEN."""
    return ledger_of(packets(late(said(text)))[3:])


def only(kept: Ledger) -> ConnectionState:
    (connection,) = kept.connections.values()
    return connection


def stands(kept: Ledger) -> Standing:
    return standing(only(kept), kept.last_ns)


def lines(kept: Ledger) -> list[str]:
    return [line.text for line in fitted(flow.lines(list(kept.connections.values()), kept.last_ns), None)]


def whole(text: str) -> Ledger:
    return ledger_of(packets(said(text)))


# -- what is seen -------------------------------------------------------------------------------------------


def test_a_window_that_is_not_full_is_open() -> None:
    assert stands(whole(BEGUN + mutations(1, 3))) == Standing(FlowState.OPEN)


def test_without_a_buffer_size_there_is_no_flow_control() -> None:
    begun = opening() + "STREAM vb=5\nRX snapshot-marker{start=0, end=999, flags=5}\n"
    assert stands(whole(begun + mutations(1, 3))) == Standing(FlowState.OFF)
    assert stands(whole(begun + "CONTROL connection_buffer_size=0\n" + mutations(1, 3))) == Standing(FlowState.OFF)


def test_a_size_that_was_refused_is_not_accepted() -> None:
    asked = "TX control{key=connection_buffer_size, value=1000}\nRX control-response{einval}\n"
    assert stands(whole(opening() + asked + "STREAM vb=5\n")) == Standing(FlowState.NOT_ACCEPTED)


def test_a_producer_is_blocked_since_its_last_message() -> None:
    kept = whole(BEGUN + mutations(1, 17) + MINUTE)
    assert stands(kept) == Standing(FlowState.BLOCKED, FlowEvidence.SEEN, only(kept).window.last_sent_ns)
    assert lines(kept)[1].endswith("1,030  1,030  60 s (100 %)  BLOCKED")


def test_a_producer_that_continues_in_a_full_window_exceeds_it() -> None:
    kept = whole(BEGUN + mutations(1, 60))
    assert stands(kept) == Standing(FlowState.EXCEEDED)
    assert (only(kept).window.blocked_ns(kept.last_ns), only(kept).window.beyond) == (0, 43)
    assert lines(kept)[1].split()[-3:] == ["3,524", "3,524", "EXCEEDED"]
    assert lines(kept)[2] == (
        "  conn 0 window exceeded 12:00:00.032 to the end: 3,524 B of 1,000 unacknowledged, 43 messages beyond it: "
        "the producer ignores flow control, or acknowledgements were not captured"
    )
    (found,) = flow.objects([only(kept)], kept.last_ns)
    assert (found["state"], found["evidence"], found["blocked"], found["blocked_ms"], found["exceeded"]) == (
        "exceeded",
        "seen",
        False,
        0,
        [{"from": "2025-11-20T12:00:00.032000Z", "outstanding": 3524, "messages": 43}],
    )
    assert [Judge(kept).verdict(stream).text for stream in kept.streams] == ["open and flowing"]


def test_few_messages_exceed_it_too_when_they_come_late() -> None:
    assert stands(whole(BEGUN + mutations(1, 18))).state is FlowState.BLOCKED
    late = BEGUN + mutations(1, 17) + "WAIT 1\n" + mutations(18, 18)
    assert stands(whole(late)).state is FlowState.BLOCKED  # its acknowledgement may be captured a little later
    assert stands(whole(late + "WAIT 1\n" + mutations(19, 19))).state is FlowState.EXCEEDED


def test_an_excess_that_is_acknowledged_is_over() -> None:
    window = only(whole(BEGUN + mutations(1, 60) + acknowledged(3000) + mutations(61, 61))).window
    (excess,) = window.excesses
    assert excess == Excess(excess.start_ns, window.last_ack_ns, 3524, 43)
    assert (window.blocked.kept, window.is_exceeded, window.is_blocked) == ([], False, False)


@st.composite
def healthy(draw: st.DrawFn) -> Iterator[tuple[str, int]]:
    """Return what a producer sends and its consumer acknowledges, captured with acknowledgements up to 20 messages
    late.
    """
    size, outstanding, owed = draw(st.integers(1, 2000)), 0, 0
    events: list[tuple[str, int]] = [("size", size)]
    due: list[tuple[int, int]] = []
    sent = 0
    for length, share, delay in draw(
        st.lists(st.tuples(st.integers(24, 3000), st.integers(0, 100), st.integers(0, 20)), max_size=80)
    ):
        if outstanding < size:
            outstanding += length
            owed += length
            sent += 1
            events.append(("sent", length))
        count = owed * share // 100
        if count:
            owed -= count
            outstanding -= count
            due.append((sent + delay, count))
        events += [("acked", count) for at, count in due if at <= sent]
        due = [(at, count) for at, count in due if at > sent]
    return iter(events)


@given(healthy())
def test_a_healthy_producer_never_exceeds_its_window(events: Iterator[tuple[str, int]]) -> None:
    window = Window(complete=True)
    for now, (event, number) in enumerate(events):
        if event == "size":
            window.resize(number, now)
        elif event == "sent":
            window.sends(0x57, number, 0, now)
        else:
            window.acknowledges(number, now)
        assert not window.is_exceeded
    assert window.excesses == []


# -- what stands still --------------------------------------------------------------------------------------


def at_intervals(seconds: float, rounds: int, *, left: float) -> Ledger:
    """Return a window that is full each time until all is acknowledged, so long later, and at last for ``left``."""
    text, seqno = BEGUN, 0
    for turn in range(rounds + 1):
        count = 17 - (turn == 0)
        text += mutations(seqno + 1, seqno + count + 1)
        seqno += count + 1
        if turn < rounds:
            text += f"WAIT {seconds}\n" + acknowledged((count + 1) * MESSAGE + 44 * (turn == 0))
    return whole(f"{text}WAIT {left}\nRX noop{{}}\nTX noop-response{{success}}\n")


def still(kept: Ledger, least_s: float = 10) -> bool:
    return stands_still(only(kept), kept.last_ns, int(least_s * SECOND))


def kinds(kept: Ledger) -> list[LineKind]:
    """Return the kinds of the lines that say when a producer was blocked."""
    found = [*fitted(flow.lines(list(kept.connections.values()), kept.last_ns), None)]
    return [line.kind for line in found if line.text.startswith("  conn 0 blocked")]


@pytest.mark.parametrize("left", [1, 19.9, 39])
def test_a_producer_whose_consumer_acknowledges_at_intervals_for_an_hour_does_not_stand_still(left: float) -> None:
    kept = at_intervals(20, 180, left=left)
    assert (stands(kept).state, still(kept)) == (FlowState.BLOCKED, False)
    assert set(kinds(kept)) == {LineKind.PLAIN}


def test_a_producer_whose_consumer_stops_stands_still_once_that_is_longer_than_ever_before() -> None:
    assert [still(at_intervals(20, 9, left=left)) for left in (39, 41)] == [False, True]
    assert kinds(at_intervals(20, 9, left=41)) == [LineKind.PLAIN] * 9 + [LineKind.PROBLEM]


def test_a_producer_that_never_waited_before_stands_still_after_as_long_as_asked_for() -> None:
    assert [still(at_intervals(0, 0, left=left)) for left in (9, 11)] == [False, True]
    assert kinds(at_intervals(0, 0, left=11)) == [LineKind.PROBLEM]
    assert still(at_intervals(0, 0, left=11), least_s=12) is False


def test_a_producer_in_a_window_with_room_or_beyond_it_does_not_stand_still() -> None:
    assert not still(whole(BEGUN + mutations(1, 3) + MINUTE))
    assert not still(whole(BEGUN + mutations(1, 60) + MINUTE))
    assert not still(whole(BEGUN + mutations(1, 17) + MINUTE + acknowledged(900)))


def test_what_is_acknowledged_counts_though_the_window_stays_full() -> None:
    begun = BEGUN.replace(f"={SIZE}", "=100") + mutations(1, 17)
    trickle = "WAIT 8\nTX buffer-acknowledgement{buffer-bytes=20}\n" * 9
    kept = whole(begun + trickle + "WAIT 8\nRX noop{}\nTX noop-response{success}\n")
    assert (stands(kept).state, still(kept)) == (FlowState.BLOCKED, False)


def test_a_connection_that_ended_stood_still_until_then() -> None:
    for left, expected in ((5, False), (15, True)):
        kept = whole(BEGUN + mutations(1, 17) + f"WAIT {left}\nRST RX\nWAIT 100\nCONNECT\n" + opening())
        connection = kept.connections[0]
        assert (stands_still(connection, kept.last_ns, 10 * SECOND), bool(connection.ended_ns)) == (expected, True)


def test_where_it_is_inferred_that_a_producer_waits_what_it_waited_before_counts_too() -> None:
    half_a_second = joined(slow_consumer() + MINUTE)
    assert (stands(half_a_second).evidence, still(half_a_second)) == (FlowEvidence.INFERRED, True)
    minutes = joined(slow_consumer().replace("WAIT 0.5", "WAIT 31") + MINUTE)
    assert (stands(minutes).evidence, still(minutes)) == (FlowEvidence.INFERRED, False)


# -- what a late capture shows ------------------------------------------------------------------------------


def test_a_late_capture_infers_that_a_producer_waits_where_it_waited_before() -> None:
    kept = joined(slow_consumer() + MINUTE)
    window = only(kept).window
    assert stands(kept) == Standing(FlowState.BLOCKED, FlowEvidence.INFERRED, window.last_sent_ns)
    assert (window.complete, window.size, window.outstanding) == (False, None, 8 * MESSAGE)
    assert [Judge(kept).verdict(stream).text for stream in kept.streams] == [
        "blocked by flow control (inferred: at least 464 bytes not acknowledged since 12:00:05.122, and it waited for "
        "acknowledgements at this level before; the buffer size was not captured)"
    ]
    row, note = lines(kept)[1:]
    assert row.endswith("≥ 464  ≥ 464  BLOCKED (inferred from where the producer waited before)")
    assert note.endswith("to the end (60 s), outstanding ≥ 464 of a size that was not captured")
    (found,) = flow.objects([only(kept)], kept.last_ns)
    names = ("complete", "account", "state", "evidence", "outstanding", "peak", "blocked")
    assert tuple(found[name] for name in names) == (False, "relative", "blocked", "inferred", 464, 464, True)


def test_for_how_long_a_producer_was_blocked_before_is_not_known_without_a_size(tmp_path: Path) -> None:
    text = slow_consumer()
    begins = text.index("TX buffer-acknowledgement")
    captured = f"{text[:begins]}----\n{text[begins:]}{acknowledged(8 * MESSAGE)}"
    (row,) = (
        row for row in rows(captured, tmp_path / "late.pcap", "unjudged") if row["code"] == "flow-control-unknown"
    )
    assert row["text"].endswith(": flow control: the buffer size was not captured")
    assert run(f"dcpdump flow {tmp_path / 'late.pcap'} -q").out.endswith(
        "open (inferred from where the producer waited before)\n"
    )


def test_a_producer_that_stops_below_where_it_waited_is_not_blocked() -> None:
    rest = slow_consumer() + "WAIT 0.5\n" + acknowledged(8 * MESSAGE) + mutations(900, 902) + MINUTE
    assert stands(joined(rest)) == Standing(FlowState.OPEN, FlowEvidence.INFERRED)


def test_a_producer_that_may_still_be_sending_is_not_blocked() -> None:
    assert stands(joined(slow_consumer())) == Standing(FlowState.UNKNOWN, FlowEvidence.NOT_CAPTURED)


def test_a_consumer_that_acknowledges_each_message_makes_no_producer_wait() -> None:
    each = "".join(f"WAIT 1\n{mutations(n, n)}{acknowledged(MESSAGE)}" for n in range(1, 20))
    kept = joined(BEGUN + each + "WAIT 1\n" + mutations(20, 20) + MINUTE)
    assert stands(kept) == Standing(FlowState.UNKNOWN, FlowEvidence.NOT_CAPTURED)
    assert lines(kept)[1].endswith("unknown: the capture starts after DCP_OPEN")


def test_silence_alone_is_no_evidence() -> None:
    kept = ledger_of(packets(said(BEGUN + mutations(1, 30) + MINUTE))[-32:])
    assert stands(kept) == Standing(FlowState.UNKNOWN, FlowEvidence.NOT_CAPTURED)


def test_a_late_capture_finds_what_is_never_acknowledged() -> None:
    both = "RX mutation{seqno:SEQNO, key=aa, value=#00}\nRX seqno-advanced{by-seqno=SEQNO}\n"
    text = "".join(both.replace("SEQNO", str(n)) + acknowledged(MESSAGE) for n in range(1, 25))
    assert lines(joined(BEGUN + text))[-1] == (
        "  conn 0 acknowledged 672 B less than was sent: DCP_SEQNO_ADVANCED x 21 not acknowledged"
    )


def test_one_direction_alone_shows_nothing_of_flow_control() -> None:
    kept = ledger_of(packets([frame for frame in said(BEGUN + mutations(1, 30)) if frame.direction == 1])[3:])
    assert stands(kept) == Standing(FlowState.UNKNOWN, FlowEvidence.NOT_CAPTURED)
    (found,) = flow.objects([only(kept)], kept.last_ns)
    assert "outstanding" not in found
    assert lines(kept)[1].endswith("unknown: messages of only one direction of the connection were captured")


# -- what remains after lost bytes --------------------------------------------------------------------------


def without(text: str, opcode: int, which: int) -> Ledger:
    """Return the ledger of a conversation without one frame: the packet of a request with this opcode."""
    captured = packets(said(text))
    frames = [at for at, packet in enumerate(captured) if packet.data[54:56] == bytes([0x80, opcode])]
    del captured[frames[which]]
    return ledger_of(captured)


def test_where_messages_were_lost_at_least_the_others_are_outstanding() -> None:
    kept = without(BEGUN + mutations(1, 20) + MINUTE, 0x57, 3)
    window = only(kept).window
    assert (window.complete, window.outstanding) == (False, 44 + 19 * MESSAGE)
    assert stands(kept) == Standing(FlowState.BLOCKED, FlowEvidence.SEEN, window.last_sent_ns)
    assert [Judge(kept).verdict(stream).text for stream in kept.streams] == [
        "blocked by flow control (at least 1,146 of 1,000 bytes not acknowledged since 12:00:00.035)"
    ]


def test_where_acknowledgements_were_lost_the_account_begins_anew() -> None:
    text = BEGUN + mutations(1, 10) + acknowledged(MESSAGE) + acknowledged(MESSAGE)
    window = only(without(text + mutations(11, 12) + "WAIT 5\n" + acknowledged(10) + mutations(13, 14), 0x5D, 0)).window
    assert (window.complete, window.outstanding, window.size) == (False, 4 * MESSAGE - 10, SIZE)


def test_few_lost_bytes_do_not_hide_that_there_is_room() -> None:
    kept = without(BEGUN + mutations(1, 5), 0x57, 2)
    assert (only(kept).window.slack, stands(kept)) == (MESSAGE + 4, Standing(FlowState.OPEN))
    assert stands(without(BEGUN + mutations(1, 17), 0x57, 2)).state is FlowState.UNKNOWN
    acks = BEGUN + mutations(1, 9) + acknowledged(9) * 2 + mutations(10, 11)
    assert stands(without(acks, 0x5D, 0)) == Standing(FlowState.OPEN)


EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("send"), st.integers(24, 200)),
        st.tuples(st.just("ack"), st.integers(0, 300)),
        st.tuples(st.just("lose"), st.integers(24, 200)),
        st.tuples(st.just("lose acks"), st.integers(0, 300)),
    ),
    max_size=60,
)


@given(EVENTS, st.integers(0, 30))
def test_a_relative_account_says_the_least_and_the_most(events: list[tuple[str, int]], first: int) -> None:
    """What the producer has outstanding, against what is known to who joins late and misses some."""
    known, true = Window(complete=not first), Window(complete=True)
    true.resize(1 << 20, 0)
    known.resize(1 << 20, 0)
    for now, (event, number) in zip(count(0, SECOND), events, strict=False):
        if event in ("send", "lose"):
            true.sends(0x57, number, 0, now)
        else:
            true.acknowledges(number, now)
        if now < first * SECOND:
            continue
        if event == "send":
            known.sends(0x57, number, 0, now)
        elif event == "ack":
            known.acknowledges(number, now)
        else:
            known.lose(number, now, acks=event == "lose acks")
        assert known.outstanding <= true.outstanding
        assert first or true.outstanding <= known.outstanding + (known.slack or 0)


# -- empty answers ------------------------------------------------------------------------------------------


def test_what_has_no_flow_control_to_show_says_so() -> None:
    assert run("dcpdump flow -q samples/rollback-loop.pcap").out == "no message of a stream, so no flow control\n"
    assert (
        run("dcpdump flow -q samples/slow-consumer.pcap --connection 7").out
        == "no connection matches: there is 1 connection in the capture\n"
    )
    assert run("dcpdump flow -q samples/rollback-loop.pcap --connection 7 -f ndjson").out == ""
