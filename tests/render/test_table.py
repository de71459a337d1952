"""The table of one frame: which numbers are in decimals too, behind their hexadecimal digits."""

import pytest

from dcpdump.wire.encode import encode
from tests.support.console import run

#: Codes and names stay as they are; so do numbers whose digits are the same.
TABLE = """\
DCP_SNAPSHOT_MARKER command
Field                  (offset) (value)
Magic                  (0)    : 0x08
Opcode                 (1)    : 0x56
Framing extras length  (2)    : 0x03
Key length             (3)    : 0x00
Extra length           (4)    : 0x01
Data type              (5)    : 0x00
Vbucket                (6,7)  : 0x0009
Total body             (8-11) : 0x00000038 (56)
Opaque                 (12-15): 0xdeadbeef (3735928559)
CAS                    (16-23): 0xffffffffffffffff (18446744073709551615)
  DcpStreamId frame    (24)   : 0x22
  stream id            (25-26): 0x000a (10)
  Version              (27)   : 0x02
  Start Seqno          (28-35): 0x0000000000000009
  End Seqno            (36-43): 0x0000000000001036 (4150)
  Snapshot Type        (44-47): 0x00000012 (disk|history)
  Max Visible Seqno    (48-55): 0x000000000000000a (10)
  High Completed Seqno (56-63): 0x0000000000000000
  Purge Seqno          (64-71): 0x0000000000000000
  High Prepared Seqno  (72-79): 0x0000000000000000

"""


@pytest.mark.parametrize("form", ["table", "grid"])
def test_a_number_from_10_on_is_in_decimals_too_unless_it_has_a_name_or_is_a_code(form: str) -> None:
    fields = {"start_seqno": 9, "end_seqno": 4150, "snapshot_type": 0x12, "max_visible_seqno": 10}
    frame = encode(
        "DCP_SNAPSHOT_MARKER", fields, layout="2.2", vbucket=9, opaque=0xDEADBEEF, cas=2**64 - 1, stream_id=10
    )
    assert run(f"dcpdump explain -q -f {form} {frame.hex()}").out.endswith(TABLE)
    assert run(f"dcpdump explain -q -f {form} -", stdin=TABLE).out.endswith(TABLE)  # and is read again
