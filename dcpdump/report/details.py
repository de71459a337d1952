"""Make the sections of details: dialogues of streams in trouble, and frames with their fields and bytes."""

from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter

from dcpdump.record import Record
from dcpdump.render.column import Column, at
from dcpdump.render.ladder import Rung, ladder
from dcpdump.render.table import TableRow, table_rows, title
from dcpdump.report.context import Context, folded, section, table
from dcpdump.report.html import Child, Markup, Value, element
from dcpdump.streams.stream import Stream
from dcpdump.streams.wording import client, clock, name_stream
from dcpdump.text import counted

# -- dialogues: the ladders of streams in trouble, a few of each kind of trouble ----------------------

MOST_DIALOGUES = 10
_EACH = 2


def choose(context: Context) -> None:
    """Choose the streams whose dialogues are drawn: the first ones of each trouble, then more of the worst."""
    members = [trouble.streams for trouble in context.found.troubles if trouble.streams]
    order = [stream for streams in members for stream in streams[:_EACH]]
    order += [stream for streams in members for stream in streams[_EACH:]]
    for stream in list(dict.fromkeys(order))[:MOST_DIALOGUES]:
        context.dialogues[stream] = len(context.dialogues) + 1


def frames_of(context: Context) -> list[int]:
    """Return the frames that the dialogues point at."""
    found = [rung.frame for stream in context.dialogues for rung in ladder(stream, context.evidence.now_ns)]
    return [frame for frame in found if frame is not None]


def dialogues(context: Context) -> Markup | None:
    """Return the section; None where no stream is in trouble."""
    if not context.dialogues:
        return None
    return section(
        "dialogues",
        "Dialogues",
        [_dialogue(context, stream, number) for stream, number in context.dialogues.items()],
        lead="As the specification draws them: the side that wants changes at the left.",
    )


def _dialogue(context: Context, stream: Stream, number: int) -> Markup:
    verdict = context.verdicts[stream]
    connection = stream.connection
    ends = client(connection), connection.server_address or connection.dst
    rungs = [_rung(context, rung) for rung in ladder(stream, context.evidence.now_ns)]
    said = element("span", verdict.text, class_="detail")
    return element(
        "article",
        element("h3", f"{name_stream(stream)} of c{connection.number} {client(connection)} ", said),
        element("div", [element("span", end) for end in ends], class_="ends"),
        element("ol", rungs, class_="ladder"),
        id=f"dialogue-{number}",
    )


def _rung(context: Context, rung: Rung) -> Markup:
    return element(
        "li",
        element("time", clock(rung.ts_ns) if rung.ts_ns is not None else ""),
        element("span", rung.text, class_="arrow"),
        context.frame(rung.frame) if rung.frame is not None else element("span"),
        class_=rung.arrow.value,
    )


_VALUE = 64  #: bytes of a value in the table
_LINE = 16
_BYTES = 512  #: of a frame that are shown
_ROWS = 512  #: rows of its table, and problems: a list of items may have very many
_Row = tuple[int, TableRow]
_HEADS = {"label": "Field", "offsets": "(offset)", "text": "(value)"}
_FIELDS = [Column[_Row](get=at(f"1.{name}"), head=head) for name, head in _HEADS.items()]


def frames(context: Context) -> Markup | None:
    """Return the section; None where there are none."""
    if not context.records:
        return None
    return section(
        "frames",
        "Frames",
        [_frame(record) for _, record in sorted(context.records.items())],
        lead="Those that this page speaks of. Point at a field to see its bytes, or at a byte to see its field.",
    )


def _frame(record: Record) -> Markup:
    raw = record.frame.raw
    rows = table_rows(record, _VALUE)
    more = len(rows) - _ROWS
    del rows[_ROWS:]
    origin = [f"c{record.connection}", f"{record.src} → {record.dst}", f"packet {raw.where.packet:,}"]
    if raw.where.ts_ns is not None:
        origin.insert(0, clock(raw.where.ts_ns))
    if record.request is not None and record.latency_ns is not None:
        origin.append(f"answers frame {record.request.frame:,} after {record.latency_ns / 1000:,.0f} µs")
    problems = [element("p", f"! {problem.text}", class_="problem") for problem in record.problems[:_ROWS]]
    for count, what in ((len(record.problems) - _ROWS, "problem"), (more, "field")):
        if count > 0:
            problems.append(element("p", f"{counted(count, f'more {what}')} not shown here", class_="detail"))
    fields = table(_FIELDS, list(enumerate(rows)), {"Field": _label}, _bytes_of, kind=" fields")
    return folded(
        (
            element("b", f"#{record.number:,}"),
            f" {title(record)} ",
            element("span", " · ".join(origin), class_="detail"),
        ),
        problems,
        element("div", fields, _hex(raw.data, rows), class_="bytes"),
        id=f"frame-{record.number}",
        class_="frame",
    )


def _label(row: _Row) -> Child:
    label = row[1].label.strip()
    return element("span", label, class_="sub") if row[1].label.startswith(" ") else label


def _bytes_of(row: _Row) -> dict[str, Value]:
    """Return the number of a field, which its bytes have too."""
    number, field = row
    return {"data_field": number, "tabindex": 0} if field.end > field.start else {}


def _hex(data: bytes, rows: Sequence[TableRow]) -> Markup:
    """Return the bytes, each part of a field marked with the field's number."""
    shown = min(len(data), _BYTES)
    owners: list[int | None] = [None] * shown
    for number, row in enumerate(rows):
        end = min(row.end, shown)
        owners[row.start : end] = [number] * (end - row.start)
    lines: list[Markup] = []
    for start in range(0, shown, _LINE):
        piece, fields = data[start : min(start + _LINE, shown)], owners[start : start + _LINE]
        lines.append(element("span", f"{start:06x}  ", class_="offset"))
        lines.append(_cells([f"{byte:02x}" for byte in piece], fields, " "))
        lines.append(Markup("   " * (_LINE - len(piece)) + "  "))
        lines.append(_cells([chr(byte) if 32 <= byte < 127 else "·" for byte in piece], fields, ""))
        lines.append(Markup("\n"))
    if len(data) > _BYTES:
        lines.append(element("span", f"… {len(data) - _BYTES:,} bytes more", class_="offset"))
    return element("pre", lines, class_="hex")


def _cells(texts: Sequence[str], fields: Sequence[int | None], between: str) -> Markup:
    """Return texts, neighbours of one field as one element."""
    groups = groupby(zip(fields, texts, strict=True), itemgetter(0))
    cells = (element("span", between.join(text for _, text in group), data_field=field) for field, group in groups)
    return Markup(between.join(cells))
