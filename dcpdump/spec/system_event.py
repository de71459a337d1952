"""Define SYSTEM_EVENT: collections and scopes that are created, changed and dropped.

Its value depends on event and version.
"""

from dcpdump.spec import opcodes
from dcpdump.spec.connection import AT_PRODUCER, STREAM_ERRORS, one_way
from dcpdump.spec.field import (
    MAY,
    NEVER,
    PRODUCER,
    Blob,
    Field,
    FlatTable,
    Holds,
    Layout,
    Part,
    Presence,
    Slot,
    id64,
    seqno,
    u8,
    u32,
)
from dcpdump.spec.names import SYSTEM_EVENT as EVENT

BEGIN, END, CREATE, DROP, MODIFY = 0, 1, 3, 4, 5

_OLD: tuple[Field, ...] = (seqno("by_seqno", "by seqno"), u32("event", "event", EVENT))
_EXTRAS: tuple[Field, ...] = (*_OLD, u8("version", "version"))
_MANIFEST = id64("manifest_uid", "manifest uid")
_SCOPE = u32("scope_id", "scope id")
_COLLECTION = u32("collection_id", "collection id")
_TTL = u32("max_ttl", "max ttl")

_COLLECTION_TABLE = FlatTable(
    (
        Slot(0, _MANIFEST),
        Slot(1, _SCOPE),
        Slot(2, _COLLECTION),
        Slot(3, u8("ttl_valid", "ttl valid")),
        Slot(4, _TTL),
        Slot(5, Blob("name_in_scope", "name", holds=Holds.META)),
        Slot(6, u8("history", "history")),
        Slot(7, seqno("default_collection_mvs", "default collection MVS")),
        Slot(8, u8("metered", "metered")),
        Slot(9, id64("flush_uid", "flush uid")),
    )
)
_DROPPED_COLLECTION_TABLE = FlatTable(
    (
        Slot(0, _MANIFEST),
        Slot(1, _SCOPE),
        Slot(2, _COLLECTION),
        Slot(3, u8("system_collection", "system collection")),
    )
)
_SCOPE_TABLE = FlatTable((Slot(0, _MANIFEST), Slot(1, _SCOPE), Slot(2, Blob("scope_name", "name", holds=Holds.META))))
_DROPPED_SCOPE_TABLE = FlatTable((Slot(0, _MANIFEST), Slot(1, _SCOPE), Slot(2, u8("system_scope", "system scope"))))


def _layout(event: int, version: int, key: Presence, *value: Part, note: str = "") -> Layout:
    return Layout(
        str(version),
        extras=_EXTRAS,
        key=key,
        value=value,
        when={"extras_length": 13, "event": event, "version": version},
        note=note,
    )


SYSTEM_EVENT = one_way(
    opcodes.DCP_SYSTEM_EVENT,
    "DCP_SYSTEM_EVENT",
    key_holds=Holds.META,
    value_holds=Holds.META,
    sender=PRODUCER,
    request=(
        _layout(BEGIN, 0, MAY, _MANIFEST, _SCOPE, _COLLECTION, note="created, or flushed where the id is known"),
        _layout(BEGIN, 1, MAY, _MANIFEST, _SCOPE, _COLLECTION, _TTL, note="as 0, with an expiry"),
        _layout(BEGIN, 2, MAY, _COLLECTION_TABLE, note="FlatBuffers"),
        _layout(END, 0, NEVER, _MANIFEST, _SCOPE, _COLLECTION, note="dropped"),
        _layout(END, 2, NEVER, _DROPPED_COLLECTION_TABLE, note="FlatBuffers"),
        _layout(CREATE, 0, MAY, _MANIFEST, _SCOPE),
        _layout(CREATE, 2, MAY, _SCOPE_TABLE, note="FlatBuffers"),
        _layout(DROP, 0, NEVER, _MANIFEST, _SCOPE),
        _layout(DROP, 2, NEVER, _DROPPED_SCOPE_TABLE, note="FlatBuffers"),
        _layout(MODIFY, 2, MAY, _COLLECTION_TABLE, note="FlatBuffers"),
        Layout(
            "5.x",
            extras=_OLD,
            key=MAY,
            value=MAY,
            when={"extras_length": 12},
            note="5.x developer preview: no version byte",
            old=True,
        ),
    ),
    since="7.0",
    source="commands/system_event.md",
    streamed=True,
    stream_id=True,
    rules=(
        "the key is a bare name and never starts with a collection id",
        "of several events of one manifest only the last carries the new uid",
        "events that create or change have the name as key, those that drop have none",
        "the version says how the value is to be read; 2 (FlatBuffers) needs flatbuffers_system_events",
    ),
    errors=(
        *STREAM_ERRORS,
        (0x04, "an unknown event or version, malformed, or a collection id that is reserved"),
        (0x07, "the vbucket is not here, or is not a replica"),
        (0x22, "the seqno is not above the last one"),
    ),
    disconnects=(AT_PRODUCER,),
)

DCP = (SYSTEM_EVENT,)
