"""Make batches of the table ``frames`` from parts of frames.

Frames that a plan decodes are gathered column by column. What turns out not to be plain (a key that ends inside its
collection id) is decoded as a single frame after all.
"""

from collections import defaultdict
from collections.abc import Collection
from typing import Any

import numpy as np
import pyarrow as pa

from dcpdump.arrow import schema
from dcpdump.arrow.column_builder import ColumnBuilder, Vocabulary
from dcpdump.arrow.record_rows import VALUES, is_cut, misfit
from dcpdump.arrow.record_rows import row as row_of
from dcpdump.arrow.values import Values, hexed
from dcpdump.batch.filter import Masks
from dcpdump.batch.gather import Array, distinct
from dcpdump.batch.learning import INFERRED, UNDERLYING
from dcpdump.batch.part import Group, Part
from dcpdump.net.no_time import NO_TIME
from dcpdump.redact import Redactor
from dcpdump.spec import find
from dcpdump.spec.field import Bits, EnumValue, Field
from dcpdump.spec.header import STREAM_ID_LENGTH
from dcpdump.spec.names import DATATYPE
from dcpdump.wire.collection_names import NAMING

#: Columns that every frame has, whoever decoded it.
_COMMON = frozenset(
    "frame packet file time time_ns connection direction src dst offset length gap_before magic kind opcode name "
    "opaque cas datatype datatype_names".split()
)
#: Columns for which values are decompressed and freed of xattrs; and those for which JSON is judged too.
_OPENED, _JUDGED = frozenset({"value", "value_length", "xattrs", "xattrs_unread_hex"}), frozenset({"problems", "hints"})
#: By the number of a datatype: its words.
_DATATYPES = pa.array([list(DATATYPE.describe(value)) for value in range(256)], schema.WORDS)


class FrameTable:
    """A builder that is fed parts and returns batches of the frames that are wanted, ``count`` of them at most.

    ``apart``: each batch has a dictionary of its own, instead of words numbered alike in every batch.
    """

    def __init__(
        self,
        wanted: Masks,
        value_bytes: int | None,
        *,
        count: int | None = None,
        redactor: Redactor | None = None,
        apart: bool = False,
    ) -> None:
        self._wanted = wanted
        self._value_bytes = value_bytes
        self._count = count
        self._redactor = redactor
        self._vocabulary = Vocabulary()
        self._apart = apart
        self._columns: Collection[str] = schema.frames().names
        self.rows = 0  #: rows returned so far
        self.cut = 0  #: of these, the ones in which a value was cut

    def choose(self, columns: Collection[str]) -> None:
        """Build only these columns."""
        self._columns = frozenset(columns)

    def feed(self, part: Part) -> pa.RecordBatch | None:
        """Return the rows of a part that are wanted; None where there are none."""
        keep, values = self._choose(part)
        rows = np.flatnonzero(keep)
        if self._redactor is not None:  # it takes frames one by one
            for row in rows[values.planned[rows]].tolist():
                part.records[row] = part.record(row)
            values.planned[rows] = False
        if self._count is not None:
            rows = rows[: self._count - self.rows]
            keep = np.zeros(len(part), bool)
            keep[rows] = True
        if not len(rows):
            return None
        self.rows += len(rows)
        if self._apart:
            self._vocabulary = Vocabulary()
        columns = ColumnBuilder(schema.frames(), len(rows), self._vocabulary, self._columns)
        place = np.full(len(part), -1)
        place[rows] = np.arange(len(rows))
        self._put_common(columns, part, rows)
        for group in part.groups:
            chosen = keep[group.rows] & values.planned[group.rows]
            if chosen.any():
                self._put_group(columns, group, chosen, place)
        planned = rows[values.planned[rows]]
        if len(planned):
            self._put_planned(columns, part, planned, place, values)
        self._put_records(columns, part, keep, place)
        return columns.batch()

    # -- choosing ---------------------------------------------------------------------------------------

    def _choose(self, part: Part) -> tuple[Array, Values]:
        """Return which rows are wanted, and their values; rows that turn out not to be plain are decoded as records."""
        wanted = self._wanted
        keep = wanted.by_header(part)
        for group in part.groups:
            keep[group.rows] &= wanted.by_fields(group)
        judged = wanted.problems or not _JUDGED.isdisjoint(self._columns)
        opened = judged or not _OPENED.isdisjoint(self._columns)
        values = Values(part, keep, opened=opened, judged=judged)
        for row in values.unsound.tolist():
            part.records[row] = part.record(row)
        rows = np.array(list(part.records), np.int64)
        values.planned[rows] = False
        if wanted.problems:
            keep &= values.faulty & ~part.knows(UNDERLYING)
        planned = np.flatnonzero(keep & values.planned)
        if len(planned):
            good = wanted.by_collection(part, planned, values.collection[planned], values.split[planned])
            if wanted.key is not None:
                keyed = np.flatnonzero(part.header.key[planned])
                found = np.zeros(len(planned), bool)
                found[keyed] = wanted.by_key(values.keys(planned[keyed]).to_pylist())
                good &= found
            keep[planned] = good
        keep[rows] = False
        undecided = wanted.undecided(part)
        keep[undecided] = [wanted.whole.accepts(part.record(row)) for row in undecided]
        return keep, values

    # -- filling ----------------------------------------------------------------------------------------

    def _put_common(self, columns: ColumnBuilder, part: Part, rows: Array) -> None:
        header, everywhere = part.header, np.arange(len(rows))
        for name, values in (
            ("frame", part.first + rows),
            ("packet", part.packet[rows]),
            ("offset", part.offset[rows]),
            ("length", part.length[rows]),
            ("gap_before", part.gap_before[rows]),
            ("magic", header.magic[rows]),
            ("opcode", header.opcode[rows]),
            ("opaque", header.opaque[rows]),
            ("cas", header.cas[rows]),
            ("datatype", header.datatype[rows]),
        ):
            columns.all(name, values)
        places, of = part.places, part.place[rows]
        columns.all("connection", np.array([ends.connection for ends in places])[of])
        columns.all("direction", np.array([ends.direction for ends in places])[of])
        ends = [each.redacted(self._redactor) for each in places]
        columns.words("src", everywhere, [each.src for each in ends], of)
        columns.words("dst", everywhere, [each.dst for each in ends], of)
        columns.words("file", everywhere, part.files, part.file[rows])
        timed = np.flatnonzero(part.ts_ns[rows] != NO_TIME)
        times = part.ts_ns[rows][timed]
        columns.numbers("time_ns", timed, times)
        columns.moments("time", timed, times // 1000)
        columns.words("kind", everywhere, ["request", "response"], header.response[rows].astype(np.int64))
        for server in (False, True) if columns.has("name") else ():
            mine = np.flatnonzero(header.server[rows] == server)
            unique, _, which = distinct(header.opcode[rows[mine]])
            columns.words("name", mine, [find(opcode, server=server).name for opcode in unique.tolist()], which)
        typed = np.flatnonzero(header.datatype[rows])
        if len(typed):
            columns.pick("datatype_names", typed, _DATATYPES, header.datatype[rows][typed])

    def _put_group(self, columns: ColumnBuilder, group: Group, chosen: Array, place: Array) -> None:
        everyone = bool(chosen.all())
        rows = place[group.rows if everyone else group.rows[chosen]]
        for field in group.plan.fields:
            if not columns.has(field.key, f"{field.key}_name", f"{field.key}_names"):
                continue
            values = group.column(field.name)
            values = values if everyone else values[chosen]
            columns.numbers(field.key, rows, values)
            _put_names(columns, field, rows, values)
        columns.words("layout", rows, [group.plan.layout.version])

    def _put_planned(self, columns: ColumnBuilder, part: Part, rows: Array, place: Array, values: Values) -> None:
        at, header = place[rows], part.header
        columns.numbers("vbucket", at, header.word[rows])
        weak = np.flatnonzero(part.weak[rows])
        if len(weak):
            columns.words("confidence", at[weak], ["low"])
        with_id = np.flatnonzero(header.framing[rows] == STREAM_ID_LENGTH)
        if len(with_id) and columns.has("stream_id", "framing"):
            ids = part.stream_id(rows[with_id])
            columns.numbers("stream_id", at[with_id], ids)
            unique, _, which = distinct(ids)
            framing = [[{"name": "DcpStreamId", "stream_id": number}] for number in unique.tolist()]
            lists = pa.array(framing, schema.frames().field("framing").type)
            columns.pick("framing", at[with_id], lists, which)
        split = np.flatnonzero(values.split[rows])
        if len(split):
            columns.numbers("collection", at[split], values.collection[rows[split]])
            guessed = split[part.knows(INFERRED)[rows[split]]]
            if len(guessed):
                columns.numbers("collection_inferred", at[guessed], True)
            if part.names and columns.has("collection_name"):
                _put_collection_names(columns, part, rows[split], at[split], values.collection[rows[split]])
        keyed = rows[header.key[rows] > 0]
        if len(keyed) and columns.has("key"):
            columns.pick("key", place[keyed], values.keys(keyed))
        if len(keyed) and columns.has("key_hex"):
            columns.pick("key_hex", place[keyed], hexed(values.wire_keys(keyed)))
        valued = rows[values.total[rows] > 0]
        columns.numbers("value_length", place[valued], values.whole[valued])
        valued = valued[values.length[valued] > 0]
        if len(valued):
            if columns.has("value"):
                if self._value_bytes is not None:
                    self.cut += int((values.whole[valued] > self._value_bytes).sum())
                if self._value_bytes != 0:
                    values.put_heads(columns, valued, place, self._value_bytes)
            values.put_xattrs(columns, valued, place)
            values.put_faults(columns, valued, place)

    def _put_records(self, columns: ColumnBuilder, part: Part, keep: Array, place: Array) -> None:
        found: dict[str, tuple[list[int], list[Any]]] = defaultdict(lambda: ([], []))
        for row in part.records:
            if not keep[row]:
                continue
            record, at = part.record(row), int(place[row])
            if self._redactor is not None:
                record = self._redactor.record(record)
            self.cut += columns.has(*VALUES) and is_cut(record, self._value_bytes)
            for name, value in row_of(record, self._value_bytes).items():
                if name not in _COMMON and value is not None and columns.has(name, "problems"):
                    rows, values = found[name]
                    rows.append(at)
                    values.append(value)
        problems = dict(zip(*found.pop("problems", ([], [])), strict=True))
        for name, (rows, values) in found.items():
            for at in columns.objects(name, rows, values):
                problems[at] = [*problems.get(at, ()), misfit(name)]
        if problems:
            columns.objects("problems", list(problems), list(problems.values()))


def _put_collection_names(columns: ColumnBuilder, part: Part, rows: Array, at: Array, collections: Array) -> None:
    """Put the names of collections, as known at each row: between two frames that name some, they are the same."""
    naming = np.flatnonzero(np.isin(part.header.opcode, sorted(NAMING)))
    since = np.searchsorted(naming, rows) * len(part.places) + part.place[rows]
    _, _, where = distinct(since)
    _, first, which = distinct(where.astype(np.int64) << 32 | collections)
    pairs = zip(rows[first].tolist(), collections[first].tolist(), strict=True)
    paths = [part.collection_path(row, collection) for row, collection in pairs]
    known = np.array([path is not None for path in paths])
    named = known[which]
    words = [path for path in paths if path is not None]
    columns.words("collection_name", at[named], words, (np.cumsum(known) - 1)[which[named]])


def _put_names(columns: ColumnBuilder, field: Field, rows: Array, values: Array) -> None:
    """Put the names of flags and enumerations beside their numbers."""
    if not isinstance(field.names, (Bits, EnumValue)):
        return
    unique, _, which = distinct(values)
    named = [list(field.names.describe(value)) for value in unique.tolist()]
    if isinstance(field.names, Bits):
        columns.pick(f"{field.key}_names", rows, pa.array(named, schema.WORDS), which)
    else:
        columns.words(f"{field.key}_name", rows, ["".join(words) for words in named], which)
