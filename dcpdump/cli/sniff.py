"""Provide ``dcpdump sniff``: print chosen frames of an interface as they pass."""

import json
import os
import signal
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any

import click

from dcpdump.batch.dissector import Dissection
from dcpdump.batch.ring_blocks import block_of
from dcpdump.capture.live import ANY, Live, LiveQueue, Rotation, Save, drop_privileges, interfaces
from dcpdump.cli.frame_output import FrameOutput
from dcpdump.cli.grouped import command
from dcpdump.cli.options import Invocation, format_option, option
from dcpdump.cli.reading import Blocks, Consumer, Reading, Source
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
from dcpdump.render.objects import SHOWN
from dcpdump.render.style import Palette
from dcpdump.text import counted
from dcpdump.wire.value import decompress

# -- packets of an interface, and their counts --------------------------------------------------------


_NO_ROTATION = Rotation()


class LiveSource(Source):
    """A source of packets as they pass."""

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

    ``write``: the file for all packets; ``rotation`` says when another one is begun.
    """

    live = True

    def __init__(self, asked: Invocation, write: str | None = None, rotation: Rotation = _NO_ROTATION) -> None:
        options, command = asked.options, click.get_current_context().info_name or ""
        ports = None if options["port"] is None else parse_ranges("--port", options["port"], 0xFFFF)
        self._live = Live(options["interface"] or ANY, ports=ports, expression=options["bpf"] or "", command=command)
        self._asked, self._write, self._rotation = asked, write, rotation
        self.name = self._live.name
        # Without privileges our own files may be unreadable: import now what is otherwise imported at first use.
        Palette(asked.coloured(terminal=True))
        decompress(b"\1\0.")
        for name in ("openers", "unsealer") if asked.keys.files else ():
            import_module(f"dcpdump.tls.{name}")
        self._user = drop_privileges(writes=bool(write or asked.path))
        self._queue: LiveQueue
        self.stop = Stop(lambda: self._queue.stop())

    @contextmanager
    def opened(self, dissection: Dissector) -> Iterator[None]:
        """Capture; report on SIGUSR1 the packet counts so far."""
        options, write = self._asked.options, self._write
        save = Save(write, self._rotation, force=self._asked.force) if write else None
        queue = LiveQueue(self._live, limit=options["buffer"], save=save, seconds=options["duration"])

        def report(*_: object) -> None:
            # Written by the handler itself: the loop is blocked where its output is not read.
            with suppress(OSError):  # the terminal was closed
                os.write(2, f"{_drops_in_words(self.packet_counts(dissection))}\n".encode())

        before = signal.signal(signal.SIGUSR1, report)
        try:
            with queue as self._queue, self.stop:  # before the note that says how to end it
                if not options["quiet"]:
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
    params=[
        "FRAMES latency ANY-INTERFACE list-interfaces duration bpf buffer keylog",
        option("-w, --write FILE", "Write all packets to a pcapng file as well."),
        option("-C MB", "Begin another file after so many million bytes.", name="megabytes"),
        option("-G SECONDS", "Begin another file after so long.", name="seconds"),
        option("-W FILES", "Keep only so many, the newest.", name="files"),
        format_option(tuple(OUTPUTS)),
        "color value-bytes output force show-secrets REDACTION time ONE-JOB",
        option("--summary [text|json|none]", "Packet accounting at the end.", default="text", show_default=False),
        "NO-SUMMARY",
    ],
    rows=[SHOWN],
)
def sniff(
    asked: Invocation,
    list_interfaces: bool,
    write: str | None,
    megabytes: float | None,
    seconds: float | None,
    files: int | None,
) -> int:
    """Print the DCP frames of an interface as they pass, until Ctrl-C, --count or --duration.

    DCP is found by its content, on any port; --port spares the kernel all other packets. The rights that this
    needs are given up as soon as the interface is open. Where there are none, 'dumpcap -w - | dcpdump read -'
    does the same.
    """
    if list_interfaces:
        return show_interfaces()
    if write is None and (megabytes or seconds or files):
        raise click.UsageError("-C, -G and -W say when -w begins another file: -w FILE is missing")
    if files and not (megabytes or seconds):
        raise click.UsageError("-W keeps the newest files of -C or -G; neither is given")
    rotation = Rotation(round((megabytes or 0) * _MILLION), seconds or 0, files or 0)
    return print_passing(asked, write, lambda: InterfaceSource(asked, write, rotation))


def print_passing(asked: Invocation, write: str | None, source_of: Callable[[], LiveSource]) -> int:
    """Print chosen frames as they pass, and return the exit code. ``write``: a file that gets all packets."""
    asked.validate()
    if write is not None and asked.redactor is not None:  # in packets all can be read
        raise click.UsageError("-w writes packets as they are, with what --redact hides: dcpdump redact hides it there")
    source = source_of()
    with asked.sink(paged=False) as sink:
        dissection = asked.dissect(Dissection)
        with source.opened(dissection):
            return Reading(source, dissection, FrameOutput(asked, sink), sink).run(asked.summary)


def show_interfaces() -> int:
    """List the interfaces."""
    with Sink(None) as sink:
        for each in interfaces():
            words = [each.name, "" if each.up else "(down)", *each.addresses]
            sink.write(safe("  ".join(word for word in words if word)) + "\n")
    return ExitCode.DONE
