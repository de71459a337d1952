"""Redaction: keys, values, xattrs and names become keyed hashes that keep equality and length.

The classes are those of Couchbase's own log redaction. Without ``full``: user data (documents, keys, xattrs,
user names) and names of buckets, with what may have them in it (names of connections, configurations, statistics).
With it also metadata (names of collections, scopes and clients) and system data (hosts and ports). The same text
gives the same hash as long as the salt is the same, so frames of one document can still be told to belong together;
texts of less than four bytes may collide.
"""

import json
import re
from dataclasses import replace

from dcpdump.pseudonym import Pseudonyms
from dcpdump.record import Record
from dcpdump.spec.field import Blob, Holds
from dcpdump.wire.body import Body
from dcpdump.wire.frame import FieldValue, Frame, Problem, Section
from dcpdump.wire.value import Item, Meaning

_PARTIAL = frozenset({Holds.USER, Holds.BUCKET})
_FULL = _PARTIAL | {Holds.META, Holds.SYSTEM}
#: Names inside the protocol's own structures, and whose they are.
_NAMES = {"user": Holds.USER, "collection_name": Holds.META, "scope_name": Holds.META}
_LARGE = re.compile(r"0x[0-9a-f]{8,}|[0-9]{8,}")


class Redactor:
    """It turns records into such that may be shown to others. ``salt`` keys the hashes."""

    def __init__(self, salt: bytes, *, full: bool = False) -> None:
        self._pseudonyms = Pseudonyms(salt)
        self._classes = _FULL if full else _PARTIAL
        self._full = full

    def record(self, record: Record) -> Record:
        """It gives the record with everything hashed that is of a redacted class."""
        damaged = is_damaged(record.frame)
        frame = self._frame(record.frame, record.meaning, damaged)
        meaning = self._meaning(record.frame, record.meaning, damaged)
        if not self._full:
            return replace(record, frame=frame, meaning=meaning)
        src, dst = self._endpoint(record.src), self._endpoint(record.dst)
        return replace(record, frame=frame, meaning=meaning, src=src, dst=dst)

    def hash(self, text: bytes) -> bytes:
        """It gives the keyed hash of a text: as long as the text, printable."""
        return self._pseudonyms.text(text)

    def text(self, text: str, holds: Holds) -> str:
        """It gives a text as it may be shown, by whose data it is."""
        return self.hash(text.encode()).decode() if self._hides(holds, False) else text

    def _hides(self, holds: Holds, damaged: bool) -> bool:
        return damaged or holds in self._classes

    def _value_holds(self, frame: Frame) -> Holds:
        # The value of an error may quote what it is about.
        return Holds.USER if frame.layout.version == "error" else frame.message.value_holds

    # -- the bytes: keys and values in place, at the same length ------------------------------------------

    def _frame(self, frame: Frame, meaning: Meaning, damaged: bool) -> Frame:
        data = bytearray(frame.raw.data)
        fields: list[FieldValue] = []
        for field in frame.fields:
            hidden = self._field(frame, meaning, field, damaged)
            if hidden is not None:
                data[field.start : field.end] = hidden
                field = field._replace(value=hidden if isinstance(field.value, bytes) else None)
            fields.append(field)
        raw = replace(frame.raw, data=bytes(data))
        key = next((f.value for f in fields if f.section is Section.KEY and isinstance(f.value, bytes)), None)
        value = frame.value
        if value is not None and (self._hides(self._value_holds(frame), damaged)):
            value = self.hash(value)
        return replace(
            frame,
            raw=raw,
            fields=tuple(fields),
            key=key,
            value=value,
            lookup={} if damaged else frame.lookup,
            problems=_without_numbers(frame.problems),
        )

    def _field(self, frame: Frame, meaning: Meaning, field: FieldValue, damaged: bool) -> bytes | None:
        """It gives what is to stand in a field's place, or None to leave it."""
        wire = frame.raw.data[field.start : field.end]
        if damaged and field.section is not Section.HEADER:
            return self.hash(wire)
        if not isinstance(field.field, Blob) or field.group == "secret":
            return None
        if field.section is Section.KEY:
            return self._key(wire, meaning) if self._hides(frame.message.key_holds, damaged) else None
        if field.group == "items" and field.item < len(meaning.items):
            if field.field.name == "value":
                return self.hash(wire)
            size = len(wire) - len(meaning.items[field.item].key)
            return wire[:size] + self.hash(wire[size:])
        if field.field.name in _NAMES:
            return self.hash(wire) if self._hides(_NAMES[field.field.name], damaged) else None
        if field.section in (Section.VALUE, Section.TAIL) and self._hides(self._value_holds(frame), damaged):
            return self.hash(wire)
        # Bytes in no known field may be anybody's.
        return self.hash(wire) if field.section in (Section.REST, Section.EXTRAS) else None

    def _key(self, wire: bytes, meaning: Meaning) -> bytes:
        size = len(wire) - len(meaning.key) if meaning.key is not None else 0
        return wire[:size] + self.hash(wire[size:])

    # -- what they mean -----------------------------------------------------------------------------------

    def _meaning(self, frame: Frame, meaning: Meaning, damaged: bool) -> Meaning:
        key, body, document = meaning.key, meaning.body, meaning.document
        if damaged:
            meaning = replace(meaning, collection=None)
        if key is not None and self._hides(frame.message.key_holds, damaged):
            key = self.hash(key)
        if self._hides(self._value_holds(frame), damaged) and not isinstance(frame.layout.value, tuple):
            body = self._body(body) if body is not None else None
            if document is not None:
                document = self.hash(json.dumps(document).encode()).decode()
        return replace(
            meaning,
            key=key,
            collection_name=self.hash(meaning.collection_name) if meaning.collection_name else None,
            body=body,
            document=document,
            items=()
            if damaged
            else tuple(Item(item.collection, self.hash(item.key), self._body(item.body)) for item in meaning.items),
            problems=_without_numbers(meaning.problems),
        )

    def _body(self, body: Body) -> Body:
        xattrs = body.xattrs
        if xattrs is not None:
            xattrs = tuple((self.hash(name), self.hash(text)) for name, text in xattrs)
        return replace(body, value=self.hash(body.value), xattrs=xattrs)

    def _endpoint(self, end: str) -> str:
        host, _, port = end.rpartition(":")
        return f"{self.hash(host.encode()).decode()}:{self.hash(port.encode()).decode()}" if end else ""


def is_damaged(frame: Frame) -> bool:
    """It says whether lengths contradict each other or the table: then a key may stand where a number is read."""
    return frame.layout.version == "?" or any(
        problem.needs is not None and (problem.end > problem.start or problem.has == 0) for problem in frame.problems
    )


def _without_numbers(problems: tuple[Problem, ...]) -> tuple[Problem, ...]:
    """It leaves out of problems' texts the numbers that may be four bytes or more of a key or a value."""
    return tuple(problem._replace(text=_LARGE.sub("…", problem.text)) for problem in problems)
