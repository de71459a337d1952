"""Archives to measure the pipeline with: rotated files of many connections, and one file of a single connection.

Frames of about a kilobyte in segments of 1,448 bytes, a few of them out of order or sent again: conversations in which
no rule is broken. The same bytes every time.
"""

import os
import random
import struct
from collections.abc import Iterator
from pathlib import Path

from dcpdump.wire.encode import encode
from tests.bench.captures import START_NS, STEP_NS, Talk, opening

#: Raised when what is written changes, so that an old archive is not taken for a new one.
VERSION = 2
BURST = 32
_POOL = 512  #: documents that are sent again and again under new seqnos
_SEQNO = struct.Struct(">Q")
_KEY, _KEY_AT = b"user::%08d", 24 + 31 + 1


def archive(folder: Path, size: int, files: int, connections: int) -> list[Path]:
    """Return the files of an archive of about ``size`` bytes, made if they are not there yet."""
    home = folder / f"archive-{size}-{files}-{connections}-v{VERSION}"
    if not home.exists():
        part = home.with_suffix(".part")
        part.mkdir(parents=True, exist_ok=True)
        _make(part, size, files, connections)
        os.replace(part, home)
    return sorted(home.iterdir())


def _make(folder: Path, size: int, files: int, connections: int) -> None:
    number, room = 0, size // files
    file = None
    for at, packet in enumerate(packets(connections)):
        if file is None:
            if number == files:
                return
            file = (folder / f"node-{number:03d}.pcap").open("wb")
            file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262_144, 1))
            number += 1
        seconds, ns = divmod(START_NS + at * STEP_NS, 1_000_000_000)
        file.write(struct.pack("<IIII", seconds, ns // 1000, len(packet), len(packet)) + packet)
        if file.tell() >= room:
            file.close()
            file = None


def packets(connections: int) -> Iterator[bytes]:
    chance = random.Random(11)
    talks = [Talk(number, 1448) for number in range(connections)]
    mine = [range(64 * number % 1024, 64 * number % 1024 + 64) for number in range(connections)]
    for talk, vbuckets in zip(talks, mine, strict=True):
        yield from talk.opened()
        for asked, answered in opening(vbuckets):
            yield from talk.sent(0, asked)
            yield from talk.sent(1, answered)
    sources = [_documents(random.Random(number), vbuckets) for number, vbuckets in enumerate(mine)]
    while True:
        for talk, source in zip(talks, sources, strict=True):
            run = b"".join(next(source) for _ in range(BURST))
            yield from _disturbed(list(talk.sent(1, run)), chance)
            acknowledged = encode("DCP_BUFFER_ACKNOWLEDGEMENT", {"buffer_bytes": len(run)})
            yield from talk.sent(0, acknowledged)


def _disturbed(packets: list[bytes], chance: random.Random) -> list[bytes]:
    """Return the packets with one segment in a hundred late, and one in two hundred repeated."""
    out: list[bytes] = []
    for packet in packets:
        luck = chance.random()
        if luck < 0.01 and out:
            out.insert(len(out) - 1, packet)
        else:
            out.append(packet)
        if luck > 0.995:
            out.append(packet)
    return out


def _documents(chance: random.Random, vbuckets: range) -> Iterator[bytes]:
    """Yield frames: snapshots of 64 documents."""
    pool = [
        bytearray(
            encode(
                "DCP_MUTATION",
                {"by_seqno": 1, "rev_seqno": 1},
                layout="1",
                key=b"\x08" + _KEY % 0,
                value=b'{"n":%d,"text":"' % number + b"x" * chance.randint(700, 1100) + b'"}',
                datatype=1,
            )
        )
        for number in range(_POOL)
    ]
    seqnos = dict.fromkeys(vbuckets, 0)
    while True:
        vbucket = chance.choice(vbuckets)
        opaque, first = 0x1000 + vbucket, seqnos[vbucket] + 1
        marker = {"start_seqno": first, "end_seqno": first + 63, "snapshot_type": 1}
        yield encode("DCP_SNAPSHOT_MARKER", marker, layout="1", vbucket=vbucket, opaque=opaque)
        for seqno in range(first, first + 64):
            frame = pool[chance.randrange(_POOL)]
            struct.pack_into(">H", frame, 6, vbucket)
            struct.pack_into(">I", frame, 12, opaque)
            _SEQNO.pack_into(frame, 24, seqno)
            frame[_KEY_AT : _KEY_AT + len(_KEY % 0)] = _KEY % seqno
            yield bytes(frame)
        seqnos[vbucket] += 64
