"""Provide ``dcpdump sniff``: print chosen frames of an interface as they pass."""

import json
import os
import signal
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any

import click

from dcpdump.batch.dissector import Dissection
from dcpdump.batch.ring_blocks import block_of
from dcpdump.capture.key_log import KeyLogs
from dcpdump.capture.live import ANY, Live, LiveQueue, Rotation, Save, drop_privileges, interfaces
from dcpdump.cli.frame_output import FrameOutput
from dcpdump.cli.grouped import command
from dcpdump.cli.options import (
    LATENCY,
    Display,
    display,
    display_options,
    interface_options,
    jobs_option,
    key_logs,
    keylog_option,
    selection,
    selection_options,
    summary_of,
    summary_options,
    time_option,
)
from dcpdump.cli.reading import Blocks, Consumer, Reading
from dcpdump.cli.signals import Stop
from dcpdump.cli.sink import Sink
from dcpdump.cli.summary import balance, balance_line, nothing_found, tls_lines
from dcpdump.cli.terminal import note
from dcpdump.dissect import Dissector
from dcpdump.errors import ExitCode
from dcpdump.escape import safe
from dcpdump.filter.choices import parse_ranges
from dcpdump.record import Json
from dcpdump.render import OUTPUTS
from dcpdump.render.style import Palette
from dcpdump.text import counted
from dcpdump.wire.value import decompress

# -- packets of an interface, and their counts --------------------------------------------------------


class LiveSource(ABC):
    """A source of packets as they pass, which a signal ends."""

    endless = True
    #: Files of which all bytes are there.
    names: Sequence[str] = ()
    stop: Stop

    @abstractmethod
    def blocks(self) -> Blocks:
        """Yield the packets; None while nothing arrives."""

    @abstractmethod
    def passed(self, dissection: Dissector) -> tuple[Json, str, bool]:
        """Return the counts of packets, as an object and as a line, and whether there was anything to decode."""

    def sum_up(self, dissection: Dissector, consumer: Consumer[Any], form: str, *, interrupted: bool) -> None:
        """Write what passed by, and what was decoded, on standard error; an interrupt is the usual end."""
        if form == "none":
            return
        counts, line, carried = self.passed(dissection)
        if form == "json":
            note(json.dumps({**balance(dissection, (), consumer.frames), **counts}))
            return
        for each in (line, *tls_lines(dissection)):
            note(each)
        if dissection.tally.frames:
            note(balance_line(dissection, consumer.frames, consumer.verb))
        elif carried:
            what, hint = nothing_found(dissection)
            note(f"dcpdump: note: {what}")
            note(f"hint: {hint}")

    def status(self, _: Dissector) -> int:
        """Return the exit code: Ctrl-C is the usual end."""
        return self.stop.terminated or ExitCode.DONE


class InterfaceSource(LiveSource):
    """A source of packets: an interface. Once it is open all privileges are dropped. Raises LiveError, FilterError.

    ``write``: a file that packets are to be written to.
    """

    def __init__(self, options: Mapping[str, Any], shown: Display, keys: KeyLogs, write: str | None = None) -> None:
        port, command = options["port"], click.get_current_context().info_name or ""
        ports = None if port is None else parse_ranges("--port", port, 0xFFFF)
        self._live = Live(options["interface"] or ANY, ports=ports, expression=options["bpf"] or "", command=command)
        self._limit, self._duration = options["buffer"], options["duration"]
        self.name = self._live.name
        # Without privileges our own files may be unreadable: import now what is otherwise imported at first use.
        Palette(shown.coloured(terminal=True))
        decompress(b"\1\0.")
        for name in ("openers", "unsealer") if keys.files else ():
            import_module(f"dcpdump.tls.{name}")
        self._user = drop_privileges(writes=bool(write or shown.path))
        self._queue: LiveQueue
        self.stop = Stop(lambda: self._queue.stop())

    @contextmanager
    def capturing(self, dissection: Dissector, save: Save | None = None, *, quiet: bool) -> Iterator[None]:
        """Capture; report on SIGUSR1 the packet counts so far. ``save`` gets all packets."""
        queue = LiveQueue(self._live, limit=self._limit, save=save, seconds=self._duration)

        def report(*_: object) -> None:
            # Written by the handler itself: the loop is blocked where its output is not read.
            with suppress(OSError):  # the terminal was closed
                os.write(2, f"{_drops_in_words(self.packet_counts(dissection))}\n".encode())

        before = signal.signal(signal.SIGUSR1, report)
        try:
            with queue as self._queue, self.stop:  # before the note that says how to end it
                if not quiet:
                    rights = f" · rights dropped, now {self._user}" if self._user else ""
                    note(f"capturing on {self.name} · ring {self._live.ring.size >> 20} MiB{rights} · Ctrl-C stops")
                yield
        finally:
            signal.signal(signal.SIGUSR1, before)

    @property
    def ended_ns(self) -> int | None:
        """Return when capturing ended; None while it has not."""
        return self._queue.ended_ns

    def blocks(self) -> Blocks:
        """Yield the packets; None while nothing arrives."""
        for batch in self._queue.batches():
            yield block_of(batch, self.name) if batch else None

    def packet_counts(self, dissector: Dissector) -> Json:
        """Return the number of packets by what was done with them.

        ``received`` is the sum of the fields after ``dropped_by_kernel``.
        """
        queue, decoded = self._queue, dissector.balance.packets
        return {
            "received": queue.received,
            "dropped_by_kernel": queue.dropped_by_kernel,
            "dropped_by_dcpdump": queue.dropped,
            "decoded": decoded,
            "not_looked_at": queue.received - queue.dropped - decoded,
        }

    def passed(self, dissection: Dissector) -> tuple[Json, str, bool]:
        """Stop capturing, and return how many packets were handled how."""
        self._queue.finish()
        counts = self.packet_counts(dissection)
        return counts, _drops_in_words(counts), bool(counts["decoded"])

    def status(self, _: Dissector) -> int:
        """Return the exit code: Ctrl-C is the usual end of a capture. Raises LiveError where it could not go on."""
        if self._queue.error is not None:
            raise self._queue.error
        return super().status(_)


def _drops_in_words(counts: Json) -> str:
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


_MILLION = 1_000_000


@command(
    "sudo dcpdump sniff -i any --port 11210 -f line",
    "sudo dcpdump sniff -i eth0 -w node1.pcapng -C 100 -W 10",
    "sudo dcpdump sniff --opcode stream_end --duration 60",
    rows=("frame",),
)
@selection_options(captures=True)
@LATENCY.option
@interface_options()
@keylog_option
@click.option("-w", "--write", metavar="FILE", help="Write all packets to a pcapng file as well.")
@click.option(
    "-C",
    "megabytes",
    type=click.FloatRange(min=0, min_open=True),
    metavar="MB",
    help="Begin another file after so many million bytes.",
)
@click.option(
    "-G",
    "seconds",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="Begin another file after so long.",
)
@click.option("-W", "files", type=click.IntRange(min=1), metavar="FILES", help="Keep only so many, the newest.")
@display_options(tuple(OUTPUTS))
@time_option()
@jobs_option()
@summary_options("What came of all packets.")
def sniff(
    list_interfaces: bool,
    write: str | None,
    megabytes: float | None,
    seconds: float | None,
    files: int | None,
    **options: Any,
) -> int:
    """Print the DCP frames of an interface as they pass, until Ctrl-C, --count or --duration.

    DCP is found by its content, on any port; --port spares the kernel all other packets. The rights that this
    needs are given up as soon as the interface is open. Where there are none, 'dumpcap -w - | dcpdump read -'
    does the same.
    """
    if list_interfaces:
        return show_interfaces()
    quiet, summary = options["quiet"], summary_of(options)
    chosen, shown, keys = selection(options), display(options), key_logs(options)
    rotation = _rotation(write, megabytes, seconds, files)
    refuse_hidden_packets(shown, write)
    source = InterfaceSource(options, shown, keys, write)
    with Sink(shown.path, force=shown.force) as sink:
        save = Save(write, rotation, force=shown.force) if write else None
        dissection = Dissection(show_secrets=shown.show_secrets, secrets=keys.secrets)
        with source.capturing(dissection, save, quiet=quiet):
            reading = Reading(source, dissection, FrameOutput(chosen, shown, sink), sink)
            return reading.run(summary)


def refuse_hidden_packets(shown: Display, write: str | None) -> None:
    """Refuse to write packets, in which all can be read, where that is to be hidden."""
    if write is not None and shown.redactor is not None:
        raise click.UsageError("-w writes packets as they are, with what --redact hides: dcpdump redact hides it there")


def show_interfaces() -> int:
    """List the interfaces."""
    with Sink(None) as sink:
        for each in interfaces():
            words = [each.name, "" if each.up else "(down)", *each.addresses]
            sink.write(safe("  ".join(word for word in words if word)) + "\n")
    return ExitCode.DONE


def _rotation(write: str | None, megabytes: float | None, seconds: float | None, files: int | None) -> Rotation:
    if write is None and (megabytes or seconds or files):
        raise click.UsageError("-C, -G and -W say when -w begins another file: -w FILE is missing")
    if files and not (megabytes or seconds):
        raise click.UsageError("-W keeps the newest files of -C or -G; neither is given")
    return Rotation(round((megabytes or 0) * _MILLION), seconds or 0, files or 0)
