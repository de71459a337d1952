"""Every field of every layout at its extremes, and texts and times that nobody expects: no row ends a run.

What is written reads back, in Arrow and in DuckDB, as the numbers that were sent.
"""

import csv
import json
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dcpdump.cli.export import TABLES
from dcpdump.spec import ERROR
from dcpdump.spec.field import Blob, Field, FlatTable, Part, Repeat
from dcpdump.wire.encode import Values, encode
from tests.support.batch_rows import IDENTITIES, spelled
from tests.support.captures import Record, pcapng
from tests.support.console import run
from tests.support.packets import NOON, TcpTalk, flow
from tests.support.strategies import PUSHED, SHAPES, Shape
from tests.support.tables import exported, found

NAN = 0x7FF8_0000_0000_0001
FIRST_OPAQUE = 0x7FFF_0000
EVERY = [*SHAPES, *PUSHED]
TEXTS = [
    b"\xff\xfe\x00",  # not UTF-8
    b"\xed\xa0\x80",  # half a character, as UTF-8 has none
    b'"\\ud800"',
    b"\x1b]0;x\x07\x9b\xe2\x80\xae",
    b'{"uid":"ffffffffffffffffff","a":1e999,"b":-0.0,"c":' + b"9" * 400 + b"}",
    b"NaN",
    b"[" * 3000,
    b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7fkey",  # a collection of more than 64 bits
    b"\xff\xff\xff\xff\x7fkey",  # and of more than 32
    b"\xff\xff\xff\xff\x0f" + b"\x00" * 4,  # 4 GiB of Snappy
    b"\x00\x00\x00\x06\xff\xff\xff\xffa\x00",  # xattrs that go on for 4 GiB
    b"\x00\x00\x00\x0a\x00\x00\x00\x06\xff\x00\xfe\x00\xfd\x00",  # and without UTF-8
]
DATATYPES = (0, 1, 2, 4, 0xFF)
STREAM_IDS = (0, 1 << 15, 0xFFFF)
TIMES = [0, 1, 1 << 31, (1 << 31) * 10**9, ((1 << 32) - 1) * 10**9, (1 << 63) - 1, 1 << 63, (1 << 64) - 1]


class Extreme(NamedTuple):
    """A frame, and a field of it with the number that was sent there."""

    data: bytes
    field: str = ""
    number: int = 0


def extremes(width: int) -> set[int]:
    """Return the numbers of a width at which something may turn over, or be taken for something else."""
    most = (1 << 8 * width) - 1
    return {each & most for each in (0, 1, most, most >> 1, (most >> 1) + 1, 1 << 31, 1 << 32, 1 << 53, NAN)}


def values_of(part: Part) -> Iterator[tuple[Values, str, int]]:
    """Yield values of a part of a layout; the field that has an extreme, where it is a column by itself."""
    if isinstance(part, Field):
        for number in extremes(part.width):
            yield {part.name: number}, part.name, number
    elif isinstance(part, FlatTable):
        for field in part.fields:
            yield from values_of(field)
    elif isinstance(part, Repeat):
        for inner in part.fields:
            for values, _, _ in values_of(inner):
                (value,) = values.values()
                size = {inner.size: len(value)} if isinstance(inner, Blob) and isinstance(value, bytes) else {}
                item: Any = {**values, **size} if len(part.fields) > 1 else value
                yield {part.name: [item]}, "", 0
    elif not part.size:
        for text in TEXTS:
            yield {part.name: text}, "", 0


def frames(shape: Shape, opaque: int) -> Iterator[Extreme]:
    """Yield frames of a shape: each field at each extreme, then each text as key and as value, then the header's."""
    message, layout = shape.message, shape.layout
    how: dict[str, Any] = {"response": shape.response, "layout": layout.version, "status": layout.when.get("status", 0)}
    if layout is ERROR:
        how["status"] = 0x04
    opaques = count(opaque)
    for part in (*layout.extras, *layout.parts):
        for values, name, number in values_of(part):
            if layout.when.keys().isdisjoint(values) and layout.tail not in values:
                yield Extreme(encode(message, values, opaque=next(opaques), **how), name, number)
    # Of documents each text is of each datatype, and each number is a cas; of others one is, of another shape the next.
    whole, turn = message.document and not shape.response, opaque // 1000
    for place, text in enumerate(TEXTS if message.known else TEXTS[:1]):
        for datatype in DATATYPES if whole else (DATATYPES[(turn + place) % len(DATATYPES)],):
            data = encode(message, key=text[:250], value=text, datatype=datatype, opaque=next(opaques), **how)
            yield Extreme(data, "datatype", datatype)
    if not shape.response and shape not in PUSHED:
        for number in STREAM_IDS if whole else (STREAM_IDS[turn % len(STREAM_IDS)],):
            data = encode(message, vbucket=number, stream_id=number, opaque=next(opaques), **how)
            yield Extreme(data, "stream_id", number)
    numbers = sorted(extremes(8))
    for number in numbers if whole else (numbers[turn % len(numbers)],):
        yield Extreme(encode(message, cas=number, opaque=next(opaques), **how), "cas", number)


def talk(number: int, start_ns: int = NOON) -> TcpTalk:
    """Begin a connection that is known for what it is."""
    way = flow(f"10.1.{number >> 8}.{number & 0xFF}:50000")
    made = TcpTalk(way, segment=1 << 14, start_ns=start_ns + number, acks=False)
    return made.send(0, encode("DCP_OPEN", {"flags": 1}, key=b"x")).send(1, encode("DCP_OPEN", response=True))


@pytest.fixture(scope="module")
def sent() -> dict[int, Extreme]:
    """Return the frames by their opaques."""
    found: dict[int, Extreme] = {}
    for number, shape in enumerate(EVERY):
        first = FIRST_OPAQUE + 1000 * number
        found |= {first + place: each for place, each in enumerate(frames(shape, first))}
    return found


@pytest.fixture(scope="module")
def path(sent: dict[int, Extreme], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a capture of all of them, with a connection for each shape."""
    talks = [talk(number) for number in range(len(EVERY))]
    for opaque, extreme in sent.items():
        number = (opaque - FIRST_OPAQUE) // 1000
        shape = EVERY[number]
        talks[number].send(int(shape.response != (shape in PUSHED)), extreme.data)
    made = sorted((packet for each in talks for packet in each), key=lambda packet: packet.ts_ns or 0)
    path = tmp_path_factory.mktemp("extremes") / "extremes.pcapng"
    path.write_bytes(pcapng([Record(packet.ts_ns or 0, packet.data) for packet in made]))
    return path


@pytest.fixture(scope="module")
def folder(path: Path) -> Path:
    """Return what is exported of it, as Parquet, with findings."""
    folder = path.parent / "parquet"
    assert run(f"dcpdump export {path} -o {folder} -q --tables {','.join(TABLES)}") == (0, "", "")
    return folder


@pytest.fixture(scope="module")
def frames_of(folder: Path) -> list[dict[str, Any]]:
    """Return the rows of the table ``frames``, which no test changes."""
    table = pq.read_table(folder / "frames.parquet")
    table.validate(full=True)
    return table.to_pylist()  # type: ignore[no-any-return]


def printed(path: Path) -> list[dict[str, Any]]:
    """Return the rows that ``read`` prints, without the field that is a row's collection: tables have it once."""
    rows = [json.loads(line) for line in run(f"dcpdump read {path} -f ndjson -q --value-bytes all").out.splitlines()]
    for row in rows:
        row.get("fields", {}).pop("collection_id", None)
        for name in IDENTITIES & row.get("fields", {}).keys():
            if row["fields"][name] == 0:  # one that a FlatBuffers table leaves out
                row["fields"][name] = f"0x{0:016x}"
    return rows


#: Fields whose columns have other names.
COLUMNS = {"collection_id": "collection", "status": "end_status"}


def test_every_number_reads_back_as_it_was_sent(sent: dict[int, Extreme], frames_of: list[dict[str, Any]]) -> None:
    rows = {row["opaque"]: row for row in frames_of if row["opaque"] >= FIRST_OPAQUE}
    assert rows.keys() == sent.keys()
    wrong = [
        (str(EVERY[(opaque - FIRST_OPAQUE) // 1000]), extreme.field, extreme.number, read)
        for opaque, extreme in sent.items()
        if extreme.field and (read := rows[opaque][COLUMNS.get(extreme.field, extreme.field)]) != extreme.number
    ]
    assert wrong == []


def test_the_rows_are_those_that_read_prints(path: Path, frames_of: list[dict[str, Any]]) -> None:
    assert [spelled(row) for row in frames_of] == printed(path)


def without_dictionaries(table: pa.Table) -> pa.Table:
    """Return a table with the texts that a column of a dictionary stands for."""
    types = [field.type.value_type if pa.types.is_dictionary(field.type) else field.type for field in table.schema]
    return table.cast(pa.schema(zip(table.schema.names, types, strict=True)))


def test_arrow_and_csv_have_the_same_rows(
    path: Path, folder: Path, frames_of: list[dict[str, Any]], tmp_path: Path
) -> None:
    assert run(f"dcpdump export {path} -o {tmp_path}/arrow -f arrow -q") == (0, "", "")
    table = pa.ipc.open_file(tmp_path / "arrow" / "frames.arrow").read_all()
    assert without_dictionaries(table) == without_dictionaries(pq.read_table(folder / "frames.parquet"))
    assert run(f"dcpdump export {path} -o {tmp_path}/csv -f csv -q") == (0, "", "")
    csv.field_size_limit(1 << 20)  # of a HELLO that asks for 1,500 features without names
    with open(tmp_path / "csv" / "frames.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    numbers = ("frame", "opaque", "cas", "by_seqno", "offset", "time_ns")
    assert [[row[name] for name in numbers] for row in rows] == [
        ["" if row[name] is None else str(row[name]) for name in numbers] for row in frames_of
    ]


def test_the_pipeline_writes_the_same_rows(path: Path, folder: Path, tmp_path: Path) -> None:
    assert run(f"dcpdump pipeline {path} -o {tmp_path}/out --engine local -q") == (0, "", "")
    for name in ("frames", "streams", "findings"):
        assert found(tmp_path / "out", name) == exported(folder, name), name


def test_duckdb_reads_them(folder: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    names = ("frame", "opaque", "cas", "by_seqno", "vbucket_uuid", "stream_id", "key", "value", "time_ns")
    wanted = pq.read_table(folder / "frames.parquet", columns=list(names)).to_pylist()
    with duckdb.connect() as database:
        database.execute(f"select * from read_parquet('{folder}/frames.parquet')").fetchall()
        rows = database.execute(f"select {','.join(names)} from read_parquet('{folder}/frames.parquet')").fetchall()
    assert rows == [tuple(row.values()) for row in wanted]


@pytest.mark.parametrize("times", [TIMES[-1:], TIMES], ids=["the last", "all in one capture"])
def test_a_packet_of_any_time_has_a_row(times: list[int], tmp_path: Path) -> None:
    path = tmp_path / "time.pcapng"
    path.write_bytes(pcapng([Record(ns, packet.data) for at, ns in enumerate(times) for packet in talk(at)]))
    wanted = printed(path)
    assert len(wanted) == 2 * len(times)
    assert run(f"dcpdump export {path} -o {tmp_path}/out -q --tables {','.join(TABLES)}").code == 0
    table = pq.read_table(tmp_path / "out" / "frames.parquet")
    table.validate(full=True)
    assert [spelled(row) for row in table.to_pylist()] == wanted
    assert run(f"dcpdump export {path} -o {tmp_path}/csv -f csv -q").code == 0
    assert run(f"dcpdump pipeline {path} -o {tmp_path}/tables --engine local -q").code == 0
    assert found(tmp_path / "tables", "frames") == exported(tmp_path / "out", "frames")
