"""Xattrs in every format: those of documents and of cached records, and the bytes of damaged ones."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import cramjam
import pyarrow.parquet as pq
import pytest

from dcpdump.wire.encode import Item, encode
from tests.support.console import run
from tests.support.packets import TcpTalk
from tests.support.secret_talk import saved

DAMAGED = bytes.fromhex("00000016 000000075f730022782200 0000003262636465666768") + b'{"a":1}'
UNREAD = "0000003262636465666768"
FAULT = "xattr 1 claims 50 bytes, 7 are left"
BINARY = bytes.fromhex("00000008 00000004ff000100") + b"v"
SOUND = bytes.fromhex("0000000b 000000075f730022782200") + b'{"b":2}'


def packed(value: bytes) -> bytes:
    return bytes(cramjam.snappy.compress_raw(value))


def document(value: bytes, datatype: int) -> bytes:
    return encode("DCP_MUTATION", {"by_seqno": 4}, key=b"\x08k", value=value, datatype=datatype)


def cached(*records: tuple[bytes, int]) -> bytes:
    items: list[Item] = [{"key": b"\x08k", "value": value, "datatype": datatype} for value, datatype in records]
    return encode("DCP_CACHE_TRANSFER", {"items": items})


def table(frame: bytes, first: str) -> list[str]:
    """Return the rows of a frame's table from the value on, with what is said below them."""
    rows = run(f"dcpdump explain -q {frame.hex()}").out.splitlines()
    return rows[next(at for at, row in enumerate(rows) if row.startswith(first)) :]


def row(frame: bytes) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run(f"dcpdump explain -q -f ndjson {frame.hex()}").out)
    return found


def test_the_table_shows_each_byte_of_damaged_xattrs_at_its_place_where_they_have_one() -> None:
    compressed = table(document(packed(DAMAGED), 7), "Value")
    assert compressed[1:3] == ['  xattr _s           : "x"', f"  Unexplained        : 0x{UNREAD}"]
    assert table(document(DAMAGED, 5), "Value")[:5] == [
        'Value         (57-89): {"a":1} (JSON)',
        '  xattr _s           : "x"',
        f"  Unexplained (72-82): 0x{UNREAD}",
        f"! {FAULT}",
        "",
    ]


@pytest.mark.parametrize(("value", "datatype"), [(DAMAGED, 5), (packed(DAMAGED), 7)])
def test_rows_have_each_byte_of_damaged_xattrs(value: bytes, datatype: int) -> None:
    frame = document(value, datatype)
    wanted = {"value": '{"a":1}', "xattrs": {"_s": '"x"'}, "xattrs_unread_hex": UNREAD, "value_length": 7}
    found = row(frame)
    assert {name: found[name] for name in wanted} == wanted
    assert [problem["text"] for problem in found["problems"]] == [FAULT]
    (flat,) = csv.DictReader(io.StringIO(run(f"dcpdump explain -q -f csv {frame.hex()}").out, newline=""))
    assert (flat["xattrs"], flat["xattrs_unread_hex"], flat["problems"]) == ('{"_s": "\\"x\\""}', UNREAD, FAULT)


def test_a_cached_record_shows_its_xattrs_as_a_mutation_does() -> None:
    assert table(cached((SOUND, 5), (DAMAGED, 5), (b"", 5), (packed(SOUND), 7)), "  value ")[:16] == [
        '  value        (66-87)  : {"b":2}',
        '  xattr _s              : "x"',
        "Body (item 1):",
        "  cas          (88-95)  : 0x0000000000000000",
        "  by_seqno     (96-103) : 0x0000000000000000",
        "  rev_seqno    (104-111): 0x0000000000000000",
        "  value_len    (112-115): 0x00000021 (33)",
        "  flags        (116-119): 0x00000000",
        "  expiration   (120-123): 0x00000000",
        "  key_len      (124-125): 0x0002",
        "  datatype     (126)    : 0x05 (JSON|XATTR)",
        "  cacheHint    (127)    : 0x00",
        "  key          (128-129): k (collection 0x8)",
        '  value        (130-162): {"a":1}',
        '  xattr _s              : "x"',
        f"  Unexplained  (145-155): 0x{UNREAD}",
    ]


def test_rows_have_the_xattrs_of_each_cached_record() -> None:
    found = row(cached((SOUND, 5), (DAMAGED, 5), (b"", 5), (packed(SOUND), 7), (b"{}", 1)))
    names, pairs = ("value", "xattrs", "xattrs_unread_hex"), {"_s": '"x"'}
    whole, torn = ('{"b":2}', pairs, None), ('{"a":1}', pairs, UNREAD)
    items = [tuple(map(item.get, names)) for item in (*found["fields"]["items"], row(document(SOUND, 5)))]
    assert items == [whole, torn, ("", None, None), whole, ("{}", None, None), whole]


def capture(path: Path) -> Path:
    frames = [document(DAMAGED, 5), document(packed(DAMAGED), 7), document(SOUND, 5)]
    frames.append(cached((SOUND, 5), (DAMAGED, 5), (BINARY, 4)))
    talk = TcpTalk().send(0, encode("DCP_OPEN", {"flags": 5}, key=b"me")).send(1, b"".join(frames)).fin()
    saved(talk.packets, path)
    return path


def test_the_table_of_frames_has_the_same_xattrs(tmp_path: Path) -> None:
    path = capture(tmp_path / "a.pcap")
    assert run(f"dcpdump export {path} -o {tmp_path}/out --tables frames -q").code == 0
    rows = pq.read_table(tmp_path / "out" / "frames.parquet").to_pylist()[1:]
    pairs = [(b"_s", b'"x"')]
    found = [(each["xattrs"], each["xattrs_unread_hex"]) for each in (*rows, *rows[3]["items"])]
    documents, items = [(pairs, UNREAD), (pairs, UNREAD), (pairs, None), (None, None)], [(pairs, None), (pairs, UNREAD)]
    assert found == [*documents, *items, ([(b"\xff", b"\x01")], None)]


def test_what_captures_hold_fits_the_schema(tmp_path: Path) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    judge = jsonschema.Draft202012Validator(json.loads(run("dcpdump read --schema").out))
    rows = run(f"dcpdump read {capture(tmp_path / 'a.pcap')} -q -f ndjson").out.splitlines()
    assert len(rows) == 5
    assert [error.message for each in rows for error in judge.iter_errors(json.loads(each))] == []


def test_the_history_of_a_key_names_the_xattrs_of_cached_records(tmp_path: Path) -> None:
    lines = run(f"dcpdump key k {capture(tmp_path / 'a.pcap')} -q").out.splitlines()
    found = [line for line in lines if "cache-transfer" in line]
    assert [line.split()[-2] for line in found] == ["_s", "_s", "\\xff"]


def test_a_copy_to_share_has_xattrs_of_the_same_lengths(tmp_path: Path) -> None:
    path, shared = capture(tmp_path / "a.pcap"), tmp_path / "shared.pcap"
    assert run(f"dcpdump redact {path} -w {shared} -q").code == 0
    one, other = (
        json.loads(run(f"dcpdump read {each} -q -f ndjson --opcode 0x66").out)["fields"]["items"][0]
        for each in (path, shared)
    )
    assert [len(name) + len(text) for name, text in other["xattrs"].items()] == [5]
    assert (len(other["value"]), other["value_length"]) == (len(one["value"]), one["value_length"])
    assert not {*other["xattrs"].items()} & {*one["xattrs"].items()}
