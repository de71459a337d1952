"""Define the messages of a cache transfer: documents that the producer has in memory, ahead of the stream's own."""

from dcpdump.spec import opcodes
from dcpdump.spec.connection import AT_PRODUCER, EMPTY_BODY, NO_MEMORY, STREAM_ERRORS, one_way
from dcpdump.spec.field import PRODUCER, Blob, Field, Layout, Moment, Repeat, id64, seqno, u8, u16, u32
from dcpdump.spec.names import DATATYPE

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
    request=(Layout("1", value=(CACHED_ITEM,), when={"extras_length": 0}, source="cache-transfer.md"),),
    since="after 8.0",
    source="commands/cache-transfer.md",
    streamed=True,
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
    rules=("sent only where normal markers follow",),
    errors=STREAM_ERRORS,
    disconnects=(AT_PRODUCER,),
)

DCP = (CACHE_TRANSFER, CACHE_TRANSFER_END)
