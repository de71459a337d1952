"""Lost bytes are charged to the streams that may have lost something, and to no other."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcpdump.render.history import coverage
from dcpdump.streams.ledger import Ledger
from dcpdump.streams.window import COUNTED
from tests.support.conversation import Said, opening, packets, said
from tests.support.healthy import HEALTHY
from tests.support.ledgers import damaged, ledger_of

OPEN = opening()
HEADERS = 54  #: of Ethernet, IP and TCP


def marker(vbucket: int, start: int, end: int, flags: str = "0x5") -> str:
    return f"RX snapshot-marker{{vb={vbucket}, start={start}, end={end}, flags={flags}}}\n"


def items(vbucket: int, *seqnos: int) -> str:
    return "".join(f"RX mutation{{vb={vbucket}, seqno:{seqno}}}\n" for seqno in seqnos)


def losses(kept: Ledger) -> list[tuple[int, int, int, int]]:
    """Return for each stream: its vbucket, how often it may have lost something, how often not, and how many bytes."""
    return [
        (stream.vbucket, stream.gaps.times, stream.gaps.bridged, stream.gaps.missed.lost) for stream in kept.streams
    ]


def story(*spoken: str) -> str:
    """Return two streams, and the messages on them."""
    return OPEN + "STREAM vb=5\nSTREAM vb=6\n" + "".join(spoken)


TO_2 = OPEN + "STREAM vb=5, end-seqno=2%s\nSTREAM vb=6\n" + marker(5, 0, 2) + items(5, 1, 2) + marker(6, 0, 2)
ENDED = "RX stream-end{vb=5, status=0}\nRX stream-end{vb=6, status=2}\n"
FOUR, BOTH = marker(5, 0, 4) + items(5, 1, 2) + marker(6, 0, 3), marker(5, 0, 2) + marker(6, 0, 2)
TWO = marker(5, 0, 2) + items(5, 1, 2)
#: Two streams, a line that is lost, and to which of them it is charged.
CASES = {
    "the stream whose seqnos do not join": (
        story(FOUR, items(6, 1), "-", items(5, 3), items(6, 2, 3), items(5, 4)), [(5, 1, 0, 60), (6, 0, 1, 0)]),
    "a marker behind a snapshot that is over": (
        story(TWO, marker(6, 0, 1), items(6, 1), "-", marker(6, 2, 3), marker(5, 3, 3), items(5, 3), marker(6, 4, 5)),
        [(5, 0, 1, 0), (6, 1, 0, 44)]),
    "a marker behind one that is not": (
        story(marker(5, 0, 3), items(5, 1, 2), "-", items(5, 3), marker(5, 4, 4)), [(5, 1, 0, 60), (6, 1, 0, 60)]),
    "the first marker joins the request": (
        story(marker(5, 0, 2), items(5, 1), "-", items(5, 2), marker(6, 0, 3)), [(5, 1, 0, 60), (6, 0, 1, 0)]),
    "the second marker does not": (
        story(marker(5, 0, 2), items(5, 1), "-", marker(6, 0, 3), marker(6, 4, 5)), [(5, 1, 0, 44), (6, 1, 0, 44)]),
    "the first item joins its marker": (
        story(BOTH, "-", items(5, 1), items(6, 1), items(5, 2)), [(5, 1, 0, 60), (6, 0, 1, 0)]),
    "the first item joins a marker above others": (
        story(BOTH, items(5, 1, 2), items(6, 1, 2), marker(5, 7, 9), marker(6, 3, 9), "-", items(6, 3), items(5, 7),
              items(6, 4)), [(5, 0, 1, 0), (6, 1, 0, 60)]),
    "an item whose marker was lost": (story(TWO, "-", marker(5, 3, 4), items(5, 3)), [(5, 1, 0, 44), (6, 1, 0, 44)]),
    "the end joins the last seqno asked for": (
        TO_2 % "" + "-" + items(6, 1) + ENDED, [(5, 0, 1, 0), (6, 1, 0, 60)]),
    "the end of the disk, which the server chooses": (
        TO_2 % ", flags=2" + "-" + items(6, 1) + ENDED, [(5, 1, 0, 60), (6, 1, 0, 60)]),
    "the latest end, which the server chooses": (
        TO_2 % ", flags=4" + "-" + items(6, 1) + ENDED, [(5, 1, 0, 60), (6, 1, 0, 60)]),
    "states of a takeover between snapshots": (
        OPEN + "STREAM vb=5, flags=1\n" + marker(5, 0, 1) + items(5, 1) + "-RX set-vbucket-state{state=3}\n"
        + marker(5, 2, 2), [(5, 1, 0, 25)]),
    "out of order nothing is known": (
        story("RX oso-snapshot{vb=5, flags=1}\n", items(5, 1), "-", items(5, 7), items(5, 2)),
        [(5, 1, 0, 60), (6, 1, 0, 60)]),
    "several losses": (
        story(marker(5, 0, 9), items(5, 1), marker(6, 0, 9), items(6, 1), "-", items(6, 2), items(6, 3), "-",
              items(6, 4), items(6, 5), items(5, 2)), [(5, 0, 1, 0), (6, 2, 0, 120)]),
}  # fmt: skip


@pytest.mark.parametrize(("text", "wanted"), CASES.values(), ids=CASES)
def test_a_loss_is_charged_to_the_streams_that_may_have_lost_something(text: str, wanted: Any) -> None:
    assert losses(damaged(text)) == wanted


def covered(kept: Ledger) -> list[tuple[bool | None, str]]:
    found = [coverage(stream) for stream in kept.streams]
    return [(each.complete, each.why) for each in found]


def test_a_history_is_complete_where_its_seqnos_join() -> None:
    begun = marker(5, 0, 4) + items(5, 1, 2) + marker(6, 0, 3) + items(6, 1)
    assert covered(damaged(story(begun, "-", items(5, 3), items(6, 2, 3), items(5, 4)))) == [
        (False, "up to 60 bytes were lost after seqno 2"),
        (True, "0 bytes lost: where bytes of its connection were lost, it continues at the next seqno or snapshot"),
    ]


def test_a_history_names_the_seqnos_behind_which_something_may_be_missing() -> None:
    begun = marker(5, 0, 9)
    (five, _) = covered(damaged(story("-", begun, items(5, 1, 2), "-", items(5, 3), items(5, 4))))
    assert five == (False, "up to 104 bytes were lost before its first seqno, and after 2")
    many = "".join(f"{marker(5, n, n + 1)}{items(5, n)}-{items(5, n + 1)}" for n in range(1, 21, 2))
    (five, _) = covered(damaged(story(many, marker(5, 21, 21))))
    assert five == (False, "up to 606 bytes were lost after seqno 1, 3, 5, 7, 9, 11, 13, 15, …")


# -- a stream that is said to be whole is whole -----------------------------------------------------------------


def of_stream(frame: Said) -> tuple[int, int, int] | None:
    """Return the connection, vbucket and stream id of a message of a stream."""
    data = frame.data
    if data[0] not in (0x80, 0x08) or not COUNTED[data[1]]:
        return None
    stream_id = int.from_bytes(data[25:27], "big") if data[0] == 0x08 else 0
    return frame.connection, int.from_bytes(data[6:8], "big"), stream_id


def check_claims(frames: Sequence[Said], gone: set[int]) -> None:
    """Assert that streams that are said to be whole are, where frames are missing that others of their side follow."""
    captured = packets(frames)
    spoken = [packet.number for packet in captured if len(packet.data) > HEADERS]
    assert len(spoken) == len(frames)
    lost = {spoken[at] for at in gone}
    kept = ledger_of(packet for packet in captured if packet.number not in lost)
    last = {(frame.connection, frame.direction): at for at, frame in enumerate(frames) if at not in gone}
    missing = [frames[at] for at in gone if at < last.get((frames[at].connection, frames[at].direction), -1)]
    for stream in kept.streams:
        until = stream.ended_ns if stream.ended else stream.next.traffic.first_ns if stream.next is not None else None
        mine = [
            frame
            for frame in missing
            if of_stream(frame) == (stream.connection.number, stream.vbucket, stream.stream_id)
            and frame.ts_ns > (stream.traffic.first_ns or 0)
            and (until is None or frame.ts_ns < until)
        ]
        assert stream.gaps.times or not mine, (
            f"vb {stream.vbucket} is said to have lost nothing, without {sorted(gone)}"
        )


@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_stream_that_lost_something_is_never_said_to_be_whole(name: str) -> None:
    frames = said(HEALTHY[name])
    step = 1 + len(frames) // 25
    for length in (1, 4):
        for first in range(0, len(frames) - length + 1, step):
            check_claims(frames, set(range(first, first + length)))


@st.composite
def talks(draw: st.DrawFn) -> tuple[str, set[int]]:
    """Return three streams with snapshots in which some seqnos are replaced by later ones, and what is not captured."""
    text = OPEN + "".join(f"STREAM vb={vbucket}\n" for vbucket in range(3))
    pending: list[list[str]] = []
    for vbucket in range(3):
        seqno, lines = 0, []
        for length in draw(st.lists(st.integers(1, 4), max_size=3)):
            end = seqno + length
            lines.append(marker(vbucket, seqno + (seqno > 0), end, "0x1"))
            kept = [each for each in range(seqno + 1, end) if draw(st.integers(0, 3))]
            lines += [items(vbucket, each) for each in [*kept, end]]
            seqno = end
        pending.append(lines)
    count = 0
    while any(pending):
        lines = draw(st.sampled_from([each for each in pending if each]))
        for _ in range(draw(st.integers(1, 3))):
            if lines:
                text += lines.pop(0)
                count += 1
    frames = len(said(text))
    gone = draw(st.sets(st.integers(frames - count, frames - 1))) if count else set()
    return text, gone


@settings(deadline=None, max_examples=40)
@given(talks())
def test_a_stream_that_lost_something_is_never_said_to_be_whole(talk: tuple[str, set[int]]) -> None:
    text, gone = talk
    check_claims(said(text), gone)
