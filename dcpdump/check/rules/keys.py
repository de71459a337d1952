"""DCP113-115: keys, and the collections that they name."""

from dcpdump.batch.document_runs import Inspected
from dcpdump.check.meaning import without_collections
from dcpdump.check.rule import LOST, START, SUSPICIOUS, VIOLATION, Remark, Suspend, rule
from dcpdump.check.rules.framing import name
from dcpdump.spec.names import FROM_LATEST
from dcpdump.streams.document_run import DocumentRun
from dcpdump.streams.frame_event import FrameEvent
from dcpdump.streams.opcode_kinds import ABORT, COMMIT, CONTROL, OPEN, SYSTEM_EVENT, WITH_VALUES
from dcpdump.streams.state import ConnectionState
from dcpdump.streams.stream import Stream
from dcpdump.wire.key_prefix import RESERVED_IDS, read_prefix

#: Bytes of a key, with its collection id; without collections; and of its own where it is not the default collection.
_WITH_ID, _WITHOUT, _LOGICAL = 251, 250, 246
_CREATES_COLLECTION, _CREATES_SCOPE, _MODIFIES = 0, 3, 5
_NAMED = {_CREATES_COLLECTION: "BeginCollection", _CREATES_SCOPE: "CreateScope", _MODIFIES: "ModifyCollection"}
_EVENTS_ID = 1  #: the namespace of system events: of this id alone a consumer does not say that it is reserved


@rule(
    "DCP113",
    "F13",
    VIOLATION,
    on=(*WITH_VALUES, COMMIT, ABORT, SYSTEM_EVENT, OPEN, CONTROL),
    status="Einval",
    spares=lambda run, close, connection, stream: close.longest <= _LOGICAL,
)
def too_long(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | None:
    """Key that is too long.

    Reported when a key has more than 250 bytes, or with collections more than 251 with its collection id, or more
    than 246 behind the id of another collection than the default one. The name of DCP_OPEN and the keys of controls
    and system events are keys, too.

    The receiver refuses the message with Einval.

    Usual causes: a name made of host, bucket and uuid; a proxy that adds a prefix to keys.

    Source: include/memcached/limits.h, include/memcached/dockey_view.h
    """
    length = frame.value_at - frame.key_at
    if length <= _LOGICAL:
        return None
    most = _WITHOUT if without_collections(connection) else _WITH_ID
    if length > most:
        return f"the key of {name(frame.opcode)} has {length} bytes, more than {most}"
    if not connection.has_collections or frame.opcode not in WITH_VALUES:
        return None
    prefix = read_prefix(frame.key)
    if prefix is None or not prefix.collection or length - prefix.size <= _LOGICAL:
        return None
    return f"the key has {length - prefix.size} bytes behind its collection id, more than {_LOGICAL}"


@rule("DCP114", "F14", VIOLATION, on=(SYSTEM_EVENT,))
def odd_event(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> Remark | None:
    """System event that creates what cannot be.

    Reported when a collection or scope is created with an id from 1 to 7, which are reserved, or without a name.

    A server's consumer answers Einval to a reserved id.

    Usual causes: an id read from the wrong place; an event of a drop, which has no name, with the number of a
    creation.

    Source: include/memcached/dockey_view.h, systemevent_factory.cc
    """
    if frame.record is None:
        return None
    get = frame.record.frame.get
    event = get("event")
    if event not in _NAMED:
        return None
    for what, number in (("collection", get("collection_id")), ("scope", get("scope_id"))):
        if number is not None and number in RESERVED_IDS and (what == "scope" or event != _CREATES_SCOPE):
            status = "" if what == "collection" and number == _EVENTS_ID else "Einval"
            return Remark(f"{_NAMED[event]} with {what} id {number}, which is reserved", status=status)
    return None if frame.key else Remark(f"{_NAMED[event]} without a name")


def _from_zero(stream: Stream) -> bool:
    """Return whether all of a stream was captured, from seqno 0 on: every collection was created in it."""
    request = stream.grant
    if request is None or request.start_seqno != 0 or request.bits & FROM_LATEST or not request.readable:
        return False
    return not stream.doubtful and not stream.oso_snapshots


def _none_closed(run: DocumentRun, close: Inspected, connection: ConnectionState, stream: Stream) -> bool:
    known = stream.collections
    if not connection.has_collections or not known or (all(known.values()) and not _from_zero(stream)):
        return True
    first = {key[:1] for key in close.keys}
    return all(len(each) == 1 and (not each[0] or known.get(each[0], False)) and each[0] < 0x80 for each in first)


@rule(
    "DCP115",
    "F15",
    VIOLATION,
    on=WITH_VALUES,
    off=(START, LOST, Suspend.OUT_OF_ORDER),
    status="UnknownCollection",
    spares=_none_closed,
)
def not_there(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | Remark | None:
    """Document of a collection that is not there.

    Reported when a document or prepare comes of a collection that was dropped before in the same stream; and, as
    suspicious, of one that was not created in a stream that was captured from seqno 0 on, and in which others were.

    The consumer does not know where the document belongs. (The default collection is never created.)

    Usual causes: a producer that filters by a manifest that is behind; events that a proxy left out.

    Source: collections/vbucket_manifest.cc
    """
    known = stream.collections
    if not connection.has_collections or not known or (all(known.values()) and not _from_zero(stream)):
        return None
    prefix = read_prefix(frame.key)
    if prefix is None or not prefix.collection or known.get(prefix.collection):
        return None
    text = f"{name(frame.opcode)} of collection 0x{prefix.collection:x}, which was"
    if prefix.collection in known:
        return f"{text} dropped"
    return Remark(f"{text} not created", SUSPICIOUS) if _from_zero(stream) else None
