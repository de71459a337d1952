"""Find the keys and values of planned frames, and decode values that are compressed or have xattrs.

Arrow's arrays are laid over the bytes of a part, so that keys and values are copied once, by Arrow.
"""

from functools import cached_property

import numpy as np
import pyarrow as pa

from dcpdump.arrow import schema
from dcpdump.arrow import zero_copy as laid
from dcpdump.arrow.column_builder import ColumnBuilder
from dcpdump.batch.gather import Array
from dcpdump.batch.learning import UNDERLYING
from dcpdump.batch.part import Part
from dcpdump.spec.names import JSON, SNAPPY, XATTR
from dcpdump.wire.frame import Fault
from dcpdump.wire.json_text import json_faults
from dcpdump.wire.value import LEFT_OUT, Body, open_rest, open_value

_HEX = np.frombuffer("".join(f"{value:02x}" for value in range(256)).encode(), "u2")


class Values:
    """The keys and values of a part's planned frames, by row. Decodes only those that are ``wanted``.

    Not ``opened``: no value is decompressed; not ``judged``: no JSON is checked that is not compressed.
    """

    def __init__(self, part: Part, wanted: Array, *, opened: bool = True, judged: bool = True) -> None:
        self._part = part
        header, count = part.header, len(part)
        self.planned = part.plan >= 0
        self.total = np.zeros(count, np.int64)  #: bytes of value without metadata
        self.length = np.zeros(count, np.int64)  #: the same of values that are bytes and no fields
        document = np.zeros(count, bool)
        for group in part.groups:
            rows, layout = group.rows, group.plan.layout
            document[rows] = group.plan.message.document
            tail = group.column(layout.tail).astype(np.int64) if layout.tail else 0
            self.total[rows] = header.value[rows] - tail
            if group.value is None:
                self.length[rows] = self.total[rows]
        self._document = document & self.planned & wanted
        self._start, self._logical, self._end, self.collection, self.split, sound = part.keys
        self.unsound = np.flatnonzero(wanted & ~sound)  #: rows whose keys begin with no collection id of a data key
        self._bodies: dict[int, Body] = {}  # of values that are not shown as they are on the wire
        #: By row: what is wrong with values that are not what their datatypes say, and in words.
        self.faults: dict[int, tuple[Fault, str]] = {}
        if opened:
            self._open(np.flatnonzero(self._document & (self.length > 0)), judged=judged)
        self.faulty = np.zeros(count, bool)
        self.faulty[list(self.faults)] = True
        for row in np.flatnonzero(self.faulty & part.knows(UNDERLYING)).tolist():
            start, end = int(self._end[row]), int(self._end[row] + self.length[row])
            self._bodies[row] = open_rest(part.data[start:end], int(header.datatype[row]))
        self.whole = self.total.copy()  #: the same as columns have them: decompressed, without xattrs
        self.whole[list(self._bodies)] = [len(body.value) for body in self._bodies.values()]

    # -- what is not as its datatype says ---------------------------------------------------------------

    def _open(self, rows: Array, *, judged: bool) -> None:
        """Decode values that are compressed or have xattrs, and check those that are marked JSON."""
        datatype = self._part.header.datatype[rows]
        plain = rows[(datatype == JSON) & judged]
        if len(plain):
            self._try_json(plain)
        packed = rows[datatype & (SNAPPY | XATTR) != 0]
        kinds, starts, lengths = self._part.header.datatype[packed], self._end[packed], self.length[packed]
        data, bodies, faults = self._part.data, self._bodies, self.faults
        columns = (each.tolist() for each in (packed, kinds, starts, starts + lengths))
        for row, kind, start, end in zip(*columns, strict=True):
            body = bodies[row] = open_value(data[start:end], kind)
            if body.faults:
                faults[row] = body.faults[0]

    def _try_json(self, rows: Array) -> None:
        """Check the JSON of values in place."""
        starts, ends = self._end[rows].tolist(), (self._end[rows] + self.length[rows]).tolist()
        for place, fault in json_faults(self._part.data, starts, ends).items():
            self.faults[int(rows[place])] = Fault.NOT_JSON, fault

    def put_faults(self, columns: ColumnBuilder, rows: Array, place: Array) -> None:
        """Put what is wrong with values into columns: a hint where the datatype may describe one that was left out."""
        rows = rows[self.faulty[rows]]
        hinted = self._part.knows(UNDERLYING)[rows]
        if hinted.any():
            columns.pick("hints", place[rows[hinted]], pa.array([[LEFT_OUT]], schema.WORDS), hinted.nonzero()[0] * 0)
        rows = rows[~hinted]
        if len(rows):
            codes, texts = zip(*(self.faults[row] for row in rows.tolist()), strict=True)
            kind = schema.frames().field("problems").type
            members = {
                "code": pa.array([code.value for code in codes]),
                "text": pa.array(texts),
                "offset": pa.array(self._end[rows] - self._part.start[rows]),
                "length": pa.array(self.length[rows]),
            }
            fields = list(kind.value_type)
            problems = pa.StructArray.from_arrays([members[field.name] for field in fields], fields=fields)
            offsets = pa.array(np.arange(len(rows) + 1, dtype=np.int32))
            columns.pick("problems", place[rows], pa.ListArray.from_arrays(offsets, problems, type=kind))

    # -- Arrow over the part's bytes --------------------------------------------------------------------

    def keys(self, rows: Array) -> pa.Array:
        """Return keys without their collection ids."""
        return self._slices(rows, self._logical[rows], self._end[rows])

    def wire_keys(self, rows: Array) -> pa.Array:
        """Return keys as they are on the wire."""
        return self._slices(rows, self._start[rows], self._end[rows])

    def put_heads(self, columns: ColumnBuilder, rows: Array, place: Array, count: int | None) -> None:
        """Put the first bytes of values, decompressed, into a column."""
        opened = np.isin(rows, np.fromiter(self._bodies, np.int64, len(self._bodies)))
        plain = rows[~opened]
        length = self.length[plain] if count is None else np.minimum(self.length[plain], count)
        if len(plain):
            columns.pick("value", place[plain], self._slices(plain, self._end[plain], self._end[plain] + length))
        if opened.any():
            mine = rows[opened].tolist()
            heads = [self._bodies[row].value[:count] for row in mine]
            columns.pick("value", place[mine], pa.array(heads, pa.binary()))

    def put_xattrs(self, columns: ColumnBuilder, rows: Array, place: Array) -> None:
        """Put xattrs into a column, and what cannot be read of those that are damaged into another."""
        wanted = set(rows.tolist()) if self._bodies else set()
        bodies = {row: body for row, body in self._bodies.items() if row in wanted}
        split = {row: list(dict(body.xattrs).items()) for row, body in bodies.items() if body.xattrs is not None}
        damaged = {row: body.unread.hex() for row, body in bodies.items() if body.unread}
        for name, found in (("xattrs", split), ("xattrs_unread_hex", damaged)):
            if found and columns.has(name):
                kind = schema.frames().field(name).type
                columns.pick(name, place[list(found)], pa.array(list(found.values()), kind))

    def _slices(self, rows: Array, start: Array, end: Array) -> pa.Array:
        """Return an array of binary with a piece of the part's bytes for each row."""
        order = self._by_place(rows)
        between = laid.pieces(self._part.data, start[order], end[order])
        which = np.empty(len(rows), np.int64)
        which[order] = np.arange(0, 2 * len(rows), 2)
        return between.take(laid.places(which))

    def _by_place(self, rows: Array) -> Array:
        """Return rows sorted by the offset of their bytes: several connections take turns in a part."""
        places = np.full(len(self._rank), -1, np.int64)
        places[self._rank[rows]] = np.arange(len(rows))
        return places[places >= 0]

    @cached_property
    def _rank(self) -> Array:
        start = self._part.start
        rank = np.arange(len(start))
        if len(start) > 1 and (start[1:] < start[:-1]).any():
            rank[np.argsort(start, kind="stable")] = rank.copy()
        return rank


def hexed(values: pa.Array) -> pa.Array:
    """Return binary values as hexadecimal text."""
    _, offsets, data = values.buffers()
    first, count = values.offset, len(values)
    places = np.frombuffer(offsets, np.int32)[first : first + count + 1]
    digits = _HEX[np.frombuffer(data, np.uint8)[places[0] : places[-1]]] if data is not None else np.zeros(0, "u2")
    moved = ((places - places[0]) * 2).astype(np.int32)
    return pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(moved), pa.py_buffer(digits)])
