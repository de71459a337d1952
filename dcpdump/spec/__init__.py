"""Hold the protocol as data: every message that dcpdump knows, and the functions that find them.

To add an opcode, or a version of one, add an entry to the module of its family; nothing else changes. Begin with
``field``, the classes that an entry consists of. ``header`` has the 24 bytes before every body, ``names``, ``opcodes``
and ``statuses`` the names of numbers; ``connection``, ``stream``, ``document`` and ``neighbours`` have the messages.
Imports only ``startup`` of dcpdump.
"""

import functools
from collections.abc import Iterable

from dcpdump.spec import connection, document, neighbours, stream
from dcpdump.spec.field import MAY, Layout, Message
from dcpdump.spec.statuses import NOT_ERRORS

_DCP = (*connection.DCP, *stream.DCP, *document.DCP)
MESSAGES: dict[int, Message] = {
    message.opcode: message
    for message in sorted((*_DCP, *neighbours.NEIGHBOURS, *neighbours.OTHER), key=lambda message: message.opcode)
}
#: Magics 0x82 and 0x83 have opcodes of their own.
PUSHES: dict[int, Message] = {message.opcode: message for message in neighbours.PUSHES}

RAW = Layout("raw", key=MAY, value=MAY)  #: a message of which only the name is known
ERROR = Layout("error", value=MAY)  #: the layout of any response with an error status; the value may be JSON
UNFIT = Layout("?", key=MAY, value=MAY)  #: the layout of a message whose extras have a length that no layout has
UNKNOWN_NAME = "UNKNOWN"


def find(opcode: int, *, server: bool = False) -> Message:
    """Return the message of an opcode; an unknown opcode is a Message too, without layouts."""
    message = (PUSHES if server else MESSAGES).get(opcode)
    return message or _unknown(opcode)


@functools.cache
def _unknown(opcode: int) -> Message:
    return Message(opcode, UNKNOWN_NAME)


def choose(
    message: Message, *, response: bool, status: int, extras: bytes, extras_length: int, value_length: int
) -> tuple[Layout, str]:
    """Return the layout that fits a frame's lengths and leading extras, and a reason if none fits exactly, else "".

    ``extras`` is shorter than ``extras_length`` if the frame is cut; missing bytes exclude no layout. If no layout
    fits, the first result still decodes the extras, provided that all layouts with that extras length agree on them.
    """
    if not message.known:
        return RAW, ""
    layouts = message.response if response else message.request
    if response and status not in NOT_ERRORS and extras_length == 0:
        return ERROR, ""
    for layout in layouts:
        if _fits(layout, status, extras, extras_length, value_length):
            return layout, ""
    alike = [layout for layout in layouts if layout.extras_length == extras_length]
    if not alike:
        legal = _either({layout.extras_length for layout in layouts})
        return UNFIT, f"extras length {extras_length} fits no layout of {message.name} ({legal})"
    return _like(alike[0]), _why_not(message, alike, status, extras, value_length)


@functools.cache
def _like(layout: Layout) -> Layout:
    """Return a layout with the extras of another, and any key and value."""
    return Layout("?", extras=layout.extras, key=layout.key, value=MAY)


def _fits(layout: Layout, status: int, extras: bytes, extras_length: int, value_length: int) -> bool:
    if layout.extras_length != extras_length:
        return False
    for name, wanted in layout.when.items():
        if name == "value_length":
            if value_length != wanted:
                return False
        elif name == "status":
            if status != wanted:
                return False
        elif name != "extras_length":
            found = _extra(layout, name, extras)
            if found is not None and found != wanted:
                return False
    return True


def _extra(layout: Layout, name: str, extras: bytes) -> int | None:
    """Return one field of the extras, or None if its bytes are missing."""
    at = 0
    for field in layout.extras:
        if field.name == name:
            cut = extras[at : at + field.width]
            return int.from_bytes(cut, "big") if len(cut) == field.width else None
        at += field.width
    return None


def _why_not(message: Message, alike: list[Layout], status: int, extras: bytes, value_length: int) -> str:
    """Return in words why no layout with the right extras length fits."""
    names = [name for name in alike[0].when if name not in ("extras_length", "value_length", "status")]
    left = alike
    for name in names:
        found = _extra(alike[0], name, extras)
        legal = {layout.when[name] for layout in left if name in layout.when}
        left = [layout for layout in left if layout.when.get(name) == found]
        if not left:
            return f"{name} {found} is none that {message.name} has here ({_either(legal)})"
    lengths = {layout.when["value_length"] for layout in left if "value_length" in layout.when}
    if lengths:
        return f"value length {value_length} fits no layout of {message.name} here ({_either(lengths)})"
    return f"status 0x{status:04x} fits no layout of {message.name}"


def _either(values: Iterable[int]) -> str:
    """Return a choice of numbers as text: "18, 19 or 21"."""
    texts = [str(value) for value in sorted(values)]
    return " or ".join(filter(None, [", ".join(texts[:-1]), texts[-1]])) if texts else "none"
