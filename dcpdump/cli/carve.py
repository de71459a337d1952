"""Provide ``dcpdump carve``: write the packets of chosen frames as one pcapng."""

from collections.abc import Iterator, Sequence
from typing import Any

import click

from dcpdump import __version__
from dcpdump.batch.filter import masks
from dcpdump.capture import expand, timeline
from dcpdump.capture.comments import CommentReader
from dcpdump.capture.raw_records import RawRecords
from dcpdump.capture.write_packets import PcapngWriter
from dcpdump.cli import exit as code
from dcpdump.cli.grouped import GroupedCommand
from dcpdump.cli.input_options import input_of, input_options
from dcpdump.cli.options import selection, selection_options
from dcpdump.cli.progress import progress
from dcpdump.cli.sink import Sink
from dcpdump.cli.stderr import note
from dcpdump.cli.summary import damage_lines, nothing_found, status_of
from dcpdump.errors import CaptureError
from dcpdump.rewrite.carving import Carving


@click.command(cls=GroupedCommand)
@click.argument("captures", nargs=-1, required=True, metavar="CAPTURE…")
@selection_options(captures=True)
@click.option("-w", "--write", "out", required=True, metavar="OUT", help="The pcapng to write; - is standard output.")
@click.option("--force", is_flag=True, help="Let OUT replace an existing file.")
@input_options(follow=False)
@click.option("-q", "--quiet", is_flag=True, help="Say nothing if all is well.")
def carve(captures: tuple[str, ...], out: str, force: bool, quiet: bool, **options: Any) -> int:
    """Write the packets that carry chosen frames, and those that are needed to understand them.

    Those are the connection's handshake and set-up (HELLO, authentication, bucket, open, controls) and the requests of
    the frames' streams. Reading OUT with the same filter shows the same frames; their numbers, and those of packets and
    connections, are other ones, and what lies between them counts as lost. The set-up has the login: redact OUT before
    you share it.
    """
    chosen, given = selection(options), input_of(options)
    paths = expand(captures)
    inputs = given.open(paths)
    for capture in inputs:
        if not capture.rereadable:
            raise CaptureError("carving reads its input more than once", capture.name, "save it to a file first")
    with Sink(out, force=force, inputs=paths) as sink, progress(() if quiet else paths):
        wanted = masks(chosen.texts, chosen.filter, window=chosen.window)
        carving = Carving(inputs, wanted, chosen.count, chosen.begin, given.limits)
        carving.survey()
        if not carving.dissector.tally.frames:
            what, hint = nothing_found(carving.dissector)
            raise CaptureError(what, "", hint)
        if not carving.frames:
            found = f"{carving.dissector.tally.frames:,} frames"
            raise CaptureError(f"no frame of the input matches; nothing was written ({found} were read)")
        carving.settle()
        packets = sink.write_pieces(_pieces(carving, paths, salvage=given.salvage))
    for line in damage_lines(inputs):
        note(line)
    status = status_of(carving.dissector, inputs)
    if carving.incomplete:
        note(f"dcpdump: warning: of {carving.incomplete:,} connections the frames decode otherwise in {out}")
        status = code.DAMAGED
    if not quiet:
        frames = f"{carving.frames:,} of {carving.dissector.tally.frames:,} frames"
        note(f"{out}: {frames} · {packets:,} of {carving.dissector.balance.packets:,} packets")
    return status


def _pieces(carving: Carving, paths: Sequence[str], *, salvage: bool) -> Iterator[bytes]:
    """Yield the chosen packets as they are written, with the interfaces and comments of their captures."""
    writer, choice = PcapngWriter(f"dcpdump {__version__}"), carving.choice()
    raw_records = {path: RawRecords(path, salvage=salvage) for path in paths}
    comments = {path: CommentReader() for path in paths}
    begun = False
    for packet in timeline(list(raw_records.values())):
        comment = comments[packet.file].of(packet, raw_records[packet.file].taken())
        if not choice.takes(packet):
            continue
        piece = writer.packet(packet, comment.interface, comment.comments)
        yield piece if begun else writer.header() + piece
        begun = True
