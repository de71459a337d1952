"""Offer the data source ``dcp``: captures as a DataFrame of frames, for notebooks and SQL.

    import dcpdump.spark
    dcpdump.spark.register(spark)
    spark.read.format("dcp").option("columns", "time,name,vbucket,by_seqno").load("captures/")

Where each task begins has to be known before the first of them starts, and a task of a data source cannot be run twice:
so the driver reads all captures itself when it plans, without making rows. That suits exploration. Archives are for the
pipeline, and its tables for queries.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from dcpdump.batch.filter import Masks, masks
from dcpdump.errors import CaptureError, DcpdumpError, FilterError
from dcpdump.filter import Clause, FrameFilter, clauses
from dcpdump.spark.decoding import decode_split
from dcpdump.spark.filesystem import open_binary
from dcpdump.spark.input import inputs
from dcpdump.spark.parts import frames
from dcpdump.spark.row_options import Options
from dcpdump.spark.seams import settle, verify
from dcpdump.spark.split_plan import plan_splits
from dcpdump.spark.split_survey import survey_split
from dcpdump.spark.splits import TARGET
from dcpdump.spark.work import Exit, Surveyed, Work

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter


#: Columns that are also options of the command line, and the functions that parse their text.
_CLAUSES = {
    "opcode": clauses.by_opcode,
    "vbucket": clauses.by_vbucket,
    "kind": clauses.by_kind,
    "opaque": clauses.by_opaque,
    "collection": clauses.by_collection,
    "connection": clauses.by_connection,
}


class Captures(DataSource):
    """The frames of captures. Options: columns, value_bytes, show_secrets, split (bytes a task), salvage."""

    @classmethod
    def name(cls) -> str:
        """Return the name that stands in ``format("dcp")`` and ``USING dcp``."""
        return "dcp"

    def schema(self) -> StructType:
        """Return the columns: all of ``frames``, or those of the option ``columns``."""
        whole = schema_of(frames())
        named = self.options.get("columns")
        if named is None:
            return from_arrow_schema(whole)
        names = [name.strip() for name in named.split(",")]
        unknown = [name for name in names if name not in whole.names]
        if unknown:
            raise DcpdumpError(f"the table frames has no column {unknown[0]!r}", "columns")
        return from_arrow_schema(pa.schema([whole.field(name) for name in names]))

    def reader(self, schema: StructType) -> "FrameReader":
        """Return a reader."""
        return FrameReader(self.options, schema)


class FilteredCaptures(Captures):
    """The data source where the session pushes filters down to sources; without that its queries would fail."""

    def reader(self, schema: StructType) -> "FrameReader":
        """Return a reader that accepts filters."""
        return FilteringReader(self.options, schema)


class SourcePartition(InputPartition):
    """The work of one task."""

    def __init__(self, work: Work, choice: Options) -> None:
        super().__init__(work.ordinal)
        self.work = work
        self.choice = choice


class FrameReader(DataSourceReader):
    """A reader of the frames of captures, one work per task."""

    def __init__(self, options: Any, schema: StructType) -> None:
        path = options.get("path")  # Spark has several in a list of JSON
        self._paths: list[str] = json.loads(options.get("paths", "[]")) if path is None else [path]
        self._schema = schema
        self._split = int(options.get("split", TARGET))
        value_bytes = options.get("value_bytes", "all")
        self._value_bytes = None if value_bytes in ("all", "-1") else int(value_bytes)
        self._show_secrets = options.get("show_secrets", "").lower() == "true"
        self._salvage = options.get("salvage", "").lower() == "true"
        self._texts: dict[str, str] = {}

    def partitions(self) -> Sequence[SourcePartition]:
        """Survey the captures on the driver, and return one partition for each task."""
        if not self._paths:
            raise DcpdumpError("no captures are named", "", 'spark.read.format("dcp").load("captures/")')
        found = inputs(self._paths)
        plan = plan_splits(found, open_binary, self._split)
        for path, _, why in plan.unusable:
            raise CaptureError(why, path, "dcpdump pipeline goes on without such a file")
        choice = self._choice()

        def survey(works: Sequence[Work]) -> Iterator[Surveyed]:
            return (survey_split(work, open_binary, choice.limits, salvage=choice.salvage) for work in works)

        held: dict[int, Work] = {}

        def prove(works: Sequence[Work]) -> Iterator[Exit]:
            for work in works:
                held[work.ordinal] = work
                yield _without_rows(work, choice)

        verify(settle(plan, survey, choice.limits), prove)
        return [SourcePartition(held[ordinal], choice) for ordinal in sorted(held)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Decode one partition, in a task, and yield its rows."""
        if not isinstance(partition, SourcePartition):  # there is nothing to read
            return
        schema = to_arrow_schema(self._schema, timezone="UTC")
        work, choice = partition.work, partition.choice
        for name, batch in decode_split(work, choice, open_binary):
            if name == "frames":
                yield batch_of(batch, schema)

    def _choice(self) -> Options:
        found: list[Clause] = [_CLAUSES[name](text) for name, text in self._texts.items()]
        return Options(
            masks(self._texts, FrameFilter(tuple(found))),
            self._value_bytes,
            self._show_secrets,
            salvage=self._salvage,
        )


def _without_rows(work: Work, choice: Options) -> Exit:
    """Decode a work as its task will, but without making rows, and return how it left its connections."""
    nothing = Masks(FrameFilter(()), (lambda part: np.zeros(len(part), bool),))
    decoding = decode_split(work, replace(choice, masks=nothing, value_bytes=0), open_binary)
    for _ in decoding:
        continue
    return decoding.exit


class FilteringReader(FrameReader):
    """A reader that leaves out frames that a query does not want. Spark still filters what it returns."""

    def pushFilters(self, filters: "list[Filter]") -> "Iterator[Filter]":
        """Note the filters that can be applied here, and return them all: Spark applies each of them again."""
        from pyspark.sql.datasource import EqualTo, In  # newer in Spark than the imports above

        for each in filters:
            if isinstance(each, (EqualTo, In)) and len(each.attribute) == 1 and each.attribute[0] in _CLAUSES:
                values = [each.value] if isinstance(each, EqualTo) else list(each.value)
                self._note(each.attribute[0], ",".join(str(value) for value in values if value is not None))
            yield each

    def _note(self, name: str, text: str) -> None:
        """Note the values that a column has to have, unless no frame can have them: that is for Spark to find."""
        with suppress(FilterError):
            _CLAUSES[name](text)
            if "!" not in text:  # which would exclude
                self._texts.setdefault(name, text)


#: Spark has no unsigned numbers and no dictionaries, so columns get the types that it gives them when it reads the
#: tables of the pipeline.
_WIDER = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
}


def schema_of(schema: pa.Schema) -> pa.Schema:
    """Return a schema with Spark's types."""
    return pa.schema([pa.field(field.name, _kind(field.type)) for field in schema])


def batch_of(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return those columns of a batch that ``schema`` has, in Spark's types."""
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
