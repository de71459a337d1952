"""Define the messages that carry a stream's items: documents in all their states, durable writes, and system events.

A cache transfer carries documents from the producer's memory, before those of the stream.
"""

from functools import partial

from dcpdump.spec import opcodes
from dcpdump.spec.connection import AT_CONSUMER, AT_PRODUCER, EMPTY_BODY, NO_MEMORY, STREAM_ERRORS, one_way
from dcpdump.spec.field import (
    CONSUMER,
    MAY,
    MUST,
    NEVER,
    PRODUCER,
    Blob,
    Field,
    FlatTable,
    Holds,
    Layout,
    Moment,
    Part,
    Presence,
    Repeat,
    id64,
    seqno,
    u8,
    u16,
    u32,
)
from dcpdump.spec.names import DATATYPE, DELETED, DURABILITY_LEVEL
from dcpdump.spec.names import SYSTEM_EVENT as EVENT

_BY_REV: tuple[Field, ...] = (seqno("by_seqno", "by seqno"), Field("rev_seqno", "rev seqno", 8))
_ITEM: tuple[Field, ...] = (
    u32("flags", "flags"),
    u32("expiration", "expiration", Moment()),
    u32("lock_time", "lock time", reserved=True),
)
_NMETA = u16("nmeta", "nmeta")
_NRU = u8("nru", "nru")
_CLEN = u8("clen", "clen")

_STREAM_ERRORS = (
    (0x01, "no such stream, or none for this vbucket"),
    (0x02, "the opaque is not the stream's"),
    (0x03, "more than 1 MiB of system xattrs"),
    (0x04, "malformed or incomplete, or by seqno 0"),
    (0x07, "the vbucket is not here, or is not a replica"),
    (0x0A, "no such stream (v7_dcp_status_codes)"),
    (0x0B, "the opaque is not the stream's (v7_dcp_status_codes)"),
    (0x22, "the seqno is not above the last one, or outside the snapshot"),
    (0x82, "out of memory"),
    (0x87, "the xattrs are malformed"),
    (0x88, "the collection of the key is not known"),
)
_DECIDED_ERRORS = (
    (0x02, "the opaque is not the stream's"),
    (0x07, "the vbucket is not here, or is not a replica"),
    (0x0A, "no such stream (v7_dcp_status_codes)"),
    (0x0B, "the opaque is not the stream's (v7_dcp_status_codes)"),
    (0x22, "the seqno is not above the last one"),
)
_RULES = (
    "by seqno is above the last one of the stream and inside the snapshot",
    "it carries the opaque of the stream request",
    "xattrs come first in the value, where DCP_OPEN asked for them; bit XATTR of the datatype says so",
)
_METADATA = "metadata stands behind the value: nmeta bytes at the end of the body; today's servers refuse any"
_DISCONNECTS = (AT_PRODUCER, NO_MEMORY)

#: Makes a layout with a document: always with a key, often with a value.
_layout = partial(Layout, key=MUST, value=MAY)
#: Makes a message with a document.
_document = partial(
    one_way,
    sender=PRODUCER,
    collection_key=True,
    document=True,
    streamed=True,
    errors=_STREAM_ERRORS,
    disconnects=_DISCONNECTS,
)

MUTATION = _document(
    opcodes.DCP_MUTATION,
    "DCP_MUTATION",
    request=(
        _layout("1", extras=(*_BY_REV, *_ITEM, _NMETA, _NRU), tail="nmeta", when={"extras_length": 31}),
        _layout(
            "1-clen",
            extras=(*_BY_REV, *_ITEM, _NMETA, _NRU, _CLEN),
            tail="nmeta",
            when={"extras_length": 32},
            note="5.0-6.0 developer preview of collections: clen bytes of the key name the collection",
            old=True,
        ),
        _layout(
            "1-28",
            extras=(*_BY_REV, *_ITEM),
            when={"extras_length": 28},
            note="prototypes of 2013-14 only",
            old=True,
        ),
        _layout(
            "1-30",
            extras=(*_BY_REV, *_ITEM, _NMETA),
            tail="nmeta",
            when={"extras_length": 30},
            note="prototypes of 2013-14 only",
            old=True,
        ),
    ),
    since="3.0",
    source="commands/mutation.md",
    stream_id=True,
    rules=(*_RULES, _METADATA, "the length of the value is total body - framing extras - extras - key - nmeta"),
)

DELETION = _document(
    opcodes.DCP_DELETION,
    "DCP_DELETION",
    request=(
        _layout("1", extras=(*_BY_REV, _NMETA), tail="nmeta", when={"extras_length": 18}),
        _layout(
            "2",
            extras=(
                *_BY_REV,
                u32("delete_time", "delete time", Moment()),
                u8("unused", "unused", reserved=True),
            ),
            when={"extras_length": 21},
            note="where the connection was opened with include-delete-times",
        ),
        _layout(
            "1-clen",
            extras=(*_BY_REV, _NMETA, _CLEN),
            tail="nmeta",
            when={"extras_length": 19},
            note="5.0-5.1 developer preview of collections",
            old=True,
        ),
    ),
    since="3.0",
    source="commands/deletion.md",
    stream_id=True,
    rules=(*_RULES, _METADATA, "the value holds xattrs at most, never a body"),
)

EXPIRATION = _document(
    opcodes.DCP_EXPIRATION,
    "DCP_EXPIRATION",
    request=(
        _layout(
            "1",
            extras=(*_BY_REV, u32("delete_time", "delete time", Moment())),
            when={"extras_length": 20},
        ),
        _layout(
            "1-18",
            extras=(*_BY_REV, _NMETA),
            tail="nmeta",
            when={"extras_length": 18},
            note="5.x; defined, not sent",
            old=True,
        ),
        _layout(
            "1-clen",
            extras=(*_BY_REV, _NMETA, _CLEN),
            tail="nmeta",
            when={"extras_length": 19},
            note="5.x developer preview; defined, not sent",
            old=True,
        ),
    ),
    since="6.5",
    source="commands/expiration.md",
    stream_id=True,
    rules=(*_RULES, "only after enable_expiry_opcode on a connection with include-delete-times"),
)

PREPARE = _document(
    opcodes.DCP_PREPARE,
    "DCP_PREPARE",
    request=(
        _layout(
            "1",
            extras=(
                *_BY_REV,
                *_ITEM,
                _NRU,
                u8("deleted", "deleted", DELETED),
                u8("durability_level", "durability", DURABILITY_LEVEL),
            ),
            when={"extras_length": 31},
        ),
    ),
    since="6.5",
    source="commands/prepare.md",
    rules=(*_RULES, "needs enable_sync_writes", "followed by COMMIT or ABORT of the same key"),
)

SEQNO_ACKNOWLEDGED = one_way(
    opcodes.DCP_SEQNO_ACKNOWLEDGED,
    "DCP_SEQNO_ACKNOWLEDGED",
    sender=CONSUMER,
    request=(Layout("1", extras=(seqno("prepared_seqno", "prepared_seqno"),), when={"extras_length": 8}),),
    since="6.5",
    source="commands/seqno-acknowledged.md",
    streamed=True,
    rules=("needs enable_sync_writes and consumer_name", "never goes back"),
    errors=((0x04, "no sync replication on this connection"), (0x07, "the vbucket is not here")),
    disconnects=(AT_CONSUMER, "the seqno is above everything that was sent"),
)

COMMIT = one_way(
    opcodes.DCP_COMMIT,
    "DCP_COMMIT",
    sender=PRODUCER,
    request=(
        Layout(
            "1",
            extras=(seqno("prepared_seqno", "prepared_seqno"), seqno("commit_seqno", "commit_seqno")),
            key=MUST,
            when={"extras_length": 16},
        ),
    ),
    since="6.5",
    source="commands/commit.md",
    collection_key=True,
    streamed=True,
    rules=("prepared seqno < commit seqno",),
    errors=((0x01, "no such stream, or no such prepare"), (0x04, "malformed, or seqno 0"), *_DECIDED_ERRORS),
    disconnects=_DISCONNECTS,
)

ABORT = one_way(
    opcodes.DCP_ABORT,
    "DCP_ABORT",
    sender=PRODUCER,
    request=(
        Layout(
            "1",
            extras=(seqno("prepared_seqno", "prepared_seqno"), seqno("abort_seqno", "abort_seqno")),
            key=MUST,
            when={"extras_length": 16},
        ),
    ),
    since="6.5",
    source="commands/abort.md",
    collection_key=True,
    streamed=True,
    rules=("prepared seqno < abort seqno", "in a disk snapshot its prepare need not have come"),
    errors=(
        (0x01, "no such stream"),
        (0x04, "malformed, seqno 0, or no such prepare outside a disk snapshot"),
        *_DECIDED_ERRORS,
    ),
    disconnects=_DISCONNECTS,
)

#: One document of a cache transfer. Its key always starts with a LEB128 collection id.
CACHED_ITEM = Repeat(
    "items",
    (
        id64("cas", "cas"),
        seqno("by_seqno", "by_seqno"),
        Field("rev_seqno", "rev_seqno", 8),
        u32("value_length", "value_len"),
        u32("flags", "flags"),
        u32("expiration", "expiration", Moment()),
        u16("key_length", "key_len"),
        u8("datatype", "datatype", DATATYPE),
        u8("cache_hint", "cacheHint"),
        Blob("key", "key", size="key_length"),
        Blob("value", "value", size="value_length"),
    ),
    least=1,
)

CACHE_TRANSFER = one_way(
    opcodes.DCP_CACHE_TRANSFER,
    "DCP_CACHE_TRANSFER",
    sender=PRODUCER,
    request=(Layout("1", value=(CACHED_ITEM,), when={"extras_length": 0}),),
    since="after 8.0",
    source="commands/cache-transfer.md",
    streamed=True,
    stream_id=True,
    rules=("only on a stream with the cache-transfer flag, before its first marker",),
    errors=(
        *STREAM_ERRORS,
        (0x04, "the body is shorter than one record"),
        (0x82, "out of memory: cancels the transfer"),
        (0x88, "the collection of a key is not known"),
    ),
    disconnects=(AT_PRODUCER, NO_MEMORY, "a record whose lengths contradict the body"),
)

CACHE_TRANSFER_END = one_way(
    opcodes.DCP_CACHE_TRANSFER_END,
    "DCP_CACHE_TRANSFER_END",
    sender=PRODUCER,
    request=EMPTY_BODY,
    since="after 8.0",
    source="commands/cache-transfer-end.md",
    streamed=True,
    stream_id=True,
    rules=("sent only where normal markers follow",),
    errors=STREAM_ERRORS,
    disconnects=(AT_PRODUCER,),
)


# -- system events: collections and scopes that are created, changed and dropped ----------------------
# The value depends on event and version.

BEGIN, END, CREATE, DROP, MODIFY = 0, 1, 3, 4, 5

_OLD: tuple[Field, ...] = (seqno("by_seqno", "by seqno"), u32("event", "event", EVENT))
_EXTRAS: tuple[Field, ...] = (*_OLD, u8("version", "version"))
_MANIFEST = id64("manifest_uid", "manifest uid")
_SCOPE = u32("scope_id", "scope id")
_COLLECTION = u32("collection_id", "collection id")
_TTL = u32("max_ttl", "max ttl")

_COLLECTION_TABLE = FlatTable(
    (
        _MANIFEST,
        _SCOPE,
        _COLLECTION,
        u8("ttl_valid", "ttl valid"),
        _TTL,
        Blob("name_in_scope", "name", holds=Holds.META),
        u8("history", "history"),
        seqno("default_collection_mvs", "default collection MVS"),
        u8("metered", "metered"),
        id64("flush_uid", "flush uid"),
    )
)
_DROPPED_COLLECTION_TABLE = FlatTable(
    (
        _MANIFEST,
        _SCOPE,
        _COLLECTION,
        u8("system_collection", "system collection"),
    )
)
_SCOPE_TABLE = FlatTable((_MANIFEST, _SCOPE, Blob("scope_name", "name", holds=Holds.META)))
_DROPPED_SCOPE_TABLE = FlatTable((_MANIFEST, _SCOPE, u8("system_scope", "system scope")))


def _event_layout(event: int, version: int, key: Presence, *value: Part, note: str = "") -> Layout:
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
        _event_layout(BEGIN, 0, MAY, _MANIFEST, _SCOPE, _COLLECTION, note="created, or flushed where the id is known"),
        _event_layout(BEGIN, 1, MAY, _MANIFEST, _SCOPE, _COLLECTION, _TTL, note="as 0, with an expiry"),
        _event_layout(BEGIN, 2, MAY, _COLLECTION_TABLE, note="FlatBuffers"),
        _event_layout(END, 0, NEVER, _MANIFEST, _SCOPE, _COLLECTION, note="dropped"),
        _event_layout(END, 2, NEVER, _DROPPED_COLLECTION_TABLE, note="FlatBuffers"),
        _event_layout(CREATE, 0, MAY, _MANIFEST, _SCOPE),
        _event_layout(CREATE, 2, MAY, _SCOPE_TABLE, note="FlatBuffers"),
        _event_layout(DROP, 0, NEVER, _MANIFEST, _SCOPE),
        _event_layout(DROP, 2, NEVER, _DROPPED_SCOPE_TABLE, note="FlatBuffers"),
        _event_layout(MODIFY, 2, MAY, _COLLECTION_TABLE, note="FlatBuffers"),
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

DCP = (
    MUTATION,
    DELETION,
    EXPIRATION,
    PREPARE,
    SEQNO_ACKNOWLEDGED,
    COMMIT,
    ABORT,
    CACHE_TRANSFER,
    CACHE_TRANSFER_END,
    SYSTEM_EVENT,
)
