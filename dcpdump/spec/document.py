"""Define the messages that carry documents and their changes: mutations, deletions, durable writes."""

from dcpdump.spec import opcodes
from dcpdump.spec.connection import AT_CONSUMER, AT_PRODUCER, NO_MEMORY, one_way
from dcpdump.spec.field import (
    CONSUMER,
    MAY,
    MUST,
    PRODUCER,
    Field,
    Layout,
    Moment,
    seqno,
    u8,
    u16,
    u32,
)
from dcpdump.spec.names import DELETED, DURABILITY_LEVEL

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

MUTATION = one_way(
    opcodes.DCP_MUTATION,
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
    since="3.0",
    source="commands/mutation.md",
    collection_key=True,
    document=True,
    streamed=True,
    rules=(*_RULES, _METADATA, "the length of the value is total body - framing extras - extras - key - nmeta"),
    errors=_STREAM_ERRORS,
    disconnects=_DISCONNECTS,
)

DELETION = one_way(
    opcodes.DCP_DELETION,
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
    since="3.0",
    source="commands/deletion.md",
    collection_key=True,
    document=True,
    streamed=True,
    rules=(*_RULES, _METADATA, "the value holds xattrs at most, never a body"),
    errors=_STREAM_ERRORS,
    disconnects=_DISCONNECTS,
)

EXPIRATION = one_way(
    opcodes.DCP_EXPIRATION,
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
    since="6.5",
    source="commands/expiration.md",
    collection_key=True,
    document=True,
    streamed=True,
    rules=(*_RULES, "only after enable_expiry_opcode on a connection with include-delete-times"),
    errors=_STREAM_ERRORS,
    disconnects=_DISCONNECTS,
)

PREPARE = one_way(
    opcodes.DCP_PREPARE,
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
    since="6.5",
    source="commands/prepare.md",
    collection_key=True,
    document=True,
    streamed=True,
    rules=(*_RULES, "needs enable_sync_writes", "followed by COMMIT or ABORT of the same key"),
    errors=_STREAM_ERRORS,
    disconnects=_DISCONNECTS,
)

SEQNO_ACKNOWLEDGED = one_way(
    opcodes.DCP_SEQNO_ACKNOWLEDGED,
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
            source="commit.md",
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
            source="abort.md",
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

DCP = (
    MUTATION,
    DELETION,
    EXPIRATION,
    PREPARE,
    SEQNO_ACKNOWLEDGED,
    COMMIT,
    ABORT,
)
