"""Defer the decoding of frames until their record is read. Messages that do not concern DCP, such as a
client's GETs on the same port, are many, and mostly none is read.
"""

from dataclasses import replace
from typing import Any, NamedTuple

from dcpdump.record import Record
from dcpdump.wire.decode import decode
from dcpdump.wire.frame import RawFrame
from dcpdump.wire.outstanding import Asked
from dcpdump.wire.value import interpret


class Later(NamedTuple):
    """What was known of a frame when it came, and what its record needs beside its bytes."""

    number: int
    vbucket: int | None
    request: Asked | None
    connection: int
    direction: int
    src: str
    dst: str
    show_secrets: bool

    def record(self, raw: RawFrame) -> Record:
        """Decode the frame after all. Its key has no collection id, whatever the connection agreed on."""
        frame = decode(raw, show_secrets=self.show_secrets)
        meaning = interpret(frame, collections=None)
        place = self.connection, self.direction, self.src, self.dst
        return Record(self.number, frame, meaning, self.vbucket, self.request, *place)


def renumbered(record: Record | Later, **numbers: Any) -> Record | Later:
    """Return a frame with another number, or that of another connection."""
    return record._replace(**numbers) if isinstance(record, Later) else replace(record, **numbers)
