"""Numbers that are bytes of keys and values, or of frames that are damaged, are hidden as those bytes are."""

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
    assert printed.code in (0, 1), printed.err
    return "\n".join((printed.out, printed.err, *(path.read_text() for path in out.iterdir())))


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
