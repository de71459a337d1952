"""``key``: it claims completeness only of what was captured whole."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from dcpdump.net.packet import Packet
from dcpdump.wire.encode import encode
from tests.support.console import run
from tests.support.conversation import opening, packets, said
from tests.support.diagnoses import objects, written
from tests.support.secret_talk import saved

WHOLE = (
    opening()
    + "STREAM vb=526\nRX snapshot-marker{start=0, end=2, flags=0x5}\n"
    + "RX mutation{seqno:1, key=k1, value=v}\nRX mutation{seqno:2, key=k2, value=v}\n"
    + "RX snapshot-marker{start=3, end=3, flags=0x1}\n"
)
#: Bytes of a packet before the key of a mutation: Ethernet, IPv4, TCP, the header, its extras.
BEFORE_KEY = 14 + 20 + 20 + 24 + 31


def capture(folder: Path, captured: Iterable[Packet], snaplen: int = 1 << 16) -> Path:
    return saved([each._replace(data=each.data[:snaplen]) for each in captured], folder / "talk.pcap")


def coverage(path: Path) -> list[tuple[bool, str]]:
    rows = [row for row in objects(f"dcpdump key '*' {path}") if row["type"] == "coverage"]
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


def test_values_that_were_cut_leave_a_history_complete(tmp_path: Path) -> None:
    for snaplen in (BEFORE_KEY + 2, BEFORE_KEY + 3):
        assert [complete for complete, _ in coverage(capture(tmp_path, packets(said(WHOLE)), snaplen))] == [True]


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
    text = opening(controls="enable_out_of_order_snapshots=true") + "STREAM vb=526\nRX oso-snapshot{flags=1}\n"
    text += "RX mutation{seqno=9, key=k9}\nRX mutation{seqno=4, key=k4}\n"
    for more, found in (
        ("", (False, "an out-of-order snapshot is open: lower seqnos may follow")),
        ("RX oso-snapshot{flags=2}\n", (True, "0 bytes lost")),
    ):
        assert coverage(written(text + more, tmp_path / "talk.pcap")) == [found]


def test_a_change_of_a_cache_transfer_has_its_own_item_of_the_frame(tmp_path: Path) -> None:
    keys = enumerate((b"a1", b"b1", b"a2"), 1)
    items: list[dict[str, int | bytes]] = [{"key": b"\0" + key, "value": b"v", "by_seqno": at} for at, key in keys]
    transfer = encode("DCP_CACHE_TRANSFER", {"items": items}, vbucket=526, opaque=9)
    talk = said(WHOLE)
    path = capture(tmp_path, packets([*talk, replace(talk[-1], data=transfer)]))
    (whole,) = [row for row in objects(f"dcpdump read {path}") if row["name"] == "DCP_CACHE_TRANSFER"]
    assert [row for row in objects(f"dcpdump key 'a*' {path}") if row["type"] == "change"] == [
        {"type": "change", "seqno": seqno, "rev_seqno": 0, **whole, "fields": {"items": [whole["fields"]["items"][at]]}}
        for at, seqno in ((0, 1), (2, 3))
    ]


# -- changes that a rollback revoked --------------------------------------------------------------------------


def sent(first: int, last: int, *but: int) -> str:
    """Return a snapshot, and its documents but for some."""
    documents = (f"RX mutation{{seqno={at}, key=k{at}, cas={at}}}\n" for at in range(first, last + 1) if at not in but)
    return f"RX snapshot-marker{{start={first - 1}, end={last}, flags=0x6}}\n" + "".join(documents)


def back(start: int, to: int, extra: str = "") -> str:
    """Return a request that is rolled back."""
    request = f"TX stream-request{{vb=5, start={start}{extra}}}\n"
    return f"{request}RX stream-request-response{{rollback, rollback-seqno={to}}}\n"


def granted(start: int, log: str, extra: str = "") -> str:
    """Return a request that is granted, with its failover log."""
    request = f"TX stream-request{{vb=5, start={start}{extra}}}\n"
    return f"{request}RX stream-request-response{{success, failover-log={log}}}\n"


NINE = opening() + "STREAM vb=5\n" + sent(1, 9) + "RX stream-end{status=2}\n"
BRANCH = "0xbbbb:5|0xfeed:0"
SECOND = "CONNECT 10.0.0.1:50200 10.0.0.2:11210\n"


def revoked(text: str, path: Path) -> dict[int, int]:
    """Return to where the rollbacks went that revoked changes, by their seqnos."""
    rows = objects(f"dcpdump key 'k*' {capture(path, packets(said(text)))}")
    return {row["seqno"]: row["revoked"]["rollback_seqno"] for row in rows if "revoked" in row}


@pytest.mark.parametrize(
    ("then", "wanted"),
    [
        (back(9, 5) + granted(5, BRANCH) + sent(6, 12, 7), {7: 5}),
        (back(9, 5) + granted(5, BRANCH), {6: 5, 7: 5, 8: 5, 9: 5}),
        (back(9, 5), {6: 5, 7: 5, 8: 5, 9: 5}),
        (back(9, 5) * 3 + granted(5, BRANCH) + sent(6, 12, 7), {7: 5}),
        (back(9, 5) + back(5, 3) + granted(3, "0xbbbb:3|0xfeed:0") + sent(4, 12, 5, 7), {5: 3, 7: 5}),
        (back(9, 5) + back(9, 3) + granted(3, "0xbbbb:3|0xfeed:0") + sent(4, 12, 7), {7: 5}),
        (back(7, 5) + granted(5, BRANCH), {6: 5, 7: 5}),
        (back(9, 0) + granted(0, "0xbbbb:0") + sent(1, 9, 7), {7: 0}),
        ("RST RX\n" + SECOND + opening() + back(9, 5) + granted(5, BRANCH) + sent(6, 12, 7), {7: 5}),
        # purges send a client back too, and take nothing back
        (back(9, 0) + granted(0, "0xfeed:0") + sent(1, 12, 7), {}),
        (back(9, 0, ", snap-start-seqno=0, snap-end-seqno=12"), {}),
        # by an older uuid it was granted from there
        (back(9, 0, ", vbucket-uuid=0xdead") + granted(9, "0xfeed:0"), {}),
        (back(9, 0, ", vbucket-uuid=0xdead") + granted(0, "0xfeed:0"), dict.fromkeys(range(1, 10), 0)),
        # of others
        (back(9, 5, ", vb=6, opaque=9").replace("vb=5, ", ""), {}),
        ("RST RX\n" + SECOND + opening(name="other") + back(9, 5) + granted(5, BRANCH) + sent(6, 12, 7), {}),
    ],
)
def test_a_change_that_a_rollback_revoked_says_so(then: str, wanted: dict[int, int], tmp_path: Path) -> None:
    assert revoked(NINE + then, tmp_path) == wanted


def test_a_rollback_before_a_change_does_not_revoke_it(tmp_path: Path) -> None:
    text = opening() + back(20, 5) + granted(5, BRANCH) + sent(6, 12) + "RX stream-end{status=2}\n"
    assert revoked(text, tmp_path) == {}
    assert revoked(text + back(12, 10), tmp_path) == {11: 10, 12: 10}


def test_a_rollback_of_another_stream_id_does_not_revoke_a_change(tmp_path: Path) -> None:
    text = opening(collections=True, controls="enable_stream_id=true") + 'STREAM vb=5, value={"sid":7}\n'
    text += sent(1, 9).replace("key=k", "key=#006b3") + "RX stream-end{status=2}\n"
    assert revoked(text + back(9, 5, ', value={"sid":8}'), tmp_path) == {}
    assert revoked(text + back(9, 5, ', value={"sid":7}'), tmp_path) == {6: 5, 7: 5, 8: 5, 9: 5}


def test_a_rollback_whose_request_is_not_certain_revokes_nothing(tmp_path: Path) -> None:
    """An answer was lost, and with it maybe the next request, which had the same opaque."""
    captured = packets(said(NINE + back(9, 5) * 2 + "RX noop\nTX noop-response{success}\n"))
    rows = objects(f"dcpdump key 'k*' {capture(tmp_path, captured[:-5] + captured[-3:])}")
    assert [row["seqno"] for row in rows if "revoked" in row] == []


def test_the_row_of_a_change_that_was_revoked_says_when_and_by_which_frames(tmp_path: Path) -> None:
    path = capture(tmp_path, packets(said(NINE + back(9, 5) * 2 + granted(5, BRANCH) + sent(6, 12, 7))))
    (row, *_) = objects(f"dcpdump key k7 {path}")
    frames = {"request_frame": 24, "response_frame": 25, "time": "2025-11-20T12:00:00.025000Z"}
    assert row["revoked"] == {"rollback_seqno": 5, "start_seqno": 9, **frames}
    head, line, *_ = run(f"dcpdump key k7 {path} -q").out.splitlines()
    assert ("revoked" in head.split(), "by the rollback to 5 at 12:00:00.025, frame 25" in line) == (True, True)
    assert "revoked" not in run(f"dcpdump key k3 {path} -q").out
