"""Numbers that are bytes of keys and values, or of frames that are damaged, are hidden as those bytes are."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dcpdump.wire.encode import encode
from dcpdump.wire.frame import Header, pack_header
from tests.support.console import run
from tests.support.packets import TcpTalk
from tests.support.secret_talk import saved

SECRET = b"4111-1111-1111-1111-Margarete"
PLACE: dict[str, Any] = {"vbucket": 7, "opaque": 9}
FEATURES = {"features": [6, 0xA, 0xB, 0x12]}
#: What says what rules found.
JUDGING = (
    *(f"check CAPTURE {more} -f {form}" for more in ("", "--all") for form in ("text", "ndjson", "sarif")),
    *(f"diagnose CAPTURE --all -f {form}" for form in ("text", "ndjson")),
    "report CAPTURE -o OUT/page.html",
    "sql 'select * from findings' CAPTURE -f ndjson",
)


def granted() -> TcpTalk:
    """Return a connection with a stream of vbucket 7, in its first snapshot."""
    log: Any = {"failover_log": [{"vbucket_uuid": 77, "seqno": 0}]}
    talk = TcpTalk(segment=1400)
    talk.send(0, encode("HELLO", FEATURES, key=b"agent", opaque=1))
    talk.send(1, encode("HELLO", FEATURES, response=True, opaque=1))
    talk.send(0, encode("DCP_OPEN", {"flags": 5}, key=b"eq_dcpq:x", opaque=2))
    talk.send(1, encode("DCP_OPEN", response=True, opaque=2))
    talk.send(0, encode("DCP_STREAM_REQ", {"end_seqno": 2**64 - 1}, **PLACE))
    talk.send(1, encode("DCP_STREAM_REQ", log, response=True, opaque=9))
    return talk.send(1, encode("DCP_SNAPSHOT_MARKER", {"start_seqno": 0, "end_seqno": 9, "snapshot_type": 1}, **PLACE))


def numbers_of(text: bytes) -> Iterator[str]:
    """Yield each four and eight bytes of a text as a number, in the ways in which numbers are written."""
    for width in (4, 8):
        for at in range(len(text) - width + 1):
            for order in ("big", "little"):
                number = int.from_bytes(text[at : at + width], order)
                yield from (str(number), f"{number:,}", f"{number:x}")


def said(command: str, capture: Path, out: Path, options: str) -> str:
    """Return everything that a command prints and writes."""
    words = command.replace("CAPTURE", str(capture)).replace("OUT", str(out))
    out.mkdir()
    printed = run(f"dcpdump {words} {options}")
    assert printed.code in (0, 1, 4), printed.err
    return "\n".join(
        (printed.out, printed.err, *(path.read_bytes().decode("latin-1") for path in out.rglob("*") if path.is_file()))
    )


def frame(opcode: int, extras: bytes = b"", key: bytes = b"", value: bytes = b"", **header: int) -> bytes:
    """Return a frame that may contradict the protocol."""
    lengths = {"key_length": len(key), "extras_length": len(extras), "body_length": len(extras + key + value)}
    base = Header(0x80, opcode, 0, 0, 0, 0, 7, 0, 9, 0)
    return pack_header(base._replace(**lengths, **header)) + extras + key + value


def document(value: bytes) -> bytes:
    """Return a mutation whose value should have xattrs."""
    return encode("DCP_MUTATION", {"by_seqno": 1, "rev_seqno": 1}, key=b"\x08k", value=value, datatype=4, **PLACE)


#: Values that are not what they should be, and what is said of them.
MISREAD = {
    "xattrs": (document(SECRET), "the xattrs claim 875639089 bytes, 25 are there"),
    "an xattr": (document(b"\0\0\0\x1d" + SECRET), "xattr 0 claims 875639089 bytes, 25 are left"),
    "a table": (
        frame(0x5F, (1).to_bytes(8, "big") + bytes(4) + b"\2", b"", SECRET),
        f"no FlatBuffers table: table lies outside, at {0x31313134}",
    ),
}


@pytest.mark.parametrize("command", JUDGING)
@pytest.mark.parametrize("name", MISREAD)
def test_no_verdict_on_a_value_has_its_bytes_as_a_number(name: str, command: str, tmp_path: Path) -> None:
    data, sentence = MISREAD[name]
    capture = saved(granted().send(1, data).packets, tmp_path / "a.pcap")
    clear = said(command, capture, tmp_path / "clear", "")
    hidden = said(command, capture, tmp_path / "hidden", "--redact")
    assert sentence in clear
    assert [number for number in numbers_of(SECRET) if number in hidden] == []


NAME = b"Margarete-XYZ-0123456789-abcdef-ghijklmnopq-rstu"
#: Commands that say numbers of frames, or what follows from them.
COMMANDS = (
    *JUDGING,
    "read CAPTURE -f ndjson",
    *(f"{name} CAPTURE -f {form}" for name in ("streams", "rollbacks", "conns", "flow") for form in ("text", "ndjson")),
    *(f"top CAPTURE --once -f {form}" for form in ("text", "ndjson")),
    *(f"key orders CAPTURE -f {form}" for form in ("text", "ndjson")),
    *(f"sql 'select * from {table}' CAPTURE -f ndjson" for table in ("frames", "streams")),
    *(f"diff CAPTURE OTHER {by} -f {form}" for by in ("", "--by key") for form in ("text", "ndjson")),
    "pipeline CAPTURE -o OUT --engine local",
)


def damaged() -> TcpTalk:
    """Return a connection with frames that are damaged, in which a name stands where numbers are expected."""
    talk = granted()
    talk.send(0, encode("DCP_STREAM_REQ", {"start_seqno": 5, "end_seqno": 9}, vbucket=8, opaque=10))
    talk.send(1, frame(0x53, value=NAME[:15], magic=0x81, word=0x23, opaque=10))
    talk.send(0, frame(0x53, NAME, value=b"x", key=b"key", word=11, opaque=12))
    talk.send(1, frame(0x53, value=NAME[:24], magic=0x81, word=0, opaque=12))
    talk.send(1, frame(0x56, NAME[:20], key=b"none"))
    talk.send(1, frame(0x5F, NAME[:13], b"orders", b"abc"))
    for opcode, size in ((0x57, 31), (0x58, 18), (0x59, 21)):
        talk.send(1, frame(opcode, NAME[:size], b"\x08orders", b"a"))
    talk.send(1, frame(0x64, NAME[:8], b"none"))
    talk.send(0, frame(0x5D, NAME[:4], b"none"))
    talk.send(0, frame(0x61, NAME[:8], b"none"))
    return talk.send(1, frame(0x55, NAME[:4], b"none")).fin()


@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_has_a_name_as_a_number_that_stands_where_one_is_expected(command: str, tmp_path: Path) -> None:
    capture = saved(damaged().packets, tmp_path / "a.pcap")
    saved([packet for packet in damaged().packets if packet.number % 5], tmp_path / "other.pcap")
    command = command.replace("OTHER", str(tmp_path / "other.pcap"))
    hidden = said(command, capture, tmp_path / "hidden", "--redact")
    assert [number for number in numbers_of(NAME) if number in hidden] == []


@pytest.mark.parametrize("command", ["streams CAPTURE -f ndjson", "rollbacks CAPTURE", "check CAPTURE --all"])
def test_what_is_not_redacted_has_these_numbers(command: str, tmp_path: Path) -> None:
    capture = saved(damaged().packets, tmp_path / "a.pcap")
    clear = said(command, capture, tmp_path / "clear", "")
    assert [number for number in numbers_of(NAME[:8]) if number in clear] != []


def test_what_hidden_numbers_would_decide_is_unknown_and_says_so(tmp_path: Path) -> None:
    talk = granted().send(1, frame(0x57, NAME[:31], b"\x08orders", b"a"))
    talk.send(1, encode("DCP_MUTATION", {"by_seqno": 12, "rev_seqno": 1}, key=b"\x08k", value=b"v", **PLACE))
    capture = saved(talk.packets, tmp_path / "a.pcap")
    rows = [json.loads(row) for row in run(f"dcpdump check {capture} --redact -q --all -f ndjson").out.splitlines()]
    assert [tuple(map(row.get, ("code", "severity", "frame", "message", "reason"))) for row in rows[1:]] == [
        ("DCP103", "violation", 8, "MUTATION: nmeta says … but the value has 1 bytes", None),
        ("DCP401", "unknown", 9, "MUTATION seqno 12 is outside snapshot 0..9", "the numbers of frame 8 are hidden"),
    ]
    stream = json.loads(run(f"dcpdump streams {capture} --redact -q -f ndjson").out)
    assert stream["last_seqno"] == 12
