"""Messages that open, shape and end a stream: ADD_STREAM, STREAM_REQ, snapshot markers, takeover, OSO."""

from dcpdump.spec.connection import EMPTY_BODY, FAILOVER_LOG
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
from dcpdump.spec.names import (
    OSO_FLAGS,
    SNAPSHOT_TYPE,
    STREAM_END_STATUS,
    STREAM_FILTER,
    STREAM_FLAGS,
    VBUCKET_STATE,
)

ADD_STREAM = Message(
    0x51,
    "DCP_ADD_STREAM",
    sender=MANAGER,
    request=(
        Layout(
            "1",
            extras=(u32("flags", "flags", STREAM_FLAGS),),
            when={"extras_length": 4},
            source="add-stream.md",
        ),
    ),
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
    ),
    errors=(
        (0x02, "a stream for the vbucket exists"),
        (0x04, "malformed, or bad flags"),
        (0x07, "the vbucket is missing here, or is active here"),
    ),
)

CLOSE_STREAM = Message(
    0x52,
    "DCP_CLOSE_STREAM",
    sender=EITHER,
    request=EMPTY_BODY,
    response=EMPTY_BODY,
    answered="always",
    since="3.0",
    source="commands/close-stream.md",
    vbucket=True,
    rules=("STREAM_END(Closed) follows only if send_stream_end_on_client_close_stream was accepted",),
    errors=(
        (0x01, "no such stream"),
        (0x0A, "no such stream, at a consumer with v7_dcp_status_codes"),
        (0x8D, "a stream id is required, forbidden or unknown"),
    ),
)

STREAM_REQ = Message(
    0x53,
    "DCP_STREAM_REQ",
    value_words=STREAM_FILTER,
    sender=CONSUMER,
    request=(
        Layout(
            "1",
            extras=(
                u32("flags", "flags", STREAM_FLAGS),
                u32("reserved", "reserved", reserved=True),
                seqno("start_seqno", "start seqno"),
                seqno("end_seqno", "end seqno"),
                id64("vbucket_uuid", "vb UUID"),
                seqno("snap_start_seqno", "snapshot start seqno"),
                seqno("snap_end_seqno", "snapshot end seqno"),
            ),
            value=MAY,
            when={"extras_length": 48},
            source="stream-request.md",
            note="the value is JSON: uid, sid, collections, scope, purge_seqno, cts",
        ),
        Layout(
            "1-40",
            extras=(
                u32("flags", "flags", STREAM_FLAGS),
                u32("reserved", "reserved", reserved=True),
                seqno("start_seqno", "start seqno"),
                seqno("end_seqno", "end seqno"),
                id64("vbucket_uuid", "vb UUID"),
                seqno("snap_end_seqno", "high seqno"),
            ),
            when={"extras_length": 40},
            source="stream-request.md",
            note="prototypes of 2013-14 only",
            old=True,
        ),
    ),
    response=(
        Layout("1", value=(FAILOVER_LOG,), when={"status": 0x00}, source="stream-request.md"),
        Layout(
            "1-rollback",
            value=(seqno("rollback_seqno", "rollback #"),),
            when={"status": 0x23},
            source="stream-request.md",
        ),
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
    ),
    errors=(
        (0x02, "a stream for this vbucket (and stream id) is open on this connection"),
        (0x04, "bad flags, a value without collections, or JSON without a known key"),
        (0x07, "the vbucket is not here, or not active and active-vb-only was asked for"),
        (0x22, "start > end, start outside the snapshot, or start > high seqno"),
        (0x23, "the value holds the seqno to roll back to"),
        (0x24, "the user may not stream this"),
        (0x83, "enable_noop is missing, or a collection filter with sync writes"),
        (0x86, "the vbucket is still receiving its first disk snapshot"),
        (0x88, "unknown collection in the filter"),
        (0x8C, "unknown scope in the filter"),
        (0x8D, "sid missing while enabled, present while disabled, or 0"),
    ),
)

STREAM_END = Message(
    0x55,
    "DCP_STREAM_END",
    sender=PRODUCER,
    request=(
        Layout(
            "1",
            extras=(u32("status", "flag", STREAM_END_STATUS),),
            when={"extras_length": 4},
            source="stream-end.md",
        ),
    ),
    response=EMPTY_BODY,
    answered="only to report an error",
    since="3.0",
    source="commands/stream-end.md",
    streamed=True,
    rules=("nothing of the stream follows",),
    errors=((0x01, "no such stream"), (0x04, "malformed"), (0x0A, "no such stream (v7_dcp_status_codes)")),
)

_MARKER_V2: tuple[Field, ...] = (
    seqno("start_seqno", "Start Seqno"),
    seqno("end_seqno", "End Seqno"),
    u32("snapshot_type", "Snapshot Type", SNAPSHOT_TYPE),
    seqno("max_visible_seqno", "Max Visible Seqno"),
    seqno("high_completed_seqno", "High Completed Seqno"),
)
_VERSION = (u8("version", "Version"),)

SNAPSHOT_MARKER = Message(
    0x56,
    "DCP_SNAPSHOT_MARKER",
    sender=PRODUCER,
    request=(
        Layout(
            "1",
            extras=(
                seqno("start_seqno", "Start Seqno"),
                seqno("end_seqno", "End Seqno"),
                u32("snapshot_type", "Snapshot Type", SNAPSHOT_TYPE),
            ),
            when={"extras_length": 20},
            source="snapshot-marker.md#v1",
        ),
        Layout(
            "2.0",
            extras=_VERSION,
            value=_MARKER_V2,
            when={"extras_length": 1, "version": 0, "value_length": 36},
            source="snapshot-marker.md#v20",
        ),
        Layout(
            "2.1",
            extras=_VERSION,
            value=(*_MARKER_V2, u64("timestamp", "Timestamp", Moment(10**9))),
            when={"extras_length": 1, "version": 1, "value_length": 44},
            source="snapshot-marker.md#v21",
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
            source="snapshot-marker.md#v22",
        ),
        Layout(
            "2.2-pre",
            extras=_VERSION,
            value=(*_MARKER_V2, seqno("purge_seqno", "Purge Seqno")),
            when={"extras_length": 1, "version": 2, "value_length": 44},
            source="snapshot-marker.md#v22",
            note="before high prepared seqno was added; no released server sends it",
        ),
    ),
    response=EMPTY_BODY,
    answered="only where the acknowledge flag is set, once the snapshot is complete, or to report an error",
    since="3.0",
    source="commands/snapshot-marker.md",
    streamed=True,
    rules=(
        "start <= end, and every item that follows lies in the range",
        "memory and disk exclude each other",
        "high completed, high prepared and purge seqno mean something only with the disk flag",
    ),
    errors=(
        (0x01, "no such stream"),
        (0x04, "start > end, an unknown version, or lengths that fit none"),
        (0x0A, "no such stream (v7_dcp_status_codes)"),
        (0x0B, "the opaque is not the stream's (v7_dcp_status_codes)"),
        (0x22, "the range lies before what the consumer has"),
    ),
)

FLUSH = Message(
    0x5A,
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
    0x5B,
    "DCP_SET_VBUCKET_STATE",
    sender=PRODUCER,
    request=(
        Layout(
            "1",
            extras=(u8("state", "state", VBUCKET_STATE),),
            when={"extras_length": 1},
            source="set-vbucket-state.md",
        ),
    ),
    response=EMPTY_BODY,
    answered="always; a takeover waits for it",
    since="3.0",
    source="commands/set-vbucket-state.md",
    streamed=True,
    rules=("only on a takeover stream: pending, then active",),
    errors=((0x01, "no such stream"), (0x04, "an unknown state")),
)

SEQNO_ADVANCED = Message(
    0x64,
    "DCP_SEQNO_ADVANCED",
    sender=PRODUCER,
    request=(
        Layout(
            "1",
            extras=(seqno("by_seqno", "by_seqno"),),
            when={"extras_length": 8},
            source="seqno-advanced.md",
        ),
    ),
    response=EMPTY_BODY,
    answered="only to report an error",
    since="7.0",
    source="commands/seqno-advanced.md",
    streamed=True,
    rules=("sent where the items up to this seqno are filtered out",),
    errors=((0x81, "a server's consumer does not take it"),),
)

OSO_SNAPSHOT = Message(
    0x65,
    "DCP_OSO_SNAPSHOT",
    sender=PRODUCER,
    request=(
        Layout(
            "1",
            extras=(u32("flags", "Flags", OSO_FLAGS),),
            when={"extras_length": 4},
            source="oso_snapshot.md",
        ),
    ),
    response=EMPTY_BODY,
    answered="only to report an error",
    since="7.0",
    source="commands/oso_snapshot.md",
    streamed=True,
    rules=("start, then items in any order, then end; no marker between, and no resume point until end",),
    errors=((0x81, "a server's consumer does not take it"),),
)

DCP = (
    ADD_STREAM,
    CLOSE_STREAM,
    STREAM_REQ,
    STREAM_END,
    SNAPSHOT_MARKER,
    FLUSH,
    SET_VBUCKET_STATE,
    SEQNO_ADVANCED,
    OSO_SNAPSHOT,
)
