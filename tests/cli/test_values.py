"""The table says of values what they are; tables of programs hold them whole, and say where --value-bytes cut them."""

import json
import struct
from pathlib import Path

import cramjam
import duckdb
import pytest

from dcpdump.render.table import is_binary
from dcpdump.wire.encode import encode
from tests.support.console import contents, run
from tests.support.conversation import opening
from tests.support.diagnoses import written
from tests.support.packets import TcpTalk, flow
from tests.support.secret_talk import saved


def packed(value: bytes) -> bytes:
    return bytes(cramjam.snappy.compress_raw(value))


STREAM = "STREAM vb=5\nRX snapshot-marker{start=0, end=9, flags=0x5}\n"
LONG = b'{"text":"' + b"a" * 100 + b'"}'
HEAD = LONG[:64].decode() + "… +47 B"
DEEP = b"[" * 2000 + b"]" * 2000
CASES = [
    (1, b'{"a":1}', '{"a":1} (JSON, valid)'),
    (1, b'{"a" 1}', '{"a" 1} (JSON, not valid: at byte 5 there is no colon)'),
    (1, b'{"a":', '{"a": (JSON, not valid: it ends too soon)'),
    (1, DEEP, "[" * 64 + "… +3,936 B (JSON)"),
    (0, b"plain text", "plain text"),
    (0, b"two\nlines", "two\\x0alines"),
    (0, b"\x00\x01\xff", "\\x00\\x01\\xff (binary)"),
    (0, b"a" * 63 + "ä".encode() + b"b" * 9, "a" * 63 + "\\xc3… +10 B"),
    (2, packed(LONG), f"{HEAD} (Snappy, 111 bytes, 21 on the wire)"),
    (3, packed(LONG), f"{HEAD} (JSON|Snappy, valid, 111 bytes, 21 on the wire)"),
    (2, packed(b"\x00" * 9), "\\x00" * 9 + " (Snappy, binary, 9 bytes, 11 on the wire)"),
]


def value_line(folder: Path, datatype: int, value: bytes, options: str) -> str:
    line = f"RX mutation{{seqno:1, key=a, datatype={datatype}, value=#{value.hex()}}}\n"
    path = written(opening() + STREAM + line, folder / "talk.pcap")
    printed = run(f"dcpdump read {path} --opcode mutation -q {options}").out
    (found,) = [each for each in printed.splitlines() if "Value" in each]
    return found.replace("\x1b[0m", "")


def test_binary_is_what_is_no_text() -> None:
    texts = [b"", b"a\tb\r\n", "größer".encode(), b"\xe2\x82", b"\x1b[0m", b"\xff"]
    assert [is_binary(text, cut=False) for text in texts] == [False, False, False, True, True, True]
    assert not is_binary(b"\xe2\x82", cut=True)


@pytest.mark.parametrize("options", ["", "--color always"])
@pytest.mark.parametrize(("datatype", "value", "shown"), CASES, ids=range(len(CASES)))
def test_a_value_is_described(tmp_path: Path, datatype: int, value: bytes, shown: str, options: str) -> None:
    assert value_line(tmp_path, datatype, value, options).endswith(f": {shown}")


def test_a_hidden_value_is_described_as_it_was(tmp_path: Path) -> None:
    notes = [value_line(tmp_path, datatype, value, "--redact").partition(" (JSON")[2] for datatype, value, _ in CASES]
    wanted = [", valid)", ", not valid: at byte 5 there is no colon)", ", not valid: it ends too soon)", ")"]
    assert notes == [*wanted, *[""] * 5, "|Snappy, valid, 111 bytes, 21 on the wire)", ""]


@pytest.mark.parametrize("command", ["read -f ndjson", "export -f csv"])
def test_more_than_any_value_has_is_all_of_it(command: str, tmp_path: Path) -> None:
    found = []
    for most in ("all", *("9" * digits for digits in (18, 20, 5000))):
        asked = f"dcpdump {command} samples/replica.pcap -o {tmp_path}/out --force -q --value-bytes {most}"
        found.append((run(asked).code, contents(tmp_path / "out")))
    assert found == [found[0]] * 4


XATTRS = struct.pack(">II", 12, 8) + b"_s\0" + b'"x"' + b"\0" + b"\0"
QUERY = """select sum(try(decode(value)->>'$.n')::int) a, sum(value_length) b,
    count(*) filter (octet_length(value) < value_length) c from {table} where name = 'DCP_MUTATION'"""
#: Of each number: whether its document has xattrs, is compressed, and its length. Some are longer than what is decoded
#: at a time.
LENGTHS = [*[1024] * 8, *[1_500_000] * 8]


def document(number: int) -> bytes:
    """Return a mutation of a JSON document whose number stands at its end."""
    value, datatype = b'{"pad": "%s", "n": %d}' % (b"=" * (LENGTHS[number] - 20), number + 10), 1
    if number & 1:
        value, datatype = XATTRS + value, datatype | 4
    if number & 2:
        value, datatype = bytes(cramjam.snappy.compress_raw(value)), datatype | 2
    given = {"by_seqno": number + 1, "rev_seqno": 1}
    return encode("DCP_MUTATION", given, key=b"k", value=value, datatype=datatype, vbucket=7, opaque=9)


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a documents of documents: plain, compressed, with xattrs, and both."""
    talk = TcpTalk(flow(), acks=False).send(0, encode("DCP_OPEN", {"flags": 1}, key=b"x"))
    for number in range(len(LENGTHS)):
        talk.send(1, document(number))
    return saved(talk, tmp_path_factory.mktemp("whole") / "whole.pcap")


@pytest.mark.parametrize(("option", "cut"), [("", 0), ("--value-bytes 1100", 8)])
@pytest.mark.parametrize("command", ["sql", "export", "pipeline --engine local"])
def test_sums_over_values_are_right_and_what_was_cut_is_said(
    command: str, option: str, cut: int, documents: Path, tmp_path: Path
) -> None:
    if command == "sql":
        printed = run(f'dcpdump sql "{QUERY.format(table="frames")}" {documents} -f ndjson {option}')
        sums = list(json.loads(printed.out).values())
    else:
        printed = run(f"dcpdump {command} {documents} -o {tmp_path}/out --tables frames {option}")
        paths = [str(path) for path in tmp_path.rglob("*.parquet") if "/frames" in str(path)]
        sums = duckdb.sql(QUERY.format(table=f"read_parquet({paths})")).fetchall()[0]
    assert (printed.code, [int(each) for each in sums]) == (0, [sum(range(10, 26 - cut)), sum(LENGTHS), cut])
    note = f"values were cut in {cut} rows by {option}: value_length says how long they were"
    assert (note in printed.err) == (cut > 0)
