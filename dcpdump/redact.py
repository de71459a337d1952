"""Classify the data in a frame, and redact records: texts become hashes that keep equality and length.

The classes are those of Couchbase's own log redaction. User data is always redacted (documents, keys, xattrs, user
names), and so are names of buckets and texts that may contain these (names of connections, configurations, statistics).
``full`` adds metadata (names of collections, scopes and clients) and system data (hosts and ports). Hashes are keyed by
the salt: with one salt, equal texts have equal hashes, so that the frames of one document can still be recognised;
texts of less than four bytes may collide.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import replace

from dcpdump.record import Direction, Record
from dcpdump.spec.field import Blob, Field, FlatTable, Holds, Message
from dcpdump.spec.header import HEADER_LENGTH, MAGICS
from dcpdump.startup import dataclass, lazy_pattern
from dcpdump.wire.collection_names import LAST, Names
from dcpdump.wire.decode import MASK, structure
from dcpdump.wire.frame import FieldValue, Frame, Problem, Section
from dcpdump.wire.json_text import parse_json
from dcpdump.wire.value import Body, Content, Item

# -- whose data each byte of a frame is ---------------------------------------------------------------
# Everything but numbers of known layouts and the protocol's own words is user data, unless the protocol table gives
# another class. So new and unknown fields are hidden by default.

PARTIAL = frozenset({Holds.USER, Holds.BUCKET})
FULL = PARTIAL | {Holds.META, Holds.SYSTEM}
#: Numbers in a decoder's texts that may be four bytes or more of a key or a value, or two of its letters; and any
#: number.
LARGE_NUMBER = lazy_pattern(r"0x[0-9a-f]{8,}|[0-9]{8,}")
_MIDDLE_NUMBER = lazy_pattern(r"0x[0-9a-f]{4,}|[0-9]{4,}")
ANY_NUMBER = lazy_pattern(r"0x[0-9a-f]+|[0-9]+")


def is_damaged(frame: Frame) -> bool:
    """Return whether lengths contradict each other or the table, so that a key may be in the place of a number."""
    return frame.layout.version == "?" or any(map(_contradicts, frame.problems))


def _contradicts(problem: Problem) -> bool:
    """Return whether a problem is about too many or too few bytes."""
    return problem.needs is not None and (problem.end > problem.start or problem.has == 0)


def has_known_bug(frame: Frame) -> bool:
    """Return whether the only problem is a framing length of 0, a known bug of some servers."""
    return frame.layout.version != "?" and all(
        (problem.start, problem.end, problem.needs, problem.has) == (2, 3, 3, 0)
        for problem in filter(_contradicts, frame.problems)
    )


def hides_numbers(frame: Frame) -> bool:
    """Return whether bytes in the place of numbers may be those of a key or a value."""
    return is_stray(frame) or (is_damaged(frame) and not has_known_bug(frame))


def is_stray(frame: Frame) -> bool:
    """Return whether the bytes are no frame, so that not even the first 24 are numbers."""
    return frame.header.magic not in MAGICS


def hidden_numbers(frame: Frame) -> re.Pattern[str]:
    """Return a pattern of the numbers in texts about a frame that may be hidden bytes."""
    if is_stray(frame):
        return ANY_NUMBER
    return _MIDDLE_NUMBER if is_damaged(frame) else LARGE_NUMBER


def holds(frame: Frame, field: FieldValue) -> Holds:
    """Return the class of a field's data. Not for damaged frames."""
    part = field.field
    if isinstance(part, Field) or field.group == "secret":
        return Holds.NOTHING
    wire = frame.raw.data[field.start : field.end]
    if field.section is Section.KEY:
        return key_holds(frame.message, wire)
    if field.section is Section.VALUE and part.name == "value" and not field.group:
        return value_holds(frame, wire)
    return part.holds


def key_holds(message: Message, key: bytes) -> Holds:
    """Return the class of a key."""
    return Holds.NOTHING if _matches(message.key_words, key) else message.key_holds


def prefix(message: Message, key: bytes) -> int:
    """Return how many bytes at the beginning of a key are words of the protocol."""
    return max((len(word) for word in message.key_prefixes if key.startswith(word.encode())), default=0)


def value_holds(frame: Frame, value: bytes) -> Holds:
    """Return the class of an unstructured value. An error's value may quote the subject of the request."""
    if frame.layout.version == "error" or isinstance(frame.layout.value, tuple):
        return Holds.USER
    whose = text_holds(frame.message, value)
    # A value that should be JSON with known names, but is no JSON, may be anything.
    broken = whose is not Holds.NOTHING and frame.message.json and not frame.magic.response and not is_json(value)
    return Holds.USER if broken else whose


def text_holds(message: Message, value: bytes) -> Holds:
    """Return the class of a request's value."""
    return Holds.NOTHING if _matches(message.value_words, value) else message.value_holds


def without_gaps(frame: Frame, field: FieldValue) -> bytes:
    """Return the bytes between the slots of a FlatBuffers table, with zeros for those that do not lead to a slot."""
    out = bytearray(field.end - field.start)
    tables = [part for part in frame.layout.parts if isinstance(part, FlatTable)]
    first = min((each.start for each in frame.fields if each.section is Section.VALUE), default=field.start)
    for table in tables:
        for start, end in structure(frame.raw.data[first:], table):
            start, end = max(first + start, field.start), min(first + end, field.end)
            if start < end:
                out[start - field.start : end - field.start] = frame.raw.data[start:end]
    return bytes(out)


def is_json(value: bytes) -> bool:
    """Return whether a value is JSON."""
    try:
        parse_json(value)
    except ValueError:
        return False
    return True


def _matches(words: str, text: bytes) -> bool:
    return bool(words) and re.fullmatch(words.encode(), text) is not None


_IDENTIFIER = lazy_pattern(r"(?:0x)?[0-9a-fA-F]{1,8}")


# -- pseudonyms: equal texts get equal ones, of the same length; a salt keys them ---------------------
# Without the salt, a text cannot be recovered from its pseudonym, and candidates cannot be tried. Different texts have
# different pseudonyms: always for short texts of letters, digits, ``-`` and ``_``; with near certainty for long ones.
# Short texts with other bytes may share one.

_SIGNS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
_ALPHABET = bytes(_SIGNS[byte % 64] for byte in range(256))
_LETTERS = bytes(_SIGNS[byte % 52] for byte in range(256))
_DIGITS = bytes(b"123456789"[byte % 9] for byte in range(256))


_NUMBER_OF = {sign: number for number, sign in enumerate(_SIGNS)}
_BITS = 6  #: of a sign
_SHORT = 10  #: bytes; longer texts practically never share a hash
_ROUNDS = 4


class Pseudonyms:
    """The pseudonyms of one salt."""

    def __init__(self, salt: bytes) -> None:
        from hashlib import sha256, shake_128  # here, as it loads OpenSSL

        self._salt, self._shake = sha256(salt).digest(), shake_128

    def noise(self, text: bytes, size: int) -> bytes:
        """Return ``size`` bytes that depend on a text and the salt."""
        return self._shake(self._salt + text).digest(size)

    def text(self, text: bytes) -> bytes:
        """Return a text of the same length, of letters, digits, ``-`` and ``_``."""
        if len(text) <= _SHORT and not text.translate(None, _SIGNS):
            return self._permuted(text)
        return self.noise(text, len(text)).translate(_ALPHABET)

    def _permuted(self, text: bytes) -> bytes:
        """Return the image of a text under a keyed permutation of all such texts of its length.

        The permutation is a Feistel network: no two texts have the same image, for any round function.
        """
        size = len(text)
        half = _BITS * size // 2
        number = 0
        for sign in text:
            number = number << _BITS | _NUMBER_OF[sign]
        left, right = number >> half, number & (1 << half) - 1
        for turn in range(_ROUNDS):
            drawn = int.from_bytes(self.noise(b"%d %d %d" % (size, turn, right), 4), "big")
            left, right = right, left ^ drawn & (1 << half) - 1
        number = left << half | right
        return bytes(_SIGNS[number >> _BITS * at & 63] for at in range(size))

    def letters(self, text: bytes) -> bytes:
        """Return a text of the same length, of letters: neither JSON nor a number."""
        return self.noise(text, len(text)).translate(_LETTERS)

    def json(self, text: bytes) -> bytes:
        """Return JSON of the same length: a string, or a digit where the text is too short for one."""
        if len(text) < 2:
            return self.noise(text, len(text)).translate(_DIGITS)
        return b'"' + self.noise(text, len(text) - 2).translate(_ALPHABET) + b'"'

    def credential(self, size: int) -> bytes:
        """Return the pseudonym of a credential: it depends on the length alone."""
        return self.noise(b"credential", size).translate(_LETTERS)


def digits(noise: bytes) -> bytes:
    """Return noise as digits from 1 to 9."""
    return noise.translate(_DIGITS)


def letters(noise: bytes) -> bytes:
    """Return noise as letters."""
    return noise.translate(_LETTERS)


def redacted_direction(direction: Direction, redactor: "Redactor | None") -> Direction:
    """Return a direction with its addresses redacted."""
    if redactor is None:
        return direction
    return replace(direction, src=redactor.endpoint(direction.src), dst=redactor.endpoint(direction.dst))


# -- records without it -------------------------------------------------------------------------------


class Redactor:
    """A redactor of records. ``salt`` keys the hashes."""

    def __init__(self, salt: bytes, *, full: bool = False) -> None:
        self._pseudonyms = Pseudonyms(salt)
        self._classes = FULL if full else PARTIAL

    def record(self, record: Record) -> Record:
        """Return the record with all texts hashed that must not be shown."""
        damaged = is_damaged(record.frame) or is_stray(record.frame)
        frame = self._frame(record.frame, record.content, damaged)
        content = self._content(record.frame, record.content, damaged)
        names = self.names(record.names)
        src, dst = self.endpoint(record.src), self.endpoint(record.dst)
        return replace(record, frame=frame, content=content, src=src, dst=dst, names=names)

    # -- texts ---------------------------------------------------------------------------------------

    def hash(self, text: bytes) -> bytes:
        """Return the keyed hash of a text: printable, and as long as the text."""
        return self._pseudonyms.text(text)

    def text(self, text: str, holds: Holds) -> str:
        """Return a text, redacted if its class requires it."""
        return self.hash(text.encode("utf-8", "surrogatepass")).decode() if holds in self._classes else text

    def key(self, message: Message, text: str) -> str:
        """Return the key of a message, redacted."""
        key = text.encode("utf-8", "surrogatepass")
        hidden = key_holds(message, key) in self._classes
        return self._hash_name(message, key).decode("utf-8", "surrogatepass") if hidden else text

    def value(self, message: Message, text: str) -> str:
        """Return the value of a request, redacted."""
        return self.text(text, text_holds(message, text.encode("utf-8", "surrogatepass")))

    def names(self, names: Names | None) -> Names | None:
        """Return the names of collections, redacted."""
        return None if names is None else _HiddenNames(names, self)

    def settled_names(self, names: Names | None) -> "SettledNames | None":
        """Return the final names of collections, redacted, as plain dictionaries."""
        if names is None:
            return None
        paths = {number: self.path(path) for number, path in names.known()}
        return SettledNames(paths, {number: self.path(name) for number, name in names.known_scopes()})

    def path(self, path: str) -> str:
        """Return the name of a collection, with or without its scope, redacted."""
        return ".".join(self.text(name, Holds.META) for name in path.split("."))

    def identifier(self, text: str) -> str:
        """Return the supposed id of a collection or scope, redacted unless it is one."""
        return text if _IDENTIFIER.fullmatch(text) else "*" * len(text)

    def endpoint(self, end: str) -> str:
        """Return an address and a port, redacted."""
        host, _, port = end.rpartition(":")
        return f"{self.text(host, Holds.SYSTEM)}:{self.text(port, Holds.SYSTEM)}" if end else ""

    # -- the bytes: keys and values in place, at the same length ------------------------------------------

    def _frame(self, frame: Frame, content: Content, damaged: bool) -> Frame:
        data = bytearray(frame.raw.data)
        fields: list[FieldValue] = []
        for field in frame.fields:
            hidden = self._field(frame, content, field, damaged)
            if hidden is not None:
                data[field.start : field.end] = hidden
                field = field._replace(value=hidden if isinstance(field.value, bytes) else None)
            fields.append(field)
        raw = replace(frame.raw, data=bytes(data))
        if is_stray(frame):
            length = max(0, len(data) - HEADER_LENGTH)
            raw = replace(raw, header=frame.header._replace(**_NO_HEADER, body_length=length))
        key = next((f.value for f in fields if f.section is Section.KEY and isinstance(f.value, bytes)), None)
        value = frame.value
        if value is not None and self._hides_value(frame, value, damaged):
            value = self.hash(value)
        return replace(
            frame,
            raw=raw,
            fields=tuple(fields),
            key=key,
            value=value,
            lookup={} if damaged else frame.lookup,
            problems=_without_numbers(frame, frame.problems),
        )

    def _field(self, frame: Frame, content: Content, field: FieldValue, damaged: bool) -> bytes | None:
        """Return the replacement of a field, or None to keep it."""
        wire = frame.raw.data[field.start : field.end]
        if damaged:
            shown = field.section is Section.HEADER and not is_stray(frame)
            return None if shown or field.group == "secret" else self.hash(wire)
        if not isinstance(field.field, Blob):
            return None
        if field.field.name == "flatbuffers":
            return without_gaps(frame, field)
        if holds(frame, field) not in self._classes:
            return None
        if frame.message.secret and field.section is not Section.KEY:
            return MASK * len(wire)  # a password could be guessed by its hash
        if field.section is Section.KEY:
            return self._hash_end(wire, content.key, prefix(frame.message, wire))
        if (field.group, field.field.name) == ("items", "key") and field.item < len(content.items):
            return self._hash_end(wire, content.items[field.item].key)
        return self.hash(wire)

    def _hash_end(self, wire: bytes, key: bytes | None, size: int = 0) -> bytes:
        """Return a key, redacted except for its collection id, or for ``size`` bytes of protocol words."""
        size += len(wire) - len(key) if key is not None else 0
        return wire[:size] + self.hash(wire[size:])

    def _hash_name(self, message: Message, key: bytes) -> bytes:
        return self._hash_end(key, None, prefix(message, key))

    def _hides_value(self, frame: Frame, value: bytes, damaged: bool) -> bool:
        return damaged or value_holds(frame, value) in self._classes

    # -- what they mean -----------------------------------------------------------------------------------

    def _content(self, frame: Frame, content: Content, damaged: bool) -> Content:
        key, body, document = content.key, content.body, content.document
        if damaged:
            content = replace(content, collection=None)
        if key is not None and (damaged or key_holds(frame.message, frame.key or b"") in self._classes):
            key = self.hash(key) if damaged else self._hash_name(frame.message, key)
        if self._hides_value(frame, frame.value or b"", damaged):
            body = self._body(frame, body) if body is not None else None
            if document is not None:
                document = self.hash(json.dumps(document).encode()).decode()
        return replace(
            content,
            key=key,
            collection_name=self.hash(content.collection_name) if content.collection_name else None,
            body=body,
            document=document,
            items=()
            if damaged
            else tuple(
                Item(item.collection, self.hash(item.key), self._body(frame, item.body)) for item in content.items
            ),
            problems=_without_numbers(frame, content.problems),
        )

    def _body(self, frame: Frame, body: Body) -> Body:
        if frame.message.secret:
            return replace(body, value=MASK * len(body.value), xattrs=None, unread=b"")
        xattrs = body.xattrs
        if xattrs is not None:
            xattrs = tuple((self.hash(name), self.hash(text)) for name, text in xattrs)
        return replace(body, value=self.hash(body.value), xattrs=xattrs, unread=self.hash(body.unread))


class _HiddenNames:
    """The names of collections, with scope and collection hashed, as in system events."""

    def __init__(self, names: Names, redactor: Redactor) -> None:
        self._names, self._redactor = names, redactor

    def path(self, collection: int, frame: int = LAST) -> str | None:
        """Return the hashed name of a collection, as known at a frame."""
        return self._hidden(self._names.path(collection, frame))

    def scope(self, number: int, frame: int = LAST) -> str | None:
        """Return the hashed name of a scope, as known at a frame."""
        return self._hidden(self._names.scope(number, frame))

    def known(self) -> list[tuple[int, str]]:
        """Return the ids and hashed names of all collections that were named."""
        return [(number, self._redactor.path(path)) for number, path in self._names.known()]

    def known_scopes(self) -> list[tuple[int, str]]:
        """Return the ids and hashed names of all scopes that were named."""
        return [(number, self._redactor.path(name)) for number, name in self._names.known_scopes()]

    def _hidden(self, path: str | None) -> str | None:
        return None if path is None else self._redactor.path(path)


@dataclass(frozen=True, slots=True)
class SettledNames:
    """The names of collections and scopes by id, as known at the end."""

    paths: Mapping[int, str]
    scopes: Mapping[int, str]

    def path(self, collection: int, frame: int = LAST) -> str | None:
        """Return the name of a collection."""
        return self.paths.get(collection)

    def scope(self, number: int, frame: int = LAST) -> str | None:
        """Return the name of a scope."""
        return self.scopes.get(number)

    def known(self) -> list[tuple[int, str]]:
        """Return the ids and names of all collections that were named."""
        return sorted(self.paths.items())

    def known_scopes(self) -> list[tuple[int, str]]:
        """Return the ids and names of all scopes that were named."""
        return sorted(self.scopes.items())


#: The header shown for bytes that are not a header.
_NO_HEADER = {
    "opcode": 0,
    "framing_length": 0,
    "key_length": 0,
    "extras_length": 0,
    "datatype": 0,
    "vbucket_or_status": 0,
    "opaque": 0,
    "cas": 0,
}


def _without_numbers(frame: Frame, problems: tuple[Problem, ...]) -> tuple[Problem, ...]:
    """Remove the numbers from problems' texts that may be bytes of a key or a value."""
    numbers = hidden_numbers(frame)
    return tuple(problem._replace(text=numbers.sub("…", problem.text)) for problem in problems)
