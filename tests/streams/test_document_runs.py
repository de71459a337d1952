"""Runs of documents teach the ledger what the same documents teach it one by one."""

import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dcpdump.batch.block import blocks
from dcpdump.check.engine import RuleEngine
from dcpdump.check.finding import Finding
from dcpdump.net.packet import Packet
from dcpdump.streams.document_run import DocumentRun, Step
from dcpdump.streams.ends_watching import EndsWatching
from dcpdump.streams.feed import Feed
from dcpdump.streams.frame_event import FrameEvent
from dcpdump.streams.ledger import Ledger
from dcpdump.streams.run_dissection import RunDissection, RunPiece, piece_of
from dcpdump.streams.state import ConnectionState
from dcpdump.streams.stream import Stream
from dcpdump.streams.watching import Watching
from dcpdump.wire.collection_names import ConnectionNames
from tests.bench.captures import capture
from tests.support.batch_rows import files
from tests.support.check_cases import CASES, CONSUMER, items
from tests.support.conversation import events_of, opening, packets, said
from tests.support.healthy import HEALTHY
from tests.support.ledgers import ledger_of
from tests.support.pieces import all_pieces

OPENING = opening(controls="connection_buffer_size=1000") + "STREAM vb=5\n"
DOCUMENTS = "RX snapshot-marker{start=1, end=30, flags=0x5}\n" + items(1, 30)


def books(kept: Ledger) -> Any:
    """It gives everything that a ledger holds, as plain values."""

    def plain(thing: Any, depth: int) -> Any:
        if isinstance(thing, (Stream, ConnectionState)) and depth:
            return thing.__class__.__name__, thing.number
        if isinstance(thing, ConnectionNames):
            return thing if thing.any else None
        if isinstance(thing, FrameEvent):
            thing = thing._replace(data=thing.key + thing.value, key_at=0, value_at=0, record=None)  # decoded or not
        if hasattr(thing, "__dataclass_fields__"):
            return {field.name: plain(getattr(thing, field.name), depth + 1) for field in fields(thing)}
        if isinstance(thing, dict):
            return {key: plain(value, depth + 1) for key, value in thing.items()}
        if isinstance(thing, (list, tuple, deque)):
            return [plain(each, depth + 1) for each in thing]
        return thing

    connections = [plain(each, 0) for each in kept.connections.values()]
    numbers = kept.frames, kept.first_ns, kept.last_ns
    places = [(each.connection, each.vbucket) for each in kept.streams]
    served = [(kept.logs.high(*place), list(kept.logs.logs(*place))) for place in places]
    return [plain(each, 0) for each in kept.streams], connections, served, numbers


def assert_ledgers_are_equal(captured: list[Packet], name: str = "") -> None:
    """Have runs, found in columns or without, teach what frames teach one by one."""
    one_by_one = books(ledger_of(captured))
    for columns in (True, False):
        assert books(ledger_of(captured, runs=True, columns=columns)) == one_by_one, name


def reported(captured: list[Packet]) -> list[Step]:
    dissection = Watching()
    parts = [part for block in blocks(captured) for part in all_pieces(dissection.feed_block(block))]
    return [step for part in parts for step in piece_of(part).steps(closely=False, losses={})]


def judged(
    captured: list[Packet], *, runs: bool, columns: bool = False, shown: int | None = None
) -> tuple[list[Finding], int]:
    """Return what an engine finds that is fed as the command ``check`` feeds it, and the frames that came in runs.

    ``columns``: runs are found in columns, as a report does; or else without.
    """
    dissection: EndsWatching[Any] = Watching() if columns or not runs else RunDissection()
    engine = RuleEngine(shown=shown)
    feed = Feed(dissection, engine.ledger, closely=True)
    tell = feed.steps if runs else feed.frame_events
    found: list[Finding] = []
    at_once = 0

    def take(reported: Sequence[Step]) -> None:
        nonlocal at_once
        for step in reported:
            if isinstance(step, DocumentRun):
                at_once += step.frames
                found.extend(engine.feed_run(step))
            else:
                found.extend(engine.feed(step))

    for block in blocks(captured):
        for parts in dissection.feed_block(block):
            take(tell(parts))
    for parts in dissection.close_blocks():
        take(tell(parts))
    take(feed.rest())
    feed.close(None, engine.lose)
    return found + engine.close(), at_once


def assert_found_alike(captured: list[Packet], name: str = "") -> int:
    """Have rules find in runs what they find in frames one by one, and return how many frames came in runs."""
    one_by_one, at_once = judged(captured, runs=False)[0], 0
    for columns in (True, False):
        found, at_once = judged(captured, runs=True, columns=columns)
        assert found == one_by_one, name
    return at_once


@pytest.mark.parametrize("name", HEALTHY)
def test_runs_teach_what_their_frames_teach(name: str) -> None:
    captured = packets(said(HEALTHY[name]))
    for lost in range(0, len(captured), 3):
        rest = captured[:lost] + captured[lost + 1 :]
        assert_ledgers_are_equal(rest)


MARKERS = [
    "RX snapshot-marker{start=1, end=9, flags=0x5}\n",
    "RX snapshot-marker{start=1, end=9, flags=0x9}\n",  # which asks for an acknowledgement
    "RX snapshot-marker{start=1, end=9, flags=0x5, vb=6}\n",
    "RX snapshot-marker{start=1, end=9, flags=0x5, opaque=77}\n",
    "RX snapshot-marker{start=1, end=9, flags=0x5, sid=3}\n",
    "RX snapshot-marker{start=1, end=9, flags=0x2, layout=2.0, max_visible_seqno=9, high_completed_seqno=4}\n",
    *(
        f"RX snapshot-marker{{start=1, end=9, flags=0x2, layout=2.2, version=2, purge_seqno={purged}}}\n"
        for purged in (0, 3)
    ),
]
OTHERS = [
    items(1, 2),
    items(3, 3),
    "RX prepare{seqno=4, key=k5}\n",
    "RX oso-snapshot{flags=1}\n",
    "TX buffer-acknowledgement{buffer-bytes=400}\n",
    "TX close-stream{vb=5}\n",
    "RX close-stream-response{success}\n",
    "STREAM vb=5\n",
    "RX stream-end{status=0}\n",
]


#: What follows may be of the next stream, whose request and the CLOSE_STREAM before it are captured a little later.
AGAIN = ["RX close-stream-response{success, opaque=99}\n", "RX stream-request-response{success}\n"]


@settings(max_examples=300)
@example(lines=[*AGAIN, MARKERS[0]], lost=60)
@example(lines=[MARKERS[0], items(1, 2), *AGAIN, MARKERS[0]], lost=23)
@example(lines=[MARKERS[0], "RX prepare{seqno=4, key=k5}\n", MARKERS[-2]], lost=60)  # which the document resolves
@given(
    lines=st.lists(st.one_of(st.sampled_from(MARKERS), st.sampled_from(OTHERS)), max_size=8), lost=st.integers(0, 60)
)
def test_snapshots_teach_with_their_documents_what_their_frames_teach(lines: list[str], lost: int) -> None:
    captured = packets(said(OPENING + "STREAM vb=6\nSTREAM vb=5\n" + "".join(lines) + items(5, 6)))
    assert_ledgers_are_equal(captured[:lost] + captured[lost + 1 :])


def test_a_marker_is_one_step_with_its_documents_unless_it_says_more_than_its_snapshot() -> None:
    found = []
    for marker in MARKERS:
        two = "".join(f"RX mutation{{seqno={seqno}, key=k{seqno}, vb=5, sid=0}}\n" for seqno in (5, 6))
        captured = packets(said(OPENING + "STREAM vb=6\nSTREAM vb=5\n" + marker + two))
        dissection = RunDissection()
        feed = Feed(dissection, Ledger())
        pieces = [piece for block in blocks(captured) for piece in all_pieces(dissection.feed_block(block))]
        (run,) = [step for step in feed.steps(pieces) if isinstance(step, DocumentRun)]
        announced = None if run.snapshot is None else (run.snapshot.flags, run.snapshot.high_completed)
        found.append((run.first, [frame.opcode for frame in run.each()], announced))
    whole, documents = (19, [0x56, 0x57, 0x57]), (20, [0x57, 0x57], None)
    assert found == [
        (*whole, (5, None)),
        documents,
        documents,
        documents,
        documents,
        (*whole, (2, 4)),
        (*whole, (2, 0)),
        documents,
    ]


def test_a_marker_that_is_later_than_its_documents_is_a_step_of_its_own() -> None:
    captured = packets(said(OPENING + "STREAM vb=5\n" + MARKERS[0] + items(5, 6)))
    at = len(captured) - 3
    captured[at] = captured[at]._replace(ts_ns=(captured[at + 1].ts_ns or 0) + 1)
    dissection = RunDissection()
    (piece,) = [piece for block in blocks(captured) for piece in all_pieces(dissection.feed_block(block))]
    assert isinstance(piece, RunPiece)
    found = piece.steps(closely=False, losses={})
    assert [step.snapshot for step in found if isinstance(step, DocumentRun)] == [None]


def test_faulty_conversations_are_kept_alike() -> None:
    for name, case in CASES.items():
        for text in (case.trips, case.spares):
            assert_ledgers_are_equal(packets(said(text)), name)


def test_documents_that_follow_one_another_are_one_run() -> None:
    steps_of = reported(packets(said(OPENING + DOCUMENTS)))
    (run,) = (step for step in steps_of if isinstance(step, DocumentRun))
    dissection = Watching()
    seen = [
        frame
        for block in blocks(packets(said(OPENING + DOCUMENTS)))
        for part in all_pieces(dissection.feed_block(block))
        for frame in events_of(piece_of(part))
    ]
    marker, *documents = [frame for frame in seen if frame.opcode in (0x56, 0x57)]
    size = sum(frame.length for frame in documents)
    assert run.each() == [marker, *documents]
    assert tuple(run)[:-3] == (
        *(marker.number, 31, marker.connection, marker.direction, 5, marker.opaque, 0),
        *(marker.length + size, marker.ts_ns, documents[-1].ts_ns, 1, 30, 30),
        ((0x56, 1, marker.length), (0x57, 30, size)),
        1_000_000,
    )


def test_a_run_that_fills_the_window_is_taken_apart() -> None:
    captured = packets(said(OPENING + DOCUMENTS))
    kept = ledger_of(captured, runs=True)
    assert books(kept) == books(ledger_of(captured))
    (connection,) = kept.connections.values()
    assert connection.window.is_blocked


@pytest.mark.parametrize("name", HEALTHY)
def test_an_engine_finds_the_same_in_runs_and_in_their_frames(name: str) -> None:
    captured = packets(said(HEALTHY[name]))
    for lost in range(0, len(captured), 3):
        rest = captured[:lost] + captured[lost + 1 :]
        assert_found_alike(rest)


def test_a_referee_says_the_same_of_faulty_conversations() -> None:
    for name, case in CASES.items():
        for text in (case.trips, case.spares):
            assert_found_alike(packets(said(text)), name)


PLAIN = opening(collections=True, controls="connection_buffer_size=4000") + "STREAM vb=5\n"
ACK = "TX buffer-acknowledgement{buffer-bytes=1500}\n"
MUCH = "TX buffer-acknowledgement{buffer-bytes=4000}\n"
FAULTS = {
    "a key again": "RX mutation{seqno=%d, key=#006b31}",
    "a seqno again": "RX mutation{seqno=2, key=#006b%02x}",
    "a seqno of the next snapshot": "RX mutation{seqno=4000, key=#006b%02x}",
    "a seqno too far": "RX mutation{seqno=1%04d, key=#0077}",
    "a value that is no JSON": "RX mutation{seqno=%d, datatype=1, value={, key=#0077}",
    "a value that is JSON": 'RX mutation{seqno=%d, datatype=1, value={"a":1}, key=#0077}',
    "a key without a collection id": "RX mutation{seqno=%d, key=#05}",
    "something in a reserved field": "RX mutation{seqno=%d, lock-time=1, key=#0077}",
    "a compressed value that is none": "RX mutation{seqno=%d, datatype=2, value=#ff, key=#0077}",
    "a layout of old releases": "RX mutation{seqno=%d, layout=1-28, key=#0077}",
    "a layout of old releases, of 30 bytes": "RX mutation{seqno=%d, layout=1-30, key=#0077}",
    "a silence": "WAIT 400\nRX mutation{seqno=%d, key=#0077}",
    "a deletion": "RX deletion{seqno=%d, key=#0077, layout=2}",
    "a larger document": "RX mutation{seqno=%d, key=#0077, value=" + "x" * 5000 + "}",
    "an acknowledgement": ACK + "RX mutation{seqno=%d, key=#0077}",
    "an acknowledgement of too much": f"{MUCH}RX mutation{{seqno=%d, key=#0077}}",
    "an acknowledgement of too much, and a pause": f"{MUCH}WAIT 0.04\nRX mutation{{seqno=%d, key=#0077}}",
    "a stream of another vbucket": "RX mutation{seqno=%d, vb=6, key=#0077}",
}


@settings(max_examples=60, deadline=None)
@given(
    fault=st.sampled_from(sorted(FAULTS)),
    place=st.integers(1, 90),
    lost=st.integers(0, 400) | st.none(),
    segment=st.sampled_from([1 << 20, 90]),
)
def test_a_fault_among_many_documents_is_found_in_runs_too(
    fault: str, place: int, lost: int | None, segment: int
) -> None:
    documents = [f"RX mutation{{seqno={seqno}, key=#006b{seqno:02x}}}" for seqno in range(1, 100)]
    mark = FAULTS[fault]
    documents[place] = mark % (place + 1) if "%" in mark else mark
    for at in range(20, 99, 20):
        documents[at] = ACK + documents[at]
    text = PLAIN + "RX snapshot-marker{start=1, end=100, flags=0x5}\n" + "\n".join(documents) + "\n"
    captured = packets(said(text), segment)
    if lost is not None and lost < len(captured):
        del captured[lost]
    at_once = assert_found_alike(captured)
    assert at_once or lost is not None


@pytest.mark.parametrize("seed", range(4))
def test_traffic_with_holes_and_disorder_is_reported_alike(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    traffic = files(str(capture(tmp_path, "wire", 2500, 64)))
    captured = [packet for packet in traffic if chance.random() > 0.01]
    for at in range(len(captured) - 1):
        here, there = captured[at : at + 2]
        if chance.random() < 0.01 * (seed % 2):
            captured[at : at + 2] = there._replace(ts_ns=here.ts_ns), here._replace(ts_ns=there.ts_ns)
    assert_ledgers_are_equal(captured)
    at_once = assert_found_alike(captured)
    assert at_once > 1000


def with_stream_ids(begun: str, side: str, id_of: Callable[[int], str]) -> list[Packet]:
    """Return 40 documents behind a marker, with the framing extras that ``id_of`` gives for each seqno."""
    text = begun + f"{side} snapshot-marker{{start=0, end=40, flags=0x6, vb=5{id_of(1)}}}\n"
    for seqno in range(1, 41):
        text += f"{side} mutation{{seqno={seqno}, key=#00{seqno:02x}{id_of(seqno)}}}\n"
    return packets(said(text))


@pytest.mark.parametrize(
    ("begun", "side", "id_of", "wanted"),
    [
        (f"{opening()}STREAM vb=5\n", "RX", lambda seqno: ", framing=220000" * (seqno % 8 == 0), 5),
        (CONSUMER, "TX", lambda seqno: f", sid={7 * (seqno % 8 == 0)}", 5),
        (CONSUMER, "TX", lambda seqno: ", sid=7", 41),
        (CONSUMER, "TX", lambda seqno: "", 0),
    ],
    ids=["stream id 0", "some to a consumer", "all to a consumer", "none to a consumer"],
)
def test_stream_ids_that_may_not_be_there_are_found_in_runs_too(
    begun: str, side: str, id_of: Callable[[int], str], wanted: int
) -> None:
    captured = with_stream_ids(begun, side, id_of)
    assert_found_alike(captured)
    assert sum(each.rule.id == "F18" for each in judged(captured, runs=True)[0]) == wanted


def test_documents_with_a_stream_id_as_it_should_be_are_judged_as_a_run() -> None:
    begun = opening(collections=True, controls="enable_stream_id=true") + 'STREAM vb=5, value={"sid":71}\n'
    captured = with_stream_ids(begun, "RX", lambda seqno: ", opaque=0x471005")
    assert assert_found_alike(captured) >= 38
    assert judged(captured, runs=True)[0] == []


@pytest.mark.parametrize(("flags", "wanted"), [(0x05, 5), (0x0D, 5), (0x45, 0)])
def test_empty_values_marked_xattr_are_found_in_runs_too(flags: int, wanted: int) -> None:
    text = opening(flags) + "STREAM vb=5\nRX snapshot-marker{start=0, end=40, flags=0x6}\n"
    for seqno in range(1, 41):
        text += f"RX mutation{{seqno={seqno}, datatype={4 * (seqno % 8 == 0)}}}\n"
    captured = packets(said(text))
    at_once = assert_found_alike(captured)
    assert at_once >= 38 or wanted
    assert [each.message for each in judged(captured, runs=True)[0]] == [
        "the value is marked XATTR and is empty"
    ] * wanted
