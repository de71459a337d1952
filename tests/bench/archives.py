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
from tests.bench.captures import START_NS, STEP_NS, Talk
from tests.support.captures import Record, pcap_header, pcap_record

#: Raised when what is written changes, so that an old archive is not taken for a new one.
VERSION = 3
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
            file.write(pcap_header())
            number += 1
        file.write(pcap_record(Record(START_NS + at * STEP_NS, packet)))
        if file.tell() >= room:
            file.close()
            file = None


def packets(connections: int) -> Iterator[bytes]:
    chance = random.Random(11)
    talks = [Talk(number, 1448) for number in range(connections)]
    mine = [range(64 * number % 1024, 64 * number % 1024 + 64) for number in range(connections)]
    for talk, vbuckets in zip(talks, mine, strict=True):
        yield from talk.begun(vbuckets)
    sources = [_documents(random.Random(number), vbuckets) for number, vbuckets in enumerate(mine)]
    while True:
        for talk, source in zip(talks, sources, strict=True):
            run = b"".join(next(source) for _ in range(BURST))
            yield from _disturbed(list(talk.sent(1, run)), chance)
            yield from talk.sent(0, encode("DCP_BUFFER_ACKNOWLEDGEMENT", {"buffer_bytes": len(run)}))


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
    values = [b'{"n":%d,"text":"' % number + b"x" * chance.randint(700, 1100) + b'"}' for number in range(_POOL)]
    given = {"by_seqno": 1, "rev_seqno": 1}
    key = b"\x08" + _KEY % 0
    pool = [bytearray(encode("DCP_MUTATION", given, layout="1", key=key, value=value, datatype=1)) for value in values]
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
