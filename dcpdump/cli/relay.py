"""Provide ``dcpdump relay``: pass connections on to a server, and print the frames that pass."""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import click

from dcpdump import __version__
from dcpdump.batch.block import gathered
from dcpdump.capture.blocks import PcapngWriter
from dcpdump.capture.live import new_file
from dcpdump.capture.relay import Address, Relay
from dcpdump.capture.stream_queue import StreamQueue
from dcpdump.cli.grouped import command
from dcpdump.cli.options import Invocation, format_option, option
from dcpdump.cli.reading import Blocks
from dcpdump.cli.signals import Stop
from dcpdump.cli.sniff import LiveSource, print_passing
from dcpdump.cli.terminal import note
from dcpdump.dissect import Dissector
from dcpdump.errors import unwritable
from dcpdump.net.endpoints import Endpoint
from dcpdump.net.packet import Packet
from dcpdump.record import Json
from dcpdump.render import OUTPUTS
from dcpdump.render.text_columns import bytes_text
from dcpdump.text import counted


class AddressParam(click.ParamType):  # type: ignore[type-arg]
    """An address: ``HOST:PORT``, ``[::1]:PORT``; of where to listen a port alone, of a server a host alone."""

    name = "HOST:PORT"

    def __init__(self, host: str = "", port: int = 0) -> None:
        self._host, self._port = host, port

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Address:
        """Return the host and the port."""
        if isinstance(value, tuple):
            return str(value[0]), int(value[1])
        host, colon, port = str(value).rpartition(":")
        if not colon and str(value).isdecimal() and self._host:
            host, port = self._host, str(value)
        elif (not colon and self._port) or value.endswith("]") or (value.count(":") > 1 and "[" not in value):
            host, port = str(value), str(self._port or "")
        if not host or not port.isdecimal() or int(port) > 0xFFFF:
            raise click.BadParameter(f"{value!r} is not an address, such as 127.0.0.1:12210", ctx, param)
        return host.strip("[]"), int(port)


class RelaySource(LiveSource):
    """A source of packets: connections that are passed on. ``write``: a file that gets their packets first."""

    def __init__(self, asked: Invocation, listen: Address, target: Address, write: str | None) -> None:
        self._relay = Relay(listen, target, lambda line: note(f"dcpdump: note: {line}"))
        self._asked, self._write, self._ends = asked, write, (listen, target)
        self.stop = Stop(self._relay.stop)

    @contextmanager
    def opened(self, dissection: Dissector) -> Iterator[None]:
        """Pass on what clients send."""
        self._save = SavedPackets(self._write, force=self._asked.force) if self._write else None
        listen, target = self._ends
        with self.stop:
            if not self._asked.options["quiet"] or not listen[1]:  # else the port is not known
                note(f"relaying {Endpoint(*self._relay.address)} → {Endpoint(*target)} · Ctrl-C stops")
            try:
                yield
            finally:
                self._relay.stop()

    def blocks(self) -> Blocks:
        """Yield the packets; None while nothing passes."""
        packets = self._relay.packets()
        for batch in StreamQueue(packets if self._save is None else self._save.through(packets)).batches():
            yield gathered(batch) if batch else None

    def passed(self, dissection: Dissector) -> tuple[Json, str, bool]:
        """Return the counts of bytes and connections, as an object and as a line, and whether there were any."""
        relay = self._relay
        counts = {"relayed_connections": relay.connections, "relayed_bytes": relay.bytes}
        line = f"passed on {counted(relay.connections, 'connection')} · {bytes_text(relay.bytes)}"
        return counts, line, relay.bytes > 0


class SavedPackets:
    """A pcapng file that gets packets as they pass, whole ones wherever it ends. Raises OutputError."""

    def __init__(self, path: str, *, force: bool) -> None:
        self._path = path
        self._writer = PcapngWriter(f"dcpdump {__version__}")
        self._file = os.fdopen(new_file(path, force=force), "wb", buffering=0)
        self._put(self._writer.header())

    def through(self, packets: Iterable[Packet]) -> Iterator[Packet]:
        """Write packets, and yield each once it is in the file."""
        with self._file:
            for packet in packets:
                self._put(self._writer.packet(packet, "relay"))
                yield packet

    def _put(self, data: bytes) -> None:
        left = memoryview(data)
        try:
            while left:
                left = left[self._file.write(left) or 0 :]
        except OSError as error:
            with suppress(OSError):  # a pipe has no length
                self._file.truncate(self._file.tell() - (len(data) - len(left)))
            raise unwritable(error, self._path) from error


@command(
    "dcpdump relay --listen 12210 --to db1:11210 -f line",
    "dcpdump relay --listen 12210 --to db1 --opcode stream_req,stream_end -w talk.pcapng",
    "dcpdump relay --listen 12207 --to db1:11207 --keylog keys.log",
    params=[
        option(
            "--listen HOST:PORT",
            "Where clients connect to: an address, or a port of this machine; by default any free one.",
            AddressParam(host="127.0.0.1"),
            default="127.0.0.1:0",
            show_default=False,
        ),
        option("--to HOST:PORT", "The server, at port 11210 by default.", AddressParam(port=11210), required=True),
        "FRAMES latency keylog",
        option("-w, --write FILE", "Write all packets to a pcapng file as well, with made-up headers."),
        format_option(tuple(OUTPUTS)),
        "color value-bytes output force show-secrets REDACTION time",
        option("--summary [text|json|none]", "Byte accounting at the end.", default="text", show_default=False),
        "NO-SUMMARY",
    ],
)
def relay(asked: Invocation, listen: Address, to: Address, write: str | None) -> int:
    """Pass connections on to a server, unchanged, and print the DCP frames that pass, until Ctrl-C or --count.

    It needs no rights: a client connects to the relay instead of the server. Other nodes, which a client finds in a
    cluster map, it connects to directly; those connections do not pass here.
    """
    return print_passing(asked, write, lambda: RelaySource(asked, listen, to, write))
