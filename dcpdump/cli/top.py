"""Provide ``dcpdump top``: show connections and streams as they are, again and again."""

import time
from collections.abc import Callable
from contextlib import nullcontext

import click

from dcpdump.batch.block import Block
from dcpdump.cli.analysis import TIMES, LedgerConsumer, choosing_options
from dcpdump.cli.grouped import command
from dcpdump.cli.listing import report
from dcpdump.cli.options import Invocation, format_option, option, time_option
from dcpdump.cli.reading import Reading
from dcpdump.cli.sink import Sink
from dcpdump.cli.sniff import InterfaceSource, show_interfaces
from dcpdump.cli.terminal import terminal_size
from dcpdump.clock import writing_times
from dcpdump.redact import Redactor
from dcpdump.render import top as tables
from dcpdump.render.streams import StreamRow
from dcpdump.render.style import Screen
from dcpdump.render.text_columns import fitted
from dcpdump.render.top import TOP, Peer, Rate, RateMeter, TopView
from dcpdump.spec import MESSAGES
from dcpdump.spec.opcodes import DCP_OPEN
from dcpdump.streams.frame_event import DocumentRun, Step
from dcpdump.streams.redacted import hide_requests
from dcpdump.streams.state import ConnectionState
from dcpdump.streams.verdict import Judge
from dcpdump.streams.wording import short_name

#: Seconds for which --once captures.
_ONCE_S = 2.0
#: On an interface, connections are evicted this long after their end.
_FORGET_NS = 60 * 1_000_000_000


@command(
    "sudo dcpdump top -i any --port 11210",
    "dcpdump top node1.pcap",
    "ssh node tcpdump -U -w - port 11210 | dcpdump top -",
    params=[
        "[CAPTURE…]",
        *choosing_options(streams=True),
        time_option(TIMES),
        "ANY-INTERFACE list-interfaces duration bpf buffer",
        option("--once", "Print once: at the end of captures, or after two seconds of an interface."),
        option("--interval SECONDS", "Seconds between updates.", click.FloatRange(min=0.1), default=0.5),
        option(
            "-n, --rows N",
            "Rows to show; the default: what fits on the screen, in a pipe all.",
            click.IntRange(min=2),
        ),
        "INPUT",
        format_option(("text", "ndjson")),
        "color output force REDACTION quiet",
    ],
    rows=[TOP],
)
def top(asked: Invocation, list_interfaces: bool, once: bool, interval: float, rows: int | None) -> int:
    """Show connections and streams as they are just now: rates, lag, unacknowledged bytes, ends, losses.

    Of an interface (any, if none is named), or of captures: one that is still being written comes as -, from a
    pipe. Of captures that are complete the end is shown, once. Rates are those of the last seconds, of which the first
    line says how many. ndjson is one object each time.
    """
    if list_interfaces:
        return show_interfaces()
    options = asked.options
    if once and not asked.captures:
        options["duration"] = options["duration"] or _ONCE_S
    watch, source = LiveTables(asked), asked.source(needs_one=False)
    ends = bool(source.captures) and all(capture.rereadable for capture in source.captures)
    screens = asked.format == "text" and not (once or ends or asked.path) and asked.terminal
    screen = Screen(asked.coloured(terminal=True)) if screens else None
    with writing_times(asked.times, None, None), asked.sink(paged=False) as sink:
        watch.interval = None if once or ends else interval
        watch.draw = _on_screen(screen, rows) if screen else _on_paper(sink, asked, rows, apart=not (once or ends))
        watch.source = source
        reading = Reading(source, watch.dissection, watch, sink)
        with source.opened(watch.dissection):
            with screen or nullcontext():
                reading.analyse()
                if watch.ledger.frames:
                    watch.draw(watch.look(None))  # names were hidden at the end of the reading
            return reading.conclude(asked.summary)


Draw = Callable[[TopView], None]
#: Lines of a screen that are no rows: titles, heads, what is left out.
_AROUND = 5


def _on_screen(screen: Screen, most: int | None) -> Draw:
    """Return a function that draws on a terminal."""

    def draw(look: TopView) -> None:
        free = screen.height - _AROUND
        screen.show(list(fitted(tables.lines(look, min(free, most or free)), screen.width)))

    return draw


def _on_paper(sink: Sink, asked: Invocation, most: int | None, *, apart: bool) -> Draw:
    """Return a function that writes each state below the one before. ``apart``: with an empty line behind tables."""
    if most is None and sink.is_terminal:
        most = max(2, terminal_size().lines - _AROUND - 3)

    def draw(look: TopView) -> None:
        if asked.format == "ndjson" or look.frames:
            report(sink, asked, [TOP], lambda: tables.lines(look, most), lambda: [TOP.object(look)])
            if asked.format != "ndjson" and apart:
                sink.write("\n")
        sink.flush()

    return draw


class LiveTables(LedgerConsumer):
    """A ledger that is drawn again and again."""

    draw: Draw
    #: Seconds between; None: not while it reads.
    interval: float | None = None

    def __init__(self, asked: Invocation) -> None:
        super().__init__(asked)
        self._rates = RateMeter()
        self._due = 0.0
        self._arrived_ns = 0  #: when the last packets arrived, by the monotonic clock

    def observe(self, block: Block) -> None:
        """Note the arrival of packets."""
        super().observe(block)
        self._arrived_ns = time.monotonic_ns()

    def _learn(self, step: Step) -> None:
        """Learn the next frame, or run of documents, and count what there is just before it, where that is due."""
        self._rates.pass_to(self.ledger, step.first_ns if isinstance(step, DocumentRun) else step.ts_ns)
        super()._learn(step)

    def after_block(self, *, idle: bool) -> bool:
        """Draw the ledger, where that is due."""
        if self.interval is None or time.monotonic() < self._due:
            return False
        self._due = time.monotonic() + self.interval
        if self.source.live:
            self._feed.pause(time.time_ns())
            self._forget()
        elif self._last_ns is not None:
            # A capture that is written now, or one of long ago: what passed since its last packet passes there.
            self._feed.pause(self._last_ns + (time.monotonic_ns() - self._arrived_ns if idle else 0))
        self.draw(self.look(self.redactor))
        return False

    def _forget(self) -> None:
        """Evict connections that ended a while ago: an interface may be watched for days."""
        ledger, now = self.ledger, self.ledger.last_ns or 0
        ended = {
            number
            for number, each in ledger.connections.items()
            if each.end.ts_ns is not None and each.end.ts_ns + _FORGET_NS < now
        }
        if ended:
            ledger.streams = [stream for stream in ledger.streams if stream.connection.number not in ended]
            for number in ended:
                ledger.forget(ledger.connections[number])

    def look(self, redactor: Redactor | None) -> TopView:
        """Return the current state; ``redactor``: names are not hidden yet and are hidden here."""
        ledger, rates = self.ledger, self._rates
        if redactor is not None:  # verdicts quote the servers' error texts
            hide_requests(ledger, redactor)
        if ledger.last_ns is not None:
            rates.look(ledger, ledger.last_ns)
        judge = Judge(ledger)
        peers = [_peer(each, rates.of(each), ledger.last_ns, redactor) for each in self.connections]
        clients = {peer.connection.number: peer.client for peer in peers}
        return TopView(
            self.source.name or ", ".join(self._asked.paths),
            ledger.last_ns,
            ledger.frames,
            peers,
            [
                StreamRow(
                    stream,
                    judge.verdict(stream),
                    ledger.last_ns,
                    rate=rates.of(stream),
                    client=clients.get(stream.connection.number, ""),
                )
                for stream in self.streams
            ],
            self.source.packet_counts(self.dissection) if isinstance(self.source, InterfaceSource) else {},
            rates.lasting_ns,
        )


def _peer(each: ConnectionState, rate: Rate, now_ns: int | None, redactor: Redactor | None) -> Peer:
    """Return a connection with its names as they may be shown."""
    src, dst, name = each.src, each.dst, each.setup.name
    if redactor is not None:
        src, dst = redactor.endpoint(src), redactor.endpoint(dst)
        name = None if name is None else redactor.key(MESSAGES[DCP_OPEN], name)
    shown = {each.src: src, each.dst: dst, None: ""}
    client = shown[each.client_address] or f"{src} ? {dst}"
    return Peer(each, rate, short_name(name) or client, shown[each.server_address], src, dst, name, now_ns)
