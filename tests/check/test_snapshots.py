"""Snapshots and seqnos: how bad each fault is, what a conforming peer answers, and what is not a fault."""

import pytest

from tests.support.check_cases import BOTH, DURABLE, EIGHT, FILTERED, MEMORY, PLAIN, STREAM, TAKEOVER, THREE, items
from tests.support.conversation import opening, packets, said
from tests.support.findings import brief, found, reported


def marker(start: int, end: int, flags: str = "0x5", more: str = "") -> str:
    return f"RX snapshot-marker{{start={start}, end={end}, flags={flags}{more}}}\n"


def snapshot(start: int, end: int, flags: str = "0x5") -> str:
    """Return a marker with all of its documents."""
    return marker(start, end, flags) + items(max(1, start), end)


NODE = opening(name="replication:n1")
ACTIVE = PLAIN + "STREAM vb=5, flags=0x10\n"
ASKED, DISK_ONLY, DISK = PLAIN + STREAM, PLAIN + "STREAM vb=5, flags=0x2\n", "0x6"
#: A stream of what its consumer has a part of; what it is asked with besides, and where its snapshot starts.
FIRST = "STREAM vb=5, start=7, snap-start-seqno=5, snap-end-seqno=9%s\n"
OLD = PLAIN + "STREAM vb=5, flags=0x10, start=2, snap-start-seqno=1, snap-end-seqno=2\n" + marker(1, 4, "0x2")
OLD += items(3, 4)
BACKFILL = ASKED + snapshot(0, 3, DISK)
AGAIN = "RX stream-end{status=2}\nSTREAM vb=5, start=3\n"
OVERLAP = marker(3, 6) + items(4, 6)
EVERYTHING = opening(
    collections=True,
    name="replication:a->b:travel",
    controls="enable_sync_writes=true, consumer_name=n2, flatbuffers_system_events=true",
)
ADVANCED = "RX seqno-advanced{seqno=3}\n"
ALLOWED = opening(controls="enable_out_of_order_snapshots=true")
BOTH_ALLOWED = opening(collections=True, controls="enable_out_of_order_snapshots=true")
OSO = "RX oso-snapshot{flags=1}\nRX mutation{seqno=9, key=#0861}\nRX mutation{seqno=4, key=#0862}\n"
OSO += "RX oso-snapshot{flags=2}\n"
TWICE = "RX mutation{seqno=1, key=a}\nRX mutation{seqno=3, key=a}\n"
PREPARED = DURABLE + STREAM + MEMORY + "RX prepare{seqno=1, key=a}\n"
COMMIT = "RX commit{prepared-seqno=%d, commit-seqno=%d, key=a}\n"
ACKED = "TX seqno-acknowledged{prepared-seqno=%d}\n"


SYNCED = TAKEOVER + "RX snapshot-marker{start=0, end=1, flags=0xd}\nRX mutation{seqno=1}\n"
REFUSED = "TX snapshot-marker-response{erange, opaque=0x1005}\n"

#: What is said of conversations: rule, severity, and what a conforming peer answers.
CASES = {
    "a disk snapshot on a disk-only stream": (DISK_ONLY + snapshot(0, 3, DISK), ""),
    "a memory snapshot on a disk-only stream": (DISK_ONLY + snapshot(0, 3), "DCP302 violation"),
    "the checkpoint flag behind a backfill": (BACKFILL + snapshot(4, 4) + snapshot(5, 5, "0x1"), ""),
    "no checkpoint flag behind a backfill": (BACKFILL + snapshot(4, 4, "0x1") + snapshot(5, 5, "0x1"), "DCP302 info"),
    "version 2.1 of disk": (DURABLE + STREAM + marker(0, 3, DISK, ", layout=2.1"), "DCP303 suspicious Einval"),
    "version 2.1 of memory": (DURABLE + STREAM + marker(0, 3, "0x5", ", layout=2.1"),
        "DCP302 violation; DCP303 suspicious Einval"),
    "version 2.0 that was not agreed on": (ASKED + marker(0, 3, DISK, ", layout=2.0"), "DCP303 violation"),
    "version 2.2 that was not agreed on": (ASKED + marker(0, 3, DISK, ", layout=2.2"), "DCP303 violation"),
    "a marker that runs backwards": (ASKED + THREE + marker(9, 2, "0x1") + snapshot(4, 5, "0x1"),
        "DCP301 violation Einval"),
    "to a node, below what it asked for": (NODE + FIRST % "" + marker(4, 9) + items(8, 9), "DCP323 violation"),
    "to a client, below what it asked for": (PLAIN + FIRST % "" + marker(4, 9) + items(8, 9), "DCP323 suspicious"),
    "to a node, from what it asked for": (NODE + FIRST % "" + marker(5, 9) + items(8, 9), ""),
    "from the latest, where the server sets the numbers": (PLAIN + FIRST % ", flags=0x40" + marker(4, 9) + items(8, 9),
        ""),
    "a second marker": (NODE + STREAM + snapshot(0, 3, DISK) + marker(4, 6), ""),
    "the first marker of the next stream": (NODE + STREAM + snapshot(0, 3, DISK) + AGAIN + marker(2, 6),
        "DCP323 violation"),
    "a filtered snapshot without SEQNO_ADVANCED": (BOTH + FILTERED + MEMORY + EIGHT + marker(4, 6),
        "DCP313 suspicious"),
    "a filtered snapshot with it": (BOTH + FILTERED + MEMORY + EIGHT + ADVANCED + marker(4, 6), ""),
    "an unfinished snapshot of disk": (ASKED + marker(1, 3, DISK) + items(1, 2) + marker(4, 6), ""),
    "an unfinished snapshot of memory": (ASKED + MEMORY + items(1, 2) + marker(4, 6), "DCP313 suspicious"),
    "a filtered one, where that is told": (EVERYTHING + FILTERED + marker(1, 3, DISK) + EIGHT + marker(4, 6),
        "DCP316 violation; DCP237 info NotSupported"),
    "one of all, where that is told": (EVERYTHING + STREAM + MEMORY + EIGHT + marker(4, 6), "DCP313 suspicious"),
    "one below what the consumer has": (ASKED + marker(0, 9) + items(1, 4) + marker(1, 3, "0x1"),
        "DCP310 violation Erange; DCP313 suspicious"),
    "one that ends too early": (ASKED + marker(0, 9) + items(1, 4) + marker(5, 7, "0x1"),
        "DCP310 violation; DCP313 suspicious"),
    "one that overlaps one of disk": (ASKED + snapshot(0, 3, DISK) + OVERLAP, "DCP309 info"),
    "one that overlaps one of memory": (ASKED + snapshot(0, 3) + OVERLAP, "DCP309 suspicious"),
    "one that overlaps one of disk of an active vbucket": (ACTIVE + snapshot(0, 3, DISK) + OVERLAP,
        "DCP309 suspicious"),
    "backfills of servers before 5.0": (OLD + marker(1, 6, "0x2") + items(5, 6), "DCP309 info"),
    "a backfill that starts elsewhere": (OLD + marker(2, 6, "0x2") + items(5, 6), "DCP309 suspicious"),
    "a backfill with a checkpoint": (OLD + marker(1, 6, DISK) + items(5, 6), "DCP309 suspicious"),
    "out of order, without collections": (ALLOWED + STREAM + OSO, ""),
    "out of order, of the whole bucket": (BOTH_ALLOWED + STREAM + OSO, "DCP318 violation"),
    "out of order, of a scope": (BOTH_ALLOWED + 'STREAM vb=5, value={"scope":"8"}\n' + OSO, ""),
    "out of order, of collections": (BOTH_ALLOWED + 'STREAM vb=5, value={"collections":["8","9"]}\n' + OSO, ""),
    "a key twice out of order": (ALLOWED + STREAM + OSO.replace("#0862", "#0861"), "DCP318 violation"),
    "a key twice in a snapshot of disk": (ASKED + marker(0, 3, DISK) + TWICE, "DCP317 info"),
    "a key twice in one of memory": (ASKED + marker(0, 3) + TWICE, "DCP317 violation"),
    "a key twice in one of an active vbucket": (ACTIVE + marker(0, 3, DISK) + TWICE, "DCP317 violation"),
    "an item twice": (ASKED + marker(0, 3) + items(1, 2) + items(2, 3), "DCP402 violation Erange"),
    "no acknowledgement behind an answer with an error": (
        SYNCED + REFUSED + "WAIT 31\nRX stream-end{status=2}\n", "DCP119 suspicious"),
    "a vbucket state that is refused": (
        TAKEOVER + "RX snapshot-marker{start=0, end=1, flags=0x5}\nRX mutation{seqno=1}\n"
        "RX set-vbucket-state{state=3}\nTX set-vbucket-state-response{notmyvbucket}\n", "DCP119 suspicious"),
    "no acknowledgement": (SYNCED + "WAIT 31\nRX stream-end{status=2}\n", "DCP320 violation"),
    "a mutation outside": (PREPARED + "RX mutation{seqno=9}\n", "DCP401 violation Erange"),
    "a prepare outside": (PREPARED + "RX prepare{seqno=9, key=b}\n", "DCP401 violation Erange"),
    "a commit outside": (PREPARED + COMMIT % (1, 9), "DCP401 violation"),
    "an abort outside": (PREPARED + "RX abort{prepared-seqno=1, abort-seqno=9, key=a}\n",
        "DCP317 violation; DCP401 violation"),
    "a commit that does not rise": (PREPARED + "RX mutation{seqno=2}\n" + COMMIT % (1, 2), "DCP402 violation Erange"),
    "SEQNO_ADVANCED that does not rise": (BOTH + FILTERED + MEMORY + ADVANCED * 2, "DCP402 violation"),
    "a commit without a prepare": (DURABLE + STREAM + MEMORY + COMMIT % (1, 2), "DCP413 suspicious KeyEnoent"),
    "an abort without a prepare": (DURABLE + STREAM + MEMORY + "RX abort{prepared-seqno=1, abort-seqno=2, key=a}\n",
        "DCP413 suspicious Einval"),
    "a commit of another prepare": (PREPARED + COMMIT % (2, 2), "DCP412 violation; DCP413 violation"),
    "acknowledged by who may not": (ASKED + MEMORY + "RX prepare{seqno=1}\n" + ACKED % 1,
        "DCP411 violation; DCP416 violation Einval"),
    "acknowledged beyond what came": (PREPARED + ACKED % 7, "DCP416 violation"),
    "acknowledged backwards": (PREPARED + ACKED % 1 + ACKED % 0, "DCP416 violation"),
    "acknowledged again": (PREPARED + ACKED % 1 + ACKED % 1, ""),
    "a prepare that its own snapshot completed": (
        DURABLE + STREAM + marker(0, 3, DISK, ", high-completed-seqno=2, layout=2.0")
        + "RX prepare{seqno=1, key=a}\n" "RX mutation{seqno=3}\n" + marker(4, 4, "0x5", ", layout=2.0")
        + "RX prepare{seqno=4, key=a}\n", ""),
}  # fmt: skip


@pytest.mark.parametrize(("text", "wanted"), CASES.values(), ids=CASES)
def test_a_fault_has_its_weight_and_its_answer(text: str, wanted: str) -> None:
    assert "; ".join(brief(text)) == wanted


# -- sentences ----------------------------------------------------------------------------------------------


def test_a_first_marker_below_the_requested_snapshot_breaks_replicas_and_may_mislead_others() -> None:
    text = "the first snapshot starts at 4, requested was 5: "
    assert [each.message for begun in (NODE, PLAIN) for each in found(begun + FIRST % "" + marker(4, 9))] == [
        text + "a replica that reconnects fails at it",
        text + "the client's own snapshot began later",
    ]


def test_what_a_filtered_snapshot_misses_is_an_item_or_seqno_advanced() -> None:
    missing = "snapshot 1..3 came to 2: neither an item with seqno 3 nor SEQNO_ADVANCED came before the next"
    assert reported(BOTH + FILTERED + MEMORY + EIGHT + marker(4, 6)) == [f"DCP313 suspicious: {missing}"]


def test_a_snapshot_that_was_not_acknowledged_is_found_with_its_vbucket() -> None:
    (each,) = found(SYNCED + "WAIT 31\nRX stream-end{status=2}\n")
    assert (each.vbucket, each.frame) == (5, 14)


# -- where something is missing -----------------------------------------------------------------------------


def test_where_the_backfill_is_not_the_snapshot_before_for_certain_nothing_is_said_of_the_flag() -> None:
    captured = packets(said(BACKFILL + snapshot(4, 5) + snapshot(6, 6, "0x1")))
    assert brief(captured[:-5] + captured[-2:]) == []


def test_a_type_that_is_both_is_found_in_a_capture_that_begins_late() -> None:
    captured = packets(said(ASKED + marker(0, 3, "0x7")))
    assert "DCP302 violation" in brief(captured[-1:])


def test_a_marker_that_was_joined_late_can_be_read() -> None:
    late = found(packets(said(ASKED + THREE + snapshot(4, 6)))[-8:])
    assert {each.rule.code for each in late} <= {"DCP223"}
    assert not any("could not be read" in each.reason for each in late)


def test_an_overlap_behind_lost_bytes_is_judged_from_the_next_marker_on() -> None:
    captured = packets(said(ASKED + snapshot(0, 3) + snapshot(4, 6, "0x1") + marker(6, 8, "0x1")))
    torn = [packet for packet in captured if packet.number != len(captured) - 6]
    assert "DCP309 suspicious" in brief(torn)


def test_the_order_of_seqnos_behind_a_late_beginning_was_seen() -> None:
    captured = packets(said(ASKED + marker(0, 9) + items(2, 2) + items(5, 9)))
    late = captured[-6:-3] + captured[-2:]
    assert [brief(some, "DCP402") for some in (captured[-6:], late)] == [[], ["DCP402 unknown"]]
