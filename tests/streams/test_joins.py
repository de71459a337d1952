"""Lost bytes are charged to the streams that may have lost something, and to no other."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcpdump.streams.counted import COUNTED
from dcpdump.streams.history import coverage
from dcpdump.streams.ledger import Ledger
from tests.support.conversation import Said, opening, packets, said
from tests.support.healthy import HEALTHY
from tests.support.ledgers import ledger_of

OPEN = opening()
HEADERS = 54  #: of Ethernet, IP and TCP


def marker(vbucket: int, start: int, end: int, flags: str = "0x5") -> str:
    return f"RX snapshot-marker{{vb={vbucket}, start={start}, end={end}, flags={flags}}}\n"


def items(vbucket: int, *seqnos: int) -> str:
    return "".join(f"RX mutation{{vb={vbucket}, seqno:{seqno}}}\n" for seqno in seqnos)


def lossy(text: str) -> Ledger:
    """Return the ledger of a conversation that was captured without the lines that begin with a minus."""
    lines = text.splitlines()
    frames = said("\n".join(line.removeprefix("-") for line in lines))
    spoken = [line for line in "\n".join(lines).splitlines() if line.lstrip("-").split(" ")[0] in ("TX", "RX")]
    gone = [at for at, line in enumerate(reversed(spoken)) if line.startswith("-")]
    captured = packets(frames)
    for at in sorted(gone):
        captured[-1 - at] = captured[-1 - at]._replace(data=b"")
    return ledger_of(packet for packet in captured if packet.data)


def losses(kept: Ledger) -> list[tuple[int, int, int, int]]:
    """Return for each stream: its vbucket, how often it may have lost something, how often not, and how many bytes."""
    return [(stream.vbucket, stream.epoch, stream.joined, stream.missed.lost) for stream in kept.streams]


def story(*spoken: str) -> str:
    """Return two streams, and the messages on them."""
    return OPEN + "STREAM vb=5\nSTREAM vb=6\n" + "".join(spoken)


def test_a_loss_is_charged_to_the_stream_whose_seqnos_do_not_join() -> None:
    begun = marker(5, 0, 4) + items(5, 1, 2) + marker(6, 0, 3) + items(6, 1)
    assert losses(lossy(story(begun, "-", items(5, 3), items(6, 2, 3), items(5, 4)))) == [(5, 1, 0, 60), (6, 0, 1, 0)]


def test_a_marker_behind_a_snapshot_that_is_over_joins() -> None:
    begun = marker(5, 0, 2) + items(5, 1, 2) + marker(6, 0, 1) + items(6, 1)
    rest = marker(5, 3, 3) + items(5, 3) + marker(6, 4, 5) + items(6, 4)
    assert losses(lossy(story(begun, "-", marker(6, 2, 3), rest))) == [(5, 0, 1, 0), (6, 1, 0, 44)]


def test_a_marker_behind_a_snapshot_that_is_not_over_does_not_join() -> None:
    begun = marker(5, 0, 3) + items(5, 1, 2)
    assert losses(lossy(story(begun, "-", items(5, 3), marker(5, 4, 4)))) == [(5, 1, 0, 60), (6, 1, 0, 60)]


def test_the_first_marker_joins_the_request() -> None:
    begun = marker(5, 0, 2) + items(5, 1)
    assert losses(lossy(story(begun, "-", items(5, 2), marker(6, 0, 3)))) == [(5, 1, 0, 60), (6, 0, 1, 0)]
    assert losses(lossy(story(begun, "-", marker(6, 0, 3), marker(6, 4, 5)))) == [(5, 1, 0, 44), (6, 1, 0, 44)]


def test_the_first_item_of_a_snapshot_joins_its_marker() -> None:
    begun = marker(5, 0, 2) + marker(6, 0, 2)
    assert losses(lossy(story(begun, "-", items(5, 1), items(6, 1), items(5, 2)))) == [(5, 1, 0, 60), (6, 0, 1, 0)]
    begun += items(5, 1, 2) + items(6, 1, 2) + marker(5, 7, 9) + marker(6, 3, 9)
    assert losses(lossy(story(begun, "-", items(6, 3), items(5, 7), items(6, 4)))) == [(5, 0, 1, 0), (6, 1, 0, 60)]


def test_an_item_of_a_snapshot_whose_marker_was_lost_does_not_join() -> None:
    begun = marker(5, 0, 2) + items(5, 1, 2)
    assert losses(lossy(story(begun, "-", marker(5, 3, 4), items(5, 3))))[0] == (5, 1, 0, 44)


def test_the_end_of_a_stream_joins_the_last_seqno_asked_for() -> None:
    asked = OPEN + "STREAM vb=5, end-seqno=2\nSTREAM vb=6\n" + marker(5, 0, 2) + items(5, 1, 2) + marker(6, 0, 2)
    ended = "RX stream-end{vb=5, status=0}\nRX stream-end{vb=6, status=2}\n"
    assert losses(lossy(asked + "-" + items(6, 1) + ended)) == [(5, 0, 1, 0), (6, 1, 0, 60)]


@pytest.mark.parametrize("flags", [2, 4])
def test_the_end_of_a_stream_does_not_join_an_end_that_the_server_replaces(flags: int) -> None:
    asked = OPEN + f"STREAM vb=5, flags={flags}, end-seqno=2\nSTREAM vb=6\n"
    begun = asked + marker(5, 0, 2) + items(5, 1, 2) + marker(6, 0, 2)
    ended = "RX stream-end{vb=5, status=0}\nRX stream-end{vb=6, status=2}\n"
    assert losses(lossy(begun + "-" + items(6, 1) + ended)) == [(5, 1, 0, 60), (6, 1, 0, 60)]


def test_states_of_a_takeover_may_be_lost_between_snapshots() -> None:
    begun = OPEN + "STREAM vb=5, flags=1\n" + marker(5, 0, 1) + items(5, 1)
    assert losses(lossy(begun + "-RX set-vbucket-state{state=3}\n" + marker(5, 2, 2))) == [(5, 1, 0, 25)]


def test_nothing_is_known_of_an_out_of_order_snapshot() -> None:
    begun = "RX oso-snapshot{vb=5, flags=1}\n" + items(5, 1)
    assert losses(lossy(story(begun, "-", items(5, 7), items(5, 2))))[0] == (5, 1, 0, 60)


def test_several_losses_are_settled_by_the_next_message() -> None:
    begun = marker(5, 0, 9) + items(5, 1) + marker(6, 0, 9) + items(6, 1)
    spoken = story(begun, "-", items(6, 2), items(6, 3), "-", items(6, 4), items(6, 5), items(5, 2))
    assert losses(lossy(spoken)) == [(5, 0, 1, 0), (6, 2, 0, 120)]


def test_what_follows_no_loss_keeps_what_is_known() -> None:
    begun = marker(5, 0, 4) + items(5, 1, 2) + marker(6, 0, 3)
    five, _ = lossy(story(begun, "-", items(6, 1), items(5, 3))).streams
    assert (five.snapshot is not None, five.ordered, five.last_seqno) == (True, True, 3)


def covered(kept: Ledger) -> list[tuple[bool | None, str]]:
    found = [coverage(stream) for stream in kept.streams]
    return [(each.complete, each.why) for each in found]


def test_a_history_is_complete_where_its_seqnos_join() -> None:
    begun = marker(5, 0, 4) + items(5, 1, 2) + marker(6, 0, 3) + items(6, 1)
    assert covered(lossy(story(begun, "-", items(5, 3), items(6, 2, 3), items(5, 4)))) == [
        (False, "up to 60 bytes were lost after seqno 2"),
        (True, "0 bytes lost: where bytes of its connection were lost, it continues at the next seqno or snapshot"),
    ]


def test_a_history_names_the_seqnos_behind_which_something_may_be_missing() -> None:
    begun = marker(5, 0, 9)
    (five, _) = covered(lossy(story("-", begun, items(5, 1, 2), "-", items(5, 3), items(5, 4))))
    assert five == (False, "up to 104 bytes were lost before its first seqno, and after 2")
    many = "".join(f"{marker(5, n, n + 1)}{items(5, n)}-{items(5, n + 1)}" for n in range(1, 21, 2))
    (five, _) = covered(lossy(story(many, marker(5, 21, 21))))
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
        until = stream.ended_ns if stream.ended else stream.next.first_ns if stream.next is not None else None
        mine = [
            frame
            for frame in missing
            if of_stream(frame) == (stream.connection.number, stream.vbucket, stream.stream_id)
            and frame.ts_ns > (stream.first_ns or 0)
            and (until is None or frame.ts_ns < until)
        ]
        assert stream.epoch or not mine, f"vb {stream.vbucket} is said to have lost nothing, without {sorted(gone)}"


@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_stream_that_lost_something_is_never_said_to_be_whole(name: str) -> None:
    frames = said(HEALTHY[name])
    step = 1 + len(frames) // 50
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


@settings(deadline=None, max_examples=60)
@given(talks())
def test_a_stream_that_lost_something_is_never_said_to_be_whole(talk: tuple[str, set[int]]) -> None:
    text, gone = talk
    check_claims(said(text), gone)
