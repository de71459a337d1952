"""Offer the data source ``dcp``: captures as a DataFrame of frames, for notebooks, SQL and streams.

    import dcpdump.spark
    dcpdump.spark.register(spark)
    spark.read.format("dcp").option("columns", "time,name,vbucket,by_seqno").load("captures/")

Each chain of captures is read by one task. Of an archive by ``pipeline --keep-index``, each span is read by one task,
and spans without packets in the queried times are not read.
"""

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from dcpdump.arrow import schema as tables
from dcpdump.batch.filter import masks
from dcpdump.errors import DcpdumpError, FilterError
from dcpdump.filter import Clause, FrameFilter, clauses
from dcpdump.spark.chain import ChainCheckpoint, ChainSpan, chains, opened, read_spans, read_state
from dcpdump.spark.decoding import Decoding, Options, all_of
from dcpdump.spark.filesystem import Input, below, inputs, resolve_uri, working_in
from dcpdump.spark.watch import IDLE, MOST, Arrivals, LeftChains

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter


#: Filter options of the command line, and the functions that parse their text.
_CLAUSES = {
    name: getattr(clauses, f"by_{name}") for name in "opcode vbucket kind opaque collection connection seqno".split()
}
#: The columns that these options test.
_OPTIONS = {"by_seqno": "seqno"} | {name: name for name in _CLAUSES if name != "seqno"}
_TIMES = ("time", "time_ns")
#: The filters that bound a column's values from below, and from above.
_FROM = ("EqualTo", "In", "GreaterThan", "GreaterThanOrEqual")
_TO = ("EqualTo", "In", "LessThan", "LessThanOrEqual")
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


class Captures(DataSource):
    """The frames of captures.

    Options: columns, value_bytes, show_secrets, chain, salvage, pushdown; of streams state, idle, max_files.
    """

    @classmethod
    def name(cls) -> str:
        """Return the name that stands in ``format("dcp")`` and ``USING dcp``."""
        return "dcp"

    def schema(self) -> StructType:
        """Return the columns: all of ``frames``, or those of the option ``columns``."""
        whole = pa.schema([pa.field(field.name, _kind(field.type)) for field in tables.frames()])
        named = self.options.get("columns")
        if named is None:
            return from_arrow_schema(whole)
        names = [name.strip() for name in named.split(",")]
        unknown = [name for name in names if name not in whole.names]
        if unknown:
            raise DcpdumpError(f"the table frames has no column {unknown[0]!r}", "columns")
        return from_arrow_schema(pa.schema([whole.field(name) for name in names]))

    def reader(self, schema: StructType) -> "FrameReader":
        """Return a reader; one that accepts filters only where that is requested.

        Spark up to 4.3 at least keeps the reader of a filtered query for all later ones of the same DataFrame or view,
        which then lack rows.
        """
        pushdown = self.options.get("pushdown", "").lower() == "true"
        return (FilteringReader if pushdown else FrameReader)(self.options, schema)

    def streamReader(self, schema: StructType) -> "StreamReader":
        """Return a reader of captures as they are closed."""
        return StreamReader(self.options, schema)


class SourcePartition(InputPartition):
    """The work of one task: a span to decode, or a chain of captures from where the batch before left it."""

    def __init__(self, number: int, options: Options, captures: Sequence[Input] = ()) -> None:
        super().__init__(number)
        self.options, self.captures = options, [each.path for each in captures]
        self.folder = os.getcwd()  #: of the driver: relative names are below it
        self.span: ChainSpan | None = None
        self.archive = ""  #: the archive with the span
        self.begin, self.left = "", ""  #: the files with the chain's checkpoint before the batch, and after it


class _CaptureReader:
    """A reader of captures: what both kinds have in common."""

    def __init__(self, options: Any, schema: StructType) -> None:
        path = options.get("path")  # Spark has several in a list of JSON
        self._paths: list[str] = json.loads(options.get("paths", "[]")) if path is None else [path]
        self._schema = schema
        self._chain = options.get("chain", "folder")
        value_bytes = options.get("value_bytes", "all")
        self._options = Options(
            value_bytes=None if value_bytes in ("all", "-1") else int(value_bytes),
            show_secrets=options.get("show_secrets", "").lower() == "true",
            salvage=options.get("salvage", "").lower() == "true",
        )

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Decode one partition, in a task, and yield its rows; write the chain's checkpoint if it continues."""
        if not isinstance(partition, SourcePartition):
            return  # there is nothing to read
        schema, span, begin = _arrow_schema(self._schema), partition.span, ChainCheckpoint()
        with working_in(partition.folder):
            if span is not None:
                with resolve_uri(below(partition.archive, span.file)).open() as file:
                    begin = read_state(file, span)
            else:
                if partition.begin:
                    begin = ChainCheckpoint.unpacked(resolve_uri(partition.begin).read(), partition.begin)
                span = all_of(partition.captures, partition.options, begin, ends=not partition.left)
            decoding = Decoding(span, begin, partition.options)
            for batch in decoding:
                yield batch_of(batch, schema)
            if partition.left:
                resolve_uri(partition.left).write(decoding.left().packed())


class FrameReader(_CaptureReader, DataSourceReader):
    """A reader of the frames of captures."""

    def __init__(self, options: Any, schema: StructType) -> None:
        super().__init__(options, schema)
        self._texts: dict[str, str] = {}
        self._times: list[tuple[bool, int]] = []  # bounds of a query's times: whether from below, and in ns

    def partitions(self) -> Sequence[SourcePartition]:
        """Return one partition for each span of an archive that has an index, else one for each chain of captures."""
        if not self._paths:
            raise DcpdumpError("no captures are named", "", 'spark.read.format("dcp").load("captures/")')
        found: list[Clause] = [_CLAUSES[name](text) for name, text in self._texts.items()]
        options = replace(self._options, masks=masks(self._texts, FrameFilter(tuple(found))))
        spans = [(path, span) for path in self._paths for span in _indexed(path)]
        made: list[SourcePartition] = []
        if spans:
            for path, span in spans:
                if self._may_have(span):
                    made.append(SourcePartition(len(made), options))
                    made[-1].span, made[-1].archive = span, path
            return made
        for chain in chains(inputs(self._paths), self._chain, self._paths):
            for each in chain.captures:
                opened(each.path, salvage=options.salvage, secrets=None).close()  # not a capture: raises here
            made.append(SourcePartition(len(made), options, chain.captures))
        return made

    def _may_have(self, span: ChainSpan) -> bool:
        """Return whether a span may have frames in the queried times."""
        first, last = span.first_ns, span.last_ns
        if first is None or last is None or not span.packets:
            return True
        return all(last >= ns if earliest else first <= ns for earliest, ns in self._times)


def _indexed(path: str) -> list[ChainSpan]:
    """Return the spans in an archive's index, of all its inputs."""
    where = resolve_uri(below(path, "index"))
    found: list[ChainSpan] = []
    for each in where.files(recursive=True):
        if each.path.endswith(".parquet"):
            name = each.path[len(where.path) - len("index") :]
            found += read_spans(where.system.open_input_file(each.path), name)
    return found


class FilteringReader(FrameReader):
    """A reader that applies a query's filters. Spark filters its rows again."""

    def pushFilters(self, filters: "list[Filter]") -> "Iterator[Filter]":
        """Note the filters that can be applied here; return all, so that Spark applies each again.

        The noted filters may let more rows pass: an exclusive bound counts as inclusive.
        """
        for each in filters:
            name, kind = ".".join(getattr(each, "attribute", ())), type(each).__name__
            value: Any = getattr(each, "value", None)
            values = [one for one in (value if kind == "In" else [value]) if one is not None]
            if name in _TIMES and values:
                self._times += [(True, _nanoseconds(min(values), 0))] if kind in _FROM else []
                self._times += [(False, _nanoseconds(max(values), 999))] if kind in _TO else []
            elif name in _OPTIONS and kind in ("EqualTo", "In"):
                self._say(_OPTIONS[name], ",".join(map(str, values)))
            elif name == "by_seqno" and kind in (*_FROM, *_TO):
                self._say("seqno", f"{max(int(values[0]), 0)}-" if kind in _FROM else f"0-{int(values[0])}")
            yield each

    def _say(self, option: str, text: str) -> None:
        """Note an option, unless its values are impossible, or would be read as an exclusion: Spark handles those."""
        with suppress(FilterError):
            _CLAUSES[option](text)
            if "!" not in text:
                self._texts.setdefault(option, text)


def _nanoseconds(value: Any, rest: int) -> int:
    """Return a time of a query in ns; ``rest``: further ns within a timestamp's microsecond."""
    if not isinstance(value, datetime):
        return int(value)
    return (value.astimezone(timezone.utc) - _EPOCH) // timedelta(microseconds=1) * 1000 + rest


class StreamReader(_CaptureReader, DataSourceStreamReader):
    """A reader of captures as they are closed, batch by batch; each chain continues from its checkpoint.

    The captures of each batch, and the chains' checkpoints after it, are files below the option ``state``. A repeated
    batch begins at the same checkpoints, and returns the same rows.
    """

    def __init__(self, options: Any, schema: StructType) -> None:
        super().__init__(options, schema)
        if "state" not in options:
            hint = '.option("state", "s3://archive/state"): a folder that all machines reach'
            raise DcpdumpError("a stream keeps where each chain was left", "state", hint)
        home, most = str(options["state"]), int(options.get("max_files", MOST))
        self._left = LeftChains(home)
        self._arrivals = Arrivals(self._paths, below(home, "arrivals"), float(options.get("idle", IDLE)), most)

    def initialOffset(self) -> dict[str, int]:
        """Return the offset before the first batch: an offset is a number of batches."""
        return {"batch": 0}

    def latestOffset(self, start: Any = None, limit: Any = None) -> dict[str, int]:
        """Return the offset after the captures that are closed by now; they are written down as a batch."""
        count = self._arrivals.count()
        return {"batch": count + bool(self._arrivals.next(count))}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[SourcePartition]:
        """Return one partition for each chain with captures between two offsets."""
        first, last = int(start["batch"]), int(end["batch"])
        found = [each for number in range(first, last) for each in self._arrivals.batch(number)]
        left = self._left.at(first)
        made: list[SourcePartition] = []
        for chain in chains(found, self._chain, self._paths) if found else ():
            each = SourcePartition(len(made), self._options, chain.captures)
            each.begin, each.left = left.get(chain.name, ""), self._left.path(chain.name, last)
            made.append(each)
        return made

    def commit(self, end: dict[str, int]) -> None:
        """Remove older checkpoints: no batch begins there again."""
        self._left.forget(int(end["batch"]))


#: Spark has no unsigned numbers and no dictionaries. Columns have the types that Spark gives the tables of the
#: pipeline.
_WIDER = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
}


def _arrow_schema(schema: StructType) -> pa.Schema:
    """Return a schema of Spark as Arrow's, with times in UTC."""
    try:
        return to_arrow_schema(schema, timezone="UTC")
    except TypeError:  # before Spark 4.2 they always are
        return to_arrow_schema(schema)


def batch_of(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return the columns of ``schema`` from a batch, in Spark's types."""
    columns = [batch.column(field.name).cast(field.type) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _kind(kind: pa.DataType) -> pa.DataType:
    if kind in _WIDER:
        return _WIDER[kind]
    if pa.types.is_dictionary(kind):
        return kind.value_type
    if pa.types.is_list(kind):
        return pa.list_(pa.field("element", _kind(kind.value_type)))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, _kind(field.type)) for field in kind])
    return kind
