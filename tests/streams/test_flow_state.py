"""How a window stands: what is seen of it, what is inferred from a producer's waits, and what stays unknown."""

from itertools import count
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcpdump.render import flow
from dcpdump.render.style import LineKind
from dcpdump.render.text_columns import fitted
from dcpdump.streams.flow import FlowEvidence, FlowState, FlowStatus, flow_status, stands_still
from dcpdump.streams.ledger import Ledger
from dcpdump.streams.state import ConnectionState
from dcpdump.streams.window import Window
from tests.support.console import run
from tests.support.conversation import opening, packets, said
from tests.support.diagnoses import rows
from tests.support.ledgers import damaged, judged, ledger_of
from tests.support.packets import SECOND

SIZE, MESSAGE = 1000, 58
BEGUN = (
    opening(controls=f"connection_buffer_size={SIZE}") + "STREAM vb=5\nRX snapshot-marker{start=0, end=999, flags=5}\n"
)
MINUTE = "WAIT 60\nRX noop{}\nTX noop-response{success}\n"


def mutations(first: int, last: int) -> str:
    """Return mutations that count 58 bytes each."""
    return "".join(f"RX mutation{{seqno:{seqno}, key={seqno:02x}, value=#00}}\n" for seqno in range(first, last + 1))


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


def late(text: str) -> str:
    """Return a conversation that is captured from its third acknowledgement on."""
    first, second, *rest = text.split("TX buffer-acknowledgement")
    return "TX buffer-acknowledgement".join([first, f"{second}TX buffer-acknowledgement{rest[0]}----\n", *rest[1:]])


def only(kept: Ledger) -> ConnectionState:
    (connection,) = kept.connections.values()
    return connection


def stands(kept: Ledger) -> FlowStatus:
    return flow_status(only(kept), kept.last_ns)


def lines(kept: Ledger) -> list[str]:
    return [line.text for line in fitted(flow.lines(flow.rows_of(list(kept.connections.values()), kept.last_ns)), None)]


# -- what is seen -------------------------------------------------------------------------------------------


def rounds(message: str, size: int, count: int = 9) -> str:
    """Return messages, each acknowledged with ``size`` bytes, the first with the marker."""
    texts = (message.replace("SEQNO", str(n)) + acknowledged(size + 44 * (n == 1)) for n in range(1, count + 1))
    return "".join(texts)


MUTATION, PREPARE = (f"RX {name}{{seqno:SEQNO, key=aa, value=#00}}\n" for name in ("mutation", "prepare"))
BOTH = MUTATION + "RX seqno-advanced{by-seqno=SEQNO}\n"
OFF = opening() + "STREAM vb=5\nRX snapshot-marker{start=0, end=999, flags=5}\n"
ASKED, ANSWERED = "TX control{key=connection_buffer_size, value=1000}\n", "RX control-response{success}\n"
IDS = opening(collections=True, controls=f"connection_buffer_size={SIZE}, enable_stream_id=true")
IDS += 'STREAM vb=5, flags=0x100, value={"sid":2}\n'
ONE = "RX mutation{seqno:1, key=aa, value=#00}\n"
EACH = "".join(f"WAIT 1\n{mutations(n, n)}{acknowledged(MESSAGE)}" for n in range(1, 20))
#: What ``flow`` says: connection, client, buffer, sent, acknowledged, acknowledgements, outstanding, peak, state.
CASES = {
    "open": (BEGUN + mutations(1, 3), "0 app 1,000 218 0 0 218 218 open"),
    "all is acknowledged": (BEGUN + rounds(MUTATION, 58), "0 app 1,000 566 566 9 0 102 open"),
    "a prepare counts two bytes more": (BEGUN + rounds(PREPARE, 60), "0 app 1,000 584 584 9 0 104 open"),
    "prepares that are acknowledged as they are": (BEGUN + rounds(PREPARE, 58),
        "0 app 1,000 584 566 9 18 104 open; conn 0 acknowledged 18 B less than was sent: counts PREPARE as on the "
        "wire, without the 2 bytes more; at this rate it fills the window in 982 ms"),
    "a stream id counts": (IDS + ONE.replace("{", "{sid=2, "), "0 app 1,000 61 0 0 61 61 open"),
    "the end of a cache transfer counts 24": (IDS + "RX cache-transfer-end{sid=2}\n", "0 app 1,000 24 0 0 24 24 open"),
    "NOOPs do not count": (BEGUN + "RX noop{}\nTX noop-response{success}\n", "0 app 1,000 44 0 0 44 44 open"),
    "NOOPs that are acknowledged": (BEGUN + "RX noop{}\nTX noop-response{success}\n" + ONE + acknowledged(126) + MINUTE,
        "0 app 1,000 102 126 1 0 102 open; conn 0 acknowledged 24 B more than was sent by then: NOOPs acknowledged, "
        "which do not count"),
    "a kind that never is": (BEGUN + rounds(BOTH, 58, 15),
        "0 app 1,000 1,394 914 15 480 538 open; conn 0 acknowledged 480 B less than was sent: DCP_SEQNO_ADVANCED x "
        "15 not acknowledged; at this rate it fills the window in 48.8 ms"),
    "off": (OFF + mutations(1, 3), "0 app none 218 0 0 no flow control"),
    "switched off": (BEGUN + mutations(1, 3) + "CONTROL connection_buffer_size=0\n",
        "0 app none 0 0 0 no flow control"),
    "switched on, with acknowledgements before": (OFF + ONE + acknowledged(102) + ASKED + ANSWERED + acknowledged(2),
        "0 app 1,000 102 2 2 100 102 open; conn 0 acknowledged 102 B while flow control was off, which do not count"),
    "an acknowledgement behind a control that is accepted later": (OFF + ASKED + acknowledged(40) + ANSWERED,
        "0 app 1,000 44 40 1 4 44 open"),
    "behind one that is refused": (OFF + ASKED + acknowledged(40) + ANSWERED.replace("success", "einval"),
        "0 app ? 44 0 1 44 44 not accepted, or its answer was not captured; conn 0 acknowledged 40 B while flow "
        "control was off, which do not count"),
    "a size that was refused": (opening() + ASKED + ANSWERED.replace("success", "einval") + "STREAM vb=5\n",
        "0 app ? 0 0 0 0 0 not accepted, or its answer was not captured"),
    "full": (BEGUN + mutations(1, 17) + MINUTE,
        "0 app 1,000 1,030 0 0 1,030 1,030 60 s (100 %) BLOCKED; conn 0 blocked 12:00:00.032 to the end (60 s), "
        "outstanding 1,030 of 1,000"),
    "full until it is acknowledged": (BEGUN + mutations(1, 17) + "WAIT 2\n" + acknowledged(1000),
        "0 app 1,000 1,030 1,000 1 30 1,030 2 s (98 %) open; conn 0 blocked 12:00:00.032 to 12:00:02.033 (2 s), "
        "outstanding 1,030 of 1,000"),
    "a message in a full window": (BEGUN + mutations(1, 17) + "WAIT 1\n" + mutations(18, 18),
        "0 app 1,000 1,088 0 0 1,088 1,088 BLOCKED; conn 0 blocked 12:00:01.033 to the end (0 ms), outstanding "
        "1,088 of 1,000"),
    "another one, late": (BEGUN + mutations(1, 17) + "".join(f"WAIT 1\n{mutations(n, n)}" for n in (18, 19)),
        "0 app 1,000 1,146 0 0 1,146 1,146 EXCEEDED; conn 0 window exceeded 12:00:00.032 to the end: 1,146 B of "
        "1,000 unacknowledged, 2 messages beyond it: the producer ignores flow control, or acknowledgements were "
        "not captured"),
    "many, at once": (BEGUN + mutations(1, 60),
        "0 app 1,000 3,524 0 0 3,524 3,524 EXCEEDED; conn 0 window exceeded 12:00:00.032 to the end: 3,524 B of "
        "1,000 unacknowledged, 43 messages beyond it: the producer ignores flow control, or acknowledgements were "
        "not captured"),
    "many, and acknowledged": (BEGUN + mutations(1, 60) + acknowledged(3000) + mutations(61, 61),
        "0 app 1,000 3,582 3,000 1 582 3,524 open; conn 0 window exceeded 12:00:00.032 to 12:00:00.076: 3,524 B of "
        "1,000 unacknowledged, 43 messages beyond it: the producer ignores flow control, or acknowledgements were "
        "not captured"),
    "waits where it waited before": (late(slow_consumer() + MINUTE),
        "0 10.0.0.1:50000 ? 3,712 3,712 8 ≥ 464 ≥ 464 BLOCKED (inferred from where the producer waited before); "
        "conn 0 seems blocked 12:00:05.122 to the end (60 s), outstanding ≥ 464 of a size that was not captured"),
    "stops below where it waited": (
        late(slow_consumer() + "WAIT 0.5\n" + acknowledged(8 * MESSAGE) + mutations(200, 202) + MINUTE),
        "0 10.0.0.1:50000 ? 3,886 4,176 9 ≥ 174 ≥ 464 open (inferred from where the producer waited before)"),
    "may still be sending": (late(slow_consumer()),
        "0 10.0.0.1:50000 ? 3,712 3,712 8 ≥ 464 ≥ 464 unknown: the capture starts after DCP_OPEN"),
    "never waited, as each is acknowledged": (late(BEGUN + EACH + "WAIT 1\n" + mutations(20, 20) + MINUTE),
        "0 10.0.0.1:50000 ? 986 986 17 ≥ 58 ≥ 58 unknown: the capture starts after DCP_OPEN"),
    "silence alone": (BEGUN + "----\n" + mutations(1, 30) + MINUTE,
        "0 10.0.0.1:50000 ? 1,740 0 0 ≥ 0 ≥ 0 unknown: the capture starts after DCP_OPEN"),
    "a kind that never is, late": (late(BEGUN + rounds(BOTH, 58, 24)),
        "0 10.0.0.1:50000 ? 1,890 1,276 22 ≥ 672 ≥ 730 unknown: the capture starts after DCP_OPEN; conn 0 "
        "acknowledged 672 B less than was sent: DCP_SEQNO_ADVANCED x 21 not acknowledged"),
    "messages were lost, and it is full all the same": (BEGUN + mutations(1, 3) + "-" + mutations(4, 20) + MINUTE,
        "0 app 1,000 1,146 0 0 ≥ 1,146 ≥ 1,146 60 s (100 %) BLOCKED; conn 0 blocked 12:00:00.035 to the end (60 s), "
        "outstanding ≥ 1,146 of 1,000"),
    "a message was lost, and it has room": (BEGUN + mutations(1, 2) + "-" + mutations(3, 5),
        "0 app 1,000 276 0 0 ≥ 276 ≥ 276 open"),
    "a message was lost, and it may be full": (BEGUN + mutations(1, 2) + "-" + mutations(3, 17),
        "0 app 1,000 972 0 0 ≥ 972 ≥ 972 unknown: bytes were lost"),
    "an acknowledgement was lost, and it has room": (
        BEGUN + mutations(1, 9) + "-" + acknowledged(9) * 2 + mutations(10, 11),
        "0 app 1,000 682 9 1 ≥ 116 ≥ 116 open"),
    "an acknowledgement was lost, and the account begins anew": (
        BEGUN + mutations(1, 10) + "-" + acknowledged(MESSAGE) * 2 + mutations(11, 12) + "WAIT 5\n" + acknowledged(10)
        + mutations(13, 14), "0 app 1,000 856 68 2 ≥ 222 ≥ 222 open"),
}  # fmt: skip


def told(text: str) -> str:
    return "; ".join(" ".join(line.split()) for line in lines(damaged(text))[1:])


@pytest.mark.parametrize(("text", "wanted"), CASES.values(), ids=CASES)
def test_flow_says_how_a_window_stands(text: str, wanted: str) -> None:
    assert told(text) == wanted


def test_a_window_that_is_exceeded_is_an_object_and_its_stream_flows() -> None:
    kept = damaged(CASES["many, at once"][0])
    (found,) = map(flow.FLOW.object, flow.rows_of([only(kept)], kept.last_ns))
    assert (found["state"], found["evidence"], found["blocked"], found["blocked_ms"], found["exceeded"]) == (
        "exceeded",
        "seen",
        False,
        0,
        [{"from": "2025-11-20T12:00:00.032000Z", "outstanding": 3524, "messages": 43}],
    )
    assert judged(CASES["many, at once"][0]) == ["open and flowing"]


def test_what_is_inferred_is_said_to_be() -> None:
    text = CASES["waits where it waited before"][0]
    kept = damaged(text)
    (found,) = map(flow.FLOW.object, flow.rows_of([only(kept)], kept.last_ns))
    names = ("complete", "account", "state", "evidence", "outstanding", "peak", "blocked")
    assert tuple(found[name] for name in names) == (False, "relative", "blocked", "inferred", 464, 464, True)
    assert judged(text) == [
        "wrong: blocked by flow control (inferred: at least 464 bytes not acknowledged since 12:00:05.122, and it "
        "waited for acknowledgements at this level before; the buffer size was not captured)"
    ]


# -- what stands still --------------------------------------------------------------------------------------


def at_intervals(seconds: float, rounds: int, *, left: float) -> str:
    """Return a window that is full each time until all is acknowledged, so long later, and at last for ``left``."""
    text, seqno = BEGUN, 0
    for turn in range(rounds + 1):
        count = 17 - (turn == 0)
        text += mutations(seqno + 1, seqno + count + 1)
        seqno += count + 1
        if turn < rounds:
            text += f"WAIT {seconds}\n" + acknowledged((count + 1) * MESSAGE + 44 * (turn == 0))
    return f"{text}WAIT {left}\nRX noop{{}}\nTX noop-response{{success}}\n"


ENDED = f"{BEGUN}{mutations(1, 17)}WAIT %d\nRST RX\nWAIT 100\nCONNECT\n{opening()}"
TRICKLE = BEGUN.replace(f"={SIZE}", "=100") + mutations(1, 17) + f"WAIT 8\n{acknowledged(20)}" * 9 + "WAIT 8\n"
#: Whether a producer stands still: longer than ever before, and than ten seconds.
STILL = {
    **{f"acknowledged at intervals for an hour, {left} s left": (at_intervals(20, 180, left=left), False)
       for left in (1, 19.9, 39)},
    "not longer than before": (at_intervals(20, 9, left=39), False),
    "longer than ever before": (at_intervals(20, 9, left=41), True),
    "never before, not long": (at_intervals(0, 0, left=9), False),
    "never before, long": (at_intervals(0, 0, left=11), True),
    "with room": (BEGUN + mutations(1, 3) + MINUTE, False),
    "beyond the window": (BEGUN + mutations(1, 60) + MINUTE, False),
    "acknowledged at last": (BEGUN + mutations(1, 17) + MINUTE + acknowledged(900), False),
    "acknowledged, though the window stays full": (TRICKLE + "RX noop{}\nTX noop-response{success}\n", False),
    "up to the end of the connection, not long": (ENDED % 5, False),
    "up to the end of the connection, long": (ENDED % 15, True),
    "inferred": (late(slow_consumer() + MINUTE), True),
    "inferred, and not longer than before": (late(slow_consumer().replace("WAIT 0.5", "WAIT 31") + MINUTE), False),
    "waits for each message, and has no more": (
        late(BEGUN + "".join(f"{mutations(at, at)}WAIT 0.5\n{acknowledged(58 + 44 * (at == 1))}" for at in range(1, 9))
             + MINUTE), False),
    "full since bytes were lost, and not longer than before": (
        BEGUN + mutations(1, 2) + acknowledged(2 * MESSAGE + 44) + "-" + mutations(3, 19) + "WAIT 31\n"
        + acknowledged(17 * MESSAGE) + mutations(20, 37) + MINUTE, False),
    "inferred, and not longer than before bytes were lost": (
        late(slow_consumer().replace("WAIT 0.5", "WAIT 31", 5).replace("RX", "-RX", 66).replace("-RX", "RX", 65)
             + MINUTE), False),
}  # fmt: skip


@pytest.mark.parametrize(("text", "still"), STILL.values(), ids=STILL)
def test_a_producer_stands_still_once_that_is_longer_than_ever_before(text: str, still: bool) -> None:
    kept = damaged(text)
    connection = kept.connections[0]
    assert stands_still(connection, kept.last_ns, 10 * SECOND) is still
    printed = [*fitted(flow.lines(flow.rows_of([connection], kept.last_ns)), None)]
    kinds = [line.kind for line in printed if "blocked" in line.text]
    assert (LineKind.PROBLEM in kinds) is still


def test_a_producer_stands_still_after_as_long_as_asked_for() -> None:
    kept = damaged(at_intervals(0, 0, left=11))
    assert [stands_still(only(kept), kept.last_ns, least * SECOND) for least in (10, 12)] == [True, False]


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


def test_one_direction_alone_shows_nothing_of_flow_control() -> None:
    kept = ledger_of(packets([frame for frame in said(BEGUN + mutations(1, 30)) if frame.direction == 1])[3:])
    assert stands(kept) == FlowStatus(FlowState.UNKNOWN, FlowEvidence.NOT_CAPTURED)
    (found,) = map(flow.FLOW.object, flow.rows_of([only(kept)], kept.last_ns))
    assert "outstanding" not in found
    assert lines(kept)[1].endswith("unknown: messages of only one direction of the connection were captured")


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
        assert first or true.outstanding <= known.outstanding + (known.max_unknown or 0)


def test_a_window_was_full_as_long_where_messages_are_captured_before_what_made_room_for_them() -> None:
    window, now = Window(complete=True), 0
    window.resize(1000, 0)
    for _ in range(3):
        window.sends(0x57, 1000, 0, now)
        now += 9 * SECOND
        window.sends(0x57, 100, 0, now)
        window.acknowledges(1100, now + 1)
    assert [each.lasting_ns for each in window.blocked.kept] == [9 * SECOND] * 3


# -- empty answers ------------------------------------------------------------------------------------------


def test_what_has_no_flow_control_to_show_says_so() -> None:
    assert run("dcpdump flow -q samples/rollback-loop.pcap").out == "no message of a stream, so no flow control\n"
    assert (
        run("dcpdump flow -q samples/slow-consumer.pcap --connection 7").out
        == "no connection matches: there is 1 connection in the capture\n"
    )
    assert run("dcpdump flow -q samples/rollback-loop.pcap --connection 7 -f ndjson").out == ""
