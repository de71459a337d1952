"""LedgerReading: a run over captures that feeds every frame to the stream ledger; and which of it to show.

Filters choose streams and connections, not frames: a ledger that does not see all frames knows nothing.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import click

from dcpdump.capture import Capture
from dcpdump.cli.analysis import Analysis
from dcpdump.cli.options import Display, Selection, clause_option
from dcpdump.cli.sink import Sink
from dcpdump.columnar.block import Block
from dcpdump.columnar.part import BLANK, Part
from dcpdump.dissect import Dissector
from dcpdump.filter import Clause, FrameFilter, Instant, TimeWindow, clauses, parse_instant
from dcpdump.filter.ranges import Ranges, parse_ranges
from dcpdump.net.limits import Limits
from dcpdump.record import Json, Record
from dcpdump.redact import Redactor
from dcpdump.render import ndjson
from dcpdump.render.lines import Line
from dcpdump.streams.burst import Burst, Step, one_by_one
from dcpdump.streams.feed import Feed, Lose
from dcpdump.streams.hide import hide
from dcpdump.streams.ledger import Ledger
from dcpdump.streams.rates import Rates
from dcpdump.streams.sight import Sight
from dcpdump.streams.state import Connection
from dcpdump.streams.stream import Stream
from dcpdump.streams.watching import Watching
from dcpdump.wire.value import Meaning

Command = TypeVar("Command", bound=Callable[..., Any])

_PLACES: tuple[tuple[str, Callable[[str], Clause], str, str], ...] = (
    ("connection", clauses.by_connection, "NUMBERS", "Connections by their number."),
    ("host", clauses.by_host, "ADDRESSES", "Connections from or to an address."),
    ("port", clauses.by_port, "PORTS", "Connections from or to a TCP port."),
)


@dataclass(frozen=True, slots=True)
class Chosen:
    """Which streams and connections to show, and where the capture is to end."""

    places: tuple[Clause, ...]
    vbuckets: Ranges | None
    stream_ids: Ranges | None
    since: Instant | None
    until: Instant | None

    def connection(self, connection: Connection, start_ns: int | None) -> bool:
        """Return whether a connection is to be shown."""
        return self.is_between(connection) and self._lasts(connection.last_ns, start_ns)

    def is_between(self, connection: Connection) -> bool:
        """Return whether a connection is one of the chosen, and of the chosen addresses and ports."""
        if not self.places:  # asked for each finding
            return True
        place = Record(0, BLANK, Meaning(), None, None, connection.number, 0, connection.src, connection.dst)
        return all(clause(place) for clause in self.places)

    def stream(self, stream: Stream, start_ns: int | None) -> bool:
        """It says whether a stream is to be shown."""
        if self.vbuckets is not None and stream.vbucket not in self.vbuckets:
            return False
        if self.stream_ids is not None and stream.stream_id not in self.stream_ids:
            return False
        return self._lasts(stream.last_ns, start_ns) and self.connection(stream.connection, start_ns)

    def settled(self, connections: Iterable[Connection]) -> "Chosen":
        """Return the same choice by the numbers of connections, as their addresses become hashes."""
        numbers = frozenset(each.number for each in connections if self.is_between(each))

        def wanted(place: Record) -> bool:
            return place.connection in numbers

        return replace(self, places=(wanted,))

    def _lasts(self, last_ns: int | None, start_ns: int | None) -> bool:
        if self.since is None:
            return True
        return last_ns is not None and last_ns >= _moment(self.since, start_ns)


def _moment(instant: Instant, start_ns: int | None) -> int:
    return instant.ns + (start_ns or 0) * instant.relative


def choosing_options(*, streams: bool) -> Callable[[Command], Command]:
    """It adds the options that choose connections; ``streams``: those of streams too."""

    def add(command: Command) -> Command:
        command = click.option("--until", metavar="TIME", help="As if the capture ended then.")(command)
        text = "Only what had traffic since a time: 2026-11-20T10:00:00Z, or +30s from the start."
        command = click.option("--since", metavar="TIME", help=text)(command)
        for name, _, metavar, about in reversed(_PLACES):
            command = clause_option(name, metavar, about)(command)
        if streams:
            command = clause_option("stream-id", "NUMBERS", "DCP stream ids.")(command)
            command = clause_option("vbucket", "RANGES", "vBuckets: 7 · 0-63,512.")(command)
        return command

    return add


def choosing(options: dict[str, Any]) -> Chosen:
    """It takes the options that choose out of ``options``. Raises FilterError."""
    given = [(parse, options.pop(name)) for name, parse, _, _ in _PLACES]
    vbucket, stream_id = options.pop("vbucket", None), options.pop("stream_id", None)
    since, until = options.pop("since"), options.pop("until")
    return Chosen(
        tuple(parse(text) for parse, text in given if text is not None),
        None if vbucket is None else parse_ranges("--vbucket", vbucket, 0xFFFF),
        None if stream_id is None else parse_ranges("--stream-id", stream_id, 0xFFFF),
        None if since is None else parse_instant("--since", since),
        None if until is None else parse_instant("--until", until),
    )


class LedgerReading(Analysis):
    """A reading that keeps a ledger of all frames."""

    #: Whether documents may be told in bursts: not where something is to be learnt of each.
    _bursts = True

    def __init__(
        self, captures: Sequence[Capture], chosen: Chosen, shown: Display, sink: Sink, *, rates: bool = False
    ) -> None:
        everything = Selection(FrameFilter(()), None, TimeWindow(None, None), {})
        super().__init__(captures, everything, shown, sink)
        self.ledger = Ledger()
        self.rates = Rates() if rates else None
        self._wanted = chosen
        self._redactor = shown.redactor
        if not isinstance(self._dissector, Watching):
            raise TypeError("a ledger needs a dissection that watches")
        self._last_ns: int | None = None
        self._feed = Feed(self._dissector, self.ledger)

    @staticmethod
    def _dissecting(limits: Limits, show_secrets: bool) -> Dissector:
        return Watching(limits, show_secrets=show_secrets)

    def read(self) -> None:
        """It reads everything, or what comes before a signal, and closes the ledger."""
        super().read()
        self._close()
        if self._redactor is not None:
            self._wanted = self._wanted.settled(self.ledger.connections.values())
            self._hide(self._redactor)

    def _hide(self, redactor: Redactor) -> None:
        """Hash names, addresses and texts."""
        hide(self.ledger, redactor)

    def _close(self) -> None:
        """Close the ledger, before names become hashes."""
        self._feed.close(self._last_ns, self._lose)

    def tell(self, lines: Callable[[], Iterable[Line]], objects: Callable[[], Iterable[Json]]) -> None:
        """It writes what was found, as lines for people or as objects."""
        if not self.ledger.frames:
            return
        if self._form == "ndjson":
            for row in objects():
                self._sink.write(ndjson.dump(row) + "\n")
        else:
            for line in lines():
                self._sink.write(self._view.palette.paint(line) + "\n")

    @property
    def streams(self) -> list[Stream]:
        """The streams to show."""
        return [stream for stream in self.ledger.streams if self._wanted.stream(stream, self._begins)]

    @property
    def connections(self) -> list[Connection]:
        """The connections to show."""
        found = [each for each in self.ledger.connections.values() if self._wanted.connection(each, self._begins)]
        return sorted(found, key=lambda connection: connection.number)

    @property
    def _begins(self) -> int | None:
        return self._chosen.window.start_ns if self._chosen.window is not None else None

    @property
    def _until(self) -> int | None:
        return None if self._wanted.until is None else _moment(self._wanted.until, self._begins)

    def _read(self) -> None:
        super()._read()
        self._see_rest()

    def _see_rest(self) -> None:
        """It sees what has waited for others to the end."""
        rest = self._feed.rest()
        if self._whole:
            self._take(rest)
        else:
            self._see([sight for step in rest for sight in one_by_one(step)])

    @property
    def _whole(self) -> bool:
        """Whether bursts are taken whole."""
        return self._bursts and self._until is None

    def _write(self, parts: list[Part]) -> bool:
        self._feed.until_ns = self._until
        for part in parts:
            if self.rates is not None:
                self.rates.feed(part)
            self._look(part)
        if self._whole:
            self._take(self._feed.steps(parts))
        else:
            self._see(self._feed.sights(parts))
        return False

    def _meet(self, block: Block) -> None:
        super()._meet(block)
        self._last_ns = block.where(-1).ts_ns

    def _look(self, part: Part) -> None:
        """It sees a part before the ledger does."""

    def _take(self, steps: Sequence[Step]) -> None:
        """It feeds the ledger with sights and with bursts."""
        ledger = self.ledger
        for step in steps:
            if isinstance(step, Burst):
                self._shown += step.frames
                ledger.feed_burst(step)
            else:
                self._shown += 1
                ledger.feed(step)

    def _see(self, seen: list[Sight]) -> None:
        until = self._until
        if until is not None:
            seen = [sight for sight in seen if sight.ts_ns is None or sight.ts_ns <= until]
        self._shown += len(seen)
        learn = self._learns
        for sight in seen:
            learn(sight)

    #: Who takes losses that no frame followed, if not the ledger.
    _lose: Lose | None = None

    @property
    def _learns(self) -> Callable[[Sight], object]:
        """What is called with every sight."""
        return self.ledger.feed
