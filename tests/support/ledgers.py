"""Make the ledger of a conversation, as tests need it."""

from collections.abc import Iterable
from itertools import accumulate
from typing import Any

from dcpdump.net.packet import Packet
from dcpdump.streams.dissection import EndsWatching, RunDissection, Watching
from dcpdump.streams.feed import Feed
from dcpdump.streams.ledger import Ledger
from dcpdump.streams.stream import Stream
from dcpdump.streams.verdict import Judge
from tests.support.conversation import frames_in, packets, said
from tests.support.pieces import told


def ledger_of(captured: Iterable[Packet], *, runs: bool = False, columns: bool = True) -> Ledger:
    """Return the ledger of captured packets, closed: fed frame by frame, or with runs, found in columns or without."""
    dissection: EndsWatching[Any] = Watching() if columns else RunDissection()
    ledger = Ledger()
    feed = Feed(dissection, ledger)
    for step in told(feed, dissection, captured, runs=runs):
        ledger.feed_step(step)
    feed.close()
    return ledger


def ledger(text: str) -> Ledger:
    """Return the ledger of a conversation."""
    return ledger_of(packets(said(text)))


def captured(text: str) -> list[Packet]:
    """Return the packets of a conversation that were captured: not those of lines that begin with a minus.

    A line of minuses is where the capture begins.
    """
    lines = [line.strip() for line in text.strip().splitlines()]
    begins = next((at for at, line in enumerate(lines) if line == "----"), 0)
    lines = [line.removeprefix("----") for line in lines]
    plain = [line.removeprefix("-") for line in lines]
    counts = list(accumulate(map(frames_in, plain), initial=0))
    lost = {frame for at, line in enumerate(lines) if line.startswith("-") for frame in range(*counts[at : at + 2])}
    frames, out, met = said("\n".join(plain)), [], set()
    rest = iter(packets(frames))
    for number, frame in enumerate(frames):
        shakes = () if frame.connection in met else (next(rest), next(rest), next(rest))
        met.add(frame.connection)
        packet = next(rest)
        if number >= counts[begins]:
            out += [*shakes, *(() if number in lost else (packet,))]
    return out


def damaged(text: str) -> Ledger:
    """Return the ledger of what was captured of a conversation, written as ``captured`` has it."""
    return ledger_of(captured(text))


def verdicts(text: str) -> list[str]:
    """Return the verdicts on the streams of a conversation, in words."""
    kept = ledger(text)
    judge = Judge(kept)
    return [judge.verdict(stream).text for stream in kept.streams]


def judged(text: str) -> list[str]:
    """Return the verdicts on the streams in what was captured of a conversation: "wrong: stuck (…)", "quiet (…)"."""
    judge = Judge(damaged(text))
    found = [judge.verdict(stream) for stream in judge.ledger.streams]
    return [f"{each.degree.value}: {each.text}" if each.degree else each.text for each in found]


def only(kept: Ledger) -> Stream:
    """Return the only stream of a ledger."""
    (stream,) = kept.streams
    return stream
