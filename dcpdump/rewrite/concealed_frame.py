"""Conceal a frame's bytes: lengths and numbers stay, texts are replaced by others of the same length.

What a layout explains is kept or replaced, by whose data it is (``Holds``); what no layout explains becomes zeros.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from dcpdump.disclosure import FULL, PARTIAL, has_known_bug, holds, is_damaged, is_json, prefix, without_gaps
from dcpdump.pseudonymize import Pseudonyms
from dcpdump.record import Record
from dcpdump.rewrite.concealed_value import conceal_strings, conceal_value, hidden_texts
from dcpdump.rewrite.plain_frames import Plain
from dcpdump.spec.field import Blob, Field, Holds, Message
from dcpdump.spec.header import HEADER_LENGTH
from dcpdump.spec.names import SNAPPY
from dcpdump.wire.frame import FieldValue, Frame, Section
from dcpdump.wire.key_prefix import SEPARATOR, read_prefix
from dcpdump.wire.value import Meaning

#: Texts shorter than this occur everywhere by chance.
LEAST_SECRET = 8


class Concealed(NamedTuple):
    """The bytes of a concealed frame, and the texts that it no longer holds."""

    data: bytes
    secrets: list[bytes]  #: texts that must not occur in the result


class Concealer:
    """A concealer of frames. ``full``: names too, of buckets, collections, connections, agents and hosts."""

    def __init__(self, words: Pseudonyms, *, full: bool = False) -> None:
        self._words = words
        self._classes = FULL if full else PARTIAL

    def conceal(self, record: Record) -> Concealed:
        """Return the bytes of a frame concealed, as many as before, and the texts that they no longer hold."""
        frame = record.frame
        data = bytearray(frame.raw.data)
        secrets: list[bytes] = []
        datatypes = _item_datatypes(frame)
        damaged, kept = is_damaged(frame) and not has_known_bug(frame), 0
        if damaged:
            kept = _end_of_numbers(frame)
            data[kept:] = bytes(max(0, len(data) - kept))
        for field in frame.fields:
            if isinstance(field.field, Blob):
                wire = frame.raw.data[field.start : field.end]
                other = None if damaged and field.start >= kept else self._blob(record, field, wire, datatypes)
                if other is not None:
                    data[field.start : field.end] = other
                if bytes(data[field.start : field.end]) != wire:
                    secrets += _hidden(record, field, wire, datatypes)
            elif damaged and _is_of_a_faulty_info(frame, field):
                data[field.start : field.end] = bytes(field.end - field.start)
        for start, end in frame.raw.holes:
            data[start:end] = bytes(end - start)
        return Concealed(bytes(data), [text for text in secrets if len(text) >= LEAST_SECRET])

    def conceal_plain(self, plain: Plain) -> Concealed:
        """Return for a plain frame what ``conceal`` returns for its record."""
        message, key, value = plain.message, plain.data[plain.key : plain.value], plain.data[plain.value :]
        other_key, other_value = key, value
        secrets: list[bytes] = []
        if key and self._hides(message.key_holds):
            other_key = self._named_key(message, key, plain.name - plain.key, plain.guess)
        if value and message.value_holds is Holds.USER:
            other_value = conceal_value(self._words, value, plain.datatype)
        if other_key != key:
            secrets.append(plain.data[plain.name : plain.value])
        if other_value != value:
            secrets += hidden_texts(value, plain.datatype)
        data = plain.data[: plain.key] + other_key + other_value
        return Concealed(data, [text for text in secrets if len(text) >= LEAST_SECRET])

    def _hides(self, holds: Holds) -> bool:
        return holds in self._classes

    def _blob(self, record: Record, field: FieldValue, wire: bytes, datatypes: Mapping[int, int]) -> bytes | None:
        """Return the replacement for a field's bytes, or None to keep them."""
        frame, name = record.frame, field.field.name
        if name == "flatbuffers":
            return without_gaps(frame, field)
        if name == "frame_info_data":
            size = _tag_size(frame, field, wire)
            return wire[:size] + bytes(len(wire) - size)
        if field.section not in (Section.FRAMING, Section.KEY, Section.VALUE):
            return bytes(len(wire))
        if not self._hides(holds(frame, field)):
            return None
        if field.section is Section.KEY:
            return self._key(frame, record.meaning, wire)
        if field.group == "items":
            return self._item(field, wire, datatypes.get(field.item, frame.header.datatype))
        if field.section is Section.VALUE and name == "value":
            return self._value(frame, record.meaning, wire)
        return self._words.text(wire)

    # -- keys ---------------------------------------------------------------------------------------------

    def _key(self, frame: Frame, meaning: Meaning, wire: bytes) -> bytes:
        name = meaning.collection_name
        if name is not None:
            return self._preview(wire, len(name))
        size = len(wire) - len(meaning.key) if meaning.key is not None else 0
        size += prefix(frame.message, wire)
        return self._named_key(frame.message, wire, size, meaning.collection_inferred)

    def _named_key(self, message: Message, wire: bytes, size: int, guess: bool) -> bytes:
        """Conceal a key behind its collection id of ``size`` bytes; ``guess``: it is unknown whether there is an id."""
        if not size and message.collection_key and (guess or read_prefix(wire) is None):
            return self._unsure(wire)
        return wire[:size] + self._words.text(wire[size:])

    def _preview(self, wire: bytes, size: int) -> bytes:
        """Conceal a key that begins with the name of its collection."""
        name, rest = wire[:size], wire[size:]
        separator = SEPARATOR if rest.startswith(SEPARATOR) else b""
        name = self._words.text(name) if self._hides(Holds.META) else name
        return name + separator + self._words.text(rest[len(separator) :])

    def _unsure(self, wire: bytes) -> bytes:
        """Conceal a key of which it is unknown whether it begins with a collection id.

        Later keys are interpreted by what this one can be, so its replacement can be the same.
        """
        if 0x20 <= wire[0] <= 0x7E:
            return self._words.text(wire)
        prefix = read_prefix(wire)
        if prefix is None or prefix.size > 1:
            size = len(wire) if prefix is None else prefix.size - 1
            high = bytes(byte | 0x80 for byte in self._words.noise(wire, size))
            if prefix is not None and not prefix.fault:
                high = wire[:size]  # an id of several bytes that may well be one
            return high + wire[size : size + 1] + self._words.text(wire[size + 1 :])
        return wire[:1] + self._words.text(wire[1:])

    def _item(self, field: FieldValue, wire: bytes, datatype: int) -> bytes:
        """Conceal the key or the value of one record of a cache transfer."""
        if field.field.name == "key":  # it always begins with a collection's id
            prefix = read_prefix(wire)
            if prefix is None:
                return self._unsure(wire) if wire else wire
            return wire[: prefix.size] + self._words.text(wire[prefix.size :])
        return conceal_value(self._words, wire, datatype)

    # -- values -------------------------------------------------------------------------------------------

    def _value(self, frame: Frame, meaning: Meaning, wire: bytes) -> bytes:
        message, words, datatype = frame.message, self._words, frame.header.datatype
        if isinstance(frame.layout.value, tuple):
            return bytes(len(wire))  # it should have had a structure
        if message.secret:
            return words.json(bytes(len(wire))) if is_json(wire) else words.credential(len(wire))
        if frame.value is None or (message.json and meaning.document is None and not frame.magic.response):
            return words.letters(wire)  # bytes of it were lost, or it is not the JSON that it should be
        if message.value_holds is not Holds.USER and frame.layout.version != "error":
            if datatype & SNAPPY:
                return conceal_value(words, wire, datatype)
            return conceal_strings(words, wire) if is_json(wire) else words.text(wire)
        if meaning.document is not None and not datatype & SNAPPY:
            return words.json(wire)
        judged = message.document and not frame.magic.response
        if judged and meaning.body is not None and meaning.body.value == wire and meaning.hints:
            return words.text(wire)  # the datatype is about bytes that are not in the frame
        return conceal_value(words, wire, datatype)


def _tag_size(frame: Frame, field: FieldValue, wire: bytes) -> int:
    """Return how many bytes at the start of a field are the tag of a frame info that is cut short; else 0."""
    broken = any((problem.start, problem.end) == (field.start, field.end) for problem in frame.problems)
    return min(len(wire), 1 + (wire[0] >> 4 == 15) + (wire[0] & 15 == 15)) if broken else 0


def _end_of_numbers(frame: Frame) -> int:
    """Return the offset up to which a damaged frame certainly holds no key: behind extras of the expected length."""
    extras = [field for field in frame.fields if field.section is Section.EXTRAS]
    fits = frame.layout.version != "?" and all(isinstance(field.field, Field) for field in extras)
    if not fits or sum(field.end - field.start for field in extras) != frame.header.extras_length:
        return HEADER_LENGTH
    return min(len(frame.raw.data), frame.header.key_at)


def _is_of_a_faulty_info(frame: Frame, field: FieldValue) -> bool:
    """Return whether a number belongs to a frame info of the wrong length; false for the info's tag."""
    return (
        field.section is Section.FRAMING
        and field.field.name != "frame_info"
        and any(each.needs is not None and each.start < field.start < each.end for each in frame.problems)
    )


def _hidden(record: Record, field: FieldValue, wire: bytes, datatypes: Mapping[int, int]) -> Iterator[bytes]:
    """Yield the texts that a field held and that were replaced."""
    key = record.meaning.key
    if field.section is Section.KEY and key is not None and wire.endswith(key):
        yield key[prefix(record.frame.message, key) :]
    elif field.section is Section.VALUE and field.field.name == "value":
        datatype = record.frame.header.datatype
        yield from hidden_texts(wire, datatypes.get(field.item, datatype) if field.group == "items" else datatype)
    else:
        yield wire


def _item_datatypes(frame: Frame) -> dict[int, int]:
    """Return the datatype of each item of a frame, by the item's place."""
    found: dict[int, int] = {}
    for field in frame.fields:
        if field.group == "items" and field.field.name == "datatype":
            found.setdefault(field.item, field.value if isinstance(field.value, int) else 0)
    return found
