"""Provide ``dcpdump redact``: write captures that may be shared."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import click

from dcpdump.capture.file import Capture
from dcpdump.cli.grouped import command
from dcpdump.cli.options import LEVELS, Invocation, is_given, option, salt_of
from dcpdump.cli.reading import progress
from dcpdump.cli.sink import Sink, saying_what_is_left
from dcpdump.cli.summary import damage_lines, nothing_found, status_of
from dcpdump.cli.terminal import note
from dcpdump.errors import CaptureError, OutputError, writing
from dcpdump.escape import bytes_of
from dcpdump.redact import Pseudonyms
from dcpdump.rewrite.redaction import Flaw, Redaction
from dcpdump.rewrite.spill import Spill
from dcpdump.text import counted
from dcpdump.unfinished import UnfinishedFolder

_NOT_INSIDE_TLS = "redact cannot conceal inside TLS; read --redact and export --redact can"


@command(
    "dcpdump redact node1.pcap -w for-support.pcapng",
    "dcpdump redact node1.pcap -w for-support.pcapng --level full",
    "dcpdump redact node1/*.pcap -w folder/ --salt-file salt",
    params=[
        click.Argument(["captures"], nargs=-1, required=True, metavar="IN…"),
        option("-w, --write OUT", "The file to write; of several, the folder.", name="out", required=True),
        option("--level [partial|full]", LEVELS, default="partial"),
        option("--salt TEXT", "The salt of the hashes, with which the result is repeatable."),
        "salt-file",
        option("--force", "Let OUT replace an existing file."),
        "salvage memory ONE-JOB",
        option("--keylog FILE", "", name="key_logs", multiple=True, hidden=True),
        option("-q, --quiet", "Say nothing if all is well."),
    ],
)
def redact(
    asked: Invocation,
    out: str,
    level: str,
    salt: str | None,
    salt_file: str | None,
    force: bool,
    quiet: bool,
    key_logs: tuple[str, ...],
) -> int:
    """Write captures that may be shared: keys, values, xattrs, credentials and buckets replaced at equal length.

    OUT has the same records with the same times and lengths; framing, seqnos, opaques and CAS stay, and so do valid
    checksums, JSON and Snappy. Equal keys stay equal. Bytes that are not understood (in no frame, other protocols, TLS,
    comments of a pcapng) are blanked or left out.

    The result is read back before it appears: no key and no value of 8 bytes or more may be anywhere in it, and
    it must decode to the same frames.
    """
    if key_logs:
        raise click.UsageError(_NOT_INSIDE_TLS)
    if salt is not None and is_given("salt_file"):
        raise click.UsageError("either --salt or --salt-file, not both")
    paths = asked.paths
    # Without secrets: what is in TLS stays closed.
    inputs = [Capture(path, salvage=asked.salvage) for path in paths]
    for capture in inputs:
        if not capture.rereadable:
            raise CaptureError("redaction reads its input twice", capture.name, "save it to a file first")
    words = Pseudonyms(_salt(salt, salt_file))
    folder = os.path.dirname(os.path.abspath(out))
    if not os.path.isdir(folder):
        raise OutputError("there is no such folder", folder)
    with Spill(folder) as spill:
        redaction = Redaction(inputs, words, spill, full=level == "full", limits=asked.limits)
        with (
            _target(paths, out, force) as write,
            saying_what_is_left(lambda: f"nothing was written to {out}"),
            progress(() if quiet else paths),
        ):
            redaction.survey()
            for line in damage_lines(inputs):
                note(line)
            if redaction.dissector.tally.frames == 0:
                what, hint = nothing_found(redaction.dissector)
                raise CaptureError(what, "", _NOT_INSIDE_TLS if redaction.dissector.tls_reports else hint)
            parts = [write(path, redaction.write(path, salvage=asked.salvage)) for path in paths]
            _refuse_flawed(redaction.prove(parts, [Capture(part) for part in parts]), out, level)
    for path, name in _names(paths).items() if len(paths) > 1 else ():
        if name != os.path.basename(path).removesuffix(_packed(path)):
            asked.say(f"dcpdump: note: {path} is written as {name}, since another input has its name")
    asked.say(*_report(redaction, out))
    return status_of(redaction.dissector, inputs)


def _salt(text: str | None, file: str | None) -> bytes:
    if text is None:
        return salt_of(file)
    if not text:
        raise click.UsageError("the salt is empty")
    return bytes_of(text)


@contextmanager
def _target(paths: Sequence[str], out: str, force: bool) -> Iterator[Callable[[str, Iterable[bytes]], str]]:
    """Yield what writes the result of an input, and returns where it can be read back: in a file; of several, a folder.

    That appears under its name if all went well, and otherwise not at all.
    """
    if _packed(out):
        raise click.UsageError(f"{out}: the result is not compressed; give it another name, and compress it afterwards")
    if len(paths) == 1 and not os.path.isdir(out):
        with Sink(out, force=force, inputs=paths) as sink:
            part = sink.part
            if part is None:
                raise OutputError("the result must be a file: it is read back before it is given away", out)

            def write_file(_: str, pieces: Iterable[bytes]) -> str:
                for piece in pieces:
                    sink.write_encoded(piece)
                sink.flush()
                return part

            yield write_file
        return
    if os.path.exists(out):
        raise OutputError("the output exists already", out, "name a folder that is not there yet")
    names = _names(paths)
    with UnfinishedFolder(Path(os.path.abspath(out))) as folder:

        def write(path: str, pieces: Iterable[bytes]) -> str:
            part = str(folder / names[path])
            with Sink(part) as sink:
                for piece in pieces:
                    sink.write_encoded(piece)
            return part

        yield write
        with writing(out):
            os.rename(folder, out)


def _names(paths: Sequence[str]) -> dict[str, str]:
    """Return the name of each result: that of its input, not compressed, with a number where there are several."""
    names: dict[str, str] = {}
    for path in paths:
        plain = name = os.path.basename(path).removesuffix(_packed(path))
        stem, suffix = os.path.splitext(plain)
        for number in range(2, len(paths) + 1):
            if name not in names.values():
                break
            name = f"{stem}-{number}{suffix}"
        names[path] = name
    return names


def _packed(path: str) -> str:
    """Return the suffix of a compression, "" where there is none."""
    suffix = os.path.splitext(path)[1]
    return suffix if suffix in (".gz", ".zst", ".xz", ".bz2", ".lz4") else ""


def _refuse_flawed(flaw: Flaw | None, out: str, level: str) -> None:
    """Raise OutputError unless the result is proved."""
    if flaw is None:
        return
    hint = "nothing was written"
    if flaw.survivor and level == "partial":
        hint += "; it may be in a name that stays: --level full replaces names too"
    raise OutputError(f"the result is not fit to be shared: {flaw.text}", out, hint)


def _report(redaction: Redaction, out: str) -> Iterator[str]:
    """Yield what was written, what is not legible in it any more, and what was left out."""
    tally, net = redaction.dissector.tally, redaction.dissector.balance
    sealed = tally.tls_bytes + tally.encrypted_bytes
    blanked = tally.joined_bytes + tally.skipped_bytes + tally.foreign_bytes + net.stray_bytes + net.late_bytes + sealed
    frames = counted(tally.frames, "frame")
    yield f"{out}: {frames} in {counted(net.packets, 'packet')} · {blanked:,} B of payload in no frame are blank"
    if sealed:
        yield f"{sealed:,} B of them are TLS, inside which read --redact and export --redact can conceal"
    for what, count in redaction.left_out.items():
        yield f"left out of pcapng: {count:,} {what}"
    yield "proved: no original key or value of 8 bytes or more is in it, and it decodes to the same frames"
