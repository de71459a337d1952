"""Define messages beside DCP on the same wire: HELLO, logins, buckets, sequence numbers, and what a server pushes."""

from functools import partial

from dcpdump.spec import opcodes
from dcpdump.spec.connection import ANY_VALUE, EMPTY_BODY, FAILOVER_LOG
from dcpdump.spec.field import MAY, MUST, SERVER, Field, Holds, Layout, Message, Repeat, id64, seqno, u8, u16, u32
from dcpdump.spec.names import FEATURE, MECHANISMS, VBUCKET_STATE, VBUCKET_STATE_FILTER

FEATURES = Repeat("features", (u16("features", "feature", FEATURE),))
EPOCH_REVISION = (Field("epoch", "epoch", 8), Field("revision", "revision", 8))

_ANYTHING = (Layout("1", key=MAY, value=MAY),)
_OBSERVED = (
    u8("format", "format"),
    u16("observed_vbucket", "vb"),
    id64("vbucket_uuid", "vb UUID"),
    seqno("persisted_seqno", "persisted seqno"),
    seqno("current_seqno", "current seqno"),
)
#: Makes a message that is answered whatever comes of it.
_answered = partial(Message, answered="always")

HELLO = _answered(
    opcodes.HELLO,
    "HELLO",
    key_holds=Holds.BUCKET,
    request=(Layout("1", key=MAY, value=(FEATURES,), note="the key names the client; the features asked for"),),
    response=(Layout("1", value=(FEATURES,), when={"status": 0}, note="the features granted"),),
    rules=("only features of the response are on", "each HELLO replaces the features of the one before"),
)

NEIGHBOURS = (
    _answered(opcodes.NOOP, "NOOP", request=EMPTY_BODY, response=EMPTY_BODY),
    _answered(
        opcodes.VERSION,
        "VERSION",
        value_words=r"[0-9]{1,4}(?:\.[0-9]{1,4}){0,3}(?:-[0-9]{1,8})?(?:-enterprise|-community)?",
        request=EMPTY_BODY,
        response=ANY_VALUE,
    ),
    Message(
        opcodes.STAT,
        "STAT",
        key_holds=Holds.BUCKET,
        value_holds=Holds.BUCKET,
        request=_ANYTHING,
        response=_ANYTHING,
        answered="many times; an empty key and value end the list",
    ),
    HELLO,
    _answered(
        opcodes.SASL_LIST_MECHS,
        "SASL_LIST_MECHS",
        value_words=f"(?:{MECHANISMS})(?: (?:{MECHANISMS}))*",
        request=EMPTY_BODY,
        response=ANY_VALUE,
    ),
    _answered(
        opcodes.SASL_AUTH,
        "SASL_AUTH",
        key_words=MECHANISMS,
        request=(Layout("1", key=MUST, value=MAY),),
        response=ANY_VALUE,
        secret=True,
    ),
    _answered(
        opcodes.SASL_STEP,
        "SASL_STEP",
        key_words=MECHANISMS,
        request=(Layout("1", key=MUST, value=MAY),),
        response=ANY_VALUE,
        secret=True,
    ),
    _answered(
        opcodes.SET_VBUCKET,
        "SET_VBUCKET",
        value_holds=Holds.SYSTEM,
        vbucket=True,
        request=(Layout("1", extras=(u8("state", "state", VBUCKET_STATE),), value=MAY, when={"extras_length": 1}),),
        response=EMPTY_BODY,
        json=True,
    ),
    _answered(
        opcodes.GET_ALL_VB_SEQNOS,
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
        source="commands/get_seqno.md",
    ),
    _answered(
        opcodes.SELECT_BUCKET,
        "SELECT_BUCKET",
        key_holds=Holds.BUCKET,
        request=(Layout("1", key=MUST),),
        response=EMPTY_BODY,
    ),
    _answered(
        opcodes.OBSERVE_SEQNO,
        "OBSERVE_SEQNO",
        vbucket=True,
        request=(Layout("1", value=(id64("vbucket_uuid", "vb UUID"),)),),
        response=(
            Layout("1", value=_OBSERVED, when={"status": 0, "value_length": 27}),
            Layout(
                "2",
                value=(
                    *_OBSERVED,
                    id64("old_vbucket_uuid", "old vb UUID"),
                    seqno("last_seqno", "last seqno"),
                ),
                when={"status": 0, "value_length": 43},
                note="after a failover",
            ),
        ),
    ),
    _answered(
        opcodes.GET_FAILOVER_LOG,
        "GET_FAILOVER_LOG",
        vbucket=True,
        request=EMPTY_BODY,
        response=(Layout("1", value=(FAILOVER_LOG,), when={"status": 0}),),
    ),
    _answered(
        opcodes.GET_CLUSTER_CONFIG,
        "GET_CLUSTER_CONFIG",
        value_holds=Holds.BUCKET,
        request=(
            Layout("1", when={"extras_length": 0}),
            Layout("2", extras=EPOCH_REVISION, when={"extras_length": 16}),
        ),
        response=ANY_VALUE,
    ),
    _answered(
        opcodes.SEQNO_PERSISTENCE,
        "SEQNO_PERSISTENCE",
        vbucket=True,
        request=(Layout("1", extras=(seqno("wait_seqno", "seqno"),), when={"extras_length": 8}),),
        response=EMPTY_BODY,
    ),
    Message(
        opcodes.COLLECTIONS_SET_MANIFEST,
        "COLLECTIONS_SET_MANIFEST",
        value_holds=Holds.META,
        request=(Layout("1", value=MUST),),
        response=EMPTY_BODY,
    ),
    _answered(
        opcodes.COLLECTIONS_GET_MANIFEST,
        "COLLECTIONS_GET_MANIFEST",
        value_holds=Holds.META,
        request=EMPTY_BODY,
        response=ANY_VALUE,
    ),
    _answered(
        opcodes.COLLECTIONS_GET_ID,
        "COLLECTIONS_GET_ID",
        key_holds=Holds.META,
        value_holds=Holds.META,
        request=_ANYTHING,
        response=(
            Layout(
                "1",
                extras=(id64("manifest_uid", "manifest uid"), u32("collection_id", "collection id")),
                when={"status": 0},
            ),
        ),
    ),
    _answered(
        opcodes.COLLECTIONS_GET_SCOPE_ID,
        "COLLECTIONS_GET_SCOPE_ID",
        key_holds=Holds.META,
        value_holds=Holds.META,
        request=_ANYTHING,
        response=(
            Layout(
                "1",
                extras=(id64("manifest_uid", "manifest uid"), u32("scope_id", "scope id")),
                when={"status": 0},
            ),
        ),
    ),
    _answered(
        opcodes.GET_ERROR_MAP,
        "GET_ERROR_MAP",
        request=(Layout("1", value=(u16("map_version", "version"),)),),
        response=ANY_VALUE,
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
        response=_ANYTHING,
        answered="optionally; ignored",
    ),
    _answered(
        0x02,
        "Authenticate",
        sender=SERVER,
        request=_ANYTHING,
        response=(Layout("1", value=MAY),),
        secret=True,
    ),
    Message(
        0x03,
        "ActiveExternalUsers",
        sender=SERVER,
        request=(Layout("1", value=MAY),),
        response=EMPTY_BODY,
        answered="never",
        replies=False,
    ),
    _answered(
        0x04,
        "GetAuthorization",
        sender=SERVER,
        request=_ANYTHING,
        response=(Layout("1", value=MAY),),
        secret=True,
    ),
)
