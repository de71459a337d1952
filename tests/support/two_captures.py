"""Make two captures of one connection: at two places, by two clocks, behind NAT, with other segments."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from dcpdump.net.packet import Packet
from tests.support.captures import pcap, records_of
from tests.support.console import Printed, run
from tests.support.conversation import Said, opening
from tests.support.packets import TcpTalk, flow

MS = 1_000_000
CAS = 0x1763_0000_0000_0000  #: of a document: plus its seqno


class Place(NamedTuple):
    """Where and how a capture is taken. Times are those of the frames plus ``clock_ns``, and what each way takes."""

    src: str = "10.0.0.9:50000"
    dst: str = "10.0.0.1:11210"
    clock_ns: int = 0
    ways_ns: tuple[int, int] = (0, 0)  #: how much later frames of direction 0 and of direction 1 pass
    segment: int = 1448
    merge: bool = False  #: frames that follow one another in a direction are sent together
    syn: bool = True


#: The producer's end of a connection, and the consumer's: 2 ms away, behind NAT, with a clock 5 s ahead.
PRODUCER = Place(ways_ns=(2 * MS, 0))
CONSUMER = Place("192.168.7.7:41000", "10.0.0.1:11210", 5_000 * MS, (0, 2 * MS), 700, merge=True)


def mutations(seqnos: Sequence[int], vbucket: int = 7, value: str = "v") -> str:
    """Return mutations of a stream, as a conversation."""
    return "".join(
        f"RX mutation{{vb={vbucket}, seqno:{each}, cas={CAS + each}, key=k{each}, value={value}{each}}}\n"
        for each in seqnos
    )


def stream(seqnos: Sequence[int], vbucket: int = 7, value: str = "v") -> str:
    """Return a connection with one stream, as a conversation."""
    marker = f"RX snapshot-marker{{vb={vbucket}, start=0, end={max(seqnos, default=0)}, flags=0x1}}\n"
    return opening() + f"STREAM vb={vbucket}\n" + marker + mutations(seqnos, vbucket, value)


def captured(frames: Sequence[Said], place: Place) -> list[Packet]:
    """Return the packets of frames of one connection, as they pass a place."""
    talk = TcpTalk(flow(place.src, place.dst), segment=place.segment, syn=place.syn, step_ns=0, start_ns=0)
    now = 0
    groups: list[list[Said]] = []
    for each in frames:
        alike = groups and groups[-1][0].direction == each.direction and each.ts_ns - groups[-1][0].ts_ns < 4 * MS
        if place.merge and alike:
            groups[-1].append(each)
        else:
            groups.append([each])
    for group in groups:
        when = group[-1].ts_ns + place.clock_ns + place.ways_ns[group[0].direction]
        talk.wait(when - now)
        now = when
        talk.send(group[0].direction, b"".join(each.data for each in group))
    return talk.packets


def written(packets: Sequence[Packet], path: Path) -> Path:
    """Write packets to a capture."""
    path.write_bytes(pcap(records_of(packets), nano=True))
    return path


def compared(folder: Path, a: Sequence[Packet], b: Sequence[Packet], options: str = "") -> Printed:
    """Run ``dcpdump diff`` on two captures."""
    first, second = written(a, folder / "a.pcap"), written(b, folder / "b.pcap")
    return run(f"dcpdump diff {first} {second} -q {options}")


def rows(printed: Printed, kind: str) -> list[dict[str, Any]]:
    """Return the rows of one type."""
    return [row for row in map(json.loads, printed.out.splitlines()) if row["type"] == kind]
