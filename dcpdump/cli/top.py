"""dcpdump top: connections and streams as they are just now, again and again."""

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import click

from dcpdump.capture import Capture, expand, open_capture
from dcpdump.capture.intake import Intake
from dcpdump.cli.ledger import Chosen, LedgerReading, choosing, choosing_options
from dcpdump.cli.live import books, counted, live_blocks, status_after, sum_up, telling
from dcpdump.cli.notes import note
from dcpdump.cli.options import Display, display, display_options
from dcpdump.cli.sink import Sink
from dcpdump.cli.sniff import begun, give_up_rights, interface_options, show_interfaces, tap
from dcpdump.cli.stop import Stop
from dcpdump.columnar.block import Block
from dcpdump.errors import LiveError
from dcpdump.redact import Redactor
from dcpdump.render import ndjson
from dcpdump.render import top as tables
from dcpdump.render.style import Screen
from dcpdump.render.top import Look, Peer, Row
from dcpdump.spec import MESSAGES
from dcpdump.spec.opcodes import DCP_OPEN
from dcpdump.streams.hide import hidden_end, hide_request
from dcpdump.streams.pace import Pace, Paces
from dcpdump.streams.state import Connection
from dcpdump.streams.verdict import Judge

#: How long an interface is looked at once.
_ONCE_S = 2.0
#: What has ended so long ago is forgotten, on an interface.
_FORGET_NS = 60 * 1_000_000_000


@click.command()
@click.argument("captures", nargs=-1, metavar="[CAPTURE…]")
@choosing_options(streams=True)
@interface_options
@click.option("--once", is_flag=True, help="Print it once: at the end of captures, or of two seconds of an interface.")
@click.option(
    "--interval", type=click.FloatRange(min=0.1), default=0.5, show_default=True, metavar="SECONDS", help="How often."
)
@click.option("-n", "--rows", type=click.IntRange(min=2), metavar="N", help="At most; the default: what fits.")
@display_options(formats=("text", "ndjson"))
@click.option("-q", "--quiet", is_flag=True, help="No summary on standard error.")
def top(
    captures: tuple[str, ...],
    list_interfaces: bool,
    once: bool,
    interval: float,
    rows: int | None,
    quiet: bool,
    **options: Any,
) -> int:
    """Show connections and streams as they are just now: rates, lag, unacknowledged bytes, ends, losses.

    Of an interface (any, if none is named), or of captures: one that is still being written comes as -, from a
    pipe. Of captures that are complete the end is shown, once. ndjson is one object each time.
    """
    if list_interfaces:
        return show_interfaces()
    if captures and options["interface"]:
        raise click.UsageError("either an interface (-i) or captures, not both")
    port = options["port"]
    chosen, shown = choosing(options), display(options)
    wanted = tap(options, port)
    paths = expand(captures)
    inputs = [open_capture(path) for path in paths]
    ends = bool(inputs) and all(capture.rereadable for capture in inputs)
    with ExitStack() as open_now:
        live = None if inputs else wanted.open()
        seconds = wanted.duration or (_ONCE_S if once else None)
        screens = shown.format == "text" and not (once or ends or shown.path) and Sink(None).is_terminal
        screen = Screen(shown.coloured(terminal=True)) if screens else None
        user = "" if live is None else give_up_rights(shown)
        sink = open_now.enter_context(Sink(shown.path, force=shown.force, inputs=paths))
        intake = None if live is None else open_now.enter_context(Intake(live, room=wanted.room, seconds=seconds))
        reading = TopReading(inputs, chosen, shown, sink, intake, live.name if live else ", ".join(paths), rows)
        if live is not None and intake is not None:
            open_now.enter_context(telling(lambda: reading.told))
            open_now.enter_context(reading.stop)  # by now, for whom the note tells how to end it
            if not quiet:
                note(begun(live, user))
        return reading.show(None if once or ends else interval, screen, "none" if quiet else "text")


class TopReading(LedgerReading):
    """A reading that is looked at while it goes on."""

    def __init__(
        self,
        captures: Sequence[Capture],
        chosen: Chosen,
        shown: Display,
        sink: Sink,
        intake: Intake | None,
        source: str,
        most: int | None,
    ) -> None:
        super().__init__(captures, chosen, shown, sink)
        self._intake, self._source, self._most = intake, source, most
        if intake is not None:
            self.stop = Stop(intake.stop)
        self._paces = Paces()
        self._interval: float | None = None
        self._due = 0.0
        self._came_ns = 0  #: when the last packets came, by the clock that only goes forward
        self._screen: Screen | None = None

    @property
    def told(self) -> str:
        """What became of all packets so far, in words."""
        return "" if self._intake is None else counted(books(self._intake, self._dissector))

    def show(self, interval: float | None, screen: Screen | None, summary: str) -> int:
        """It reads everything, shows how it is every ``interval`` seconds, and at the end; and gives the exit code."""
        self._interval, self._screen = interval, screen
        with ExitStack() as shown:
            if screen is not None:
                shown.enter_context(screen)
            try:
                self.read()
            except LiveError:
                self._conclude(summary)
                raise
            if self.ledger.frames:
                self._draw(None)  # what is to be hidden is hidden by now
        return self.conclude(summary)

    def _read(self) -> None:
        self._read_blocks()
        self._see_rest()

    def _blocks(self) -> Iterator[Block | None]:
        source = super()._blocks() if self._intake is None else live_blocks(self._intake, self._source)
        for block in source:
            if block is not None:
                self._came_ns = time.monotonic_ns()
            yield block
            if self._interval is not None and time.monotonic() >= self._due:
                self._due = time.monotonic() + self._interval
                if self._intake is not None:
                    self._feed.pause(time.time_ns())
                    self._forget()
                elif self._last_ns is not None:
                    # A capture that is written now, or one of long ago: what passed since its last packet passes there.
                    self._feed.pause(self._last_ns + (0 if block is not None else time.monotonic_ns() - self._came_ns))
                self._draw(self._redactor)

    def _forget(self) -> None:
        """It lets go of connections that ended a while ago: an interface may be watched for days."""
        ledger, now = self.ledger, self.ledger.last_ns or 0
        gone = {
            number
            for number, each in ledger.connections.items()
            if each.ended_ns is not None and each.ended_ns + _FORGET_NS < now
        }
        if gone:
            ledger.streams = [stream for stream in ledger.streams if stream.connection.number not in gone]
            for number in gone:
                del ledger.connections[number]

    def _draw(self, redactor: Redactor | None) -> None:
        if self._form == "ndjson":
            self._sink.write(ndjson.dump(tables.as_object(self._as_it_is(redactor))) + "\n")
        elif self._screen is not None:
            room = self._screen.height - 5
            self._screen.show(tables.lines(self._as_it_is(redactor), min(room, self._most or room)))
        elif self.ledger.frames:
            for line in tables.lines(self._as_it_is(redactor), self._most):
                self._sink.write(self._view.palette.paint(line) + "\n")
            if self._interval is not None:
                self._sink.write("\n")
        self._sink.flush()

    def _as_it_is(self, redactor: Redactor | None) -> Look:
        ledger, paces = self.ledger, self._paces
        if redactor is not None:  # verdicts quote what servers say of requests
            for request in (request for stream in ledger.streams for request in stream.requests):
                hide_request(request, redactor)
        if ledger.last_ns is not None:
            paces.look(ledger, ledger.last_ns)
        judge = Judge(ledger)
        peers = [_peer(each, paces.of(each), redactor) for each in self.connections]
        clients = {peer.connection.number: peer.client for peer in peers}
        return Look(
            self._source,
            ledger.last_ns,
            ledger.frames,
            peers,
            [
                Row(
                    stream,
                    clients.get(stream.connection.number, ""),
                    judge.verdict(stream),
                    paces.of(stream),
                    tables.lag(ledger, stream),
                )
                for stream in self.streams
            ],
            {} if self._intake is None else books(self._intake, self._dissector),
        )

    def _sum_up(self, summary: str) -> None:
        if self._intake is None:
            super()._sum_up(summary)
        elif summary != "none":
            sum_up(self._intake, self._dissector, self._shown, summary, self._verb)

    def _status(self) -> int:
        return super()._status() if self._intake is None else status_after(self.stop)


def _peer(each: Connection, pace: Pace, redactor: Redactor | None) -> Peer:
    """Return a connection with its names as they may be shown."""
    src, dst, name = each.src, each.dst, each.name
    if redactor is not None:
        src, dst = hidden_end(src, redactor), hidden_end(dst, redactor)
        name = None if name is None else redactor.key(MESSAGES[DCP_OPEN], name)
    shown = {each.src: src, each.dst: dst, None: ""}
    client = shown[each.client_address] or f"{src} ? {dst}"
    return Peer(each, pace, name or client, shown[each.server_address], src, dst, name)
