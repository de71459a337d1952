"""Write a message as the specification draws it: byte grids, fields, rules, flags, errors. From the table alone."""

from dcpdump.render.table import HEAD, rule
from dcpdump.spec.field import Bits, Blob, EnumValue, Field, FlatTable, Layout, Message, Part, Presence, Repeat
from dcpdump.spec.names import CONTROL_KEYS
from dcpdump.spec.opcodes import DCP_CONTROL
from dcpdump.spec.statuses import STATUS
from dcpdump.streams.phases import MACHINES
from dcpdump.text import counted

_CELL = 16  # characters of a byte in the grid, with its left border


def index(messages: list[Message]) -> str:
    """Return a list of messages, one line each."""
    rows = [f"0x{m.opcode:02x}  {m.name:<28} {m.sender.value:<12} {_shapes(m)}".rstrip() for m in messages]
    return "\n".join(rows) + "\n"


def phases() -> str:
    """Return the tables of phases, and which message leads from one to which, as the rules of ``check`` know them."""
    out = ["What may come, and where it leads. What a phase does not list should not come there.", ""]
    for subject, table in MACHINES.items():
        out += [f"-- {subject} --", ""]
        for phase, events in table.items():
            out.append(f"{phase.name.replace('_', ' ').capitalize()}: {phase.value}")
            width = max((len(event.value) for event in events), default=0)
            for event, to in events.items():
                where = "the same" if to is phase else to.name.replace("_", " ").lower()
                out.append(f"  {event.value:<{width}}  → {where}")
            out.append("")
    return "\n".join(out)


def page(message: Message) -> str:
    """Return the whole page of one message."""
    out = [f"{message.name} (opcode 0x{message.opcode:02x})", ""]
    facts = (
        ("sent by", message.sender.value),
        ("since", message.since),
        ("answered", message.answered),
        ("source", message.source),
    )
    out += [f"  {name + ':':<10} {text}" for name, text in facts if text]
    for kind, layouts in (("Request", message.request), ("Response", message.response)):
        for layout in layouts:
            out += ["", *_layout(kind, layout, only=len(layouts) == 1)]
    if not message.known:
        out += ["", "Only the name of this message is known."]
    out += _section("Rules", message.rules)
    out += _names(message)
    if message.opcode == DCP_CONTROL:
        keys = [f"{k.name} = {k.values} (since {k.since}): {k.effect}" for k in CONTROL_KEYS.values()]
        out += _section("Keys", tuple(keys))
    errors = tuple(f"0x{status:02x} {STATUS.names[status]}: {text}" for status, text in sorted(message.errors))
    out += _section("Errors", (*errors, *(f"(disconnect): {text}" for text in message.disconnects)))
    return "\n".join(out) + "\n"


def _section(title: str, rows: tuple[str, ...]) -> list[str]:
    return ["", f"{title}:", *(f"  - {row}" for row in rows)] if rows else []


def _shapes(message: Message) -> str:
    versions = dict.fromkeys(layout.version for layout in message.request)
    return f"layouts {', '.join(versions)}" if len(versions) > 1 else ""


def _layout(kind: str, layout: Layout, *, only: bool) -> list[str]:
    name = kind if only and layout.version == "1" else f"{kind}, layout {layout.version}"
    when = ", ".join(_fact(layout, fact, value) for fact, value in layout.when.items())
    out = [name + (f" (when {when})" if when else "")]
    if layout.note:
        out.append(f"  {layout.note}")
    value = layout.value.value if isinstance(layout.value, Presence) else "has fields"
    extras = counted(layout.extras_length, "byte") if layout.extras else "must be empty"
    out.append(f"  extras {extras} · key {layout.key.value} · value {value}")
    if layout.extras:
        out += ["", "  Extras:", *_drawn(layout.extras)]
    if isinstance(layout.value, tuple):
        out += ["", "  Value:", *_value(layout.value)]
    return out


def _fact(layout: Layout, fact: str, value: int) -> str:
    """Return a condition of a layout as text, with the name that the value has."""
    names = STATUS if fact == "status" else next((f.names for f in layout.extras if f.name == fact), None)
    return " ".join((f"{fact} = {value}", *(f"({name})" for name in (names.describe(value) if names else ()))))


def _value(parts: tuple[Part, ...]) -> list[str]:
    fixed = tuple(part for part in parts if isinstance(part, Field))
    out = _drawn(fixed) if fixed else []
    for part in parts:
        if isinstance(part, Repeat):
            out.append(f"  {part.name}, again and again to the end of the value:")
            out += _drawn(tuple(f for f in part.fields if isinstance(f, Field)))
            out += [f"    then {f.label}: as many bytes as {f.size} says" for f in part.fields if isinstance(f, Blob)]
        elif isinstance(part, FlatTable):
            out.append("  a FlatBuffers table (little-endian), slot by slot:")
            for slot, field in enumerate(part.fields):
                size = f"u{8 * field.width}" if isinstance(field, Field) else "text"
                out.append(f"    {slot}: {field.label} ({size})")
    return out


def _drawn(fields: tuple[Field, ...]) -> list[str]:
    """Return fields as the specification draws them, four bytes a row; a field that spans rows is labelled in each."""
    cells: list[tuple[str, int]] = []  # (text, bytes) within rows of four
    at = 0
    for field in fields:
        left, first = field.width, True
        while left:
            width = min(left, 4 - at % 4)
            text = field.label if first and width == left else (f"{field.label} ..." if first else f"... {field.label}")
            cells.append((text, width))
            at, left, first = at + width, left - width, False
    out = [*HEAD, rule(4)]
    row: list[tuple[str, int]] = []
    start = at = 0
    for cell in cells:
        row.append(cell)
        at += cell[1]
        if at % 4 == 0:
            out += _row(start, row)
            row, start = [], at
    if row:
        out += _row(start, row)
    return [*out, f"        Total {counted(at, 'byte')}"]


def _row(start: int, cells: list[tuple[str, int]]) -> list[str]:
    text = "".join(f"| {label[: _CELL * size - 2]:<{_CELL * size - 2}}" for label, size in cells)
    return [f"{start:8d}{text}|", rule(sum(size for _, size in cells))]


def _names(message: Message) -> list[str]:
    """Return the values that have names, once for each field."""
    out: list[str] = []
    listed: set[str] = set()
    for layout in message.layouts:
        parts = (*layout.extras, *layout.parts)
        fields = [f for part in parts for f in (part.fields if isinstance(part, Repeat) else (part,))]
        for field in fields:
            if not isinstance(field, Field) or field.label in listed:
                continue
            listed.add(field.label)
            if isinstance(field.names, (Bits, EnumValue)):
                width = 2 * field.width if isinstance(field.names, Bits) else 2
                lines = [_meaning(field.names, value, width) for value in field.names.names]
                if isinstance(field.names, EnumValue) and field.names.otherwise:
                    lines.append(f"any other {field.names.otherwise}")
                out += _section(field.label, tuple(lines))
    return out


def _meaning(names: Bits | EnumValue, value: int, width: int) -> str:
    """Return a value with its name, and with what it means where the table says so."""
    old = " (old, refused today)" if isinstance(names, Bits) and value & names.old else ""
    meaning = names.meanings.get(value, "")
    return f"0x{value:0{width}x} {names.names[value]}{old}{': ' if meaning else ''}{meaning}"
