"""Reading live: the same reading, of what an interface brings until it is stopped; and its books."""

import gc
import json
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from dcpdump.capture.intake import Intake
from dcpdump.cli import exit as code
from dcpdump.cli.bulk import BulkReading
from dcpdump.cli.notes import note
from dcpdump.cli.stop import Stop
from dcpdump.cli.summary import SHOWN, balance, balance_line, nothing_found
from dcpdump.columnar.block import Block
from dcpdump.columnar.ring import block_of
from dcpdump.dissect import Dissector
from dcpdump.record import Json


class LiveReading(BulkReading):
    """A BulkReading of an interface."""

    def __init__(self, intake: Intake, name: str, *arguments: Any, **options: Any) -> None:
        super().__init__((), *arguments, **options)
        self._intake = intake
        self._name = name

    @property
    def told(self) -> str:
        """What became of all packets so far, in words."""
        return counted(books(self._intake, self._dissector))

    def _read(self) -> None:
        gc.freeze()  # what is there by now stays; what comes may go in circles, for days
        self._read_blocks()

    def _blocks(self) -> Iterator[Block | None]:
        return live_blocks(self._intake, self._name)

    def _sum_up(self, summary: str) -> None:
        if summary != "none":
            sum_up(self._intake, self._dissector, self._shown, summary)


def live_blocks(intake: Intake, name: str) -> Iterator[Block | None]:
    """It gives what an interface brings, as blocks; None when there is nothing just now."""
    for batch in intake.batches():
        yield block_of(batch, name) if batch else None
    if intake.error is not None:
        raise intake.error


def books(intake: Intake, dissector: Dissector) -> Json:
    """It accounts for all packets: ``received`` is the sum of what follows ``dropped_by_kernel``."""
    decoded = dissector.balance.packets
    return {
        "received": intake.received,
        "dropped_by_kernel": intake.dropped_by_kernel,
        "dropped_by_dcpdump": intake.dropped,
        "decoded": decoded,
        "not_looked_at": intake.received - intake.dropped - decoded,
    }


def sum_up(intake: Intake, dissector: Dissector, shown: int, form: str, verb: str = SHOWN) -> None:
    """Stop the intake, and write on standard error what a run came to."""
    intake.finish()
    counts = books(intake, dissector)
    if form == "json":
        note(json.dumps({**balance(dissector, (), shown), **counts}))
        return
    note(counted(counts))
    if dissector.tally.frames:
        note(balance_line(dissector, shown, verb))
    elif counts["decoded"]:
        what, hint = nothing_found(dissector)
        note(f"dcpdump: note: {what}")
        note(f"hint: {hint}")


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


def status_after(stop: Stop) -> int:
    """It gives the exit code of a capture: Ctrl-C is how one usually ends."""
    return code.TERMINATED if stop.status == code.TERMINATED else code.DONE


@contextmanager
def telling(tell: Callable[[], str]) -> Iterator[None]:
    """It lets SIGUSR1 ``tell`` how it goes."""
    before = signal.signal(signal.SIGUSR1, lambda *_: note(tell()))
    try:
        yield
    finally:
        signal.signal(signal.SIGUSR1, before)
