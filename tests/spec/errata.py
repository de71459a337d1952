"""List where an example of the specification contradicts itself or the protocol, and why we differ.

Nothing here is for convenience: a row that is no longer needed fails the tests.
"""

from typing import NamedTuple

Rows = set[tuple[str, str]]


class Differences(NamedTuple):
    """What differs of an example: rows, as pairs of what the page and what we say, empty where one has no such row.

    Of a mended one also its problems, and the smallest edit.
    """

    rows: Rows
    problems: list[str]
    edits: list[str]


def _read(text: str) -> dict[str, Differences]:
    """Read ``== pages``, ``# reason``, ``page's row => our row``, ``! problem`` and ``~ edit``."""
    out: dict[str, Differences] = {}
    for block in text.strip().removeprefix("== ").split("\n== "):
        names, *lines = block.split("\n")
        found = Differences(set(), [], [])
        reason = ""
        for line in lines:
            mark, said = line[:2], line[2:]
            if mark == "# ":
                reason = said
            elif mark in ("! ", "~ "):
                (found.problems if mark == "! " else found.edits).append(said)
            else:
                assert reason, line
                theirs, _, ours = line.partition("=>")
                found.rows.add((theirs.strip(), ours.strip()))
        out |= dict.fromkeys(names.split(), found)
    return out


#: What differs of examples that no edit mends.
ERRATA = _read(r"""
== add-stream-response seed-add-stream-response
# offsets outside the header are written with a dash everywhere else
opaque (24,27): 0x00001000 => opaque (24-27): 0x00001000
== cache-transfer
# a remark on how the sum is made
total body (8-11): 0x00000032 (50 bytes: 40 payload + 5 key + 5 value) => total body (8-11): 0x00000032
# the dump lacks 4 bytes of rev_seqno, so that everything behind it shifts; its key has no collection id
rev_seqno (40-47): 0x0000000000000005 => rev_seqno (40-47): 0x0000000500000000
value_len (48-51): 0x00000005 => value_len (48-51): 0x00000000
expiration (56-59): 0x00000000 => expiration (56-59): 0x0005000a
key_len (60-61): 0x0005 => key_len (60-61): 0x6865
datatype (62): 0x00 => datatype (62): 0x6c
cachehint (63): 0x0a => cachehint (63): 0x6c
key (64-68): hello => key (64-69): world
value (69-73): world =>
== control-response
# the dump is another message's: opcode 0x51, and 4 bytes of extras that are not there
DCP_CONTROL response => DCP_ADD_STREAM response
opcode (1): 0x5e => opcode (1): 0x51
== get-seqno-collection-replica
# 0 is shown by its short name
vb state (24-27): 0x00000000 (any alive state) => vb state (24-27): 0x00000000 (alive)
== get-seqno-collection
# the dump has 8, which is right: 8 bytes of extras
total body (8-11): 0x00000080 => total body (8-11): 0x00000008
== get-seqno-response
# offsets outside the header are written with a dash everywhere else
vb (24,25): 0x000a => vb (24-25): 0x000a
vb (34,35): 0x000d => vb (34-35): 0x000d
vb (44,45): 0x007f => vb (44-45): 0x007f
vb (54,55): 0x02d0 => vb (54-55): 0x02d0
== no-op
# the dump has a row too many, and another opaque than the table
opaque (12-15): 0x00000005 => opaque (12-15): 0x00000000
=> unexplained (24-27): 0x00000000
== open-connection
# a set of flags without any bit has no name here: the absence of 'producer' says consumer
flags (28-31): 0x00000000 (consumer) => flags (28-31): 0x00000000
== persist-seqno
# the dump has 16 bytes behind a header of 8; the table's key length is the vbucket
key length (2,3): 0x000c => key length (2,3): 0x0000
seqno (24-31): 0x00000000feeddeca => seqno (24-31): 0x00000000deadbeef
=> unexplained (32-39): 0x00000000feeddeca
== prepare
# opcode is that of a mutation in the dump (0x57 for 0x60)
DCP_PREPARE command => DCP_MUTATION command
opcode (1): 0x60 => opcode (1): 0x57
nru (52): 0 => nmeta (52-53): 0x0000
deleted (53): 0 =>
durability (54): 1 => nru (54): 0x01
# the value has 5 bytes, not 6
value (60-65): world => value (60-64): world
== random-key-response
# total body is 16 in the dump, 8 in the table and in the bytes
total body (8-11): 0x00000008 => total body (8-11): 0x00000010
== seed-system-event
# the page numbers the value's fields without naming them, and swaps collection and scope in its remarks
value (49-56): 0x0000000000000005 => manifest uid (49-56): 0x0000000000000005
(57-60): 0x00000008 => scope id (57-60): 0x00000008
(61-64): 0x00000000 => collection id (61-64): 0x00000000
(65-68): 0x00011940 => max ttl (65-68): 0x00011940
== seqno-advanced
# the dump is another message's: opcode 0x65 with extras length 4 and total body 0
DCP_SEQNO_ADVANCED command => DCP_OSO_SNAPSHOT command
opcode (1): 0x64 => opcode (1): 0x65
extra length (4): 0x8 => extra length (4): 0x04
total body (8-11): 0x00000008 => total body (8-11): 0x00000000
by_seqno (24-31): 0x0000000000000004 (start of a snapshot) => unexplained (24-31): 0x0000000000000004
== set-vbucket-state
# a byte has two digits
state (24): 0x4 (dead) => state (24): 0x04 (dead)
== stream-request-again
# the dump lacks the last 8 bytes
snapshot end seqno (64-71): 0x0000000000000000 =>
== stream-request
# snapshot start is 0xffeedd in the dump
snapshot start seqno (56-63): 0x0000000000000000 => snapshot start seqno (56-63): 0x0000000000ffeedd
== system-event
# the page numbers the value's fields without naming them, and swaps collection and scope in its remarks
value (49-56): 0x0000000000000002 => manifest uid (49-56): 0x0000000000000002
(57-60): 0x00000008 => scope id (57-60): 0x00000008
(61-64): 0x00000000 => collection id (61-64): 0x00000000
(65-68): 0x00011940 => max ttl (65-68): 0x00011940
""")

#: The results for examples that contradict themselves, and what differs even when they are mended.
MENDED = _read(r"""
== buffer-ack
! extras length 0 fits no layout of DCP_BUFFER_ACKNOWLEDGEMENT (4)
~ Extra length (4): 0x00 -> 0x04
== cache-transfer
! datatype 0x68 has no name
! items[0]: key needs 26725 bytes, 6 are left
! the frame is cut short: 74 bytes promised, 70 are there
! items[0]: key_len 26725 is not 2 to 251
== control-response
! the frame is cut short: 28 bytes promised, 24 are there
== control
! extras length 4 fits no layout of DCP_CONTROL (0)
! the header says 28 bytes, 39 are there: 11 are left over
~ Key length (2-3): 0x0000 -> 0x000b
~ Extra length (4): 0x04 -> 0x00
~ Total body (8-11): 0x00000004 -> 0x0000000f
# the lengths of the table are those of the dump
key length (2,3): 0x0000 => key length (2,3): 0x000b
extra length (4): 0x04 => extra length (4): 0x00
total body (8-11): 0x00000004 => total body (8-11): 0x0000000f
== deletion
! the header says 47 bytes, 51 are there: 4 are left over
~ Key length (2-3): 0x0005 -> 0x0008
~ Extra length (4): 0x12 -> 0x13
~ Total body (8-11): 0x00000017 -> 0x0000001b
# the lengths of the table are those of the dump; the key is the whole of it
key length (2,3): 0x0005 => key length (2,3): 0x0008
extra length (4): 0x12 => extra length (4): 0x13
total body (8-11): 0x00000017 => total body (8-11): 0x0000001b
# the key is all 8 bytes, collection and separator too, and clen is a field
=> clen (42): 0x01
key (43-50): hello => key (43-50): c::hello
== expiration
! the header says 47 bytes, 49 are there: 2 are left over
~ Extra length (4): 0x12 -> 0x14
~ Total body (8-11): 0x00000017 -> 0x00000019
# the lengths of the table are those of the dump
extra length (4): 0x12 => extra length (4): 0x14
total body (8-11): 0x00000017 => total body (8-11): 0x00000019
== no-op
! the header says 24 bytes, 28 are there: 4 are left over
== oso-snapshot
! extras length says 4 (byte 4) but total body leaves 0
! the header says 24 bytes, 28 are there: 4 are left over
~ Total body (8-11): 0x00000000 -> 0x00000004
# a byte has two digits
extra length (4): 0x4 => extra length (4): 0x04
# the same in other words
flags (24-27): 0x00000001 (start of a snapshot) => flags (24-27): 0x00000001 (start)
== persist-seqno
! the header says 32 bytes, 40 are there: 8 are left over
== random-key-response
! the frame is cut short: 40 bytes promised, 32 are there
== seed-mutation
! the header says 65 bytes, 69 are there: 4 are left over
~ Key length (2-3): 0x0005 -> 0x0008
~ Extra length (4): 0x1f -> 0x20
~ Total body (8-11): 0x00000029 -> 0x0000002d
~ clen (55): 0x07 -> 0x01
# the lengths of the table are those of the dump
key length (2,3): 0x0005 => key length (2,3): 0x0008
extra length (4): 0x1f => extra length (4): 0x20
total body (8-11): 0x00000029 => total body (8-11): 0x0000002d
# a byte has two digits
clen (55): 0x1 => clen (55): 0x01
== seed-snapshot-marker-older-v1 seed-snapshot-marker-v1 snapshot-marker-v1
! extras length says 20 (byte 4) but total body leaves 0
! the header says 24 bytes, 44 are there: 20 are left over
~ Total body (8-11): 0x00000000 -> 0x00000014
# bit 0x01 is memory, as the flags' own table says
snapshot type (40-43): 0x00000001 (disk) => snapshot type (40-43): 0x00000001 (memory)
== seed-snapshot-marker-older-v2.0 seed-snapshot-marker-v2.0 snapshot-marker-v2.0
! extras length says 20 (byte 4) but total body leaves 0
! the header says 24 bytes, 61 are there: 37 are left over
~ Extra length (4): 0x14 -> 0x01
~ Total body (8-11): 0x00000000 -> 0x00000025
~ Version (24): 0x01 -> 0x00
== seqno-advanced
! extras length says 4 (byte 4) but total body leaves 0
! the header says 24 bytes, 32 are there: 8 are left over
== stream-request-again
! the frame is cut short: 72 bytes promised, 64 are there
""")
