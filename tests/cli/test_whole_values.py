"""Tables hold values whole, so that what SQL makes of them is right, and say where --value-bytes cut them."""

import json
import struct
from pathlib import Path

import cramjam
import duckdb
import pytest

from dcpdump.wire.encode import encode
from tests.support.console import run
from tests.support.packets import TcpTalk, flow
from tests.support.secret_talk import saved

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
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a capture of documents: plain, compressed, with xattrs, and both."""
    talk = TcpTalk(flow(), acks=False).send(0, encode("DCP_OPEN", {"flags": 1}, key=b"x"))
    for number in range(len(LENGTHS)):
        talk.send(1, document(number))
    return saved(talk, tmp_path_factory.mktemp("whole") / "whole.pcap")


@pytest.mark.parametrize(("option", "cut"), [("", 0), ("--value-bytes 1100", 8)])
@pytest.mark.parametrize("command", ["sql", "export", "pipeline --engine local"])
def test_sums_over_values_are_right_and_what_was_cut_is_said(
    command: str, option: str, cut: int, capture: Path, tmp_path: Path
) -> None:
    if command == "sql":
        printed = run(f'dcpdump sql "{QUERY.format(table="frames")}" {capture} -f ndjson {option}')
        sums = list(json.loads(printed.out).values())
    else:
        printed = run(f"dcpdump {command} {capture} -o {tmp_path}/out --tables frames {option}")
        paths = [str(path) for path in tmp_path.rglob("*.parquet") if "/frames" in str(path)]
        sums = duckdb.sql(QUERY.format(table=f"read_parquet({paths})")).fetchall()[0]
    assert (printed.code, [int(each) for each in sums]) == (0, [sum(range(10, 26 - cut)), sum(LENGTHS), cut])
    note = f"values were cut in {cut} rows by {option}: value_length says how long they were"
    assert (note in printed.err) == (cut > 0)
