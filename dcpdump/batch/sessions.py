"""Report the frames of a part to the sessions of their connections, and make the records of those that need one."""

from collections.abc import Callable, Mapping

import numpy as np

from dcpdump.batch.builder import part_of
from dcpdump.batch.deferred import Later
from dcpdump.batch.ends import ends_of
from dcpdump.batch.gather import Array
from dcpdump.batch.part import Part
from dcpdump.batch.planned import Planned
from dcpdump.conversation import Conversation
from dcpdump.net.no_time import NO_TIME
from dcpdump.record import Record
from dcpdump.spec import UNKNOWN_NAME, find
from dcpdump.spec.header import ALT_CLIENT_RESPONSE, CLIENT_REQUEST, CLIENT_RESPONSE
from dcpdump.wire.frame import RawFrame
from dcpdump.wire.frames import Frames
from dcpdump.wire.outstanding import Asked
from dcpdump.wire.session import Session

#: Decodes a frame of a direction of a conversation, by its number, and reports it to the session.
Recording = Callable[[Conversation, int, RawFrame, int], Record]


def learn_part(
    frames: Frames, first: int, involved: dict[int, Conversation], record: Recording, *, show_secrets: bool
) -> tuple[Part, int]:
    """Make a part of frames, and have their sessions learn: return it, and how many of its planned frames are DCP's."""
    part = part_of(frames, first, lambda place: ends_of(involved[place >> 1], place & 1))
    planned = learn_frames(part, involved, record, show_secrets=show_secrets)
    part.names.update({number: each.names for number, each in involved.items() if each.names.any})
    return part, planned


def learn_frames(part: Part, involved: Mapping[int, Conversation], record: Recording, *, show_secrets: bool) -> int:
    """Go through a part connection by connection: what no plan took frame by frame, the rest at once.

    ``involved`` are the part's conversations, by their connections' numbers. Return how many planned frames are DCP's.
    """
    planned = Planned(part)
    torn = part.gap_before > 0
    neighbours = _neighbours(part)
    owners = np.array([ends.connection for ends in part.places])[part.place]
    for number, conversation in involved.items():
        rows = np.flatnonzero(owners == number) if len(involved) > 1 else np.arange(len(part))
        session = conversation.session
        begin = 0
        for at in np.flatnonzero(~planned.mask[rows] | torn[rows]).tolist():
            row = int(rows[at])
            if torn[row]:
                session.lose()
            if planned.mask[row]:
                continue
            if neighbours[row]:
                part.records[row] = _defer(session, conversation, part, row, show_secrets)
                continue
            raw = part.raw(row)
            if session.needs(raw.header.opcode):
                planned.remember(session, rows[begin:at])
                begin = at
            direction = part.places[part.place[row]].direction
            part.records[row] = record(conversation, direction, raw, part.first + row)
        planned.remember(session, rows[begin:])
    return planned.dcp


def _defer(session: Session, conversation: Conversation, part: Part, row: int, show_secrets: bool) -> Later:
    """Keep the header of a frame that does not concern DCP; decoding it can wait."""
    header, number = part.header, part.first + row
    opcode, word = int(header.opcode[row]), int(header.word[row])
    ends, ts = part.places[part.place[row]], int(part.ts_ns[row])
    asked = None
    if not _RESPONSE[header.magic[row]]:
        asked = Asked(number, None if ts == NO_TIME else ts, word)
    request = session.pair(ends.direction, opcode, int(header.opaque[row]), asked)
    vbucket = word if asked else request.vbucket if request else None
    src, dst = conversation.ends[ends.direction]
    return Later(number, vbucket, request, ends.connection, ends.direction, src, dst, show_secrets)


#: Messages that change nothing of what is known of a connection: only their names are known.
_NEIGHBOUR = np.array([not (find(op).known or find(op).secret or find(op).name == UNKNOWN_NAME) for op in range(256)])
_PLAIN_MAGIC = np.isin(np.arange(256), (CLIENT_REQUEST, CLIENT_RESPONSE, ALT_CLIENT_RESPONSE))
_RESPONSE = np.isin(np.arange(256), (CLIENT_RESPONSE, ALT_CLIENT_RESPONSE))


def _neighbours(part: Part) -> Array:
    """Return which frames are whole, sound, and do not concern DCP."""
    header = part.header
    found: Array = _NEIGHBOUR[header.opcode] & _PLAIN_MAGIC[header.magic] & (header.datatype <= 7)
    found &= (header.value >= 0) & (part.weak == 0)
    found[list(part.odd)] = False
    return found
