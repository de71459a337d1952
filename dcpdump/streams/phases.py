"""Phases: where streams, their closing, takeovers, durable writes, connections and flow control are, as tables.

A table has for each phase the messages that may come, and the phase that each leads to. A message that it does not have
should not come there: that is what rules of ``check`` report, and ``dcpdump spec streams`` prints the tables. The state
of connections and streams says in which phase it is; what a capture does not show leaves a phase in which all may come.
"""

from enum import Enum
from typing import Any

_Table = dict[Any, dict[Any, Any]]


class _Singles(Enum):
    """Phases and events of which there is one object each: it is its own hash, as each message asks for it."""

    __hash__ = object.__hash__


# -- streams --------------------------------------------------------------------------------------------


class Phase(_Singles):
    """Where a stream is. The value says it in words."""

    REQUESTED = "requested, and not answered yet"
    REFUSED = "sent back or refused: the same stream may be requested again"
    CACHE_TRANSFER = "documents of the server's cache, before the first marker"
    OPEN = "granted, and in no snapshot: before the first marker, or after an out-of-order snapshot"
    SNAPSHOT = "in the snapshot that the latest marker announced"
    OUT_OF_ORDER = "in an out-of-order snapshot (OSO)"
    HANDED_OVER = "the vbucket is active at the other end: only the end follows"
    UNKNOWN = "bytes were lost, or it was joined: certain again from the next marker on"


class PhaseEvent(_Singles):
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
_STREAM: _Table = {
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


# -- how a stream is closed, and ends -------------------------------------------------------------------


class Closing(Enum):
    """How far a stream has come to its end. The value says it in words."""

    NOT_CLOSED = "neither closed nor ended"
    CLOSE_ASKED = "CLOSE_STREAM waits for its answer"
    CLOSED = "closed: what was queued may still come, and STREAM_END where that was requested"
    ENDED = "STREAM_END came"


class ClosingEvent(Enum):
    """What closes and ends a stream. The value is how it is written in a table."""

    MESSAGE = "message of the stream"
    CLOSE = "CLOSE_STREAM"
    CLOSED = "closed"
    REFUSED = "error"
    END = "STREAM_END"
    END_CLOSED = "STREAM_END Closed"


_C, _CE = Closing, ClosingEvent
_CLOSING: _Table = {
    _C.NOT_CLOSED: {_CE.MESSAGE: _C.NOT_CLOSED, _CE.CLOSE: _C.CLOSE_ASKED, _CE.END: _C.ENDED},
    _C.CLOSE_ASKED: {
        _CE.MESSAGE: _C.CLOSE_ASKED,
        _CE.CLOSED: _C.CLOSED,
        _CE.REFUSED: _C.NOT_CLOSED,
        _CE.END: _C.ENDED,
        _CE.END_CLOSED: _C.ENDED,
    },
    _C.CLOSED: {_CE.MESSAGE: _C.CLOSED, _CE.END: _C.ENDED, _CE.END_CLOSED: _C.ENDED},
    _C.ENDED: {},
}


# -- takeovers ------------------------------------------------------------------------------------------


class Takeover(Enum):
    """How far a vbucket is handed over. The value says it in words."""

    SENDING = "snapshots, each acknowledged"
    PENDING = "the vbucket is pending at the other end: the rest follows"
    ACTIVE = "it is active there: only the end follows"
    OTHER_STATE = "a state was set that no takeover has"


class TakeoverEvent(Enum):
    """What hands a vbucket over. The value is how it is written in a table."""

    SET_PENDING = "SET_VBUCKET_STATE pending"
    SET_ACTIVE = "SET_VBUCKET_STATE active"
    END_OK = "STREAM_END Ok"


_T, _TE = Takeover, TakeoverEvent
_TAKEOVER: _Table = {
    _T.SENDING: {_TE.SET_PENDING: _T.PENDING},
    _T.PENDING: {_TE.SET_ACTIVE: _T.ACTIVE},
    _T.ACTIVE: {_TE.END_OK: _T.ACTIVE},
    _T.OTHER_STATE: {},
}


# -- durable writes of a key ----------------------------------------------------------------------------


class Durable(Enum):
    """Whether a key has a durable write under way. The value says it in words."""

    NONE = "no durable write is under way"
    PREPARED = "a prepare waits for its outcome"


class DurableEvent(Enum):
    """A message about a durable write. The value is how it is written in a table."""

    PREPARE = "PREPARE"
    COMMIT = "COMMIT"
    ABORT = "ABORT"


_D, _DE = Durable, DurableEvent
_DURABLE: _Table = {
    _D.NONE: {_DE.PREPARE: _D.PREPARED},
    _D.PREPARED: {_DE.COMMIT: _D.NONE, _DE.ABORT: _D.NONE},
}


# -- connections ----------------------------------------------------------------------------------------


class SetupPhase(Enum):
    """How far a connection is set up. The value says it in words."""

    CONNECTED = "neither authenticated nor refused, as far as was captured"
    LOGIN_REFUSED = "the authentication was refused"
    AUTHENTICATED = "authenticated"
    BUCKET_SELECTED = "a bucket is selected"
    OPENING = "DCP_OPEN was sent, and is not accepted"
    OPEN = "opened for DCP, as producer, consumer or notifier"


class SetupEvent(Enum):
    """What sets a connection up. The value is how it is written in a table."""

    HELLO = "HELLO"
    LOGIN = "SASL"
    ACCEPTED = "login accepted"
    REFUSED = "login refused"
    COMMAND = "another command"
    BUCKET = "SELECT_BUCKET accepted"
    OPEN = "DCP_OPEN"
    OPENED = "DCP_OPEN accepted"
    DCP = "DCP message"


_S, _SE = SetupPhase, SetupEvent


def _set_up(phase: SetupPhase, **others: SetupPhase) -> dict[SetupEvent, SetupPhase]:
    """Return what may come before a connection is open."""
    return {_SE.HELLO: phase, _SE.LOGIN: phase, **{_SE[name]: to for name, to in others.items()}}


_IN, _OUT = {"ACCEPTED": _S.AUTHENTICATED}, {"REFUSED": _S.LOGIN_REFUSED}
_ON_TO = {"BUCKET": _S.BUCKET_SELECTED, "OPEN": _S.OPENING}
_SETUP: _Table = {
    # A TLS certificate authenticates without SASL, and up to 5.0 a user has the bucket of that name.
    _S.CONNECTED: _set_up(_S.CONNECTED, COMMAND=_S.CONNECTED, **_IN, **_OUT, **_ON_TO),
    _S.LOGIN_REFUSED: _set_up(_S.LOGIN_REFUSED, **_IN, **_OUT),
    _S.AUTHENTICATED: _set_up(_S.AUTHENTICATED, COMMAND=_S.AUTHENTICATED, **_IN, **_OUT, **_ON_TO),
    _S.BUCKET_SELECTED: _set_up(_S.BUCKET_SELECTED, COMMAND=_S.BUCKET_SELECTED, **_OUT, **_ON_TO),
    _S.OPENING: _set_up(_S.OPENING, COMMAND=_S.OPENING, DCP=_S.OPENING, OPEN=_S.OPENING, OPENED=_S.OPEN),
    _S.OPEN: {_SE.COMMAND: _S.OPEN, _SE.DCP: _S.OPEN},
}


# -- flow control ---------------------------------------------------------------------------------------


class FlowPhase(Enum):
    """How a connection's window stands. The value says it in words."""

    OFF = "no size was accepted, or 0: the producer sends as fast as it can"
    ROOM = "the producer may send"
    FULL = "as much as the window holds waits for its acknowledgement: the producer waits"
    EXCEEDED = "the producer continues all the same"


class FlowEvent(Enum):
    """What changes how a window stands. The value is how it is written in a table."""

    SIZE = "connection_buffer_size accepted"
    SIZE_0 = "connection_buffer_size 0 accepted"
    SEND = "message that leaves room"
    FILL = "message that fills it"
    ACK = "BUFFER_ACKNOWLEDGEMENT"


_F, _FE = FlowPhase, FlowEvent
_ACCEPTED = {_FE.SIZE: _F.ROOM, _FE.SIZE_0: _F.OFF, _FE.ACK: _F.ROOM}
_FLOW: _Table = {
    _F.OFF: {_FE.SIZE: _F.ROOM, _FE.SEND: _F.OFF},
    _F.ROOM: {**_ACCEPTED, _FE.SEND: _F.ROOM, _FE.FILL: _F.FULL},
    _F.FULL: _ACCEPTED,
    _F.EXCEEDED: _ACCEPTED,
}


# -- the tables -----------------------------------------------------------------------------------------

#: The tables, by what they are about.
MACHINES: dict[str, _Table] = {
    "a stream, from its request on": _STREAM,
    "how a stream is closed, and ends": _CLOSING,
    "a takeover, which hands a vbucket over": _TAKEOVER,
    "the durable writes of a key, on one stream": _DURABLE,
    "a connection": _SETUP,
    "flow control of a connection": _FLOW,
}
_MAY_COME = {phase: events for table in MACHINES.values() for phase, events in table.items()}


def allows(phase: Enum, event: Enum) -> bool:
    """Return whether a message may come in a phase of any table."""
    return event in _MAY_COME[phase]


#: What a message begins that should not have come; of others nothing.
_BEGUN: dict[PhaseEvent, Phase] = {
    _E.GRANT: _P.OPEN,
    _E.GRANT_OF_CACHE: _P.CACHE_TRANSFER,
    _E.MARKER: _P.SNAPSHOT,
    _E.OSO_START: _P.OUT_OF_ORDER,
    _E.OSO_END: _P.OPEN,
    _E.SET_ACTIVE: _P.HANDED_OVER,
}


def _after(phase: Phase, event: PhaseEvent) -> Phase:
    """Return where a stream is after a message; one that should not come begins what it says all the same."""
    known = _STREAM[phase].get(event)
    if isinstance(known, Phase):
        return known
    # A marker ends neither an out-of-order snapshot nor a takeover.
    return phase if phase in (Phase.OUT_OF_ORDER, Phase.HANDED_OVER) else _BEGUN.get(event, phase)


#: Where a stream is after a message, by the phase that it was in.
AFTER = {phase: {event: _after(phase, event) for event in PhaseEvent} for phase in Phase}
