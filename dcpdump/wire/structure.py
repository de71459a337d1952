"""Tile a structured value as its layout says: fields, items that repeat, or a FlatBuffers table."""

from dcpdump.spec.field import Blob, Field, FlatTable, Holds, Part, Repeat
from dcpdump.wire.flat import FlatError, place_slots
from dcpdump.wire.frame import Fault, FieldValue, Problem, Section
from dcpdump.wire.tiles import REST, VALUE, Tiles

#: So many items of a value are taken apart. A cluster has at most 1,024 vBuckets, and no server's failover log, list of
#: features or cache transfer comes near: more would only take a hundred times the memory of the frame.
MOST_ITEMS = 1 << 14
TABLE = Blob("flatbuffers", "(FlatBuffers)", holds=Holds.NOTHING)


def tile_value(tiles: Tiles, parts: tuple[Part, ...], start: int, end: int, promised: int) -> None:
    """Tile a structured value of which ``promised`` bytes should be there."""
    at = start
    for part in parts:
        if isinstance(part, Repeat):
            at = _repeat(tiles, part, at, end)
        elif isinstance(part, FlatTable):
            at = _flat(tiles, part, at, end)
        elif isinstance(part, Field):
            at = tiles.fixed((part,), at, end, Section.VALUE)
        if isinstance(part, Repeat) and part.least and not promised:
            text = f"{part.name}: there are none, at least {part.least} must be there"
            tiles.problems.append(Problem(Fault.MUST_BE_PRESENT, text, start, start, part.least * part.width, 0))
    fixed = sum(part.width for part in parts if isinstance(part, Field))
    if all(isinstance(part, Field) for part in parts) and promised < fixed:
        text = f"value has {promised} bytes, needs {fixed}"
        tiles.problems.append(Problem(Fault.WRONG_LENGTH, text, start, end, fixed, promised))
    if at < end:
        tiles.blob(REST, at, end, Section.REST)
        text = f"{end - at} bytes of value are left over"
        tiles.problems.append(Problem(Fault.LEFT_OVER, text, at, end, 0, end - at))


def _repeat(tiles: Tiles, repeat: Repeat, at: int, end: int) -> int:
    """Tile items to the end of the value; less than the fixed part of one is left unexplained."""
    raw, needs, number = tiles.raw, repeat.width, 0
    while at < end:
        if number == MOST_ITEMS:
            tiles.blob(REST, at, end, Section.REST)
            text = f"{repeat.name}: after {number:,} items {end - at} bytes are not taken apart"
            tiles.problems.append(Problem(Fault.LEFT_OVER, text, at, end, 0, end - at))
            return end
        if end - at < needs or raw.lost(at, at + needs):
            tiles.blob(REST, at, end, Section.REST)
            if raw.length <= len(tiles.data):
                text = f"{repeat.name}: {end - at} bytes are left, an item needs {needs}"
                tiles.problems.append(Problem(Fault.WRONG_LENGTH, text, at, end, needs, end - at))
            return end
        at = _item(tiles, repeat, number, at, end)
        number += 1
    return at


def _item(tiles: Tiles, repeat: Repeat, number: int, at: int, end: int) -> int:
    sizes: dict[str, int] = {}
    for part in repeat.fields:
        if isinstance(part, Field):
            stop = at + part.width
            value: int | bytes = int.from_bytes(tiles.data[at:stop], "big")
            sizes[part.name] = int(value)
            tiles.check_name(part, sizes[part.name], at)
        else:
            needs = sizes[part.size]
            stop = at + needs
            if stop > end:
                text = f"{repeat.name}[{number}]: {part.label} needs {needs} bytes, {end - at} are left"
                tiles.problems.append(Problem(Fault.WRONG_LENGTH, text, at, end, needs, end - at))
                stop = end
            value = tiles.data[at:stop]
        tiles.fields.append(FieldValue(part, at, stop, value, Section.VALUE, repeat.name, number))
        at = stop
    return at


def _flat(tiles: Tiles, table: FlatTable, start: int, end: int) -> int:
    """Tile a FlatBuffers table: the slots that are present, and the bytes between them."""
    if tiles.raw.lost(start, end):  # zeros stand for what was lost, and would lead anywhere
        tiles.blob(VALUE, start, end, Section.VALUE)
        return end
    try:
        slots = place_slots(tiles.data[start:end], table)
    except FlatError as error:
        tiles.blob(VALUE, start, end, Section.VALUE)
        tiles.problems.append(Problem(Fault.NOT_FLATBUFFERS, f"no FlatBuffers table: {error}", start, end))
        return end
    for slot in table.slots:
        if isinstance(slot.field, Field):
            tiles.lookup[slot.field.name] = 0  # a slot that is missing has the default
    at = start
    for placed in slots:
        if start + placed.start > at:
            tiles.blob(TABLE, at, start + placed.start, Section.VALUE)
        at = start + placed.end
        tiles.fields.append(FieldValue(placed.field, start + placed.start, at, placed.value, Section.VALUE, "flat"))
        if isinstance(placed.value, int):
            tiles.lookup[placed.field.name] = placed.value
    if at < end:
        tiles.blob(TABLE, at, end, Section.VALUE)
    return end
