"""``key``: it claims completeness only of what was captured whole."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from dcpdump.net.packet import Packet
from dcpdump.wire.encode import encode
from tests.support.captures import Record, pcap
from tests.support.console import run
from tests.support.conversation import opening, packets, said
from tests.support.diagnoses import objects

WHOLE = (
    opening()
    + "STREAM vb=526\nRX snapshot-marker{start=0, end=2, flags=0x5}\n"
    + "RX mutation{seqno:1, key=k1, value=v}\nRX mutation{seqno:2, key=k2, value=v}\n"
    + "RX snapshot-marker{start=3, end=3, flags=0x1}\n"
)
#: Bytes of a packet before the key of a mutation: Ethernet, IPv4, TCP, the header, its extras.
BEFORE_KEY = 14 + 20 + 20 + 24 + 31


def capture(path: Path, captured: Iterable[Packet], snaplen: int = 1 << 16) -> Path:
    name = path / "talk.pcap"
    kept = [Record(each.ts_ns or 0, each.data[:snaplen], len(each.data)) for each in captured]
    name.write_bytes(pcap(kept))
    return name


def coverage(path: Path) -> list[tuple[bool, str]]:
    rows = [row for row in objects(f"dcpdump key '*' {path}") if row["kind"] == "coverage"]
    return [(row["complete"], row["why"]) for row in rows]


def printed(path: Path) -> list[str]:
    return run(f"dcpdump key k1 {path} -q").out.splitlines()


def test_keys_that_were_cut_are_not_complete(tmp_path: Path) -> None:
    path = capture(tmp_path, packets(said(WHOLE)), BEFORE_KEY)
    assert printed(path) == [
        "no message about such a key in what was captured, which is incomplete: it belongs to vb 526 (of 1,024)",
        "capture complete for vb 526 conn 0 app, 1..2: no (2 messages whose key was not captured whole)",
    ]
    assert run(f"dcpdump key '*' {path} -q").out.splitlines() == [
        "no message about such a key in what was captured, which is incomplete"
    ]


@pytest.mark.parametrize("snaplen", [BEFORE_KEY + 2, BEFORE_KEY + 3])
def test_values_that_were_cut_leave_a_history_complete(tmp_path: Path, snaplen: int) -> None:
    (covered,) = coverage(capture(tmp_path, packets(said(WHOLE)), snaplen))
    assert covered[0] is True


def test_a_segment_that_is_missing_inside_a_key_is_not_complete(tmp_path: Path) -> None:
    segments = packets(said(WHOLE), 55)  # the second of a mutation holds its key
    tail = next(at for at, each in enumerate(segments) if each.data.endswith(b"k1v"))
    ((complete, why),) = coverage(capture(tmp_path, segments[:tail] + segments[tail + 1 :]))
    assert (complete, why) == (False, "1 message whose key was not captured whole")


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ("RX stream-request-response{notmyvbucket}\n", "it was not granted: NotMyVbucket 0x07"),
        ("", "no answer to its request was captured"),
    ],
)
def test_a_stream_that_was_not_granted_is_not_complete(tmp_path: Path, answer: str, why: str) -> None:
    path = capture(tmp_path, packets(said(opening() + "TX stream-request{vb=526}\n" + answer)))
    assert printed(path) == [
        "no message about such a key: it belongs to vb 526 (of 1,024)",
        f"capture complete for vb 526 conn 0 app, no seqno: no ({why})",
    ]


def test_an_out_of_order_snapshot_is_complete_once_it_ended(tmp_path: Path) -> None:
    controls = "enable_out_of_order_snapshots=true"
    text = opening(controls=controls) + "STREAM vb=526\nRX oso-snapshot{flags=1}\n"
    text += "RX mutation{seqno=9, key=k9}\nRX mutation{seqno=4, key=k4}\n"
    assert coverage(capture(tmp_path, packets(said(text)))) == [
        (False, "an out-of-order snapshot is open: lower seqnos may follow")
    ]
    assert coverage(capture(tmp_path, packets(said(text + "RX oso-snapshot{flags=2}\n")))) == [(True, "0 bytes lost")]


def test_a_change_of_a_cache_transfer_has_its_own_item_of_the_frame(tmp_path: Path) -> None:
    keys = enumerate((b"a1", b"b1", b"a2"), 1)
    items: list[dict[str, int | bytes]] = [{"key": b"\0" + key, "value": b"v", "by_seqno": at} for at, key in keys]
    transfer = encode("DCP_CACHE_TRANSFER", {"items": items}, vbucket=526, opaque=9)
    talk = said(WHOLE)
    path = capture(tmp_path, packets([*talk, replace(talk[-1], data=transfer)]))
    whole, *_ = [row for row in objects(f"dcpdump read {path}") if row["name"] == "DCP_CACHE_TRANSFER"]
    rows = [row for row in objects(f"dcpdump key 'a*' {path}") if row["kind"] == "change"]
    kept = [(0, 1), (2, 3)]
    expected = [
        {"kind": "change", "seqno": seqno, "rev_seqno": 0, **{name: whole[name] for name in whole if name != "kind"}}
        | {"fields": {"items": [whole["fields"]["items"][at]]}}
        for at, seqno in kept
    ]
    assert rows == expected
