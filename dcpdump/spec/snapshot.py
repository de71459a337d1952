"""Define the messages around a stream's items: snapshot markers, out-of-order snapshots, seqnos without an item."""

from dcpdump.spec import opcodes
from dcpdump.spec.connection import AT_PRODUCER, EMPTY_BODY, STREAM_ERRORS, one_way
from dcpdump.spec.field import PRODUCER, Field, Layout, Message, Moment, seqno, u8, u32, u64
from dcpdump.spec.names import OSO_FLAGS, SNAPSHOT_TYPE

_MARKER: tuple[Field, ...] = (
    seqno("start_seqno", "Start Seqno"),
    seqno("end_seqno", "End Seqno"),
    u32("snapshot_type", "Snapshot Type", SNAPSHOT_TYPE),
)
_MARKER_V2: tuple[Field, ...] = (
    *_MARKER,
    seqno("max_visible_seqno", "Max Visible Seqno"),
    seqno("high_completed_seqno", "High Completed Seqno"),
)
_VERSION = (u8("version", "Version"),)

SNAPSHOT_MARKER = Message(
    opcodes.DCP_SNAPSHOT_MARKER,
    "DCP_SNAPSHOT_MARKER",
    sender=PRODUCER,
    request=(
        Layout("1", extras=_MARKER, when={"extras_length": 20}),
        Layout(
            "2.0",
            extras=_VERSION,
            value=_MARKER_V2,
            when={"extras_length": 1, "version": 0, "value_length": 36},
        ),
        Layout(
            "2.1",
            extras=_VERSION,
            value=(*_MARKER_V2, u64("timestamp", "Timestamp", Moment(10**9))),
            when={"extras_length": 1, "version": 1, "value_length": 44},
            note="7.0-7.6 code, never generally available; refused now",
        ),
        Layout(
            "2.2",
            extras=_VERSION,
            value=(
                *_MARKER_V2,
                seqno("purge_seqno", "Purge Seqno"),
                seqno("high_prepared_seqno", "High Prepared Seqno"),
            ),
            when={"extras_length": 1, "version": 2, "value_length": 52},
        ),
        Layout(
            "2.2-pre",
            extras=_VERSION,
            value=(*_MARKER_V2, seqno("purge_seqno", "Purge Seqno")),
            when={"extras_length": 1, "version": 2, "value_length": 44},
            note="before high prepared seqno was added; no released server sends it",
        ),
    ),
    response=EMPTY_BODY,
    answered="only where the acknowledge flag is set, once the snapshot is complete, or to report an error; "
    "otherwise the receiver does not reply",
    replies=False,
    since="3.0",
    source="commands/snapshot-marker.md",
    streamed=True,
    stream_id=True,
    rules=(
        "start <= end, and every item that follows lies in the range",
        "memory and disk exclude each other",
        "high completed, high prepared and purge seqno mean something only with the disk flag",
        "a snapshot has every key once, unless may-contain-duplicates is set; a replica as source may send a disk "
        "snapshot on from memory, and then keys may come again",
        "given back as purge_seqno of STREAM_REQ, the purge seqno spares rollbacks to 0",
        "from memory as from disk, the first marker of a stream starts at the requested snapshot start, or below",
        "a later memory marker with checkpoint starts where the checkpoint does, and that item need not come; "
        "without, it starts at the item that follows",
        "a later disk marker starts where its backfill or its checkpoint does, and that item need not come",
        "a client that is slow may be moved from memory to disk at any time",
    ),
    errors=(
        *STREAM_ERRORS,
        (0x04, "start > end, an unknown version, or lengths that fit none"),
        (0x22, "the range lies before what the consumer has"),
    ),
    disconnects=(
        AT_PRODUCER,
        "the end is not above the end of the snapshot before (but for the second of a pair with history)",
        "a disk marker of layout 1 where durable writes are replicated",
        "max visible, high prepared or purge seqno is above the end",
    ),
)

SEQNO_ADVANCED = one_way(
    opcodes.DCP_SEQNO_ADVANCED,
    "DCP_SEQNO_ADVANCED",
    sender=PRODUCER,
    request=(Layout("1", extras=(seqno("by_seqno", "by_seqno"),), when={"extras_length": 8}),),
    since="7.0",
    source="commands/seqno-advanced.md",
    streamed=True,
    stream_id=True,
    rules=("sent where the items up to this seqno are filtered out",),
    errors=((0x81, "a server's consumer does not take it"),),
)

OSO_SNAPSHOT = one_way(
    opcodes.DCP_OSO_SNAPSHOT,
    "DCP_OSO_SNAPSHOT",
    sender=PRODUCER,
    request=(Layout("1", extras=(u32("flags", "Flags", OSO_FLAGS),), when={"extras_length": 4}),),
    since="7.0",
    source="commands/oso_snapshot.md",
    streamed=True,
    stream_id=True,
    rules=("start, then items in any order, then end; no marker between, and no resume point until end",),
    errors=((0x81, "a server's consumer does not take it"),),
)

DCP = (SNAPSHOT_MARKER, SEQNO_ADVANCED, OSO_SNAPSHOT)
