"""Make batches of the table ``frames`` from batches of frames.

Frames with a plan are gathered column by column. A frame that turns out not to be ordinary (a key that ends inside its
collection id) is decoded as a record.
"""

import json
from collections import defaultdict
from collections.abc import Collection, Sequence
from functools import cached_property
from operator import attrgetter
from typing import Any

import numpy as np
import pyarrow as pa

from dcpdump.arrow import schema
from dcpdump.arrow.column_builder import ColumnBuilder, Vocabulary, encodable, indices_of, pieces, to_array_lossy
from dcpdump.batch.filter import Masks
from dcpdump.batch.frame_batch import FrameBatch, Group
from dcpdump.batch.gather import Array, distinct
from dcpdump.batch.scan import INFERRED, UNDERLYING
from dcpdump.net.packet import NO_TIME
from dcpdump.record import Record, as_json, framing, protocol_parts, shown_body
from dcpdump.redact import Redactor, redacted_direction
from dcpdump.spec import find
from dcpdump.spec.field import Bits, EnumValue, Field, Repeat
from dcpdump.spec.header import STREAM_ID_LENGTH
from dcpdump.spec.names import DATATYPE, JSON, SNAPPY, XATTR
from dcpdump.wire.collection_names import NAMING
from dcpdump.wire.frame import Fault
from dcpdump.wire.json_text import json_faults
from dcpdump.wire.value import LEFT_OUT, Body, open_rest, open_value

# -- rows of frames that no plan decodes: the flat record, typed --------------------------------------

Row = dict[str, Any]
#: Columns with values, which may be long.
VALUES = frozenset({"value", "items"})


def row_of(record: Record, value_bytes: int | None) -> Row:
    """Return the columns of one frame that are not null."""
    flat = as_json(record, value_bytes=0)  # values are bytes here, so that no text is made of them
    fields = flat.pop("fields", {})
    out = {**fields, **flat}
    out = {name: value for name, value in out.items() if name in _NAMES}
    for name in out.keys() & _IDENTITIES:
        out[name] = _number(out[name])
    for name in out.keys() & _LISTS:
        out[name] = [_numbers(item) if isinstance(item, dict) else item for item in out[name]]
    frame, content = record.frame, record.content
    if "time" in out:
        ts_ns = frame.raw.where.ts_ns or 0
        out |= {"time": ts_ns // 1000, "time_ns": ts_ns}
    out["direction"] = record.direction
    if "key" in out:
        out["key"] = content.key
    if frame.masked:
        out["value"] = out["value"].encode()
    elif value_bytes != 0 and (body := shown_body(record)) is not None:
        out["value"] = body.value[:value_bytes]
    if content.body is not None and content.body.xattrs is not None:
        out["xattrs"] = list(dict(content.body.xattrs).items())
    if "value_json" in out:
        out["value_json"] = encodable(json.dumps(flat["value_json"], ensure_ascii=False))
    if "framing" in out:
        out["framing"] = framing(frame, attrgetter("value"))
    if content.items:
        for decoded, item in zip(content.items, out["items"], strict=False):
            value = decoded.body.value
            item |= {"key": decoded.key, "value": value[:value_bytes]}
            item["value_hex"] = item.get("value_hex", "")[: None if value_bytes is None else 2 * value_bytes]
            if decoded.body.xattrs is not None:
                item["xattrs"] = list(dict(decoded.body.xattrs).items())
    return out


def is_cut(record: Record, value_bytes: int | None) -> bool:
    """Return whether a frame's value, or that of an item, is longer than ``value_bytes``; None cuts nothing."""
    if value_bytes is None:
        return False
    bodies = (shown_body(record), *(item.body for item in record.content.items))
    return any(body is not None and len(body.value) > value_bytes for body in bodies)


def batch_of_records(
    records: Sequence[Record], value_bytes: int | None, columns: Collection[str] | None = None
) -> pa.RecordBatch:
    """Return frames as a batch of ``frames``; ``columns``: those that are built."""
    rows = [{**row_of(each, value_bytes), "file": each.frame.raw.where.file} for each in records]
    fields = [field for field in schema.frames() if columns is None or field.name in columns]
    kept = {field.name for field in fields}
    for field in schema.frames() if "problems" in kept else ():
        for at in _column(rows, field)[1]:
            rows[at]["problems"] = [*rows[at].get("problems", ()), unrepresentable(field.name)]
    arrays = [_column(rows, field)[0] for field in fields]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields, schema.frames().metadata))


def unrepresentable(name: str) -> Row:
    """Return the problem of a frame with a value that does not fit its column."""
    return {"text": f"{name} does not fit its column", "offset": 0, "length": 0}


def _column(rows: Sequence[Row], field: pa.Field) -> tuple[pa.Array, list[int]]:
    values = [each.get(field.name) for each in rows]
    if pa.types.is_dictionary(field.type):
        words = pa.array([None if word is None else encodable(word) for word in values], pa.string())
        return words.dictionary_encode().cast(field.type), []
    return to_array_lossy(values, field.type)


_NAMES = frozenset(schema.frames().names)
#: The names of lists of objects, and those of fields whose numbers are hexadecimal text in the flat record.
_REPEATS = [part for part in protocol_parts() if isinstance(part, Repeat)]
_LISTS = frozenset(batch.name for batch in _REPEATS if len(batch.fields) > 1)
_FIELDS = [*protocol_parts(), *(field for part in _REPEATS for field in part.fields)]
_IDENTITIES = frozenset({"cas", *(field.name for field in _FIELDS if isinstance(field, Field) and field.identity)})


def _number(value: Any) -> Any:
    """Return the number of an identity that is spelled as text."""
    return int(value, 16) if isinstance(value, str) else value


def _numbers(item: Row) -> Row:
    return {name: _number(value) if name in _IDENTITIES else value for name, value in item.items()}


# -- keys and values of frames that a plan took; those that are compressed or have xattrs, decoded ----
# Arrow's arrays are views of the bytes of a batch, so that keys and values are copied only once, by Arrow.

_HEX = np.frombuffer("".join(f"{value:02x}" for value in range(256)).encode(), "u2")


class Values:
    """The keys and values of a batch's planned frames, by row. Only the rows ``wanted`` are decoded.

    Not ``opened``: no value is decompressed; not ``judged``: no JSON is checked that is not compressed.
    """

    def __init__(self, batch: FrameBatch, wanted: Array, *, opened: bool = True, judged: bool = True) -> None:
        self._batch = batch
        header, count = batch.header, len(batch)
        self.planned = batch.plan >= 0
        self.total = np.zeros(count, np.int64)  #: bytes of value without metadata
        self.length = np.zeros(count, np.int64)  #: the same for values without fields
        document = np.zeros(count, bool)
        for group in batch.groups:
            rows, layout = group.rows, group.plan.layout
            document[rows] = group.plan.message.document
            tail = group.column(layout.tail).astype(np.int64) if layout.tail else 0
            self.total[rows] = header.value[rows] - tail
            if group.value is None:
                self.length[rows] = self.total[rows]
        self._document = document & self.planned & wanted
        self._start, self._logical, self._end, self.collection, self.split, sound = batch.keys
        self.unsound = np.flatnonzero(wanted & ~sound)  #: rows whose keys do not begin with a valid collection id
        self._bodies: dict[int, Body] = {}  # decoded values that differ from those on the wire
        #: By row: the fault of a value that contradicts its datatype, and its text.
        self.faults: dict[int, tuple[Fault, str]] = {}
        if opened:
            self._open(np.flatnonzero(self._document & (self.length > 0)), judged=judged)
        self.faulty = np.zeros(count, bool)
        self.faulty[list(self.faults)] = True
        for row in np.flatnonzero(self.faulty & batch.knows(UNDERLYING)).tolist():
            start, end = int(self._end[row]), int(self._end[row] + self.length[row])
            self._bodies[row] = open_rest(batch.data[start:end], int(header.datatype[row]))
        self.shown_lengths = self.total.copy()  #: of values in columns: decompressed, without xattrs
        self.shown_lengths[list(self._bodies)] = [len(body.value) for body in self._bodies.values()]

    # -- what is not as its datatype says ---------------------------------------------------------------

    def _open(self, rows: Array, *, judged: bool) -> None:
        """Decode values that are compressed or have xattrs, and check values whose datatype is JSON."""
        datatype = self._batch.header.datatype[rows]
        plain = rows[(datatype == JSON) & judged]
        if len(plain):
            self._try_json(plain)
        packed = rows[datatype & (SNAPPY | XATTR) != 0]
        kinds, starts, lengths = self._batch.header.datatype[packed], self._end[packed], self.length[packed]
        data, bodies, faults = self._batch.data, self._bodies, self.faults
        columns = (each.tolist() for each in (packed, kinds, starts, starts + lengths))
        for row, kind, start, end in zip(*columns, strict=True):
            body = bodies[row] = open_value(data[start:end], kind)
            if body.faults:
                faults[row] = body.faults[0]

    def _try_json(self, rows: Array) -> None:
        """Check the JSON of values in place."""
        starts, ends = self._end[rows].tolist(), (self._end[rows] + self.length[rows]).tolist()
        for position, fault in json_faults(self._batch.data, starts, ends).items():
            self.faults[int(rows[position])] = Fault.NOT_JSON, fault

    def put_faults(self, columns: ColumnBuilder, rows: Array, position: Array) -> None:
        """Put faults of values into columns; a hint if the datatype may describe a value that was not sent."""
        rows = rows[self.faulty[rows]]
        hinted = self._batch.knows(UNDERLYING)[rows]
        if hinted.any():
            columns.pick("hints", position[rows[hinted]], pa.array([[LEFT_OUT]], schema.WORDS), hinted.nonzero()[0] * 0)
        rows = rows[~hinted]
        if len(rows):
            codes, texts = zip(*(self.faults[row] for row in rows.tolist()), strict=True)
            kind = schema.frames().field("problems").type
            members = {
                "code": pa.array([code.value for code in codes]),
                "text": pa.array(texts),
                "offset": pa.array(self._end[rows] - self._batch.start[rows]),
                "length": pa.array(self.length[rows]),
            }
            fields = list(kind.value_type)
            problems = pa.StructArray.from_arrays([members[field.name] for field in fields], fields=fields)
            offsets = pa.array(np.arange(len(rows) + 1, dtype=np.int32))
            columns.pick("problems", position[rows], pa.ListArray.from_arrays(offsets, problems, type=kind))

    # -- Arrow over the batch's bytes --------------------------------------------------------------------

    def keys(self, rows: Array, *, wire: bool = False) -> pa.Array:
        """Return keys without their collection ids, or (``wire``) with them."""
        return self._slices(rows, (self._start if wire else self._logical)[rows], self._end[rows])

    def put_heads(self, columns: ColumnBuilder, rows: Array, position: Array, count: int | None) -> None:
        """Put the first bytes of values, decompressed, into a column."""
        opened = np.isin(rows, np.fromiter(self._bodies, np.int64, len(self._bodies)))
        plain = rows[~opened]
        length = self.length[plain] if count is None else np.minimum(self.length[plain], count)
        if len(plain):
            columns.pick("value", position[plain], self._slices(plain, self._end[plain], self._end[plain] + length))
        if opened.any():
            mine = rows[opened].tolist()
            heads = [self._bodies[row].value[:count] for row in mine]
            columns.pick("value", position[mine], pa.array(heads, pa.binary()))

    def put_xattrs(self, columns: ColumnBuilder, rows: Array, position: Array) -> None:
        """Put xattrs into a column, and the unreadable rest of damaged ones into another."""
        wanted = set(rows.tolist()) if self._bodies else set()
        bodies = {row: body for row, body in self._bodies.items() if row in wanted}
        split = {row: list(dict(body.xattrs).items()) for row, body in bodies.items() if body.xattrs is not None}
        damaged = {row: body.unread.hex() for row, body in bodies.items() if body.unread}
        for name, found in (("xattrs", split), ("xattrs_unread_hex", damaged)):
            if found and columns.has(name):
                kind = schema.frames().field(name).type
                columns.pick(name, position[list(found)], pa.array(list(found.values()), kind))

    def _slices(self, rows: Array, start: Array, end: Array) -> pa.Array:
        """Return an array of binary with a piece of the batch's bytes for each row."""
        order = self._by_offset(rows)
        between = pieces(self._batch.data, start[order], end[order])
        which = np.empty(len(rows), np.int64)
        which[order] = np.arange(0, 2 * len(rows), 2)
        return between.take(indices_of(which))

    def _by_offset(self, rows: Array) -> Array:
        """Return rows sorted by the offset of their bytes, as connections alternate in a batch."""
        positions = np.full(len(self._rank), -1, np.int64)
        positions[self._rank[rows]] = np.arange(len(rows))
        return positions[positions >= 0]

    @cached_property
    def _rank(self) -> Array:
        start = self._batch.start
        rank = np.arange(len(start))
        if len(start) > 1 and (start[1:] < start[:-1]).any():
            rank[np.argsort(start, kind="stable")] = rank.copy()
        return rank


def hexed(values: pa.Array) -> pa.Array:
    """Return binary values as hexadecimal text."""
    _, offsets, data = values.buffers()
    first, count = values.offset, len(values)
    positions = np.frombuffer(offsets, np.int32)[first : first + count + 1]
    begin, end = int(positions[0]), int(positions[-1])
    digits = _HEX[np.frombuffer(data, np.uint8)[begin:end]] if data is not None else np.zeros(0, "u2")
    moved = ((positions - begin) * 2).astype(np.int32)
    return pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(moved), pa.py_buffer(digits)])


#: Columns that both planned frames and records have.
_COMMON = frozenset(
    "frame packet file time time_ns connection direction src dst offset length gap_before magic kind opcode name "
    "opaque cas datatype datatype_names".split()
)
#: Columns that need values decompressed and without xattrs; and those that also need JSON checked.
_OPENED, _JUDGED = frozenset({"value", "value_length", "xattrs", "xattrs_unread_hex"}), frozenset({"problems", "hints"})
#: By the number of a datatype: its words.
_DATATYPES = pa.array([list(DATATYPE.describe(value)) for value in range(256)], schema.WORDS)


class FrameTable:
    """A builder that is fed batches and returns batches of the frames that pass the filter, at most ``count``.

    ``apart``: each batch has its own dictionary; otherwise words have the same number in every batch.
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
        self.cut = 0  #: how many of these have a cut value

    def choose(self, columns: Collection[str]) -> None:
        """Build only these columns."""
        self._columns = frozenset(columns)

    def feed(self, batch: FrameBatch) -> pa.RecordBatch | None:
        """Return the rows of a batch that pass the filter; None without any."""
        keep, values = self._choose(batch)
        rows = np.flatnonzero(keep)
        if self._redactor is not None:  # records are handled one by one
            for row in rows[values.planned[rows]].tolist():
                batch.records[row] = batch.record(row)
            values.planned[rows] = False
        if self._count is not None:
            rows = rows[: self._count - self.rows]
            keep = np.zeros(len(batch), bool)
            keep[rows] = True
        if not len(rows):
            return None
        self.rows += len(rows)
        if self._apart:
            self._vocabulary = Vocabulary()
        columns = ColumnBuilder(schema.frames(), len(rows), self._vocabulary, self._columns)
        position = np.full(len(batch), -1)
        position[rows] = np.arange(len(rows))
        self._put_common(columns, batch, rows)
        for group in batch.groups:
            chosen = keep[group.rows] & values.planned[group.rows]
            if chosen.any():
                self._put_group(columns, group, chosen, position)
        planned = rows[values.planned[rows]]
        if len(planned):
            self._put_planned(columns, batch, planned, position, values)
        self._put_records(columns, batch, keep, position)
        return columns.batch()

    # -- choosing ---------------------------------------------------------------------------------------

    def _choose(self, batch: FrameBatch) -> tuple[Array, Values]:
        """Return the rows that pass the filter, and their values. Rows that are not ordinary are decoded as records."""
        wanted = self._wanted
        keep = wanted.by_header(batch)
        for group in batch.groups:
            keep[group.rows] &= wanted.by_fields(group)
        judged = wanted.problems or not _JUDGED.isdisjoint(self._columns)
        opened = judged or not _OPENED.isdisjoint(self._columns)
        values = Values(batch, keep, opened=opened, judged=judged)
        for row in values.unsound.tolist():
            batch.records[row] = batch.record(row)
        rows = np.array(list(batch.records), np.int64)
        values.planned[rows] = False
        if wanted.problems:
            keep &= values.faulty & ~batch.knows(UNDERLYING)
        planned = np.flatnonzero(keep & values.planned)
        if len(planned):
            good = wanted.by_collection(batch, planned, values.collection[planned], values.split[planned])
            if wanted.key is not None:
                keyed = np.flatnonzero(batch.header.key[planned])
                found = np.zeros(len(planned), bool)
                found[keyed] = wanted.by_key(values.keys(planned[keyed]).to_pylist())
                good &= found
            keep[planned] = good
        keep[rows] = False
        undecided = wanted.undecided(batch)
        keep[undecided] = [wanted.frame_filter.accepts(batch.record(row)) for row in undecided]
        return keep, values

    # -- filling ----------------------------------------------------------------------------------------

    def _put_common(self, columns: ColumnBuilder, batch: FrameBatch, rows: Array) -> None:
        header, everywhere = batch.header, np.arange(len(rows))
        for name, values in (
            ("frame", batch.first + rows),
            ("packet", batch.packet[rows]),
            ("offset", batch.offset[rows]),
            ("length", batch.length[rows]),
            ("gap_before", batch.gap_before[rows]),
            ("magic", header.magic[rows]),
            ("opcode", header.opcode[rows]),
            ("opaque", header.opaque[rows]),
            ("cas", header.cas[rows]),
            ("datatype", header.datatype[rows]),
        ):
            columns.all(name, values)
        directions, of = batch.directions, batch.direction[rows]
        columns.all("connection", np.array([direction.connection for direction in directions])[of])
        columns.all("direction", np.array([direction.side for direction in directions])[of])
        redacted = [redacted_direction(each, self._redactor) for each in directions]
        columns.words("src", everywhere, [each.src for each in redacted], of)
        columns.words("dst", everywhere, [each.dst for each in redacted], of)
        columns.words("file", everywhere, batch.files, batch.file[rows])
        timed = np.flatnonzero(batch.ts_ns[rows] != NO_TIME)
        times = batch.ts_ns[rows][timed]
        columns.numbers("time_ns", timed, times)
        columns.numbers("time", timed, times // 1000)
        columns.words("kind", everywhere, ["request", "response"], header.response[rows].astype(np.int64))
        for server in (False, True) if columns.has("name") else ():
            mine = np.flatnonzero(header.server[rows] == server)
            unique, _, which = distinct(header.opcode[rows[mine]])
            columns.words("name", mine, [find(opcode, server=server).name for opcode in unique.tolist()], which)
        typed = np.flatnonzero(header.datatype[rows])
        if len(typed):
            columns.pick("datatype_names", typed, _DATATYPES, header.datatype[rows][typed])

    def _put_group(self, columns: ColumnBuilder, group: Group, chosen: Array, position: Array) -> None:
        everyone = bool(chosen.all())
        rows = position[group.rows if everyone else group.rows[chosen]]
        for field in group.plan.fields:
            if not columns.has(field.key, f"{field.key}_name", f"{field.key}_names"):
                continue
            values = group.column(field.name)
            values = values if everyone else values[chosen]
            columns.numbers(field.key, rows, values)
            _put_names(columns, field, rows, values)
        columns.words("layout", rows, [group.plan.layout.version])

    def _put_planned(
        self, columns: ColumnBuilder, batch: FrameBatch, rows: Array, position: Array, values: Values
    ) -> None:
        at, header = position[rows], batch.header
        columns.numbers("vbucket", at, header.vbucket_or_status[rows])
        weak = np.flatnonzero(batch.weak[rows])
        if len(weak):
            columns.words("confidence", at[weak], ["low"])
        with_id = np.flatnonzero(header.framing[rows] == STREAM_ID_LENGTH)
        if len(with_id) and columns.has("stream_id", "framing"):
            ids = batch.stream_id(rows[with_id])
            columns.numbers("stream_id", at[with_id], ids)
            unique, _, which = distinct(ids)
            framing = [[{"name": "DcpStreamId", "stream_id": number}] for number in unique.tolist()]
            lists = pa.array(framing, schema.frames().field("framing").type)
            columns.pick("framing", at[with_id], lists, which)
        split = np.flatnonzero(values.split[rows])
        if len(split):
            columns.numbers("collection", at[split], values.collection[rows[split]])
            guessed = split[batch.knows(INFERRED)[rows[split]]]
            if len(guessed):
                columns.numbers("collection_inferred", at[guessed], True)
            if batch.names and columns.has("collection_name"):
                _put_collection_names(columns, batch, rows[split], at[split], values.collection[rows[split]])
        keyed = rows[header.key[rows] > 0]
        if len(keyed) and columns.has("key"):
            columns.pick("key", position[keyed], values.keys(keyed))
        if len(keyed) and columns.has("key_hex"):
            columns.pick("key_hex", position[keyed], hexed(values.keys(keyed, wire=True)))
        valued = rows[values.total[rows] > 0]
        columns.numbers("value_length", position[valued], values.shown_lengths[valued])
        valued = valued[values.length[valued] > 0]
        if len(valued):
            if columns.has("value"):
                if self._value_bytes is not None:
                    self.cut += int((values.shown_lengths[valued] > self._value_bytes).sum())
                if self._value_bytes != 0:
                    values.put_heads(columns, valued, position, self._value_bytes)
            values.put_xattrs(columns, valued, position)
            values.put_faults(columns, valued, position)

    def _put_records(self, columns: ColumnBuilder, batch: FrameBatch, keep: Array, position: Array) -> None:
        found: dict[str, tuple[list[int], list[Any]]] = defaultdict(lambda: ([], []))
        for row in batch.records:
            if not keep[row]:
                continue
            record, at = batch.record(row), int(position[row])
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
                problems[at] = [*problems.get(at, ()), unrepresentable(name)]
        if problems:
            columns.objects("problems", list(problems), list(problems.values()))


def _put_collection_names(
    columns: ColumnBuilder, batch: FrameBatch, rows: Array, at: Array, collections: Array
) -> None:
    """Put the names of collections as known at each row. They change only at frames that name collections."""
    naming = np.flatnonzero(np.isin(batch.header.opcode, sorted(NAMING)))
    since: Array = np.searchsorted(naming, rows)
    _, _, where = distinct(since * len(batch.directions) + batch.direction[rows])
    _, first, which = distinct(where.astype(np.int64) << 32 | collections)
    pairs = zip(rows[first].tolist(), collections[first].tolist(), strict=True)
    paths = [batch.collection_path(row, collection) for row, collection in pairs]
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
