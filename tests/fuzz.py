"""Fuzz by mutation: healthy input of every kind, damaged again and again, must never raise, hang or lose a byte.

    python -m tests.fuzz --minutes 10 --seed 7 [--target links]
    python -m tests.fuzz --replay links-7-1234

A mutant is made from target, seed and number alone: of a failing one they are printed.
"""

import argparse
import itertools
import os
import random
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from dcpdump.annotate import annotate
from dcpdump.capture.file import Capture
from dcpdump.dissect import Dissector
from dcpdump.errors import CaptureError, PasteError
from dcpdump.net.connections import Connections
from dcpdump.net.limits import Limits
from dcpdump.net.packet import Packet
from dcpdump.paste import read_paste
from dcpdump.record import Record, as_json
from dcpdump.redact import Redactor
from dcpdump.render import OUTPUTS, View
from dcpdump.render.style import Palette
from dcpdump.wire.decode import decode
from dcpdump.wire.encode import encode
from dcpdump.wire.frame import RawFrame
from dcpdump.wire.session import Session
from dcpdump.wire.split import FrameSplitter
from tests.net.test_link import ENCAPSULATIONS
from tests.support import captures
from tests.support.balances import accounted
from tests.support.packets import TcpTalk, packet
from tests.support.paste_forms import FORMS, MORE
from tests.support.strategies import SHAPES

#: Seconds of processor time after which one mutant counts as stuck.
PATIENCE = 2.0
#: Numbers that lengths lie with.
LIES = (
    *(0, 1, 2, 3, 4, 23, 24, 25, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF),
    *(1 << 20, 1 << 24, (1 << 31) - 1, 1 << 31, (1 << 32) - 1),
)
SAMPLES = sorted(Path(__file__).parent.parent.glob("samples/*.pcap"))
PLAIN = Palette(False)


class TooSlow(BaseException):
    """A mutant took more than PATIENCE. Not an Exception, so that nothing takes it for damage."""


class Unbalanced(Exception):
    """The counters do not balance: a payload byte was lost silently."""


class Target(NamedTuple):
    """An entry point: healthy inputs, and what takes a mutant of one. ``way`` chooses among variants."""

    seeds: list[bytes]
    run: Callable[[bytes, int], None]
    share: int  #: of a hundred mutants


class Failure(NamedTuple):
    """A mutant that something was wrong with."""

    name: str  #: which is all that is needed to make it again
    why: str


# -- mutation -----------------------------------------------------------------------------------------------


def mutate(data: bytes, dice: random.Random, others: list[bytes]) -> bytes:
    """Damage bytes in one to four places, as disks, wires, bad tools and bad people do."""
    out = bytearray(data)
    for _ in range(dice.choice((1, 1, 1, 2, 4))):
        at = dice.randrange(len(out) + 1)
        span = dice.choice((1, 2, 4, 8, 16, 64, 300))
        match dice.randrange(9):
            case 0 if out:
                out[at - 1] ^= 1 << dice.randrange(8)
            case 1:
                out[at : at + span] = dice.randbytes(len(out[at : at + span]))
            case 2:
                del out[at:]
            case 3:
                del out[at : at + span]
            case 4:
                out[at:at] = dice.choice((bytes(span), b"\xff" * span, dice.randbytes(span)))
            case 5 | 6:
                width = dice.choice((1, 2, 4, 8))
                lie = dice.choice(LIES) & (1 << 8 * width) - 1
                out[at : at + width] = lie.to_bytes(width, dice.choice(("big", "little")))
            case 7:
                there = dice.randrange(len(out) + 1)
                out[there:there] = out[at : at + dice.choice((24, 64, 1500))]
            case _:
                other = dice.choice(others)
                out[at:] = other[dice.randrange(len(other) + 1) :][:65_536]
    return bytes(out)


# -- targets ------------------------------------------------------------------------------------------------


def _conversation() -> bytes:
    """Return one of every frame that the table has, as a connection may carry them."""
    return encode("HELLO", key=b"fuzz") + b"".join(_wires())


def _wires() -> list[bytes]:
    wires = []
    for number, (message, layout, response) in enumerate(SHAPES):
        values = {name: fact for name, fact in layout.when.items() if name in {field.name for field in layout.extras}}
        plain = not isinstance(layout.value, tuple)
        wires.append(
            encode(
                message,
                values,
                response=response,
                layout=layout.version,
                key=b"\x08key::%d" % number if layout.key.value != "never" else b"",
                value=b'{"a":[1,2.5,"x"]}' if plain and layout.value.value != "never" else b"",  # type: ignore[union-attr]
                status=layout.when.get("status", 0x04 if layout.version == "error" else 0),
                vbucket=number % 1024,
                opaque=number % 7,
                datatype=number % 8 if message.document else 0,
                stream_id=number if number % 3 == 0 and not response else None,
            )
        )
    return wires


def _pcapng() -> bytes:
    write = captures.Pcapng()
    frames = [each.data for each in TcpTalk(segment=300).send(0, _conversation()[:3000])]
    blocks = [write.section([(4, b"fuzz")]), write.interface(1, 0, [(9, b"\x09"), (14, bytes(8))])]
    blocks += [write.packet(1_763_640_000_000_000_000 + number, data) for number, data in enumerate(frames[:8])]
    blocks += [write.interface(101), write.simple_packet(frames[3]), write.old_packet(5, frames[4][14:], 1)]
    blocks += [write.statistics(0, [(5, bytes(8))]), write.block(10, bytes(20)), write.block(0x0BAD, b"custom..")]
    return b"".join(blocks)


def _read_container(data: bytes, way: int) -> None:
    path = os.path.join(tempfile.gettempdir(), f"dcpdump-fuzz-{os.getpid()}.pcap")
    with open(path, "wb") as file:
        file.write(data)
    machine = Dissector(SMALL)
    records = []
    try:
        with Capture(path, salvage=bool(way & 1)) as capture:
            for each in capture:
                records += machine.feed(each)
        records += machine.close()
        _balanced(machine)
    except CaptureError as error:
        str(error)
    finally:
        os.unlink(path)
    _show(records, way, every=8)


#: Limits low enough for small mutants to reach them.
SMALL = Limits(
    fragments=64,
    connections=32,
    memory=64 * 1024,
    pending_bytes=16 * 1024,
    pending_segments=64,
    patience_bytes=4 * 1024,
    history=8 * 1024,
)


def _feed_link(data: bytes, way: int) -> None:
    link_type, body = int.from_bytes(data[:2], "big"), data[2:]
    machine = Connections()
    wire = len(body) + (way >> 4) * (way & 1)
    machine.feed(packet(body, link_type=link_type, wire_length=wire))
    machine.feed(packet(body[::-1], link_type=link_type, wire_length=wire))
    machine.close()
    if machine.counts.payload_bytes != accounted(machine.counts):
        raise Unbalanced(str(machine.counts))


def _feed_packets(data: bytes, way: int) -> None:
    """Take packets as 2 bytes of length and 1 of milliseconds, then the packet; their order is the mutant's."""
    machine = Dissector(SMALL if way & 1 else Limits())
    at, number, now = 0, 0, 1_763_640_000_000_000_000
    records = []
    while at + 3 <= len(data):
        size, now, number = int.from_bytes(data[at : at + 2], "big"), now + data[at + 2] * 1_000_000, number + 1
        body = data[at + 3 : at + 3 + size]
        wire = len(body) + (40 if number % 5 == 0 and way & 2 else 0)
        records += machine.feed(Packet(number, None if way & 12 == 12 else now, 1, body, wire))
        at += 3 + size
    _show(records + machine.close(), way, every=8)
    _balanced(machine)


def _packed(some: Iterator[Packet] | list[Packet]) -> bytes:
    return b"".join(len(each.data).to_bytes(2, "big") + b"\x01" + each.data for each in some)


def _situations() -> list[bytes]:
    frames = b"".join(encode("DCP_MUTATION", {"by_seqno": n}, key=b"key%d" % n, value=b"v" * n) for n in range(12))
    whole = TcpTalk(segment=200).send(0, encode("DCP_OPEN", key=b"me")).send(1, frames).fin().packets
    swapped = list(itertools.chain.from_iterable(zip(whole[1::2], whole[::2], strict=False)))
    late = TcpTalk(segment=100, syn=False).send(1, frames[30:]).packets
    silent = TcpTalk(segment=64, acks=False).send(0, frames).skip(0, 90).send(0, frames).rst().packets
    wrapped = TcpTalk(segment=90, isn=((1 << 32) - 300, (1 << 32) - 9)).send(1, frames).fin().packets
    return [_packed(some) for some in (whole, swapped, late, silent, wrapped, whole + whole, whole[:5] + whole[7:])]


def _feed_frames(data: bytes, way: int) -> None:
    session = Session()
    splitter = FrameSplitter(lambda: session, joined_late=bool(way & 1))
    step = (1 << 20, 1 << 20, 1 << 20, 65, 7)[way % 5]
    cuts = []
    for at in range(0, len(data), step):
        cuts += splitter.feed(data[at : at + step])
        if way & 64 and at == step:
            cuts += splitter.gap(way)
    cuts += splitter.close()
    records = []
    for number, raw in enumerate((cut for cut in cuts if isinstance(cut, RawFrame)), 1):
        frame = decode(raw, show_secrets=bool(way & 2))
        interpretation = session.understand(frame, number, way & 1)
        records.append(
            Record(
                number,
                frame,
                interpretation.content,
                interpretation.vbucket,
                interpretation.request,
                0,
                0,
                "a:1",
                "b:2",
            )
        )
    _show(records, way)


def _read_paste(data: bytes, way: int) -> None:
    try:
        pasted = read_paste(data if way & 1 else data.decode("utf-8", "replace"))
    except PasteError as error:
        str(error)
        return
    for explained in annotate(pasted.parts, show_secrets=bool(way & 2)):
        _show([explained.record], way, every=16)
        if explained.suggestion is not None:
            _show([explained.suggestion.record], way)


_FORMATS = list(OUTPUTS.values())
_REDACTORS = (None, None, Redactor(b"salt"), Redactor(b"salt", full=True))


def _show(records: list[Record], way: int, *, every: int = 1) -> None:
    """Show records, or one in ``every`` so many, in one of the formats, chosen by ``way``, and as JSON."""
    output = _FORMATS[way % len(_FORMATS)]
    view = View((None, 64, 0)[way % 3], PLAIN)
    redactor = _REDACTORS[way // 8 % 4]
    for record in records[::every]:
        shown = redactor.record(record) if redactor else record
        output.write(shown, view)
        as_json(shown)


def _balanced(machine: Dissector) -> None:
    counts = machine.balance
    if counts.payload_bytes != accounted(counts):
        raise Unbalanced(str(counts))


def targets() -> dict[str, Target]:
    """Return all entry points. Making the seeds takes a moment."""
    wires = _wires()
    talk = [
        captures.Record(each.ts_ns or 0, each.data) for each in TcpTalk(segment=500).send(0, _conversation()[:2500])
    ]
    containers = [path.read_bytes() for path in SAMPLES]
    containers += [_pcapng(), captures.pcapng(talk[:6], big_endian=True), captures.pcap(talk[:6], nano=True)]
    links = [link_type.to_bytes(2, "big") + data for link_type, data in ENCAPSULATIONS.values()]
    frames = [*wires, *(b"".join(wires[at : at + 4]) for at in range(0, len(wires), 4))]
    paste = encode("DCP_MUTATION", {"by_seqno": 4}, key=b"hello", value=b"world", vbucket=528)
    return {
        "containers": Target(containers, _read_container, 2),
        "links": Target(links, _feed_link, 68),
        "packets": Target(_situations(), _feed_packets, 3),
        "frames": Target(frames, _feed_frames, 23),
        "pastes": Target([form(paste).encode() for form in (*FORMS.values(), *MORE.values())], _read_paste, 4),
    }


# -- running ------------------------------------------------------------------------------------------------


@contextmanager
def watched() -> Iterator[None]:
    """Raise TooSlow in whatever takes too much processor time."""

    def stop(*_: object) -> None:
        raise TooSlow

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, PATIENCE)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def mutant(target: Target, name: str, seed: int, number: int) -> tuple[bytes, int]:
    """Make a mutant, and the way in which it is to be taken: the same ones whenever it is asked."""
    dice = random.Random(f"{seed} {name} {number}")
    return mutate(dice.choice(target.seeds), dice, target.seeds), dice.randrange(256)


def failures(name: str, target: Target, seed: int, numbers: Iterable[int]) -> Iterator[Failure]:
    """Try mutants. Only what the entry points document may be raised, and that they catch themselves."""
    for number in numbers:
        data, way = mutant(target, name, seed, number)
        try:
            with watched():
                target.run(data, way)
        except TooSlow:
            yield Failure(f"{name}-{seed}-{number}", f"took more than {PATIENCE} s\n{traceback.format_exc()}")
        except Exception:
            yield Failure(f"{name}-{seed}-{number}", traceback.format_exc())


def main() -> int:
    """Fuzz for a while, or one mutant again."""
    every = targets()
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--target", choices=every)
    parser.add_argument("--replay", metavar="NAME", help="try the mutant of this name again")
    given = parser.parse_args()
    if given.replay:
        name, seed, number = given.replay.split("-")
        failed = list(failures(name, every[name], int(seed), [int(number)]))
        print(failed[0].why if failed else "nothing is wrong with it")
        return len(failed)
    until = time.monotonic() + 60 * given.minutes
    done = failed_mutants = 0
    for start in itertools.count(0, 100):
        for name in [given.target] if given.target else every:
            share = every[name].share
            numbers = range(start * share // 100, (start + 100) * share // 100)
            for failure in failures(name, every[name], given.seed, numbers):
                print(f"{failure.name}\n{failure.why}", flush=True)
                failed_mutants += 1
            done += share
        if time.monotonic() > until:
            break
    print(f"{done:,} mutants, {failed_mutants} failures")
    return int(failed_mutants > 0)


if __name__ == "__main__":
    sys.exit(main())
