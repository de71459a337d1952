"""Provide a source of packets from an interface, until it is stopped, and the counts of its packets."""

import json
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from dcpdump.batch.ring_blocks import block_of
from dcpdump.capture.live import LiveQueue
from dcpdump.cli import exit as code
from dcpdump.cli import tls_notes
from dcpdump.cli.reading import Blocks, Consumer
from dcpdump.cli.signals import Stop
from dcpdump.cli.stderr import note
from dcpdump.cli.summary import balance, balance_line, nothing_found
from dcpdump.dissect import Dissector
from dcpdump.record import Json
from dcpdump.text import counted


class InterfaceSource:
    """A source of packets: an interface."""

    endless = True
    #: Files of which all bytes are there.
    names: Sequence[str] = ()

    def __init__(self, queue: LiveQueue, name: str) -> None:
        self._queue = queue
        self._name = name
        self.stop = Stop(queue.stop)

    def blocks(self) -> Blocks:
        """Yield the packets; None while nothing arrives. Raises LiveError, once all captured packets were yielded."""
        for batch in self._queue.batches():
            yield block_of(batch, self._name) if batch else None
        if self._queue.error is not None:
            raise self._queue.error

    def sum_up(self, dissection: Dissector, consumer: Consumer[Any], form: str, *, interrupted: bool) -> None:
        """Stop capturing, and write the run's summary on standard error; an interrupt is the usual end."""
        if form == "none":
            return
        self._queue.finish()
        counts = packet_counts(self._queue, dissection)
        passed_by(dissection, consumer, form, counts, drops_in_words(counts), carried=bool(counts["decoded"]))

    def status(self, _: Dissector) -> int:
        """Return the exit code: Ctrl-C is the usual end of a capture."""
        return self.stop.terminated or code.DONE


def passed_by(
    dissection: Dissector, consumer: Consumer[Any], form: str, counts: Json, line: str, *, carried: bool
) -> None:
    """Write what passed by, as ``counts`` or as a ``line``, and what was decoded. ``carried``: there was something."""
    if form == "json":
        note(json.dumps({**balance(dissection, (), consumer.frames), **counts}))
        return
    for each in (line, *tls_notes.lines(dissection)):
        note(each)
    if dissection.tally.frames:
        note(balance_line(dissection, consumer.frames, consumer.verb))
    elif carried:
        what, hint = nothing_found(dissection)
        note(f"dcpdump: note: {what}")
        note(f"hint: {hint}")


def packet_counts(queue: LiveQueue, dissector: Dissector) -> Json:
    """Return the number of packets by what was done with them.

    ``received`` is the sum of the fields after ``dropped_by_kernel``.
    """
    decoded = dissector.balance.packets
    return {
        "received": queue.received,
        "dropped_by_kernel": queue.dropped_by_kernel,
        "dropped_by_dcpdump": queue.dropped,
        "decoded": decoded,
        "not_looked_at": queue.received - queue.dropped - decoded,
    }


def drops_in_words(counts: Json) -> str:
    """Return the counts as one line."""
    words = [f"received {counted(counts['received'], 'packet')}"]
    arrived = counts["received"] + counts["dropped_by_kernel"]
    for who in ("kernel", "dcpdump"):
        lost = counts[f"dropped_by_{who}"]
        share = f" ({lost / arrived:.2%})" if lost else ""
        words.append(f"dropped by {'the ' if who == 'kernel' else ''}{who} {lost:,}{share}")
    words.append(f"decoded {counts['decoded']:,}")
    if counts["not_looked_at"]:
        words.append(f"not looked at {counts['not_looked_at']:,}")
    return " · ".join(words)


@contextmanager
def reporting(queue: LiveQueue, dissector: Dissector) -> Iterator[None]:
    """Report on SIGUSR1 the packet counts so far."""
    before = signal.signal(signal.SIGUSR1, lambda *_: note(drops_in_words(packet_counts(queue, dissector))))
    try:
        yield
    finally:
        signal.signal(signal.SIGUSR1, before)
