"""Consumers that acknowledge something else than what was sent: what they do, and when that fills the window."""

import json
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from dcpdump.render import flow
from dcpdump.render.style import LineKind
from dcpdump.render.text_columns import fitted
from dcpdump.streams.flow import Leak, leak
from dcpdump.streams.window import COUNTED, Window
from tests.support.console import run
from tests.support.conversation import Said, opening, packets, said
from tests.support.ledgers import ledger_of
from tests.support.packets import SECOND
from tests.support.secret_talk import saved

STREAM_END, MARKER, MUTATION, DELETION, PREPARE, NOOP, STREAM_REQ = 0x55, 0x56, 0x57, 0x58, 0x60, 0x5C, 0x53
SIZE = 100_000
CONTROLS = (
    f"connection_buffer_size={SIZE}, enable_sync_writes=true, consumer_name=n1, max_marker_version=2.2, "
    "enable_stream_id=true"
)
V22 = (
    "layout=2.2, flags=0x2, max-visible-seqno=0, high-completed-seqno=0, purge-seqno=0, high-prepared-seqno=0",
    "layout=2.0, flags=0x1, max-visible-seqno=0, high-completed-seqno=0",
    "flags=0x1",
)
ACK = "TX buffer-acknowledgement{buffer-bytes=1}\n"
Measure = Callable[[Said], int]


def conversation(rounds: int, *, ids: bool = False) -> str:
    """Return snapshots of five documents, half a second apart, each acknowledged; NOOPs too, and streams that end."""
    sid = ', value={"sid":2}' if ids else ""
    text = opening(collections=True, flags=0x25, controls=CONTROLS) + f"STREAM vb=5{sid}\n"
    for turn in range(rounds):
        first = 5 * turn + 1
        text += f"RX snapshot-marker{{vb=5, start={first}, end={first + 4}, {V22[turn % 3]}}}\n"
        for seqno in range(first, first + 5):
            key = f"key=#00{'61' * (2 + seqno * 5 % 9)}"
            value = "00" * (seqno * 13 % 40)
            deleted = f"RX deletion{{vb=5, seqno:{seqno}, layout=2, {key}}}\n"
            text += deleted if seqno % 7 == 0 else f"RX mutation{{vb=5, seqno:{seqno}, {key}, value=#{value}}}\n"
        if turn % 4 == 3:
            text += "RX noop{}\nTX noop-response{success}\n"
        if turn % 5 == 4 and not ids:
            text += f"STREAM vb={10 + turn}\nRX stream-end{{vb={10 + turn}, status=0}}\n"
        text += f"WAIT 0.5\n{ACK}"
    return text


def acknowledged(text: str, measure: Measure, *, behind: int = 0) -> list[Said]:
    """Return a conversation in which a consumer acknowledges what it takes frames for, some frames later."""
    out: list[Said] = []
    owed: list[int] = []
    for frame in said(text):
        if frame.data[:2] == b"\x80\x5d":
            taken = len(owed) - behind
            out.append(replace(frame, data=frame.data[:24] + struct.pack(">I", sum(owed[:taken]))))
            owed = owed[taken:]
        else:
            out.append(frame)
            owed += [measure(frame)] * (frame.direction == 1)
    return out


def window_of(measure: Measure, rounds: int = 40, *, ids: bool = False, behind: int = 0, runs: bool = True) -> Window:
    """Return the window of a consumer's connection."""
    captured = packets(acknowledged(conversation(rounds, ids=ids), measure, behind=behind))
    (connection,) = ledger_of(captured, runs=runs).connections.values()
    return connection.window


def opcode(frame: Said) -> int:
    return frame.data[1]


def rightly(frame: Said) -> int:
    """Return what counts of a frame that a producer sends."""
    return len(frame.data) * (frame.data[0] in (0x80, 0x08) and COUNTED[opcode(frame)])


def extras(frame: Said) -> int:
    return frame.data[4]


def less(part: Callable[[Said], int], *opcodes: int) -> Measure:
    """Return who counts a part of some messages, or of all, too little."""

    def measure(frame: Said) -> int:
        size = rightly(frame)
        return size - part(frame) if size and opcode(frame) in (opcodes or (opcode(frame),)) else size

    return measure


def without(*opcodes: int) -> Measure:
    """Return who forgets some messages."""
    return less(lambda frame: len(frame.data), *opcodes)


def with_too(*opcodes: int) -> Measure:
    """Return who counts other frames too."""
    return lambda frame: len(frame.data) if opcode(frame) in opcodes else rightly(frame)


def as_version(size: int, *sizes: int) -> Measure:
    """Return who counts snapshot markers, or those of some sizes, as if they had another size."""
    return less(lambda frame: len(frame.data) - size if not sizes or len(frame.data) in sizes else 0, MARKER)


def first_of(measure: Measure, other: Measure) -> Measure:
    """Return who has both faults."""
    return lambda frame: measure(frame) + other(frame) - rightly(frame)


MARKER_NAME = "DCP_SNAPSHOT_MARKER"
WAYS: dict[str, tuple[Measure, str]] = {
    "V2.2 as V2.0": (as_version(61, 77), f"counts {MARKER_NAME} V2.2 as V2.0, 16 bytes less each"),
    "V2.2 as V1": (as_version(44, 77), f"counts {MARKER_NAME} V2.2 as V1, 33 bytes less each"),
    "V2.0 as V1": (as_version(44, 61), f"counts {MARKER_NAME} V2.0 as V1, 17 bytes less each"),
    "all as V1": (as_version(44), f"counts each {MARKER_NAME} as V1"),
    "V2 without value": (less(lambda frame: max(0, len(frame.data) - 44 and len(frame.data) - 25), MARKER),
        f"counts {MARKER_NAME} V2 without its value"),
    "deletion": (less(lambda _: 3, DELETION), "counts DCP_DELETION V2 as V1, 3 bytes less each"),
    "markers": (without(MARKER), f"{MARKER_NAME} x 40 not acknowledged"),
    "ends": (without(STREAM_END), "DCP_STREAM_END x 8 not acknowledged"),
    "body": (less(lambda _: 24), "counts messages without their headers, 24 bytes less each"),
    "header": (less(lambda frame: len(frame.data) - 24), "counts headers alone"),
    "extras": (less(extras), "counts messages without their extras"),
    "extras of documents": (less(extras, MUTATION, DELETION), "counts documents without their extras"),
    "keys and values": (less(lambda frame: 24 + extras(frame), MUTATION, DELETION),
        "counts of documents key and value alone"),
    "header of mutations": (less(lambda _: 24, MUTATION), "counts DCP_MUTATION without its header, 24 bytes less each"),
    "documents": (without(MARKER, STREAM_END), "acknowledges documents alone"),
    "mutations": (without(MARKER, STREAM_END, DELETION),
        f"DCP_STREAM_END x 8, {MARKER_NAME} x 40, DCP_DELETION x 28 not acknowledged"),
    "NOOPs": (with_too(NOOP), "NOOPs acknowledged, which do not count"),
    "NOOPs and answers": (with_too(NOOP, STREAM_REQ),
        "NOOPs acknowledged, which do not count; and answers to stream requests acknowledged, which do not count"),
    "everything": (lambda frame: len(frame.data),
        "acknowledges all that was received, NOOPs and responses too, which do not count"),
    "everything of DCP": (lambda frame: len(frame.data) * (opcode(frame) >= 0x50),
        "acknowledges all that was received, NOOPs and responses too, which do not count, after 56 bytes"),
    "markers and ends": (first_of(as_version(61, 77), without(STREAM_END)),
        f"DCP_STREAM_END x 8 not acknowledged; and counts {MARKER_NAME} V2.2 as V2.0, 16 bytes less each"),
    "no markers, but NOOPs": (first_of(without(MARKER), with_too(NOOP)),
        f"{MARKER_NAME} x 40 not acknowledged; and NOOPs acknowledged, which do not count"),
}  # fmt: skip


@pytest.mark.parametrize("runs", [False, True], ids=["frame by frame", "in runs"])
@pytest.mark.parametrize(("measure", "text"), WAYS.values(), ids=WAYS)
def test_what_a_consumer_counts_otherwise_is_found(measure: Measure, text: str, runs: bool) -> None:
    window = window_of(measure, runs=runs)
    found = leak(window)
    assert found is not None
    short = window.outstanding or -window.overacked
    assert (found.text, found.explained, found.bytes, found.by_ns) == (text, True, short, None)
    assert (found.fills_ns is not None) == (short > 0)


def test_the_three_bytes_of_stream_ids_are_found_and_are_no_part_of_a_markers_version() -> None:
    found = leak(window_of(less(lambda frame: 3 * (frame.data[0] == 0x08)), 12, ids=True))
    assert found is not None
    assert (found.text, found.explained) == ("the 3 bytes of stream ids not acknowledged", True)
    shorter = leak(window_of(less(lambda frame: 16 * (len(frame.data) == 80), MARKER), ids=True))
    assert shorter is not None
    assert (shorter.text, shorter.explained) == (f"counts {MARKER_NAME} V2.2 as V2.0, 16 bytes less each", True)


@pytest.mark.parametrize("behind", [0, 1, 4, 30])
@pytest.mark.parametrize("rounds", [3, 7, 40])
def test_a_consumer_that_counts_rightly_has_no_leak_however_far_behind_it_is(rounds: int, behind: int) -> None:
    assert leak(window_of(rightly, rounds, behind=behind)) is None


def test_a_kind_or_a_sum_is_only_perhaps_what_is_missing() -> None:
    """Where something is always on its way, or it shows at too few acknowledgements."""
    on_its_way = leak(window_of(without(MARKER), behind=1))
    at_few = leak(window_of(with_too(NOOP, STREAM_REQ), 7))
    assert on_its_way is not None
    assert at_few is not None
    assert (on_its_way.text, on_its_way.explained) == (f"perhaps {MARKER_NAME} x 40 not acknowledged", False)
    assert on_its_way.in_words.startswith("acknowledged 1,958 B less than was sent by 12:00:16.280: perhaps")
    assert (at_few.text.split(",")[0], at_few.explained) == ("perhaps NOOPs acknowledged", False)


def constant(key: int, value: Callable[[int], int]) -> str:
    """Return mutations with keys of one length, each acknowledged."""
    text = opening(controls=f"connection_buffer_size={SIZE}")
    text += "STREAM vb=5\nRX snapshot-marker{start=0, end=999, flags=5}\n"
    sent = (f"RX mutation{{seqno:{n}, key=#{'61' * key}, value=#{'00' * value(n)}}}\n{ACK}" for n in range(1, 30))
    return text + "".join(sent)


def test_keys_or_values_that_are_not_counted_show_as_bytes_of_each_message() -> None:
    """Of how many bytes keys and values are no counter is kept; where all keys have the same length, it shows."""
    text = constant(7, lambda n: n * n % 31)
    found = []
    for measure in (less(lambda _: 7, MUTATION), less(lambda frame: len(frame.data) - 62, MUTATION)):
        (connection,) = ledger_of(packets(acknowledged(text, measure)), runs=True).connections.values()
        said_of = leak(connection.window)
        found.append(said_of and (said_of.text, said_of.explained))
    assert found == [
        ("7 bytes of each DCP_MUTATION not acknowledged", True),
        ("acknowledges 62 bytes of each DCP_MUTATION, however long it is", True),
    ]


@pytest.mark.parametrize(
    ("short", "text"),
    [
        (1, f"1 byte of each {MARKER_NAME} or of another that comes as often not acknowledged"),
        (-10, f"10 bytes too many acknowledged for each {MARKER_NAME} or of another that comes as often"),
        (190, "95 bytes of each DCP_MUTATION not acknowledged"),
        (
            333,
            "perhaps counts headers alone",
        ),  # more than any of them has, and a sum of versions besides would explain anything
    ],
)
def test_bytes_of_each_message_are_no_more_than_it_has_and_of_each_kind_that_may_be_it(short: int, text: str) -> None:
    window = Window(complete=True, size=40_000)
    for second in range(40):
        for kind, size in ((MARKER, 44), (MUTATION, 160), (MUTATION, 160), (DELETION, 53)):
            window.sends(kind, size, 0, second * SECOND)
        window.acknowledges(417 - short, second * SECOND + 1)
    found = leak(window)
    assert found is not None
    assert found.text == text


def test_what_nothing_explains_says_by_when_it_was_as_much() -> None:
    """Every message is short of the number of the packet, for what that is worth."""
    window = window_of(lambda frame: max(0, rightly(frame) - frame.data[23] % 11 - len(frame.data) % 3))
    found = leak(window)
    assert found is not None
    assert (found.kind, found.explained, found.bytes <= window.outstanding) == ("", False, True)
    assert (found.by_ns is None) == (found.bytes == window.outstanding)


@pytest.mark.parametrize(
    ("size", "acknowledged", "seconds", "wanted"),
    [
        (40_000, 100, 61, (3660, (40_000 - 3660) * SECOND // 60, "; at this rate it fills the window in 10.1 m")),
        (600, 100, 10, (600, 0, "")),
    ],
    ids=["when it has grown as large as that", "it has filled it"],
)
def test_a_leak_fills_the_window(size: int, acknowledged: int, seconds: int, wanted: tuple[int, int, str]) -> None:
    """It grows by 60 bytes a second: after a minute 36,400 of 40,000 are left."""
    window = Window(complete=True, size=size)
    for second in range(seconds):
        window.sends(MUTATION, 160, 0, second * SECOND)
        window.acknowledges(acknowledged, second * SECOND + 1)
    found = leak(window)
    assert found is not None
    _, mark, fills = found.in_words.partition("; at this rate")
    assert (found.bytes, found.fills_ns, mark + fills) == wanted


def test_a_residue_that_stays_as_it_is_fills_nothing() -> None:
    window = Window(complete=True, size=40_000)
    window.sends(MARKER, 44, 0, 0)
    for second in range(60):
        window.sends(MUTATION, 160, 0, second * SECOND)
        window.acknowledges(160, second * SECOND + 1)
    text = f"{MARKER_NAME} x 1 not acknowledged"
    assert leak(window) == Leak(44, MARKER_NAME, 1, text, explained=True)


def shown(measure: Measure) -> list[tuple[LineKind, str]]:
    """Return what ``flow`` says below its table."""
    kept = ledger_of(packets(acknowledged(conversation(40), measure)))
    lines = [*fitted(flow.lines(flow.rows_of(list(kept.connections.values()), kept.last_ns)), None)]
    return [(line.kind, line.text) for line in lines[2:]]


def test_flow_says_as_much_as_its_table_and_is_sure_of_what_is_explained(tmp_path: Path) -> None:
    ((kind, text),) = shown(as_version(61, 77))
    assert (kind, text) == (
        LineKind.PROBLEM,
        f"  conn 0 acknowledged 224 B less than was sent: counts {MARKER_NAME} V2.2 as V2.0, 16 bytes less each; at "
        "this rate it fills the window in 158 m",
    )
    ((kind, text),) = shown(lambda frame: max(0, rightly(frame) - frame.data[23] % 11 - len(frame.data) % 3))
    assert (kind, text.split(": ")[1].split(";")[0]) == (LineKind.HINT, "no kind of message explains it")
    path = saved(packets(acknowledged(conversation(40), as_version(61, 77))), tmp_path / "short.pcap")
    found = json.loads(run(f"dcpdump flow {path} -q -f ndjson").out)
    assert found["outstanding"] == 224
    assert found["mismatch"] == {
        "bytes": 224,
        "text": f"counts {MARKER_NAME} V2.2 as V2.0, 16 bytes less each",
        "explained": True,
        "kind": MARKER_NAME,
        "frames": 14,
        "fills_ms": 9_506_062,
    }
