"""Shift the packets of one direction of captured conversations against those of the other, as some captures do.

Queues of a network card, ports of a tap and captures that were merged keep the order of each direction.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from dcpdump.net.packet import Packet
from tests.support.conversation import Said, opening

#: So many packets, at most, is one direction captured behind the other.
MOST = 12
_HANDSHAKE = 3
#: Frames are sent at once that are nearer in time than this.
_APART_NS = 1_000_000_000
_SERVER = (11_210).to_bytes(2, "big")


class Shift(NamedTuple):
    """How a capture is out of order."""

    direction: int  #: that is captured late: 0 is what clients send
    most: int  #: packets by which it is late, at most
    steady: bool  #: all of it by as many
    stamped: bool  #: packets have the times at which they were captured, or else those at which they were sent
    seed: int


def shifts(count: int) -> Iterator[Shift]:
    """Yield some shifts of every kind."""
    chance = random.Random(count)
    for seed in range(count):
        yield Shift(seed & 1, chance.randint(1, MOST), bool(seed & 2), bool(seed & 4) or seed < count // 2, seed)


def shifted(captured: Sequence[Packet], shift: Shift) -> list[Packet]:
    """Return captured packets with one direction late."""
    chance = random.Random(shift.seed)
    latest: dict[bytes, float] = {}
    met: dict[bytes, int] = {}
    places: list[tuple[float, int]] = []
    for at, packet in enumerate(captured):
        ports = packet.data[34:38]
        both = min(ports, ports[2:] + ports[:2])
        met[both] = met.get(both, 0) + 1
        late = shift.most if shift.steady else chance.randint(0, shift.most)
        if met[both] <= _HANDSHAKE or (ports[2:] == _SERVER) is (shift.direction == 1):
            late = 0
        place = latest[ports] = max(latest.get(ports, 0.0), at + late)
        places.append((place, at))
    order = [at for _, at in sorted(places)]
    times = [packet.ts_ns for packet in captured] if shift.stamped else [captured[at].ts_ns for at in order]
    return [
        captured[at]._replace(number=number, ts_ns=ts_ns)
        for number, (at, ts_ns) in enumerate(zip(order, times, strict=True), 1)
    ]


def joined(frames: Sequence[Said], size: int) -> list[Said]:
    """Put frames of a direction that follow one another at once into segments of so many bytes, at most.

    The segments follow one another as fast as single frames would.
    """
    out: list[Said] = []
    sent_ns = 0
    for before, frame in zip((None, *frames), frames, strict=False):
        last = out[-1] if out else None
        apart_ns = 0 if before is None else frame.ts_ns - before.ts_ns
        if (
            last is not None
            and (last.connection, last.direction, last.flags) == (frame.connection, frame.direction, frame.flags)
            and apart_ns < _APART_NS
            and len(last.data) + len(frame.data) <= size
        ):
            last.data += frame.data
        else:
            sent_ns = frame.ts_ns if last is None else sent_ns + apart_ns
            out.append(replace(frame, ts_ns=sent_ns))
    return out


# -- conversations with many frames -------------------------------------------------------------------------


def _items(where: str, first: int, last: int, marker: str = "flags=0x6") -> str:
    text = f"RX snapshot-marker{{{where}, start={first - 1}, end={last}, {marker}}}\n"
    return text + "".join(
        f"RX mutation{{{where}, seqno={each}, key=#00{each:04x}}}\n" for each in range(first, last + 1)
    )


def _pipelined() -> str:
    """Return requests that are sent at once, and what is granted."""
    text, answers = opening(collections=True), ""
    for vbucket in range(20):
        text += f"TX stream-request{{vb={vbucket}, opaque={vbucket}, end=40}}\n"
        answers += f"RX stream-request-response{{success, opaque={vbucket}}}\n"
    ended = (_items(f"vb={at}, opaque={at}", 1, 40) + f"RX stream-end{{vb={at}, opaque={at}}}\n" for at in range(20))
    return text + answers + "".join(ended)


def _one_by_one(opaque: int | None = None) -> str:
    """Return streams each of which is asked for when the one before has ended, with markers that were agreed on."""
    text = opening(collections=True, controls="max_marker_version=2.2, set_noop_interval=20")
    for vbucket in range(12):
        where = f"vb={vbucket}, opaque={vbucket if opaque is None else opaque}"
        text += f"STREAM {where}, end=40\n" + _items(where, 1, 40, "flags=0x6, layout=2.2, max-visible-seqno=40")
        text += f"RX stream-end{{{where}, status=0}}\nRX noop\nTX noop-response{{success}}\n"
    return text


def _again() -> str:
    """Return streams that are closed, rolled back, granted and refused."""
    text = opening(collections=True, controls="send_stream_end_on_client_close_stream=true")
    for vbucket in range(8):
        first, second, third = (f"vb={vbucket}, opaque={number + vbucket}" for number in (0x1000, 0x2000, 0x3000))
        close = f"{{vb={vbucket}, opaque={0x4000 + vbucket}}}"
        text += f"STREAM {first}\n" + _items(first, 1, 30) + f"TX close-stream{close}\n"
        text += f"RX close-stream-response{{success, opaque={0x4000 + vbucket}}}\nRX stream-end{{{first}, status=1}}\n"
        text += f"TX stream-request{{{second}, start=50}}\n"
        text += f"RX stream-request-response{{rollback, opaque={0x2000 + vbucket}, rollback-seqno=30}}\n"
        text += f"STREAM {third}, start=30\n" + _items(third, 31, 60) + f"RX stream-end{{{third}, status=2}}\n"
        text += f"TX stream-request{{{first}, start=60}}\n"
        text += f"RX stream-request-response{{notmyvbucket, opaque={0x1000 + vbucket}}}\n"
    return text


LONG = {
    "pipelined": _pipelined(),
    "one by one": _one_by_one(),
    "one opaque": _one_by_one(0x77),
    "asked for again": _again(),
}
