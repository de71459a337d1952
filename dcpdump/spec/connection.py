"""Messages that set a connection up and keep it alive: DCP's own, and their neighbours on the same wire."""

from dcpdump.spec.field import (
    CONSUMER,
    MAY,
    MUST,
    PRODUCER,
    SERVER,
    Field,
    Holds,
    Layout,
    Message,
    Repeat,
    id64,
    seqno,
    u8,
    u16,
    u32,
)
from dcpdump.spec.names import (
    CONTROL_KEYS,
    CONTROL_SETTINGS,
    FEATURE,
    MECHANISMS,
    OPEN_FLAGS,
    REPLICATION,
    VBUCKET_STATE,
    VBUCKET_STATE_FILTER,
)

EMPTY_BODY = (Layout("1"),)
ANY_VALUE = (Layout("1", value=MAY),)
FAILOVER_LOG = Repeat("failover_log", (id64("vbucket_uuid", "vb UUID"), seqno("seqno", "vb seqno")))
FEATURES = Repeat("features", (u16("features", "feature", FEATURE),))
EPOCH_REVISION = (Field("epoch", "epoch", 8), Field("revision", "revision", 8))

OPEN = Message(
    0x50,
    "DCP_OPEN",
    key_holds=Holds.BUCKET,
    key_prefixes=REPLICATION,
    value_holds=Holds.META,
    sender=CONSUMER,
    request=(
        Layout(
            "1",
            extras=(u32("seqno", "seqno", reserved=True), u32("flags", "flags", OPEN_FLAGS)),
            key=MUST,
            value=MAY,
            when={"extras_length": 8},
            source="open-connection.md",
            note="the key is the connection's name; the value is JSON with consumer_name (6.5+)",
        ),
    ),
    response=EMPTY_BODY,
    answered="always",
    since="3.0",
    source="commands/open-connection.md",
    json=True,
    rules=(
        "once a connection, before any other DCP message",
        "a name that is already in use closes the older connection",
        "no-value excludes no-value-with-underlying-datatype",
        "include-deleted-user-xattrs needs include-xattrs",
    ),
    errors=(
        (
            0x04,
            "an unknown flag, a bad combination, a key of the JSON other than consumer_name, or a second OPEN",
        ),
        (0x24, "the user may not open DCP connections"),
        (0x83, "the bucket has no DCP, or UnorderedExecution was granted"),
        (0x86, "a consumer was opened before warm-up had loaded the metadata"),
    ),
)

NOOP = Message(
    0x5C,
    "DCP_NOOP",
    sender=PRODUCER,
    request=EMPTY_BODY,
    response=EMPTY_BODY,
    answered="always, with the same opaque",
    since="3.0",
    source="commands/no-op.md",
    rules=("sent only after enable_noop was accepted", "sent to a producer it closes the connection"),
)

BUFFER_ACKNOWLEDGEMENT = Message(
    0x5D,
    "DCP_BUFFER_ACKNOWLEDGEMENT",
    sender=CONSUMER,
    request=(
        Layout(
            "1",
            extras=(u32("buffer_bytes", "Buffer Bytes"),),
            when={"extras_length": 4},
            source="buffer-ack.md",
        ),
    ),
    response=EMPTY_BODY,
    answered="only to report an error",
    since="3.0",
    source="commands/buffer-ack.md",
    rules=("acknowledges no more bytes than were sent", "needs connection_buffer_size"),
    errors=((0x04, "malformed"),),
)

CONTROL = Message(
    0x5E,
    "DCP_CONTROL",
    key_words="|".join(CONTROL_KEYS),
    value_words=CONTROL_SETTINGS,
    sender=CONSUMER,
    request=(Layout("1", key=MUST, value=MUST, source="control.md", note="key and value are ASCII text"),),
    response=EMPTY_BODY,
    answered="always",
    since="3.0",
    source="commands/control.md",
    rules=("most keys act only on streams that are requested later",),
    errors=((0x04, "an unknown key for this server, or a bad value"), (0x83, "known, but not possible here")),
)

GET_FAILOVER_LOG = Message(
    0x54,
    "DCP_GET_FAILOVER_LOG",
    sender=CONSUMER,
    request=EMPTY_BODY,
    response=(Layout("1", value=(FAILOVER_LOG,), when={"status": 0}, source="failover-log.md"),),
    answered="always",
    since="3.0",
    source="commands/failover-log.md",
    vbucket=True,
    rules=("entries are newest first",),
    errors=((0x07, "the vbucket is not here"), (0x04, "malformed"), (0x82, "out of memory")),
)

DCP = (OPEN, GET_FAILOVER_LOG, NOOP, BUFFER_ACKNOWLEDGEMENT, CONTROL)

HELLO = Message(
    0x1F,
    "HELLO",
    key_holds=Holds.BUCKET,
    request=(Layout("1", key=MAY, value=(FEATURES,), note="the key names the client; the features asked for"),),
    response=(Layout("1", value=(FEATURES,), when={"status": 0}, note="the features granted"),),
    answered="always",
    rules=("only features of the response are on", "each HELLO replaces the features of the one before"),
)

NEIGHBOURS = (
    Message(0x0A, "NOOP", request=EMPTY_BODY, response=EMPTY_BODY, answered="always"),
    Message(
        0x0B,
        "VERSION",
        value_words=r"[0-9]{1,4}(?:\.[0-9]{1,4}){0,3}(?:-[0-9]{1,8})?(?:-enterprise|-community)?",
        request=EMPTY_BODY,
        response=ANY_VALUE,
        answered="always",
    ),
    Message(
        0x10,
        "STAT",
        key_holds=Holds.BUCKET,
        value_holds=Holds.BUCKET,
        request=(Layout("1", key=MAY, value=MAY),),
        response=(Layout("1", key=MAY, value=MAY),),
        answered="many times; an empty key and value end the list",
    ),
    HELLO,
    Message(
        0x20,
        "SASL_LIST_MECHS",
        value_words=f"(?:{MECHANISMS})(?: (?:{MECHANISMS}))*",
        request=EMPTY_BODY,
        response=ANY_VALUE,
        answered="always",
    ),
    Message(
        0x21,
        "SASL_AUTH",
        key_words=MECHANISMS,
        request=(Layout("1", key=MUST, value=MAY),),
        response=ANY_VALUE,
        answered="always",
        secret=True,
    ),
    Message(
        0x22,
        "SASL_STEP",
        key_words=MECHANISMS,
        request=(Layout("1", key=MUST, value=MAY),),
        response=ANY_VALUE,
        answered="always",
        secret=True,
    ),
    Message(
        0x3D,
        "SET_VBUCKET",
        value_holds=Holds.SYSTEM,
        vbucket=True,
        request=(Layout("1", extras=(u8("state", "state", VBUCKET_STATE),), value=MAY, when={"extras_length": 1}),),
        response=EMPTY_BODY,
        answered="always",
        json=True,
    ),
    Message(
        0x48,
        "GET_ALL_VB_SEQNOS",
        request=(
            Layout("1", when={"extras_length": 0}),
            Layout(
                "2",
                extras=(u32("state_filter", "vb state", VBUCKET_STATE_FILTER),),
                when={"extras_length": 4},
            ),
            Layout(
                "3",
                extras=(
                    u32("state_filter", "vb state", VBUCKET_STATE_FILTER),
                    u32("collection_id", "collection id"),
                ),
                when={"extras_length": 8},
            ),
        ),
        response=(
            Layout(
                "1",
                value=(Repeat("seqnos", (u16("vbucket", "vb"), seqno("seqno", "vb seqno"))),),
                when={"status": 0},
            ),
        ),
        answered="always",
        source="commands/get_seqno.md",
    ),
    Message(
        0x89,
        "SELECT_BUCKET",
        key_holds=Holds.BUCKET,
        request=(Layout("1", key=MUST),),
        response=EMPTY_BODY,
        answered="always",
    ),
    Message(
        0x91,
        "OBSERVE_SEQNO",
        vbucket=True,
        request=(Layout("1", value=(id64("vbucket_uuid", "vb UUID"),)),),
        response=(
            Layout(
                "1",
                value=(
                    u8("format", "format"),
                    u16("observed_vbucket", "vb"),
                    id64("vbucket_uuid", "vb UUID"),
                    seqno("persisted_seqno", "persisted seqno"),
                    seqno("current_seqno", "current seqno"),
                ),
                when={"status": 0, "value_length": 27},
            ),
            Layout(
                "2",
                value=(
                    u8("format", "format"),
                    u16("observed_vbucket", "vb"),
                    id64("vbucket_uuid", "vb UUID"),
                    seqno("persisted_seqno", "persisted seqno"),
                    seqno("current_seqno", "current seqno"),
                    id64("old_vbucket_uuid", "old vb UUID"),
                    seqno("last_seqno", "last seqno"),
                ),
                when={"status": 0, "value_length": 43},
                note="after a failover",
            ),
        ),
        answered="always",
    ),
    Message(
        0x96,
        "GET_FAILOVER_LOG",
        vbucket=True,
        request=EMPTY_BODY,
        response=(Layout("1", value=(FAILOVER_LOG,), when={"status": 0}),),
        answered="always",
    ),
    Message(
        0xB5,
        "GET_CLUSTER_CONFIG",
        value_holds=Holds.BUCKET,
        request=(
            Layout("1", when={"extras_length": 0}),
            Layout("2", extras=EPOCH_REVISION, when={"extras_length": 16}),
        ),
        response=ANY_VALUE,
        answered="always",
    ),
    Message(
        0xB7,
        "SEQNO_PERSISTENCE",
        vbucket=True,
        request=(Layout("1", extras=(seqno("wait_seqno", "seqno"),), when={"extras_length": 8}),),
        response=EMPTY_BODY,
        answered="always",
    ),
    Message(
        0xB9,
        "COLLECTIONS_SET_MANIFEST",
        value_holds=Holds.META,
        request=(Layout("1", value=MUST),),
        response=EMPTY_BODY,
    ),
    Message(
        0xBA,
        "COLLECTIONS_GET_MANIFEST",
        value_holds=Holds.META,
        request=EMPTY_BODY,
        response=ANY_VALUE,
        answered="always",
    ),
    Message(
        0xBB,
        "COLLECTIONS_GET_ID",
        key_holds=Holds.META,
        value_holds=Holds.META,
        request=(Layout("1", key=MAY, value=MAY),),
        response=(
            Layout(
                "1",
                extras=(id64("manifest_uid", "manifest uid"), u32("collection_id", "collection id")),
                when={"status": 0},
            ),
        ),
        answered="always",
    ),
    Message(
        0xBC,
        "COLLECTIONS_GET_SCOPE_ID",
        key_holds=Holds.META,
        value_holds=Holds.META,
        request=(Layout("1", key=MAY, value=MAY),),
        response=(
            Layout(
                "1",
                extras=(id64("manifest_uid", "manifest uid"), u32("scope_id", "scope id")),
                when={"status": 0},
            ),
        ),
        answered="always",
    ),
    Message(
        0xFE,
        "GET_ERROR_MAP",
        request=(Layout("1", value=(u16("map_version", "version"),)),),
        response=ANY_VALUE,
        answered="always",
    ),
)

#: What a server sends of its own accord (magic 0x82), and the replies (0x83).
PUSHES = (
    Message(
        0x01,
        "ClustermapChangeNotification",
        key_holds=Holds.BUCKET,
        value_holds=Holds.BUCKET,
        sender=SERVER,
        request=(
            Layout("1", extras=(u32("revision_32", "revision"),), key=MAY, value=MAY, when={"extras_length": 4}),
            Layout("2", extras=EPOCH_REVISION, key=MAY, value=MAY, when={"extras_length": 16}),
        ),
        response=(Layout("1", key=MAY, value=MAY),),
        answered="optionally; ignored",
    ),
    Message(
        0x02,
        "Authenticate",
        sender=SERVER,
        request=(Layout("1", key=MAY, value=MAY),),
        response=(Layout("1", value=MAY),),
        answered="always",
        secret=True,
    ),
    Message(
        0x03,
        "ActiveExternalUsers",
        sender=SERVER,
        request=(Layout("1", value=MAY),),
        response=EMPTY_BODY,
        answered="never",
    ),
    Message(
        0x04,
        "GetAuthorization",
        sender=SERVER,
        request=(Layout("1", key=MAY, value=MAY),),
        response=(Layout("1", value=MAY),),
        answered="always",
        secret=True,
    ),
)
