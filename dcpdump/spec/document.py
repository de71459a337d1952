"""Messages that carry documents and what becomes of them: mutations, deletions, durable writes, cache transfer."""

from dcpdump.spec.connection import EMPTY_BODY
from dcpdump.spec.field import (
    CONSUMER,
    MAY,
    MUST,
    PRODUCER,
    Blob,
    Field,
    Layout,
    Message,
    Moment,
    Repeat,
    id64,
    seqno,
    u8,
    u16,
    u32,
)
from dcpdump.spec.names import DATATYPE, DELETED, DURABILITY_LEVEL

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
    (0x04, "malformed or incomplete"),
    (0x0A, "no such stream (v7_dcp_status_codes)"),
    (0x0B, "the opaque is not the stream's (v7_dcp_status_codes)"),
    (0x22, "the seqno is not above the last one, or outside the snapshot"),
    (0x82, "out of memory"),
    (0x87, "the xattrs are malformed"),
)
_RULES = (
    "by seqno is above the last one of the stream and inside the snapshot",
    "it carries the opaque of the stream request",
)

MUTATION = Message(
    0x57,
    "DCP_MUTATION",
    sender=PRODUCER,
    request=(
        Layout(
            "1",
            extras=(*_BY_REV, *_ITEM, _NMETA, _NRU),
            key=MUST,
            value=MAY,
            tail="nmeta",
            when={"extras_length": 31},
            source="mutation.md",
        ),
        Layout(
            "1-clen",
            extras=(*_BY_REV, *_ITEM, _NMETA, _NRU, _CLEN),
            key=MUST,
            value=MAY,
            tail="nmeta",
            when={"extras_length": 32},
            source="mutation.md",
            note="5.0-6.0 developer preview of collections: clen bytes of the key name the collection",
            old=True,
        ),
        Layout(
            "1-28",
            extras=(*_BY_REV, *_ITEM),
            key=MUST,
            value=MAY,
            when={"extras_length": 28},
            source="mutation.md",
            note="prototypes of 2013-14 only",
            old=True,
        ),
        Layout(
            "1-30",
            extras=(*_BY_REV, *_ITEM, _NMETA),
            key=MUST,
            value=MAY,
            tail="nmeta",
            when={"extras_length": 30},
            source="mutation.md",
            note="prototypes of 2013-14 only",
            old=True,
        ),
    ),
    response=EMPTY_BODY,
    answered="only to report an error",
    replies=False,
    since="3.0",
    source="commands/mutation.md",
    collection_key=True,
    document=True,
    streamed=True,
    rules=_RULES,
    errors=_STREAM_ERRORS,
)

DELETION = Message(
    0x58,
    "DCP_DELETION",
    sender=PRODUCER,
    request=(
        Layout(
            "1",
            extras=(*_BY_REV, _NMETA),
            key=MUST,
            value=MAY,
            tail="nmeta",
            when={"extras_length": 18},
            source="deletion.md",
        ),
        Layout(
            "2",
            extras=(
                *_BY_REV,
                u32("delete_time", "delete time", Moment()),
                u8("unused", "unused", reserved=True),
            ),
            key=MUST,
            value=MAY,
            when={"extras_length": 21},
            source="deletion.md",
            note="where the connection was opened with include-delete-times",
        ),
        Layout(
            "1-clen",
            extras=(*_BY_REV, _NMETA, _CLEN),
            key=MUST,
            value=MAY,
            tail="nmeta",
            when={"extras_length": 19},
            source="deletion.md",
            note="5.0-5.1 developer preview of collections",
            old=True,
        ),
    ),
    response=EMPTY_BODY,
    answered="only to report an error",
    replies=False,
    since="3.0",
    source="commands/deletion.md",
    collection_key=True,
    document=True,
    streamed=True,
    rules=(*_RULES, "the value holds xattrs at most, never a body"),
    errors=_STREAM_ERRORS,
)

EXPIRATION = Message(
    0x59,
    "DCP_EXPIRATION",
    sender=PRODUCER,
    request=(
        Layout(
            "1",
            extras=(*_BY_REV, u32("delete_time", "delete time", Moment())),
            key=MUST,
            value=MAY,
            when={"extras_length": 20},
            source="expiration.md",
        ),
        Layout(
            "1-18",
            extras=(*_BY_REV, _NMETA),
            key=MUST,
            value=MAY,
            tail="nmeta",
            when={"extras_length": 18},
            source="expiration.md",
            note="5.x; defined, not sent",
            old=True,
        ),
        Layout(
            "1-clen",
            extras=(*_BY_REV, _NMETA, _CLEN),
            key=MUST,
            value=MAY,
            tail="nmeta",
            when={"extras_length": 19},
            source="expiration.md",
            note="5.x developer preview; defined, not sent",
            old=True,
        ),
    ),
    response=EMPTY_BODY,
    answered="only to report an error",
    replies=False,
    since="6.5",
    source="commands/expiration.md",
    collection_key=True,
    document=True,
    streamed=True,
    rules=(*_RULES, "only after enable_expiry_opcode on a connection with include-delete-times"),
    errors=_STREAM_ERRORS,
)

PREPARE = Message(
    0x60,
    "DCP_PREPARE",
    sender=PRODUCER,
    request=(
        Layout(
            "1",
            extras=(
                *_BY_REV,
                *_ITEM,
                _NRU,
                u8("deleted", "deleted", DELETED),
                u8("durability_level", "durability", DURABILITY_LEVEL),
            ),
            key=MUST,
            value=MAY,
            when={"extras_length": 31},
            source="prepare.md",
        ),
    ),
    response=EMPTY_BODY,
    answered="only to report an error",
    replies=False,
    since="6.5",
    source="commands/prepare.md",
    collection_key=True,
    document=True,
    streamed=True,
    rules=(*_RULES, "needs enable_sync_writes", "followed by COMMIT or ABORT of the same key"),
    errors=_STREAM_ERRORS,
)

SEQNO_ACKNOWLEDGED = Message(
    0x61,
    "DCP_SEQNO_ACKNOWLEDGED",
    sender=CONSUMER,
    request=(
        Layout(
            "1",
            extras=(seqno("prepared_seqno", "prepared_seqno"),),
            when={"extras_length": 8},
            source="seqno-acknowledged.md",
        ),
    ),
    response=EMPTY_BODY,
    answered="only to report an error",
    replies=False,
    since="6.5",
    source="commands/seqno-acknowledged.md",
    streamed=True,
    rules=("needs enable_sync_writes and consumer_name", "never goes back"),
    errors=((0x04, "no sync replication on this connection"), (0x07, "the vbucket is not here")),
)

COMMIT = Message(
    0x62,
    "DCP_COMMIT",
    sender=PRODUCER,
    request=(
        Layout(
            "1",
            extras=(seqno("prepared_seqno", "prepared_seqno"), seqno("commit_seqno", "commit_seqno")),
            key=MUST,
            when={"extras_length": 16},
            source="commit.md",
        ),
    ),
    response=EMPTY_BODY,
    answered="only to report an error",
    replies=False,
    since="6.5",
    source="commands/commit.md",
    collection_key=True,
    streamed=True,
    rules=("prepared seqno < commit seqno",),
    errors=((0x01, "no such prepare"), (0x04, "malformed")),
)

ABORT = Message(
    0x63,
    "DCP_ABORT",
    sender=PRODUCER,
    request=(
        Layout(
            "1",
            extras=(seqno("prepared_seqno", "prepared_seqno"), seqno("abort_seqno", "abort_seqno")),
            key=MUST,
            when={"extras_length": 16},
            source="abort.md",
        ),
    ),
    response=EMPTY_BODY,
    answered="only to report an error",
    replies=False,
    since="6.5",
    source="commands/abort.md",
    collection_key=True,
    streamed=True,
    rules=("prepared seqno < abort seqno",),
    errors=((0x01, "no such prepare"), (0x04, "malformed")),
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

CACHE_TRANSFER = Message(
    0x66,
    "DCP_CACHE_TRANSFER",
    sender=PRODUCER,
    request=(Layout("1", value=(CACHED_ITEM,), when={"extras_length": 0}, source="cache-transfer.md"),),
    response=EMPTY_BODY,
    answered="only to report an error",
    replies=False,
    since="after 8.0",
    source="commands/cache-transfer.md",
    streamed=True,
    rules=("only on a stream with the cache-transfer flag, before its first marker",),
    errors=((0x04, "the body is shorter than one record"), (0x82, "out of memory: cancels the transfer")),
)

CACHE_TRANSFER_END = Message(
    0x67,
    "DCP_CACHE_TRANSFER_END",
    sender=PRODUCER,
    request=EMPTY_BODY,
    response=EMPTY_BODY,
    answered="only to report an error",
    replies=False,
    since="after 8.0",
    source="commands/cache-transfer-end.md",
    streamed=True,
    rules=("sent only where normal markers follow",),
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
)
