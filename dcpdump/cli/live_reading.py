"""Live: what an interface brings until it is stopped, as a source of readings; and its books."""

import json
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from dcpdump.batch.ring_blocks import block_of
from dcpdump.capture.live_queue import LiveQueue
from dcpdump.cli import exit as code
from dcpdump.cli import tls_notes
from dcpdump.cli.reading import Blocks, Consumer
from dcpdump.cli.signals import Stop
from dcpdump.cli.stderr import note
from dcpdump.cli.summary import balance, balance_line, nothing_found
from dcpdump.dissect import Dissector
from dcpdump.record import Json


class InterfaceSource:
    """A source: what an interface brings."""

    endless = True
    #: Files of which all bytes are there.
    names: Sequence[str] = ()

    def __init__(self, intake: LiveQueue, name: str) -> None:
        self._intake = intake
        self._name = name
        self.stop = Stop(intake.stop)

    def blocks(self) -> Blocks:
        """Yield the packets; None when there is nothing just now. Raises LiveError, once all that came is given."""
        for batch in self._intake.batches():
            yield block_of(batch, self._name) if batch else None
        if self._intake.error is not None:
            raise self._intake.error

    def sum_up(self, dissection: Dissector, consumer: Consumer[Any], form: str, *, interrupted: bool) -> None:
        """Stop the intake, and write on standard error what a run came to; to interrupt it is how it usually ends."""
        if form == "none":
            return
        self._intake.finish()
        counts = books(self._intake, dissection)
        if form == "json":
            note(json.dumps({**balance(dissection, (), consumer.frames), **counts}))
            return
        note(counted(counts))
        for line in tls_notes.lines(dissection):
            note(line)
        if dissection.tally.frames:
            note(balance_line(dissection, consumer.frames, consumer.verb))
        elif counts["decoded"]:
            what, hint = nothing_found(dissection)
            note(f"dcpdump: note: {what}")
            note(f"hint: {hint}")

    def status(self, _: Dissector) -> int:
        """Return the exit code: Ctrl-C is how a capture usually ends."""
        return code.TERMINATED if self.stop.status == code.TERMINATED else code.DONE


def books(intake: LiveQueue, dissector: Dissector) -> Json:
    """It accounts for all packets: ``received`` is the sum of what follows ``dropped_by_kernel``."""
    decoded = dissector.balance.packets
    return {
        "received": intake.received,
        "dropped_by_kernel": intake.dropped_by_kernel,
        "dropped_by_dcpdump": intake.dropped,
        "decoded": decoded,
        "not_looked_at": intake.received - intake.dropped - decoded,
    }


def counted(counts: Json) -> str:
    """It writes the books in one line."""
    words = [f"received {counts['received']:,} packet{'' if counts['received'] == 1 else 's'}"]
    came = counts["received"] + counts["dropped_by_kernel"]
    for who in ("kernel", "dcpdump"):
        lost = counts[f"dropped_by_{who}"]
        share = f" ({lost / came:.2%})" if lost else ""
        words.append(f"dropped by {'the ' if who == 'kernel' else ''}{who} {lost:,}{share}")
    words.append(f"decoded {counts['decoded']:,}")
    if counts["not_looked_at"]:
        words.append(f"not looked at {counts['not_looked_at']:,}")
    return " · ".join(words)


@contextmanager
def telling(intake: LiveQueue, dissector: Dissector) -> Iterator[None]:
    """Have SIGUSR1 report what became of all packets so far."""
    before = signal.signal(signal.SIGUSR1, lambda *_: note(counted(books(intake, dissector))))
    try:
        yield
    finally:
        signal.signal(signal.SIGUSR1, before)
