"""Make commands that analyse: ``@analysis`` over a function of a finished ledger, and the reading that fills it.

Filters choose streams and connections, not frames: the ledger is only right if it gets all frames.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from dcpdump.batch.block import Block, PacketsUntil, TimeSpan
from dcpdump.cli.grouped import GroupedCommand, command
from dcpdump.cli.listing import FORMATS, report, sort_options, sorting
from dcpdump.cli.options import SEVERAL, Invocation, clauses_in, format_option, named, option, time_option, zone_in
from dcpdump.cli.reading import CaptureSource, Consumer, Reading, Source
from dcpdump.cli.sink import Sink
from dcpdump.cli.summary import READ, hide_tls
from dcpdump.cli.terminal import note
from dcpdump.clock import writing_times
from dcpdump.dissect import Dissector
from dcpdump.errors import ExitCode
from dcpdump.filter import Clause, Instant, parse_window
from dcpdump.filter.choices import Ranges, parse_ranges
from dcpdump.record import Json, Record, blank_record
from dcpdump.redact import Redactor
from dcpdump.render.column import ColumnSet
from dcpdump.render.objects import Rows, dump, keys
from dcpdump.render.style import Line, LineKind
from dcpdump.render.text_columns import Fitting
from dcpdump.startup import dataclass
from dcpdump.streams.dissection import EndsWatching, RunDissection, Unanswered
from dcpdump.streams.feed import Feed
from dcpdump.streams.frame_event import Step
from dcpdump.streams.identity import PORTS
from dcpdump.streams.ledger import Ledger
from dcpdump.streams.redacted import hide
from dcpdump.streams.state import ConnectionState
from dcpdump.streams.stream import Stream
from dcpdump.streams.verdict import EvictedStreams, Judge, judging_early
from dcpdump.streams.wording import span
from dcpdump.text import counted

if TYPE_CHECKING:
    from dcpdump.check.engine import RuleEngine
    from dcpdump.check.finding import Finding
    from dcpdump.check.rule import Rule
    from dcpdump.diagnosis.trouble import Evidence

#: Seconds after which it is judged again whether anything is wrong, and how much longer that is than it takes.
_JUDGED_S, _SPARED = 0.3, 10
#: The name of captures in the commands that hints show, where an interface was read.
_NO_CAPTURE = "CAPTURE"
#: Fewer answers that are stamped before their requests may be stray ones.
_BACKDATED = 3


@dataclass(frozen=True, slots=True)
class StreamChoice:
    """The streams and connections to show, and the end of the time window."""

    clauses: tuple[Clause, ...]
    vbuckets: Ranges | None
    stream_ids: Ranges | None
    since: Instant | None
    until: Instant | None

    def connection(self, connection: ConnectionState, start_ns: int | None) -> bool:
        """Return whether to show a connection."""
        return self.is_between(connection) and self._lasts(connection.last_ns, start_ns)

    def is_between(self, connection: ConnectionState) -> bool:
        """Return whether a connection has one of the chosen numbers, addresses and ports."""
        return self.chooses(connection.number, connection.src, connection.dst)

    def chooses(self, number: int, src: str, dst: str) -> bool:
        """Return whether a number and two ends are among those chosen."""
        if not self.clauses:  # asked for each finding
            return True
        alone = blank_record(None, number, 0, src, dst)
        return all(clause(alone) for clause in self.clauses)

    def stream(self, stream: Stream, start_ns: int | None) -> bool:
        """Return whether to show a stream."""
        if self.vbuckets is not None and stream.vbucket not in self.vbuckets:
            return False
        if self.stream_ids is not None and stream.stream_id not in self.stream_ids:
            return False
        return self._lasts(stream.traffic.last_ns, start_ns) and self.connection(stream.connection, start_ns)

    def by_numbers(self, connections: Iterable[ConnectionState]) -> "StreamChoice":
        """Return the same choice by the numbers of connections, before their addresses are hashed."""
        numbers = frozenset(each.number for each in connections if self.is_between(each))

        def wanted(record: Record) -> bool:
            return record.connection in numbers

        return replace(self, clauses=(wanted,))

    def _lasts(self, last_ns: int | None, start_ns: int | None) -> bool:
        if self.since is None:
            return True
        return last_ns is not None and last_ns >= self.since.at(start_ns)


#: What times are counted from with ``-t d``.
TIMES = "since the row above in key and check --all, otherwise as r"


def choosing_options(*, streams: bool) -> list[click.Parameter | str]:
    """Return the options that choose connections; ``streams``: those of streams too."""
    text = "Only what had traffic since a time: 2026-11-20T10:00:00Z, 10:00:00.250, or +30s from the start."
    return [
        "vbucket stream-id connection" if streams else "connection",
        option("--host ADDRESSES", "Connections from or to an address.", **SEVERAL),
        option("--port PORTS", "Connections from or to a TCP port.", **SEVERAL),
        option("--since TIME", text),
        option("--until TIME", "As if the capture ended then."),
        "tz",
    ]


def _choosing(options: Mapping[str, Any]) -> StreamChoice:
    """Return which streams and connections to show. Raises FilterError."""
    vbucket, stream_id = options.get("vbucket"), options.get("stream_id")
    return StreamChoice(
        tuple(clauses_in(options, ("connection", "host", "port"))),
        None if vbucket is None else parse_ranges("--vbucket", vbucket, 0xFFFF),
        None if stream_id is None else parse_ranges("--stream-id", stream_id, 0xFFFF),
        *parse_window(options.get("since"), options.get("until"), zone_in(options)),
    )


class LedgerConsumer(Consumer[Any]):
    """A ledger fed with all frames up to the chosen time, and the choice of what to show.

    ``look`` is called with each part of frames before anything is learnt of them.
    """

    verb = READ
    #: As ``Feed`` has it.
    with_rules = False
    #: Whether streams are listed, or connections alone.
    lists_streams = True
    #: The rules that frames are judged by.
    rules: Sequence["Rule"] = ()
    #: What became of connections and streams that were evicted.
    evicted_are = "not listed"

    def __init__(self, asked: Invocation, look: Callable[[Any], None] | None = None) -> None:
        self._asked, self._wanted = asked, _choosing(asked.options)
        self._look, self.redactor, self._times = look, asked.redactor, asked.times
        self.dissection = asked.dissect(self._dissecting())
        self.ledger = Ledger(with_rules=self.with_rules)
        self._learner: Ledger | RuleEngine = self.ledger  # what takes frames, losses, and what is to be forgotten
        self.evicted = EvictedStreams()  #: of those to show
        self.without_streams = 0  #: connections that were evicted and had none
        self.closed: list[int] = []  #: numbers of connections of TLS to show, of which nothing was opened
        self.unanswered: list[Unanswered] = []  #: connections to show that were requested, and not answered
        self.begins_ns: int | None = None  #: when the first packet came
        self._last_ns: int | None = None  # when the last packet came
        self.times = TimeSpan()  #: of the packets
        self.source: Source  #: that is read
        self._fails_fast = self._failed = False
        self._due = 0.0  # when it is judged next whether anything is wrong, by the monotonic clock
        until = self._wanted.until
        self._cut = None if until is None else PacketsUntil(until.end)
        self._feed = Feed(self.dissection, self.ledger, with_rules=self.with_rules, hides=self.redactor is not None)

    @classmethod
    def instead(cls, asked: Invocation) -> int | None:
        """Run the command if it needs no captures, and return the exit code; None if captures are to be read."""
        return None

    def _dissecting(self) -> Callable[..., EndsWatching[Any]]:
        """Return the dissection that suits what is learnt: columns are imported where frames are looked at."""
        if self._look is None:
            return RunDissection
        from dcpdump.streams.dissection import Watching

        return Watching

    def read(self, source: Source, sink: Sink, *, fail_fast: bool = False) -> Reading[Any]:
        """Read a source to the end, or to a signal; ``fail_fast``: or until something is wrong."""
        self.source, self._fails_fast = source, fail_fast
        if isinstance(source, CaptureSource):
            source.block_bytes = self.dissection.block_bytes
        reading = Reading(source, self.dissection, self, sink)
        with source.opened(self.dissection):
            reading.analyse()
        times = self.times
        click.get_current_context().with_resource(writing_times(self._times, times.first_ns, times.last_ns))
        return reading

    def nothing(self) -> Line:
        """Return why there is no stream, or no connection, to show."""
        from dcpdump.diagnosis.words import nothing_to_show

        return Line(LineKind.PLAIN, nothing_to_show(self.ledger, self.connections, self.evicted.streams))

    @property
    def streams(self) -> list[Stream]:
        """Return the streams to show."""
        return [stream for stream in self.ledger.streams if self._wanted.stream(stream, self.begins_ns)]

    @property
    def connections(self) -> list[ConnectionState]:
        """Return the connections to show, by number."""
        found = [each for each in self.ledger.connections.values() if self._wanted.connection(each, self.begins_ns)]
        return sorted(found, key=lambda connection: connection.number)

    def _closed(self) -> list[int]:
        """Return the numbers of the connections of TLS to show of which nothing was opened."""
        if self._wanted.since is not None:  # it is not known when they had traffic
            return []
        reports, opened = sorted(self.dissection.tls_reports.items()), self.ledger.connections
        unread = [(number, each) for number, each in reports if each.unread and number not in opened]
        return [number for number, each in unread if self._wanted.chooses(number, each.src, each.dst)]

    def _unanswered(self) -> list[Unanswered]:
        """Return who asked for a connection to show to a server of DCP, by its port, and got no answer."""
        if self._wanted.since is not None or self._wanted.until is not None:
            return []
        ports = PORTS | {
            int(each.server_address.rpartition(":")[2])
            for each in self.connections
            if each.setup.is_open and each.server_address
        }
        shown = self.redactor
        return [
            each if shown is None else each._replace(src=shown.endpoint(each.src), dst=shown.endpoint(each.dst))
            for each in self.dissection.unanswered
            if int(each.dst.rpartition(":")[2]) in ports and self._wanted.chooses(each.number, each.src, each.dst)
        ]

    # -- what is wrong ----------------------------------------------------------------------------------

    @property
    def findings(self) -> Sequence[tuple["Finding", int]]:
        """Return what the rules found, and how many more there are of each."""
        return ()

    def evidence(self, judge: Judge | None = None) -> "Evidence":
        """Return what there is to say of the streams and connections to show, at the end, or where a judge says it."""
        from dcpdump.diagnosis.trouble import Evidence

        judge = judge or Judge(self.ledger)
        return Evidence(
            self.ledger,
            [(stream, judge.verdict(stream)) for stream in self.streams],
            self.connections,
            self.findings,
            len(self.rules),
            self.dissection.tally,
            self.dissection.balance,
            [capture.health for capture in self.source.captures],
            self.times.first_ns,
            self.times.last_ns,
            self.unanswered,
            [(number, tls) for number in self.closed if (tls := self.dissection.tls_reports[number]).failure],
            self.evicted,
        )

    def wrong(self, judge: Judge | None = None) -> str | None:
        """Return the worst of what is certainly wrong, in words; None where nothing is. ``judge``: as in evidence."""
        from dcpdump.diagnosis.diagnosis import diagnose

        return next((each.text for each in diagnose(self.evidence(judge)).troubles if each.wrong), None)

    def _is_wrong(self, *, idle: bool) -> bool:
        """Return whether anything is certainly wrong by now. ``idle``: nothing arrives.

        Only of an interface it is known then that nothing was sent: a pipe may be behind.
        """
        now_ns = time.time_ns() if idle and self.source.live else self._last_ns
        if now_ns is None or self._feed.waiting:
            return False
        self._feed.advance(now_ns)
        with judging_early(self.ledger, self.ledger.streams) as judge:
            return self.wrong(judge) is not None

    def remarks(self, dissection: Dissector) -> Iterable[str]:
        """Return how many connections are not in what was found."""
        if self._cut is not None and self._cut.end_ns is not None and not dissection.balance.packets:
            yield "dcpdump: note: all packets are later than --until"
        times = self.times
        if times.back is not None:
            where = f"packet {times.back.packet:,} of {times.back.file}"
            yield f"dcpdump: note: the clock goes back: {where} is {span(times.back_ns)} before the one ahead of it"
        clocks = [each for each in self.ledger.connections.values() if each.exchanges.backdated >= _BACKDATED]
        if clocks:
            which = f"connection {clocks[0].number}" if len(clocks) == 1 else counted(len(clocks), "connection")
            most = span(max(each.exchanges.backdated_ns for each in clocks))
            answers = sum(each.exchanges.backdated for each in clocks)
            yield (
                f"dcpdump: note: the two directions of {which} have different clocks, or these go back: "
                f"{answers:,} answers are stamped up to {most} before their requests"
            )
        omitted = sum(sum((each.requests.omitted or {}).values()) for each in self.streams) * self.lists_streams
        if omitted:
            which = counted(omitted, "stream request")
            yield f"dcpdump: note: {which}, in the middle of very many different ones of a stream: counted, not listed"
        evicted = self.without_streams
        if evicted:
            which = f"{counted(evicted, 'connection')} without a stream, which had ended or were silent for longest"
            verb = "is" if evicted == 1 else "are"
            yield f"dcpdump: note: to stay within --memory, {which}, {verb} {self.evicted_are}"
        streams, connections = self.ledger.evicted_streams * self.lists_streams, self.ledger.evicted - evicted
        gone = [counted(count, name) for count, name in ((streams, "stream"), (connections, "connection")) if count]
        if gone:
            verbs = ("was", "is") if streams + connections == 1 else ("were", "are")
            which = f"{' and '.join(gone)} that {verbs[0]} over"
            hint = "a larger --memory lists more"
            yield f"dcpdump: note: to stay within --memory, {which} {verbs[1]} {self.evicted_are}: {hint}"

    # -- as a consumer ----------------------------------------------------------------------------------

    def cut(self, block: Block) -> Block | None:
        """Return the packets of a block up to the chosen time; None without any."""
        return block if self._cut is None else self._cut.cut(block)

    def observe(self, block: Block) -> None:
        """Note when the capture begins, and when its last packet came."""
        if self.begins_ns is None:
            self.begins_ns = block.begins_ns
            self._times.begin(block.begins_ns)
        self._last_ns = block.where(-1).ts_ns
        self.times.observe(block)
        self._feed.observe(block)

    def consume(self, pieces: list[Any]) -> bool:
        """Learn all frames; return False: there are never enough."""
        if self._look is not None:
            for piece in pieces:
                self._look(piece)
        self._learn_all(self._feed.steps(pieces))
        evictable = self._feed.evictable(self._learner.lose)
        if evictable is not None:
            if streams := evictable.streams:
                wanted = [stream for stream in streams if self._wanted.stream(stream, self.begins_ns)]
                with judging_early(self.ledger, streams) as judge:
                    self.evicted.add(wanted, judge)
                self._judged_early(streams)
                self._learner.evict_streams(streams)
            for connection in evictable.connections:
                self._evict(connection)
        return False

    def after_block(self, *, idle: bool) -> bool:
        """Return whether anything is wrong, where that ends the reading: judged a few times a second, at most."""
        began = time.monotonic()
        if self._fails_fast and began >= self._due:
            self._failed = self._is_wrong(idle=idle)
            now = time.monotonic()
            self._due = now + max(_JUDGED_S, _SPARED * (now - began))
        return self._failed

    def finish(self) -> None:
        """Learn what has waited for others, and the end; then redact, if that was requested."""
        self._learn_all(self._feed.rest())
        cut_ns = None if self._cut is None else self._cut.end_ns
        if cut_ns is None and not self._failed:
            cut_ns = self.source.ended_ns  # up to then nothing else came
        self._feed.close(self._last_ns if cut_ns is None else cut_ns, self._learner.lose)
        self._end()  # before names become hashes
        self.closed = self._closed()
        self.unanswered = self._unanswered()
        if self.redactor is not None:
            hide_tls(self.dissection, self.redactor)
            self._wanted = self._wanted.by_numbers(self.ledger.connections.values())
            self._hide(self.redactor)

    def _learn_all(self, steps: Sequence[Step]) -> None:
        learn = self._learn
        try:
            for step in steps:
                learn(step)
        finally:  # a signal may end it
            self.frames = self.ledger.frames

    # -- what else a command learns ---------------------------------------------------------------------

    def _learn(self, step: Step) -> None:
        """Learn the next frame, or run of documents."""
        self._learner.feed_step(step)

    def _evict(self, connection: ConnectionState) -> None:
        """Forget an ended connection without a stream."""
        if connection.evicted and self._wanted.connection(connection, self.begins_ns):
            self.evicted.evict(connection)
        self.without_streams += not connection.evicted
        self._learner.evict(connection)

    def _judged_early(self, streams: Sequence[Stream]) -> None:
        """Learn that streams are over, before they are forgotten."""

    def _end(self) -> None:
        """Learn that the input has ended."""

    def _hide(self, redactor: Redactor) -> None:
        """Hash names, addresses and texts."""
        hide(self.ledger, redactor)


# -- a command ----------------------------------------------------------------------------------------


class AnalysisResult(NamedTuple):
    """The result of an analysis: lines and objects."""

    lines: Callable[[], Iterable[Line | Fitting]]
    objects: Callable[[], Iterable[Json]]
    fails: bool = False  #: the exit code is 1
    always: bool = False  #: without a frame too
    sarif: Callable[[], Json] | None = None


Function = Callable[..., AnalysisResult]


def analysis(
    rows: Rows,
    *examples: str,
    params: Sequence[click.Parameter | str] = (),
    sort: ColumnSet[Any] | None = None,
    reader: type[LedgerConsumer] = LedgerConsumer,
    formats: Sequence[str] = FORMATS,
) -> Callable[[Function], GroupedCommand]:
    """Return a decorator that makes a command of a function of a reading that has ended, and of what was requested.

    The command has the function's name, and the function its own options, ``params``, as further arguments. ``rows``:
    the kinds of its objects; ``sort``: the columns that these are sorted by; ``reader``: what fills the ledger.
    """
    arguments = [each for each in params if isinstance(each, click.Argument)]
    every = [
        *arguments,
        "[CAPTURE…]",
        *choosing_options(streams=reader.lists_streams),
        time_option(TIMES),
        "LIVE",
        option("--fail-fast", "End with 1 at the first thing that is certainly wrong."),
        *(each for each in params if each not in arguments),
        *([] if sort is None else sort_options(sort)),
        "INPUT",
        format_option(formats),
        "color value-bytes" if "value" in keys(rows) else "color",
        "output force REDACTION quiet",
    ]
    own = [each.name or "" for each in named(*params)]

    def decorate(function: Function) -> GroupedCommand:
        def run(asked: Invocation) -> int:
            status = reader.instead(asked)
            if status is not None:
                return status
            options = asked.options
            asked.order = list if sort is None else sorting(sort, options)
            consumer, source = reader(asked), asked.source()
            with asked.sink() as sink:
                if source.live:
                    asked.captures, asked.paths = (_NO_CAPTURE,), [source.name]
                reading = consumer.read(source, sink, fail_fast=options["fail_fast"])
                answer = function(consumer, asked, **{name: options[name] for name in own})
                if consumer.ledger.frames or answer.always:  # else the summary says that there is nothing
                    if asked.format == "sarif" and answer.sarif is not None:
                        sink.write(dump(answer.sarif()) + "\n")
                    else:
                        report(sink, asked, rows, answer.lines, answer.objects)
                wrong = consumer.wrong() if options["fail_fast"] else None
                status = reading.conclude(asked.summary)
                if wrong is not None:
                    note(f"dcpdump: --fail-fast: {wrong}")
            fails = answer.fails or wrong is not None
            return ExitCode.FINDINGS if fails and status in (ExitCode.DONE, ExitCode.DAMAGED) else status

        run.__name__, run.__doc__ = function.__name__, function.__doc__
        return command(*examples, params=every, rows=rows)(run)

    return decorate
