"""Runs of documents teach the ledger what the same documents teach it one by one."""

import random
from collections import deque
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
from dcpdump.streams.dissection import EndsWatching, RunBatch, RunDissection, Watching, piece_of
from dcpdump.streams.feed import Feed
from dcpdump.streams.frame_event import DocumentRun, FrameEvent
from dcpdump.streams.ledger import Ledger
from dcpdump.streams.state import ConnectionState
from dcpdump.streams.stream import Stream
from dcpdump.wire.collection_names import ConnectionNames
from tests.bench.captures import capture
from tests.support.batch_rows import files
from tests.support.check_cases import CASES, CONSUMER, items
from tests.support.conversation import events_of, opening, packets, said
from tests.support.damage import disturbed
from tests.support.healthy import HEALTHY
from tests.support.ledgers import ledger_of
from tests.support.pieces import all_pieces, told

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
    served = [(list(kept.logs.highs(*place))[-1:], list(kept.logs.logs(*place))) for place in places]
    return [plain(each, 0) for each in kept.streams], connections, served, numbers


def assert_ledgers_are_equal(captured: list[Packet], name: str = "") -> None:
    """Have runs, found in columns or without, teach what frames teach one by one."""
    one_by_one = books(ledger_of(captured))
    for columns in (True, False):
        assert books(ledger_of(captured, runs=True, columns=columns)) == one_by_one, name


def judged(
    captured: list[Packet], *, runs: bool, columns: bool = False, shown: int | None = None
) -> tuple[list[Finding], int]:
    """Return what an engine finds that is fed as the command ``check`` feeds it, and the frames that came in runs.

    ``columns``: runs are found in columns, as a report does; or else without.
    """
    dissection: EndsWatching[Any] = Watching() if columns or not runs else RunDissection()
    found: list[Finding] = []
    engine, at_once = RuleEngine(found.append, shown=shown), 0
    feed = Feed(dissection, engine.ledger, with_rules=True)
    for step in told(feed, dissection, captured, runs=runs):
        engine.feed_step(step)
        at_once += step.frames if isinstance(step, DocumentRun) else 0
    feed.close(None, engine.lose)
    engine.close()
    return found, at_once


def assert_found_alike(captured: list[Packet], name: str = "") -> int:
    """Have rules find in runs what they find in frames one by one, and return how many frames came in runs."""
    one_by_one, at_once = judged(captured, runs=False)[0], 0
    for columns in (True, False):
        found, at_once = judged(captured, runs=True, columns=columns)
        assert found == one_by_one, name
    return at_once


def assert_alike(captured: list[Packet], name: str = "") -> int:
    """Have runs teach and break what frames do one by one, and return how many frames came in runs."""
    assert_ledgers_are_equal(captured, name)
    return assert_found_alike(captured, name)


@pytest.mark.parametrize("name", HEALTHY)
def test_runs_teach_and_break_what_their_frames_do(name: str) -> None:
    captured = packets(said(HEALTHY[name]))
    for lost in range(0, len(captured), 7):
        assert_alike(captured[:lost] + captured[lost + 1 :])


@pytest.mark.parametrize("name", CASES)
def test_faulty_conversations_are_kept_and_judged_alike(name: str) -> None:
    for text in CASES[name]:
        assert_alike(packets(said(text)), name)


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


@settings(max_examples=80)
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
        steps = told(Feed(dissection, Ledger()), dissection, captured, runs=True)
        (run,) = [step for step in steps if isinstance(step, DocumentRun)]
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
    assert isinstance(piece, RunBatch)
    found = piece.steps(with_rules=False, losses={})
    assert [step.snapshot for step in found if isinstance(step, DocumentRun)] == [None]


def test_documents_that_follow_one_another_are_one_run() -> None:
    dissection = Watching()
    taken = [dissection.feed_block(block) for block in blocks(packets(said(OPENING + DOCUMENTS)))]
    pieces = [piece_of(part) for each in taken for part in all_pieces(each)]
    runs = (step for piece in pieces for step in piece.steps(with_rules=False, losses={}))
    (run,) = (step for step in runs if isinstance(step, DocumentRun))
    marker, *documents = [frame for piece in pieces for frame in events_of(piece) if frame.opcode in (0x56, 0x57)]
    size = sum(frame.length for frame in documents)
    assert run.each() == [marker, *documents]
    assert tuple(run)[:-3] == (
        *(marker.number, 31, marker.connection, marker.direction, 5, marker.opaque, 0),
        *(marker.length + size, marker.ts_ns, documents[-1].ts_ns, 1, 30, 30),
        ((0x56, 1, marker.length), (0x57, 30, size)),
        1_000_000,
    )


@pytest.mark.parametrize("seed", range(2))
def test_traffic_with_holes_and_disorder_is_reported_alike(tmp_path: Path, seed: int) -> None:
    traffic = files(str(capture(tmp_path, "wire", 1600, 64)))
    assert assert_alike(disturbed(traffic, random.Random(seed), loss=0.01, swap=0.01 * seed)) > 600


IDS = opening(collections=True, controls="enable_stream_id=true") + 'STREAM vb=5, value={"sid":71}\n'


@pytest.mark.parametrize(
    ("begun", "side", "of_each", "rest", "wanted"),
    [
        (f"{opening()}STREAM vb=5\n", "RX", ", framing=220000", "", ["F18"] * 5),
        (CONSUMER, "TX", ", sid=7", ", sid=0", [*["F18"] * 5, "L3"]),
        (CONSUMER, "TX", ", sid=7", ", sid=7", [*["F18"] * 41, "L3"]),
        (CONSUMER, "TX", "", "", ["L3"]),
        (IDS, "RX", ", opaque=0x471005", ", opaque=0x471005", []),
        *(
            (f"{opening(flags)}STREAM vb=5\n", "RX", ", datatype=4", "", ["F5"] * number)
            for flags, number in ((0x05, 5), (0x0D, 5), (0x45, 0))
        ),
    ],
    ids="id-0 some-to-consumer all-to-consumer none-to-consumer as-it-should-be empty-xattrs empty-0D left-out".split(),
)
def test_what_some_documents_of_a_run_have_is_found_in_runs_too(
    begun: str, side: str, of_each: str, rest: str, wanted: list[str]
) -> None:
    """Of 40 documents behind a marker every eighth has something, and the rest something else."""
    with_marker = rest if "datatype" not in of_each else ""
    text = begun + f"{side} snapshot-marker{{start=0, end=40, flags=0x6, vb=5{with_marker}}}\n"
    for seqno in range(1, 41):
        text += f"{side} mutation{{seqno={seqno}, key=#00{seqno:02x}{rest if seqno % 8 else of_each}}}\n"
    captured = packets(said(text))
    assert assert_found_alike(captured) >= 38 or wanted
    assert [each.rule.id for each in judged(captured, runs=True)[0]] == wanted
