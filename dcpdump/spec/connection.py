"""Define the messages that set a connection up and keep it alive."""

from functools import partial

from dcpdump.spec import opcodes
from dcpdump.spec.field import (
    CONSUMER,
    MAY,
    MUST,
    ON_ERROR,
    PRODUCER,
    Holds,
    Layout,
    Message,
    Repeat,
    id64,
    seqno,
    u32,
)
from dcpdump.spec.names import CONTROL_KEYS, CONTROL_SETTINGS, OPEN_FLAGS, REPLICATION

AT_PRODUCER, AT_CONSUMER = "sent to a producer", "sent to a consumer"
NO_MEMORY = "the receiver has no memory left to replicate into"
EMPTY_BODY = (Layout("1"),)
ANY_VALUE = (Layout("1", value=MAY),)
#: A consumer's error for a message of a stream that it does not have.
STREAM_ERRORS = (
    (0x01, "no such stream"),
    (0x02, "the opaque is not the stream's"),
    (0x0A, "no such stream (v7_dcp_status_codes)"),
    (0x0B, "the opaque is not the stream's (v7_dcp_status_codes)"),
)
#: Makes a message that is answered only to report an error.
one_way = partial(Message, response=EMPTY_BODY, answered=ON_ERROR, replies=False)
FAILOVER_LOG = Repeat("failover_log", (id64("vbucket_uuid", "vb UUID"), seqno("seqno", "vb seqno")))

OPEN = Message(
    opcodes.DCP_OPEN,
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
    opcodes.DCP_NOOP,
    "DCP_NOOP",
    sender=PRODUCER,
    request=EMPTY_BODY,
    response=EMPTY_BODY,
    answered="always, with the same opaque",
    since="3.0",
    source="commands/no-op.md",
    rules=(
        "sent only after enable_noop was accepted, each set_noop_interval (20 s unless set)",
        "none follows before the last one was answered",
    ),
    disconnects=(
        AT_PRODUCER,
        "the answer has another opaque than the last NOOP",
        "with enable_noop, nothing came from the client for the idle timeout (360 s)",
    ),
)

BUFFER_ACKNOWLEDGEMENT = one_way(
    opcodes.DCP_BUFFER_ACKNOWLEDGEMENT,
    "DCP_BUFFER_ACKNOWLEDGEMENT",
    sender=CONSUMER,
    request=(Layout("1", extras=(u32("buffer_bytes", "Buffer Bytes"),), when={"extras_length": 4}),),
    since="3.0",
    source="commands/buffer-ack.md",
    rules=("acknowledges no more bytes than were sent", "ignored while connection_buffer_size is not set, or 0"),
    errors=((0x04, "malformed"),),
    disconnects=(AT_CONSUMER,),
)

CONTROL = Message(
    opcodes.DCP_CONTROL,
    "DCP_CONTROL",
    key_words="|".join(CONTROL_KEYS),
    value_words=CONTROL_SETTINGS,
    sender=CONSUMER,
    request=(Layout("1", key=MUST, value=MUST, note="key and value are ASCII text"),),
    response=EMPTY_BODY,
    answered="always",
    since="3.0",
    source="commands/control.md",
    rules=("most keys act only on streams that are requested later",),
    errors=((0x04, "an unknown key for this server, or a bad value"), (0x83, "known, but not possible here")),
    disconnects=(AT_CONSUMER,),
)

GET_FAILOVER_LOG = Message(
    opcodes.DCP_GET_FAILOVER_LOG,
    "DCP_GET_FAILOVER_LOG",
    sender=CONSUMER,
    request=EMPTY_BODY,
    response=(Layout("1", value=(FAILOVER_LOG,), when={"status": 0}),),
    answered="always",
    since="3.0",
    source="commands/failover-log.md",
    vbucket=True,
    rules=("entries are newest first",),
    errors=((0x07, "the vbucket is not here"), (0x04, "malformed"), (0x82, "out of memory")),
)

DCP = (OPEN, GET_FAILOVER_LOG, NOOP, BUFFER_ACKNOWLEDGEMENT, CONTROL)
