"""Provide ``dcpdump carve``: write the packets of chosen frames as one pcapng."""

from collections import Counter
from collections.abc import Iterator, Sequence
from os.path import basename

from dcpdump import __version__
from dcpdump.capture import blocks
from dcpdump.capture.blocks import PcapngWriter
from dcpdump.capture.file import Capture, timeline
from dcpdump.capture.key_log import KeyLogs
from dcpdump.capture.pcap import CARVED, DISORDER, ORDER
from dcpdump.cli.frame_output import collection_notes
from dcpdump.cli.grouped import command
from dcpdump.cli.options import Invocation, option
from dcpdump.cli.reading import progress
from dcpdump.cli.sink import Sink, saying_what_is_left
from dcpdump.cli.summary import damage_lines, mixed_lines, nothing_found, status_of
from dcpdump.cli.terminal import note
from dcpdump.errors import CaptureError, ExitCode
from dcpdump.escape import safe
from dcpdump.net.limits import OUT_OF_ORDER
from dcpdump.rewrite.carving import Carving
from dcpdump.rewrite.needed import CONTEXT, NEEDED, NEIGHBOUR
from dcpdump.text import counted
from dcpdump.tls.secrets import Secrets

#: Captures that the result names as those it was carved from, at most.
_NAMED = 10
#: Why frames come along that were not chosen, in words: a noun, and what follows it.
_ALONG = (
    (NEEDED, ("frame", " of set-up")),
    (CONTEXT, ("frame", " without which these are not found or read")),
    (NEIGHBOUR, ("neighbour", " in the same packets")),
)


@command(
    "dcpdump carve node1.pcap --vbucket 417 -w piece.pcapng",
    "dcpdump carve captures/ --connection 3 --since +30s -w piece.pcapng",
    "dcpdump carve node1.pcap --problems -w - | dcpdump read -",
    params=[
        "CAPTURE… NUMBERED-FRAMES",
        option(
            "-w, --write OUT",
            "The pcapng to write, whatever its name; - is standard output.",
            name="out",
            required=True,
        ),
        option("--force", "Let OUT replace an existing file."),
        "salvage keylog memory ONE-JOB",
        option("-q, --quiet", "Say nothing if all is well."),
        option("--with-secrets", "Write the secrets of --keylog to OUT, so that it opens itself."),
    ],
)
def carve(asked: Invocation, out: str, force: bool, quiet: bool, with_secrets: bool) -> int:
    """Write the packets that carry chosen frames, and those that are needed to understand them.

    Those are the connection's handshake and set-up (HELLO, authentication, bucket, open, controls), the requests of
    the frames' streams, and of answers. How many frames come along is said: also those that happen to be in the same
    packets. The chosen ones read the same in OUT, but for numbers of frames, packets and connections. OUT says in a
    comment that it was carved: what is not in it is not taken for lost, and nothing is judged by it. The set-up has
    the login: redact OUT before you share it. Of TLS connections OUT has the secrets that the input carried.
    """
    chosen, secrets, paths = asked.frames, asked.keys.secrets, asked.paths
    carried, unaided = Secrets(), asked.again()
    unaided.keys = KeyLogs(secrets=carried)
    inputs = unaided.open(paths)
    for capture in inputs:
        if not capture.rereadable:
            raise CaptureError("carving reads its input more than once", capture.name, "save it to a file first")
    carried.gather()
    secrets.add_all(carried)
    with (
        Sink(out, force=force, inputs=paths) as sink,
        saying_what_is_left(lambda: sink.left),
        progress(() if quiet else paths),
    ):
        carving = Carving(inputs, chosen.masks, chosen.count, chosen.begin, asked.limits, secrets)
        carving.survey()
        for line in damage_lines(inputs):
            note(line)
        if not carving.dissector.tally.frames:
            what, hint = nothing_found(carving.dissector)
            raise CaptureError(what, "", hint)
        if not carving.frames:
            read = counted(carving.dissector.tally.frames, "frame")
            raise CaptureError(f"no frame of the input matches; nothing was written ({read} read)")
        lines = _secrets(carving, secrets if with_secrets else carried)
        secrets.feed(lines)  # as whoever reads OUT has them: a resumed session under its own random
        carving.add_needed()
        packets = 0
        for piece in _pieces(carving, inputs, paths, lines, salvage=asked.salvage):
            sink.write_encoded(piece)
            packets += 1
    for line in mixed_lines(carving.dissector):
        note(line)
    asked.say(*collection_notes(chosen.texts, carving.dissector))
    status = status_of(carving.dissector, inputs)
    if carving.incomplete:
        note(f"dcpdump: warning: of {carving.incomplete:,} connections the frames decode otherwise in {out}")
        status = ExitCode.DAMAGED
    frames = counted(carving.dissector.tally.frames, "frame")
    captured = counted(carving.dissector.balance.packets, "packet")
    asked.say(f"{out}: {carving.frames:,} of {frames}{''.join(_along(carving.carried))} · {packets:,} of {captured}")
    if lines:
        asked.say(f"dcpdump: note: {out} carries the secrets of its TLS connections: it opens itself")
    elif any(each.opened_bytes for each in carving.dissector.tls_reports.values()):
        asked.say(f"dcpdump: note: reading it needs the same key log{_resumed(carving, secrets)}")
    return status


def _along(carried: Counter[tuple[int, bool]]) -> Iterator[str]:
    """Yield in words which other frames are written with the chosen ones."""
    for use, what in _ALONG:
        documents, count = carried[use, True], carried[use, True] + carried[use, False]
        if count:
            named = f" ({counted(documents, 'document')})" if documents else ""
            yield f", and {counted(count, what[0])}{what[1]}{named}"


def _secrets(carving: Carving, secrets: Secrets) -> bytes:
    """Return the key log of the connections that are taken."""
    lines: list[bytes] = []
    for number, report in carving.dissector.tls_reports.items():
        if number in carving.chosen:
            for random, owner in report.randoms:
                lines += secrets.lines(random, owner)
    return b"".join(lines)


def _resumed(carving: Carving, secrets: Secrets) -> str:
    """Return what else is needed where a session is resumed whose secrets are logged for its first connection alone."""
    chosen = [each for number, each in carving.dissector.tls_reports.items() if number in carving.chosen]
    if not carving.incomplete or all(secrets.knows(random) for each in chosen for random, _ in each.randoms):
        return ""
    return " and the connection whose session was resumed: --with-secrets writes what opens it alone"


def _comments(inputs: Sequence[Capture], order: int) -> list[str]:
    """Return the file's comments: that it was carved, from which captures, and the same comments of these."""
    names = [safe(basename(capture.name)) for capture in inputs]
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    told = (
        f"{CARVED} {__version__} from {', '.join(names[:_NAMED])}{more}: {DISORDER if order == OUT_OF_ORDER else ORDER}"
    )
    return list(dict.fromkeys((told, *(each.health.carved for each in inputs if each.health.carved))))


def _pieces(
    carving: Carving, inputs: Sequence[Capture], paths: Sequence[str], lines: bytes, *, salvage: bool
) -> Iterator[bytes]:
    """Yield the chosen packets as they are written, with the interfaces and comments of their captures.

    ``lines`` are of a key log, and are written too.
    """
    head = blocks.secrets(lines) if lines else b""
    writer, choice = PcapngWriter(f"dcpdump {__version__}"), carving.choice()
    captures = {path: Capture(path, salvage=salvage) for path in paths}
    begun = False
    for packet in timeline(list(captures.values())):
        if not choice.chooses(packet):
            continue
        piece = writer.packet(packet, *captures[packet.file].comments_on(packet))
        yield piece if begun else writer.header(_comments(inputs, carving.order)) + head + piece
        begun = True
