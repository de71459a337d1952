"""Refuse what no frame can be equal to: a word that its column never has, a number that it cannot hold."""

from functools import cache

import pyarrow as pa

from dcpdump.arrow import schema
from dcpdump.errors import FilterError
from dcpdump.nearest import nearest
from dcpdump.spec import MESSAGES, PUSHES, find
from dcpdump.spec.field import EnumValue, Field
from dcpdump.spec.statuses import STATUS
from dcpdump.sql.spans import KINDS


def check(column: str, value: int | str) -> None:
    """Raise FilterError where no frame has a value in a column."""
    if isinstance(value, int):
        kind = schema.frames().field(column).type
        if pa.types.is_unsigned_integer(kind) and value >> kind.bit_width:
            raise FilterError(f"no frame has {column} = {value}: the largest is {(1 << kind.bit_width) - 1}")
    elif value not in _words().get(column, {value}):
        words = {word.casefold(): word for word in sorted(_words()[column])}
        near = [words[each] for each in nearest(value.casefold(), words)]
        hint = f"did you mean {' or '.join(near)}?" if near else ""
        raise FilterError(f"no frame has {column} = {value!r}", hint=hint)


@cache
def _words() -> dict[str, set[str]]:
    """Return all words that columns may have, by column, where they are known: of messages and enumerations."""
    found: dict[str, set[str]] = {"kind": set(KINDS), "status_name": set(STATUS.names.values())}
    found["name"] = {find(opcode, server=server).name for opcode in range(256) for server in (False, True)}
    for message in (*MESSAGES.values(), *PUSHES.values()):
        for layout in message.layouts:
            for part in (*layout.extras, *layout.parts):
                if isinstance(part, Field) and isinstance(part.names, EnumValue):
                    names = {*part.names.names.values(), part.names.otherwise} - {""}
                    found.setdefault(f"{part.key}_name", set()).update(names)
    return found
