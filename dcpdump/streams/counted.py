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
