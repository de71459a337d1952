"""Make archives for the tests of the pipeline: what a few nodes rotate, with the usual damage.

They are the beginning of the archive that speed is measured with: several connections, segments that are late or
repeated.
"""

import gzip
import random
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path

from tests.bench.archives import packets as timeline
from tests.bench.captures import START_NS, STEP_NS
from tests.support.captures import Record, pcap, pcapng
from tests.support.packets import TcpTalk, flow


def records(count: int, connections: int = 3) -> list[Record]:
    """Return the first packets of an archive."""
    return [Record(START_NS + at * STEP_NS, packet) for at, packet in enumerate(islice(timeline(connections), count))]


def lossy(some: Iterable[Record]) -> list[Record]:
    """Return the packets, of which one in a hundred was not captured."""
    chance = random.Random(5)
    return [record for record in some if chance.random() > 0.01]


def with_tls(some: Sequence[Record]) -> list[Record]:
    """Return the packets with an encrypted connection beside the others."""
    talk = TcpTalk(flow("10.9.0.1:40000", "10.9.0.2:11207"))
    talk.send(0, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(506))
    for _ in range(len(some) // 100):
        talk.send(1, b"\x17\x03\x03\x04\x00" + bytes(1024))
    step = max(1, len(some) // len(talk.packets))
    others = [
        Record(some[at * step].ts_ns + 1, packet.data) for at, packet in enumerate(talk.packets[: len(some) // step])
    ]
    return sorted([*some, *others], key=lambda record: record.ts_ns)


def rotated(folder: Path, some: Sequence[Record], files: int, form: str = "pcap", name: str = "node") -> Path:
    """Return a folder with files of an equal number of packets each."""
    folder.mkdir(exist_ok=True)
    size = -(-len(some) // files)
    for number in range(files):
        mine = some[number * size : (number + 1) * size]
        data = pcapng(mine) if form == "pcapng" else pcap(mine, nano=True)
        path = folder / f"{name}-{number:03d}.{form}"
        path.write_bytes(gzip.compress(data, 1) if form == "pcap.gz" else data)
    return folder
