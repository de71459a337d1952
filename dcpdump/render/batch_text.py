"""Write many frames at once: the text of a Part.

Plain frames are written one after another by a writer for these; all others go through the writers for one record.
Both return the same text: the tests compare them.
"""

from collections.abc import Callable, Sequence

import numpy as np

import dcpdump.batch.part as states
from dcpdump.batch.chosen import record_of
from dcpdump.batch.part import Part
from dcpdump.escape import safe
from dcpdump.net.no_time import NO_TIME
from dcpdump.record import Record
from dcpdump.redact import Redactor
from dcpdump.render import OUTPUTS, View
from dcpdump.render.plain_csv import PlainCsv
from dcpdump.render.plain_line import PlainLine
from dcpdump.render.plain_ndjson import PlainNdjson
from dcpdump.render.plain_rows import PartColumns, PlainRows
from dcpdump.render.plain_table import PlainTable
from dcpdump.render.plain_writer import PlainWriter

#: The formats in which plain frames have writers of their own.
_WRITERS: dict[str, Callable[[View], PlainWriter]] = {
    "table": PlainTable,
    "line": PlainLine,
    "ndjson": PlainNdjson,
    "csv": PlainCsv,
}


class Bulk:
    """A writer of parts in one format. ``redactor``: hides names and texts."""

    def __init__(self, form: str, view: View, redactor: Redactor | None = None) -> None:
        self._write = OUTPUTS[form].write
        self._view = view
        self._redactor = redactor
        plain = not view.palette.paints and view.times.plain and redactor is None and form in _WRITERS
        self._writer = _WRITERS[form](view) if plain else None

    @property
    def at_once(self) -> bool:
        """Return whether most rows are written at once; not with colours, hashes, or other times."""
        return self._writer is not None

    def text(self, part: Part, wanted: Sequence[int]) -> bytes:
        """Return the text of the rows that are wanted, in their order, as UTF-8."""
        if self._writer is None:
            return b"".join([self._single(part, row) for row in wanted])
        frames = plain_rows(part, wanted)
        return self._writer.text(frames, lambda row: self._single(part, row))

    def _single(self, part: Part, row: int) -> bytes:
        record: Record = record_of(part, row)
        shown = record if self._redactor is None else self._redactor.record(record)
        return self._write(shown, self._view).encode()


def plain_rows(part: Part, wanted: Sequence[int]) -> PlainRows:
    """Return the rows of a part that are wanted as plain frames, where they are."""
    group = np.full(len(part), -1, np.int64)
    for number, each in enumerate(part.groups):
        tail = each.plan.layout.tail
        group[each.rows if not tail else each.rows[each.column(tail) == 0]] = number
    group[(part.weak != 0) | (part.ts_ns == NO_TIME)] = -1
    rows = slice(None) if len(wanted) == len(part) else np.array(wanted, np.int64)
    columns = PartColumns()
    columns.data, columns.first, columns.places, columns.names = part.data, part.first, part.places, part.names
    columns.plans = [each.plan for each in part.groups]
    columns.files = [safe(file) for file in part.files]
    columns.row = list(wanted)
    columns.group = group[rows].tolist()
    columns.start = part.start[rows].tolist()
    columns.length = part.length[rows].tolist()
    columns.offset = part.offset[rows].tolist()
    columns.gap = part.gap_before[rows].tolist()
    columns.packet = part.packet[rows].tolist()
    columns.ts_ns = part.ts_ns[rows].tolist()
    columns.file = part.file[rows].tolist()
    columns.place = part.place[rows].tolist()
    columns.split = (part.collections[rows] == states.YES).tolist()
    columns.inferred = part.inferred[rows].tolist()
    columns.underlying = part.underlying[rows].tolist()
    return PlainRows(columns)
