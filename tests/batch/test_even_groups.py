"""Groups of batches have about as many bytes of decompressed values, and the rows that the batches have."""

import cramjam

from dcpdump.arrow.frame_table import FrameTable
from dcpdump.batch.filter import Masks
from dcpdump.batch.frame_batch import GROUP_BYTES, even_groups, joined
from dcpdump.filter import FrameFilter
from dcpdump.wire.encode import encode
from tests.support.packets import TcpTalk, flow
from tests.support.pieces import parts_of


def compressed(seqno: int, size: int) -> bytes:
    value = bytes(cramjam.snappy.compress_raw(b"%09d" % seqno + bytes(size)))
    given = {"by_seqno": seqno, "rev_seqno": 1}
    return encode("DCP_MUTATION", given, key=b"k", value=value, datatype=2, vbucket=7, opaque=9)


def test_batches_are_joined_and_cut_by_the_bytes_of_their_values_once_decompressed() -> None:
    talk = TcpTalk(flow(), acks=False).send(0, encode("DCP_OPEN", {"flags": 1}, key=b"x"))
    for seqno in range(1, 41):
        talk.send(1, compressed(seqno, (100, 1_000_000)[seqno % 2]) + encode("DCP_NOOP", opaque=seqno))
    batches, table = parts_of(talk.packets), FrameTable(Masks(FrameFilter()), None)
    fed = [table.feed(joined(group)) for group in even_groups(batches)]
    sizes = [sum(map(len, filter(None, batch["value"].to_pylist()))) for batch in fed if batch is not None]
    assert (len(batches) < len(sizes), max(sizes) <= GROUP_BYTES, sum(sizes)) == (True, True, 20 * 1_000_100 + 40 * 9)
    whole = FrameTable(Masks(FrameFilter()), None).feed(joined(batches))
    rows = [row for batch in fed if batch is not None for row in batch.to_pylist()]
    assert whole is not None
    assert rows == whole.to_pylist()
