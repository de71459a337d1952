"""Define the messages that open, hand over and end a stream, and those between its items: markers and bare seqnos."""

from dcpdump.spec import opcodes
from dcpdump.spec.connection import AT_CONSUMER, AT_PRODUCER, EMPTY_BODY, FAILOVER_LOG, STREAM_ERRORS, one_way
from dcpdump.spec.field import (
    CONSUMER,
    EITHER,
    MANAGER,
    MAY,
    PRODUCER,
    Field,
    Layout,
    Message,
    Moment,
    id64,
    seqno,
    u8,
    u32,
    u64,
)
from dcpdump.spec.names import OSO_FLAGS, SNAPSHOT_TYPE, STREAM_END_STATUS, STREAM_FILTER, STREAM_FLAGS, VBUCKET_STATE

ADD_STREAM = Message(
    opcodes.DCP_ADD_STREAM,
    "DCP_ADD_STREAM",
    sender=MANAGER,
    request=(Layout("1", extras=(u32("flags", "flags", STREAM_FLAGS),), when={"extras_length": 4}),),
    response=(
        Layout("1", extras=(u32("stream_opaque", "opaque"),), when={"extras_length": 4}),
        Layout("1-refused", when={"extras_length": 0}, note="refused before a stream request was sent"),
    ),
    answered="when the stream request that it caused was answered",
    since="3.0",
    source="commands/add-stream.md",
    vbucket=True,
    rules=(
        "sent to a consumer, which then sends STREAM_REQ to its producer",
        "the response's opaque is that of the STREAM_REQ, in network order (the header's is in host order)",
        "the flags go into the STREAM_REQ as they are",
    ),
    errors=(
        (0x02, "a stream for the vbucket exists, here or at the producer"),
        (0x04, "malformed, or bad flags"),
        (0x07, "the vbucket is missing here, or is active here"),
    ),
    disconnects=(AT_PRODUCER, "another client has opened a connection of the same name meanwhile"),
)

CLOSE_STREAM = Message(
    opcodes.DCP_CLOSE_STREAM,
    "DCP_CLOSE_STREAM",
    sender=EITHER,
    request=EMPTY_BODY,
    response=EMPTY_BODY,
    answered="always",
    since="3.0",
    source="commands/close-stream.md",
    vbucket=True,
    stream_id=True,
    rules=("STREAM_END(Closed) follows only if send_stream_end_on_client_close_stream was accepted",),
    errors=(
        (0x01, "no such stream"),
        (0x0A, "no such stream, at a consumer with v7_dcp_status_codes"),
        (0x8D, "a stream id is required, forbidden or unknown"),
    ),
)

_WANTED = (
    u32("flags", "flags", STREAM_FLAGS),
    u32("reserved", "reserved", reserved=True),
    seqno("start_seqno", "start seqno"),
    seqno("end_seqno", "end seqno"),
    id64("vbucket_uuid", "vb UUID"),
)

STREAM_REQ = Message(
    opcodes.DCP_STREAM_REQ,
    "DCP_STREAM_REQ",
    value_words=STREAM_FILTER,
    sender=CONSUMER,
    request=(
        Layout(
            "1",
            extras=(
                *_WANTED,
                seqno("snap_start_seqno", "snapshot start seqno"),
                seqno("snap_end_seqno", "snapshot end seqno"),
            ),
            value=MAY,
            when={"extras_length": 48},
            note="the value is JSON: uid, sid, collections, scope, purge_seqno, cts (with free_memory and all_keys)",
        ),
        Layout(
            "1-40",
            extras=(
                *_WANTED,
                seqno("snap_end_seqno", "high seqno"),
            ),
            when={"extras_length": 40},
            note="prototypes of 2013-14 only",
            old=True,
        ),
    ),
    response=(
        Layout("1", value=(FAILOVER_LOG,), when={"status": 0x00}),
        Layout("1-rollback", value=(seqno("rollback_seqno", "rollback #"),), when={"status": 0x23}),
    ),
    answered="always",
    since="3.0",
    source="commands/stream-request.md",
    vbucket=True,
    json=True,
    rules=(
        "snap start seqno <= start seqno <= snap end seqno, and start seqno <= end seqno",
        "start seqno is the last seqno that the client has",
        "one live stream for each vbucket and stream id",
        "a start seqno below the producer's purge seqno, but not 0, means a rollback to 0, unless the JSON's "
        "purge_seqno is the producer's, or ignore-purged-tombstones is set",
        "a vb UUID that the failover log does not have means a rollback to 0; at start seqno 0 only with strict-vbuuid",
        "a snapshot that goes beyond the next branch of the log means a rollback to its start, or to the branch",
    ),
    errors=(
        (0x02, "a stream for this vbucket (and stream id) is open on this connection"),
        (0x04, "bad flags, a value without collections, JSON without a known key, or scope and collections together"),
        (0x07, "the vbucket is not here, or not active and active-vb-only was requested"),
        (0x22, "start > end, also as flags give them, start outside the snapshot, or start > high seqno"),
        (0x23, "the value holds the seqno to roll back to"),
        (0x24, "the user may not stream this"),
        (0x82, "the memory in use is above the quota"),
        (0x83, "enable_noop is missing, or a collection filter with sync writes"),
        (0x86, "the vbucket is still receiving its first disk snapshot"),
        (0x88, "unknown collection in the filter"),
        (0x8C, "unknown scope in the filter"),
        (0x8D, "sid missing while enabled, present while disabled, or 0"),
    ),
    disconnects=(AT_CONSUMER,),
)

STREAM_END = one_way(
    opcodes.DCP_STREAM_END,
    "DCP_STREAM_END",
    sender=PRODUCER,
    request=(
        Layout(
            "1",
            extras=(Field("status", "flag", 4, STREAM_END_STATUS, renamed="end_status"),),
            when={"extras_length": 4},
        ),
    ),
    since="3.0",
    source="commands/stream-end.md",
    streamed=True,
    stream_id=True,
    rules=("nothing of the stream follows",),
    errors=((0x01, "no such stream"), (0x04, "malformed"), (0x0A, "no such stream (v7_dcp_status_codes)")),
    disconnects=(AT_PRODUCER,),
)

FLUSH = Message(
    opcodes.DCP_FLUSH,
    "DCP_FLUSH",
    sender=PRODUCER,
    request=EMPTY_BODY,
    response=EMPTY_BODY,
    answered="always refused",
    since="never supported",
    source="commands/flush.md",
    errors=((0x83, "always"),),
)

SET_VBUCKET_STATE = Message(
    opcodes.DCP_SET_VBUCKET_STATE,
    "DCP_SET_VBUCKET_STATE",
    sender=PRODUCER,
    request=(Layout("1", extras=(u8("state", "state", VBUCKET_STATE),), when={"extras_length": 1}),),
    response=EMPTY_BODY,
    answered="always; a takeover waits for it",
    since="3.0",
    source="commands/set-vbucket-state.md",
    streamed=True,
    rules=(
        "only on a takeover stream: pending, then active",
        "pending waits for the answers to all snapshots, active for that to pending, STREAM_END for that to active",
    ),
    errors=(*STREAM_ERRORS, (0x04, "an unknown state")),
    disconnects=(AT_PRODUCER,),
)


# -- around a stream's items: snapshot markers, out-of-order snapshots, seqnos without an item --------

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

DCP = (
    ADD_STREAM,
    CLOSE_STREAM,
    STREAM_REQ,
    STREAM_END,
    FLUSH,
    SET_VBUCKET_STATE,
    SNAPSHOT_MARKER,
    SEQNO_ADVANCED,
    OSO_SNAPSHOT,
)
