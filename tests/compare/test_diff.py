"""dcpdump diff: captures with differences that are known."""

import json
import signal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dcpdump.net.packet import Packet
from tests.support.console import Printed, run
from tests.support.conversation import opening, said
from tests.support.live import PATIENCE, fed
from tests.support.packets import NOON
from tests.support.two_captures import (
    CONSUMER,
    MS,
    PRODUCER,
    Place,
    captured,
    compared,
    mutations,
    rows,
    stream,
    written,
)

SEQNOS = range(1, 13)


def both(tmp_path: Path, a: str, b: str, options: str = "") -> Printed:
    printed = compared(tmp_path, captured(said(a), PRODUCER), captured(said(b), CONSUMER), options)
    assert printed.err == ""
    return printed


PLACES = st.builds(
    Place,
    src=st.sampled_from(["10.0.0.9:50000", "192.168.7.7:41000"]),
    dst=st.just(PRODUCER.dst),
    clock_ns=st.integers(-10_000, 10_000).map(lambda ms: ms * MS),
    ways_ns=st.just((0, 0)),
    segment=st.sampled_from([50, 700, 1448]),
    merge=st.booleans(),
    syn=st.just(True),
)


@given(
    a=PLACES,
    b=PLACES,
    left_out=st.sets(st.sampled_from(SEQNOS)),
    added=st.sets(st.sampled_from(SEQNOS)),
    other=st.sets(st.sampled_from(SEQNOS)),
    way_ms=st.integers(0, 20),
)
@settings(max_examples=40, deadline=None)
def test_what_was_left_out_added_and_changed_is_found(
    a: Place, b: Place, left_out: set[int], added: set[int], other: set[int], way_ms: int
) -> None:
    added -= left_out
    assume(a.src == b.src or set(SEQNOS) - left_out - added)  # or nothing shows that it is one connection
    changed = other - left_out - added
    there = said(stream(sorted(set(SEQNOS) - added)))
    values = {each: "other" if each in changed else "v" for each in SEQNOS}
    text = stream([])[: stream([]).rindex("RX snapshot-marker")]
    text += f"RX snapshot-marker{{vb=7, start=0, end={max(set(SEQNOS) - added, default=0)}, flags=0x1}}\n"
    text += "".join(mutations([each], value=values[each]) for each in SEQNOS if each not in left_out)
    # Times: each frame as in a conversation with all of them.
    clock = {each: NOON + place * 50 * MS for place, each in enumerate(SEQNOS, 100)}
    here = said(text)
    for frames in (there, here):
        for frame in frames:
            if frame.data[1] == 0x57:
                frame.ts_ns = clock[int.from_bytes(frame.data[24:32], "big")]
    b = b._replace(ways_ns=(-way_ms * MS, way_ms * MS))
    with TemporaryDirectory() as folder:
        printed = compared(Path(folder), captured(there, a), captured(here, b), "-f ndjson")
    only = {name: {row["seqno"] for row in rows(printed, "frame") if row["only_in"] == name} for name in "AB"}
    assert only == {"A": left_out, "B": added}
    assert {row["seqno"] for row in rows(printed, "changed")} == changed
    assert printed.code == (1 if left_out or added or changed else 0)
    ((connection),) = rows(printed, "connection")
    assert (
        abs(connection["clock_offset_us"] - (b.clock_ns - a.clock_ns) // 1000) <= connection["clock_spread_us"] + 4000
    )


@given(order=st.permutations(SEQNOS))
@settings(max_examples=20, deadline=None)
def test_another_order_is_no_difference(order: list[int]) -> None:
    marker = stream(SEQNOS)[: stream(SEQNOS).index("RX mutation")]
    with TemporaryDirectory() as folder:
        there, here = said(stream(SEQNOS)), said(marker + mutations(order))
        printed = compared(Path(folder), captured(there, PRODUCER), captured(here, CONSUMER), "-f ndjson")
    assert (printed.code, rows(printed, "frame"), rows(printed, "changed")) == (0, [], [])
    (total,) = rows(printed, "total")
    assert total["both"] + total["moved"] == len(there)


def test_equal_captures_are_equal_with_offset_and_latency(tmp_path: Path) -> None:
    frames = said(stream(SEQNOS))
    printed = compared(tmp_path, captured(frames, PRODUCER), captured(frames, CONSUMER._replace(merge=False)))
    wanted = """\
A c0 10.0.0.9:50000 → 10.0.0.1:11210 = B c0 192.168.7.7:41000 → 10.0.0.1:11210
  clocks: B's is 5.000000 s ahead of A's ± 2 ms
direction                          median   p99  both  only A  only B  changed
  10.0.0.9:50000 → 10.0.0.1:11210    2 ms  2 ms     6       0       0        0
  10.0.0.1:11210 → 10.0.0.9:50000    2 ms  2 ms    19       0       0        0

no difference: 25 frames, 1 connection in both
"""
    assert (printed.code, printed.out) == (0, wanted)


def test_a_segment_that_b_did_not_capture_is_evidence(tmp_path: Path) -> None:
    b = captured(said(stream(SEQNOS)), CONSUMER._replace(merge=False, segment=1448))
    gone = next(at for at, each in enumerate(b) if b"v5" in each.data)
    printed = compared(tmp_path, captured(said(stream(SEQNOS)), PRODUCER), b[:gone] + b[gone + 1 :], "-f ndjson")
    assert printed.code == 1
    (row,) = rows(printed, "frame")
    size = 24 + 31 + len("k5v5")
    lost = {"cause": "lost", "why": f"B's capture lacks {size} bytes there", "lost_bytes": size}
    message = {"name": "DCP_MUTATION", "opcode": 0x57, "kind": "request", "length": size, "vbucket": 7, "seqno": 5}
    place = {"type": "frame", "only_in": "A", "connection": 0, "frame": row["frame"], "time": row["time"]}
    assert row == place | message | lost


WHOLE = said(stream(SEQNOS))
AT_A = captured(WHOLE, PRODUCER)
LATE = captured([each for each in WHOLE if b"k1v1" not in each.data][-11:], CONSUMER._replace(syn=False))
CAUSES = {
    "what the receiver did not acknowledge": (AT_A[:-1], captured(WHOLE[:-1], CONSUMER), [(12, "unacknowledged")]),
    "a capture that ends early": (AT_A, captured(WHOLE[:-2], CONSUMER), [(11, "after"), (12, "after")]),
    "a capture that begins late": (AT_A, LATE, [(1, "before")]),
}


@pytest.mark.parametrize(("a", "b", "causes"), CAUSES.values(), ids=CAUSES)
def test_why_a_frame_is_in_one_capture_only(a: list[Packet], b: list[Packet], causes: Any, tmp_path: Path) -> None:
    printed = compared(tmp_path, a, b, "-f ndjson --opcode mutation")
    assert [(row["seqno"], row["cause"]) for row in rows(printed, "frame")] == causes
    ends = [(row["last_seqno_a"], row["last_seqno_b"]) for row in rows(printed, "stream")]
    assert ends == [(12, causes[0][0] - 1)] * (causes[0][0] > 1)


def test_with_one_direction_offset_and_latency_are_not_separated(tmp_path: Path) -> None:
    a = [each for each in captured(said(stream(SEQNOS)), PRODUCER) if each.data[34:36] == (11210).to_bytes(2, "big")]
    printed = compared(tmp_path, a, captured(said(stream(SEQNOS)), CONSUMER._replace(merge=False)))
    said_of_it = "frames are 5 s later in B (median); of one direction alone, offset and latency cannot be separated"
    assert said_of_it in printed.out


def test_the_whole_output_of_a_difference(tmp_path: Path) -> None:
    text = stream(SEQNOS).replace("value=v4", "value=w4")
    b = captured(said(text), CONSUMER._replace(merge=False, segment=1448))
    gone = next(at for at, each in enumerate(b) if b"v5" in each.data)
    printed = compared(tmp_path, captured(said(stream(SEQNOS)), PRODUCER), b[:gone] + b[gone + 1 : -2])
    wanted = """\
A c0 10.0.0.9:50000 → 10.0.0.1:11210 = B c0 192.168.7.7:41000 → 10.0.0.1:11210
  clocks: B's is 5.000000 s ahead of A's ± 2 ms
direction                          median   p99  both  only A  only B  changed
  10.0.0.9:50000 → 10.0.0.1:11210    2 ms  2 ms     6       0       0        0
  10.0.0.1:11210 → 10.0.0.9:50000    2 ms  2 ms    16       2       0        1
  1 stream whose last seqno differs
 vb  A's last seqno  B's last seqno
  7              12              11
  frames that differ
in    frame  time          message   vb  seqno  evidence
both     17  12:00:00.017  mutation   7      4  frame 17 of B differs in body
A        18  12:00:00.018  mutation   7      5  B's capture lacks 59 bytes there
A        25  12:00:00.025  mutation   7     12  B's capture of the connection ends before it

frames: 22 in both, 2 only in A, 1 changed · 1 connection in both
"""
    assert (printed.code, printed.out) == (1, wanted)


def test_documents_are_compared_by_their_last_change(tmp_path: Path) -> None:
    a = stream(SEQNOS) + "RX mutation{vb=7, seqno:13, key=k1, value=new}\n"
    b = stream(range(1, 12), value="v").replace("value=v2", "value=w2") + "RX deletion{vb=7, seqno:13, key=k1}\n"
    printed = both(tmp_path, a, b, "--by key -f ndjson")
    assert printed.code == 1
    found = [json.loads(line) for line in printed.out.splitlines()]
    a_change, b_change = {"name_a": "DCP_MUTATION"}, {"name_b": "DCP_MUTATION"}
    cas_2, cas_12, none = "0x1763000000000002", "0x176300000000000c", "0x0000000000000000"
    document = {"type": "document", "vbucket": 7, "collection": 0}
    assert found == [
        document
        | {"key": "k2", "differs": ["value"], "last_seqno_a": 2, "frame": 15, "last_seqno_b": 2, "other_frame": 15}
        | a_change
        | b_change
        | {"cas_a": cas_2, "cas_b": cas_2},
        document
        | {"key": "k1", "differs": ["message", "value"], "last_seqno_a": 13, "frame": 26}
        | {"last_seqno_b": 13, "other_frame": 25}
        | a_change
        | b_change
        | {"name_b": "DCP_DELETION", "cas_a": none, "cas_b": none},
        document | {"key": "k12", "only_in": "A", "last_seqno_a": 12, "frame": 25, "cas_a": cas_12} | a_change,
        {"type": "documents", "equal": False, "both": 9, "only_a": 1, "only_b": 0, "changed": 2},
    ]


def test_documents_of_equal_captures_are_equal_whatever_the_order(tmp_path: Path) -> None:
    marker = stream(SEQNOS)[: stream(SEQNOS).index("RX mutation")]
    printed = both(tmp_path, stream(SEQNOS), marker + mutations(SEQNOS[::-1]), "--by key")
    assert printed == (0, "no difference: the last change of 12 documents is the same in both\n", "")


def test_keys_are_hidden_where_asked(tmp_path: Path) -> None:
    out = both(tmp_path, stream(SEQNOS), stream(SEQNOS[:6]), "--by key --redact").out
    assert ("k12" in out, "6 only in A" in out) == (False, True)


def test_connections_are_paired_by_what_they_carry(tmp_path: Path) -> None:
    texts = stream(SEQNOS, 7), stream(SEQNOS, 8, "w"), stream(SEQNOS, 9, "x")
    a = [captured(said(text), PRODUCER._replace(src=f"10.0.0.9:{50_000 + at}")) for at, text in enumerate(texts)]
    b = [captured(said(text), CONSUMER._replace(src=f"10.0.0.9:{50_009 - at}")) for at, text in enumerate(texts[:2])]
    printed = compared(tmp_path, a[0] + a[1] + a[2], b[1] + b[0], "-f ndjson")
    assert [(row["connection"], row["other_connection"]) for row in rows(printed, "connection")] == [(0, 1), (1, 0)]
    assert [(row["only_in"], row["connection"]) for row in rows(printed, "alone")] == [("A", 2)]
    assert printed.code == 1


def test_captures_of_different_connections_are_not_paired_by_what_all_have(tmp_path: Path) -> None:
    """A HELLO, an OPEN, a NOOP: byte by byte the same. The seqnos are, too, but the documents are not."""
    other = stream(SEQNOS, value="w").replace("cas=16", "cas=17")
    first = written(captured(said(stream(SEQNOS)), PRODUCER), tmp_path / "a.pcap")
    second = written(captured(said(other), CONSUMER), tmp_path / "b.pcap")
    printed = run(f"dcpdump diff {first} {second}")
    wanted = """\
A c0 10.0.0.9:50000 → 10.0.0.1:11210: only in A, 25 frames
B c0 192.168.7.7:41000 → 10.0.0.1:11210: only in B, 25 frames
frames: 0 in both, 25 only in A, 25 only in B · 0 connections in both, 1 connection only in A, 1 connection only in B
"""
    assert (printed.code, printed.out) == (1, wanted)
    assert printed.err.splitlines()[:2] == [
        "dcpdump: note: these look like captures of different connections: no change of a document is in both",
        "hint: dcpdump conns lists the connections of a capture; --by key compares documents of any connections",
    ]


def test_connections_without_documents_are_paired_by_most_of_their_frames(tmp_path: Path) -> None:
    idle, other = (opening() + "".join(f"STREAM vb={each}\n" for each in range(at, at + 9)) for at in (1, 100))
    assert both(tmp_path, idle, idle).code == 0
    last = both(tmp_path, idle, other).out.splitlines()[-1]
    assert last.endswith("0 connections in both, 1 connection only in A, 1 connection only in B")


ANEW = {
    "values": (stream(SEQNOS, value="other"), ["length", "body"]),
    "opaques": (stream(SEQNOS).replace("RX mutation{", "RX mutation{opaque=0x77, "), ["opaque"]),
}


@pytest.mark.parametrize(("text", "differs"), ANEW.values(), ids=ANEW)
def test_what_a_proxy_wrote_anew_is_changed_and_not_lost(text: str, differs: list[str], tmp_path: Path) -> None:
    printed = both(tmp_path, stream(SEQNOS), text, "-f ndjson")
    assert rows(printed, "frame") == []
    assert [(row["seqno"], row["differs"]) for row in rows(printed, "changed")] == [(n, differs) for n in SEQNOS]


def test_frames_that_differ_are_listed_in_order_of_time(tmp_path: Path) -> None:
    """Whichever direction and capture they are of; times are those of each capture, the order is that of A's clock."""
    noops = "RX noop{opaque=0x99}\nTX noop-response{opaque=0x99}\n"
    acked = mutations([2]) + "TX buffer-acknowledgement{buffer-bytes=7}\n" + mutations([3])
    a, b = (
        stream([1]) + noops + acked + mutations([5]),
        stream([1]) + acked + mutations([4]) + mutations([5], value="w"),
    )
    printed = both(tmp_path, a, b, "-f ndjson")
    differing = [row for row in map(json.loads, printed.out.splitlines()) if row["type"] in ("frame", "changed")]
    names = [(row.get("only_in", "both"), row["kind"], row.get("seqno")) for row in differing]
    assert names == [("A", "request", None), ("A", "response", None), ("both", "request", 5), ("B", "request", 4)]


def test_addresses_are_hidden_where_asked(tmp_path: Path) -> None:
    out = both(tmp_path, stream(SEQNOS), stream(SEQNOS), "--redact-level full").out
    assert [address in out for address in ("10.0.0.9", "192.168.7.7")] == [False, False]


@pytest.mark.parametrize("by", ["frame", "key"])
def test_captures_redacted_with_one_salt_compare_as_the_originals(by: str, tmp_path: Path) -> None:
    (tmp_path / "salt").write_text("0123456789abcdef")
    texts = stream(SEQNOS), stream(SEQNOS).replace("value=v4", "value=w4")
    for name, text, place in zip("ab", texts, (PRODUCER, CONSUMER), strict=True):
        path = written(captured(said(text), place), tmp_path / f"{name}.pcap")
        assert run(f"dcpdump redact {path} -w {tmp_path}/{name}-redacted.pcap --salt-file {tmp_path}/salt -q").code == 0
    printed = run(f"dcpdump diff {tmp_path}/a-redacted.pcap {tmp_path}/b-redacted.pcap -q -f ndjson --by {by}")
    assert rows(printed, "frame") == []
    if by == "frame":
        assert [row["seqno"] for row in rows(printed, "changed")] == [4]
    else:
        assert [(row["last_seqno_a"], row["differs"]) for row in rows(printed, "document")] == [(4, ["value"])]


def test_what_was_inside_tls_is_compared_with_what_was_not() -> None:
    """As before and after a proxy that ends TLS: here two connections behind one."""
    keys = "--keylog tests/tls/captures/java-1.3.keys"
    printed = run(f"dcpdump diff tests/tls/captures/java-1.3.pcap samples/replica.pcap {keys} -q -f ndjson")
    (connection,) = rows(printed, "connection")
    assert [(way["both"], way["only_a"], way["only_b"], way["changed"]) for way in connection["ways"]] == [
        (10, 0, 0, 0),
        (17, 0, 0, 0),
    ]
    assert [(row["only_in"], row["frames"]) for row in rows(printed, "alone")] == [("A", 27)]
    assert printed.code == 1


def test_times_choose_the_frames_of_both_captures(tmp_path: Path) -> None:
    """Relative ones count from the beginning of each; the first frames of A and B differ, the others do not."""
    a, b = stream(SEQNOS), stream(SEQNOS).replace("value=v1}", "value=w1}")
    places = [PRODUCER._replace(syn=False), PRODUCER._replace(syn=False, clock_ns=7_000 * MS)]
    first, second = (captured(said(text), place) for text, place in zip((a, b), places, strict=True))
    assert compared(tmp_path, first, second).code == 1
    printed = compared(tmp_path, first, second, "--since +16ms -f ndjson")
    assert (printed.code, rows(printed, "total")[0]["both"]) == (0, 7)
    printed = compared(tmp_path, first, second, "--until +10ms -f ndjson")
    assert (printed.code, rows(printed, "total")[0]["both"]) == (0, 13)


@pytest.mark.parametrize(("by", "form"), [("frame", "text"), ("key", "ndjson")])
def test_who_interrupts_gets_no_half_comparison(by: str, form: str, tmp_path: Path) -> None:
    data, out = Path("samples/replica.pcap").read_bytes(), tmp_path / "out"
    with fed(["diff", "samples/replica.pcap", "-", "--by", by, "-f", form, "-o", str(out)], data) as process:
        process.send_signal(signal.SIGINT)
        printed, notes = process.communicate(timeout=PATIENCE)
    balance = "27 frames read · 60 packets · 1 connection · 5,188 B of payload, all decoded"
    assert (process.returncode, printed, notes.decode()) == (130, b"", f"of -:\ninterrupted · {balance}\n")
    assert list(tmp_path.iterdir()) == []


def test_a_capture_without_dcp_is_named(tmp_path: Path) -> None:
    empty = written([], tmp_path / "empty.pcap")
    printed = run(f"dcpdump diff samples/replica.pcap {empty} -q -o {tmp_path}/out")
    assert (printed.code, printed.out, (tmp_path / "out").exists()) == (3, "", False)
    assert printed.err.splitlines()[:1] == [f"of {empty}:"]


def test_standard_input_can_be_one_of_the_two() -> None:
    printed = run("dcpdump diff - -")
    assert (printed.code, printed.out) == (2, "")
    assert "standard input can be only one of the two" in printed.err
