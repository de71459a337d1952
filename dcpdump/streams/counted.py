"""Which messages flow control counts."""

from dcpdump.spec import find
from dcpdump.spec.field import PRODUCER
from dcpdump.spec.opcodes import DCP_OPEN, DCP_SEQNO_ACKNOWLEDGED


def _counts(opcode: int) -> bool:
    message = find(opcode)
    return message.streamed and message.sender is PRODUCER and opcode != DCP_SEQNO_ACKNOWLEDGED


#: By opcode: whether flow control counts the message.
COUNTED: list[bool] = [_counts(opcode) for opcode in range(256)]
#: DCP's own opcodes, up to the last that is counted.
FIRST, LAST = DCP_OPEN, max(opcode for opcode in range(256) if COUNTED[opcode])
#: Bytes of a snapshot marker, by version: 1, 2.0, 2.1, 2.2. A stream id adds three.
MARKER_SIZES = (44, 61, 69, 77)
_VERSIONS = {size: at for at, size in enumerate(MARKER_SIZES)}
STREAM_ID_SIZE = 3


def count_marker(markers: list[int], length: int, stream_id: int) -> None:
    """Count a marker with those of its version, by its length."""
    at = _VERSIONS.get(length - STREAM_ID_SIZE if stream_id else length)
    if at is not None:
        markers[at] += 1
