"""The phases of a stream, and which message leads from one to which: the table that a conforming stream follows.

It begins with a request that is granted. Then come snapshots, each announced by a marker, out-of-order snapshots, and
before all of them a cache transfer, where one was asked for. A message that the table does not have in a phase should
not come there: that is what ``check`` reports. Apart from these phases, a stream may be closed at any time by
CLOSE_STREAM and its answer, and ends with STREAM_END.
"""

from enum import Enum


class Phase(Enum):
    """Where a stream is. The value says it in words."""

    REQUESTED = "asked for, and not answered yet"
    REFUSED = "sent back or refused: the same stream may be asked for again"
    CACHE_TRANSFER = "documents of the server's cache, before the first marker"
    OPEN = "granted, and in no snapshot: before the first marker, or after an out-of-order snapshot"
    SNAPSHOT = "in the snapshot that the latest marker announced"
    OUT_OF_ORDER = "in an out-of-order snapshot (OSO)"
    HANDED_OVER = "the vbucket is active at the other end: only the end follows"
    UNKNOWN = "bytes were lost, or it was joined: certain again from the next marker on"


class PhaseEvent(Enum):
    """What leads from one phase to another. The value is how it is written in a table."""

    REQUEST = "STREAM_REQ"
    GRANT = "granted"
    GRANT_OF_CACHE = "granted with cache-transfer"
    REFUSAL = "rollback or error"
    CACHED = "CACHE_TRANSFER"
    CACHED_END = "CACHE_TRANSFER_END"
    MARKER = "SNAPSHOT_MARKER"
    ITEM = "message with a seqno"
    OSO_START = "OSO_SNAPSHOT start"
    OSO_END = "OSO_SNAPSHOT end"
    SET_ACTIVE = "SET_VBUCKET_STATE active"
    LOSS = "bytes lost"


_P, _E = Phase, PhaseEvent
#: By phase: the messages that may come, and the phase that each leads to.
PHASES: dict[Phase, dict[PhaseEvent, Phase]] = {
    _P.REQUESTED: {
        _E.GRANT: _P.OPEN,
        _E.GRANT_OF_CACHE: _P.CACHE_TRANSFER,
        _E.REFUSAL: _P.REFUSED,
        _E.LOSS: _P.REQUESTED,
    },
    _P.REFUSED: {_E.REQUEST: _P.REQUESTED, _E.LOSS: _P.REFUSED},
    _P.CACHE_TRANSFER: {_E.CACHED: _P.CACHE_TRANSFER, _E.CACHED_END: _P.OPEN, _E.LOSS: _P.UNKNOWN},
    _P.OPEN: {_E.MARKER: _P.SNAPSHOT, _E.OSO_START: _P.OUT_OF_ORDER, _E.LOSS: _P.UNKNOWN},
    _P.SNAPSHOT: {
        _E.ITEM: _P.SNAPSHOT,
        _E.MARKER: _P.SNAPSHOT,
        _E.OSO_START: _P.OUT_OF_ORDER,
        _E.SET_ACTIVE: _P.HANDED_OVER,
        _E.LOSS: _P.UNKNOWN,
    },
    _P.OUT_OF_ORDER: {_E.ITEM: _P.OUT_OF_ORDER, _E.OSO_END: _P.OPEN, _E.LOSS: _P.UNKNOWN},
    _P.HANDED_OVER: {_E.LOSS: _P.UNKNOWN},
    _P.UNKNOWN: {
        _E.ITEM: _P.UNKNOWN,
        _E.CACHED: _P.CACHE_TRANSFER,
        _E.CACHED_END: _P.OPEN,
        _E.MARKER: _P.SNAPSHOT,
        _E.OSO_START: _P.OUT_OF_ORDER,
        _E.OSO_END: _P.UNKNOWN,
        _E.SET_ACTIVE: _P.HANDED_OVER,
        _E.GRANT: _P.OPEN,
        _E.GRANT_OF_CACHE: _P.CACHE_TRANSFER,
        _E.LOSS: _P.UNKNOWN,
    },
}
#: Where a stream is after a message that should not have come; of others: where it was.
_AFTER_ALL = {
    _E.GRANT: _P.OPEN,
    _E.GRANT_OF_CACHE: _P.CACHE_TRANSFER,
    _E.MARKER: _P.SNAPSHOT,
    _E.OSO_START: _P.OUT_OF_ORDER,
    _E.OSO_END: _P.OPEN,
    _E.SET_ACTIVE: _P.HANDED_OVER,
}


def allows(phase: Phase, event: PhaseEvent) -> bool:
    """Return whether a message may come in a phase."""
    return event in PHASES[phase]


def after(phase: Phase, event: PhaseEvent) -> Phase:
    """Return the phase that a message leads to; one that should not come begins what it says all the same."""
    known = PHASES[phase].get(event)
    if known is not None:
        return known
    # A marker ends neither an out-of-order snapshot nor a takeover.
    return phase if phase in (Phase.OUT_OF_ORDER, Phase.HANDED_OVER) else _AFTER_ALL.get(event, phase)
