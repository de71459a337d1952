"""Find in columns the frames of a part that are no more than numbers, a key and a value."""

from collections.abc import Iterator
from typing import NamedTuple

from dcpdump.batch.learning import INFERRED, UNDERLYING, UNKNOWN
from dcpdump.batch.part import Part
from dcpdump.batch.plans import PLANS
from dcpdump.spec.field import Holds, Message
from dcpdump.wire.value import Body, open_value


class Plain(NamedTuple):
    """A frame with the offsets of its key and value, counted from its first byte."""

    data: bytes
    message: Message
    key: int
    name: int  #: where the key continues behind its collection id
    value: int
    datatype: int
    guess: bool  #: it is not known whether the key begins with such an id

    @property
    def body(self) -> Body | None:
        """Return the decoded value, if its datatype says that it is more than plain bytes; else None."""
        value = self.data[self.value :]
        return open_value(value, self.datatype) if value and self.datatype and self.message.document else None


def plain_frames(part: Part) -> Iterator[Plain | None]:
    """Yield each frame of a part, or None where it has to be decoded to be understood."""
    header = part.header
    which = part.plan.copy()
    for group in part.groups:
        plan = group.plan
        message = plan.message  # of words of the protocol frames are decoded one by one
        if plan.value_fields or message.value_holds is not Holds.USER or message.key_words or message.value_words:
            which[group.rows] = -1
        elif plan.layout.tail:
            which[group.rows[group.column(plan.layout.tail) > 0]] = -1
    which[part.knows(UNDERLYING) & (header.value > 0)] = -1  # their datatypes may be about what is not there
    keys = part.keys
    which[~keys.sound] = -1
    key = header.key_at
    starts, ends = part.start.tolist(), (part.start + part.length).tolist()
    data, guess = part.data, part.knows(INFERRED | UNKNOWN)
    places = (key, keys.logical - part.start, key + header.key, header.datatype, guess)
    columns = zip(which.tolist(), starts, ends, zip(*(column.tolist() for column in places), strict=True), strict=True)
    for number, start, end, facts in columns:
        yield Plain(data[start:end], PLANS[number].message, *facts) if number >= 0 else None
