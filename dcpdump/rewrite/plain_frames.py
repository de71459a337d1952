"""Find in columns the frames of a part that are no more than numbers, a key and a value."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from dcpdump.batch.key_columns import keys_of
from dcpdump.batch.part import UNKNOWN, Part
from dcpdump.spec.field import Holds, Message
from dcpdump.wire.body import Body, open_value


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
    count, header = len(part), part.header
    which = np.full(count, -1)
    for number, group in enumerate(part.groups):
        plan = group.plan
        message = plan.message  # of words of the protocol frames are decoded one by one
        if plan.value_fields or message.value_holds is not Holds.USER or message.key_words or message.value_words:
            continue
        bare = np.ones(len(group.rows), bool) if not plan.layout.tail else group.column(plan.layout.tail) == 0
        which[group.rows[bare]] = number
    which[part.underlying & (header.value > 0)] = -1  # their datatypes may be about what is not there
    rows = np.arange(count)
    keys = keys_of(part, rows)
    which[~keys.sound] = -1
    key = header.key_at
    starts, ends = part.start.tolist(), (part.start + part.length).tolist()
    guess = part.inferred | (part.collections == UNKNOWN)
    messages, data = [group.plan.message for group in part.groups], part.data
    places = (key, keys.start - part.start, key + header.key, header.datatype, guess)
    columns = zip(which.tolist(), starts, ends, zip(*(column.tolist() for column in places), strict=True), strict=True)
    for number, start, end, facts in columns:
        yield Plain(data[start:end], messages[number], *facts) if number >= 0 else None
