"""Random traffic of several streams: runs of documents teach, and break, what the same documents do one by one."""

import struct

import cramjam
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcpdump.check.finding import Fold
from dcpdump.net.packet import Packet
from tests.streams.test_document_runs import assert_ledgers_are_equal, judged
from tests.support.conversation import opening, packets, said
from tests.support.ledgers import captured


def _snappy(text: bytes) -> str:
    return bytes(cramjam.snappy.compress_raw(text)).hex()


_PAIR = b"_sync\0{}\0"
_XATTRS = (struct.pack(">II", len(_PAIR) + 4, len(_PAIR)) + _PAIR).hex()
_PLAIN = ("mutation{%s}", 'mutation{%s, datatype=1, value={"a":[1,2]}}', "deletion{%s, layout=2}")
#: Documents that are special, or make what follows so.
_SPECIAL = (
    "mutation{%s, datatype=1, value=%%s:1}",
    "mutation{%s, datatype=1}",
    f"mutation{{%s, datatype=3, value=#{_snappy(b'[1]')}}}",
    f"mutation{{%s, datatype=3, value=#{_snappy(b'[1')}}}",
    "mutation{%s, datatype=2, value=#ff}",
    f"mutation{{%s, datatype=5, value=#{_XATTRS}7b7d}}",
    f"mutation{{%s, datatype=5, value=#{_XATTRS}7b}}",
    "mutation{%s, datatype=4, value=#00000fff}",
    "mutation{%s, lock-time=1}",
    "deletion{%s, layout=1}",
    "deletion{%s, layout=1, value=x}",
    f"deletion{{%s, layout=2, datatype=4, value=#{_XATTRS}}}",
    f"deletion{{%s, layout=2, datatype=5, value=#{_XATTRS}7b7d}}",
    f"deletion{{%s, layout=2, datatype=6, value=#{_snappy(bytes.fromhex(_XATTRS) + b'x')}}}",
    "deletion{%s, layout=2, datatype=4, value=#00}",
    "expiration{%s}",
    "prepare{%s}",
    "mutation{%s, layout=1-28}",
    "mutation{%s, layout=1-30}",
    "mutation{%s, value=" + "x" * 5000 + "}",
    "the key of another",
    "the key of no collection",
    "seqno 0",
    "a seqno again",
    "a seqno left out",
    "a seqno that was before",
)
_STEPS = {"seqno 0": -(1 << 64), "a seqno again": 0, "a seqno left out": 2, "a seqno that was before": -3}
_OTHER = (
    "WAIT 3",
    "WAIT 70",
    "WAIT 400",
    "RX noop{opaque=0x77}",
    "TX noop-response{success, opaque=0x77}",
    "TX buffer-acknowledgement{buffer-bytes=900}",
    "TX buffer-acknowledgement{buffer-bytes=2500}",
    "TX buffer-acknowledgement{buffer-bytes=4000}",
    "WAIT 0.04",
    "TX get-failover-log{vb=5}",
)
_OPENINGS = (
    opening(collections=True),
    opening(collections=True, controls="connection_buffer_size=4000"),
    opening(0x25, collections=True, controls="enable_expiry_opcode=true"),
    opening(0x45),
    "",
)


@st.composite
def conversations(draw: st.DrawFn) -> str:
    """Draw a conversation about two streams, mostly of long runs."""
    text = draw(st.sampled_from(_OPENINGS))
    text += "".join(f"STREAM vb={vb}, opaque=0x{0x1000 + vb:x}\n" for vb in (5, 6)) if text else ""
    following, place = {5: 1, 6: 1}, 0
    for vb, snapshot, count, special, other in draw(
        st.lists(
            st.tuples(
                st.sampled_from((5, 6)),
                st.sampled_from((None, 1, 2, 5, 6, 0x15)),
                st.integers(0, 60),
                st.dictionaries(st.just(0) | st.integers(0, 60), st.sampled_from(_SPECIAL), max_size=2),
                st.sampled_from((*_OTHER, "", "", "")),
            ),
            min_size=1,
            max_size=10,
        )
    ):
        opaque, seqno = f"vb={vb}, opaque=0x{0x1000 + vb:x}", following[vb]
        if snapshot is not None:
            text += f"RX snapshot-marker{{{opaque}, start={seqno}, end={seqno + count}, flags={snapshot}}}\n"
        for at in range(count):
            place += 1
            chosen = special.get(at, "")
            seqno = max(0, seqno + _STEPS.get(chosen, 1) - 1)
            key = {"the key of another": "000001", "the key of no collection": "05"}.get(chosen, f"00{place:04x}")
            form = chosen if "{" in chosen else _PLAIN[place % 7 % 3]
            text += f"RX {form % f'{opaque}, seqno={seqno}, key=#{key}'}\n"
            seqno += 1
        following[vb] = max(1, seqno)
        text += other + "\n"
    return text


def _folded(captured: list[Packet], *, runs: bool) -> Fold:
    fold = Fold(3)
    for finding in judged(captured, runs=runs, shown=3)[0]:
        fold.add(finding)
    return fold


@settings(max_examples=50, deadline=None)
@given(text=conversations(), lost=st.integers(0, 200) | st.none(), segment=st.sampled_from([1 << 20, 200]))
def test_runs_of_random_traffic_teach_and_break_what_their_frames_do(text: str, lost: int | None, segment: int) -> None:
    traffic = packets(said(text), segment)
    if lost is not None and lost < len(traffic):
        del traffic[lost]
    assert_ledgers_are_equal(traffic)
    expected = sorted(map(repr, judged(traffic, runs=False)[0]))
    for columns in (True, False):
        assert sorted(map(repr, judged(traffic, runs=True, columns=columns)[0])) == expected
    at_once, one_by_one = _folded(traffic, runs=True), _folded(traffic, runs=False)
    assert at_once.counts == one_by_one.counts
    assert at_once.findings() == one_by_one.findings()


_MARKER = "RX snapshot-marker{%s, start=%d, end=%d, flags=1}\n"
_TWO = opening(collections=True) + "STREAM vb=5, opaque=0x5\nSTREAM vb=6, opaque=0x6\n"


def _documents(vb: int, first: int, last: int) -> str:
    place = f"vb={vb}, opaque=0x{vb}"
    return "".join(f"RX mutation{{{place}, seqno={seqno}, key=#00{seqno:04x}}}\n" for seqno in range(first, last + 1))


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ("DCP306", _TWO + (_MARKER % ("vb=5, opaque=0x5", 1, 9) + _documents(5, 1, 9))
         + (_MARKER % ("vb=5, opaque=0x5", 10, 30) + _documents(5, 12, 30))),
        ("DCP402", opening(collections=True)
         + "STREAM vb=5, opaque=0x5, start=7, snap-start-seqno=7, snap-end-seqno=7\n" + (_MARKER % ("vb=5, opaque=0x5",
         1, 30) + _documents(5, 3, 30))),
        ("DCP112", _MARKER % ("vb=5, opaque=0x5", 0, 30) + _documents(5, 0, 30)),
        ("DCP402", _TWO + (_MARKER % ("vb=5, opaque=0x5", 1, 30) + _documents(5, 1, 9))
         + (_MARKER % ("vb=6, opaque=0x6", 1, 30) + _documents(6, 1, 5)) + ("-" + _documents(6, 6, 6) + _documents(6,
         7, 30) + _documents(5, 11, 30))),
    ],
    ids=["a snapshot begins above its start", "a seqno that the client has", "seqno 0", "a loss in another stream"],
)  # fmt: skip
def test_what_the_first_of_a_run_breaks_is_found(rule: str, text: str) -> None:
    packets_of = captured(text)
    found, _ = judged(packets_of, runs=True)
    assert found == judged(packets_of, runs=False)[0]
    assert rule in {each.rule.code for each in found}
