"""Provide ``dcpdump explain``: print pasted bytes, in any form, as the specification's table of each frame."""

import os
import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from dcpdump.annotate import Annotated, Suggestion, annotate
from dcpdump.check.engine import judge
from dcpdump.check.finding import Finding
from dcpdump.check.rule import Severity
from dcpdump.cli.grouped import command
from dcpdump.cli.options import Invocation, format_option, option, value_bytes_option
from dcpdump.cli.sink import Sink
from dcpdump.cli.terminal import note
from dcpdump.errors import CaptureError, ExitCode, PasteError, system_words
from dcpdump.paste import DIALECTS, LIMIT, NAME, Pasted, read_paste
from dcpdump.record import Record, as_json
from dcpdump.render import OUTPUTS, View
from dcpdump.render.findings import BROKEN, EXPLAINED, frame_lines
from dcpdump.render.objects import dump
from dcpdump.render.style import Line, LineKind, Palette

_TEXTS = ("table", "grid", "line")


@command(
    "dcpdump explain 805c00000000000000000000819698000000000000000000",
    "xxd frame.bin | dcpdump explain",
    "dcpdump explain -i paste.txt -f grid",
    params=[
        click.Argument(["text"], nargs=-1, metavar="[HEX]…"),
        option("-i, --input FILE", "Read the paste from a file.", name="source"),
        option("--form FORM", "Take the paste for this form only.", click.Choice(DIALECTS)),
        "CONTENTS count problems",
        format_option(tuple(OUTPUTS)),
        "color",
        value_bytes_option("all, but 64 in ndjson and csv"),
        "output force show-secrets REDACTION",
        option("-q, --quiet", "Do not say in which form the bytes came."),
    ],
    rows=[EXPLAINED],
    uncut=_TEXTS,
)
def explain(asked: Invocation, text: tuple[str, ...], source: str | None, form: str | None) -> int:
    """Annotate pasted bytes: hex, dumps, the specification's grids, literals of many languages, packets, base64.

    HEX comes from the arguments, from a file, or from standard input. Bytes that contradict themselves are
    shown as they are, with what is wrong, and with the smallest edit that would make them consistent. Rules of `check`
    that need no other frame are applied to each; the exit code is 0 all the same.
    """
    asked.validate()
    pasted = _read(_paste(text, source), source, form)
    asked.say(f"input read as {pasted.dialect}" + "".join(f"; {remark}" for remark in pasted.notes))

    def breaks(record: Record) -> bool:
        return any(found.severity is Severity.VIOLATION for found in judge(record))

    explained = annotate(pasted.parts, show_secrets=asked.show_secrets, breaks=breaks)
    output = OUTPUTS[asked.format]
    with Sink(asked.path, force=asked.force, inputs=[source] if source else []) as sink:
        view = View(asked.value_bytes, Palette(asked.coloured(sink.is_terminal)))
        if output.header is not None:
            sink.write(output.header())
        wanted = [one for one in explained if asked.frames.filter.accepts(one.record)][: asked.frames.count]
        for whole in wanted:
            found, one = judge(whole.record), replace(whole, record=asked.shown(whole.record))
            sink.write(_json(one, found, asked) if asked.format == "ndjson" else output.write(one.record, view))
            if asked.format in _TEXTS:
                sink.write(_rules(found, asked, view))
                sink.write(_suggestion(one.suggestion, asked, view) if one.suggestion else "")
    if any(one.record.content.collection_inferred for one in explained):
        asked.say("note: no answer to HELLO was seen; whether keys start with a collection id is inferred")
    for at in (one.frame_at for one in explained if one.frame_at is not None):
        asked.say(f"note: a frame begins at byte {at}; what stands before it begins none")
    return ExitCode.DONE


def _paste(text: tuple[str, ...], source: str | None) -> str | bytes:
    if text and source is not None:
        raise click.UsageError("the bytes come from the arguments or from -i FILE, not from both")
    if text and text != ("-",):
        return " ".join(text)
    if source is None or source == "-":
        if sys.stdin is None:
            raise CaptureError("standard input is closed", "-", "give the bytes as arguments, or a file with -i")
        if sys.stdin.isatty():
            note("Paste the bytes, then press Ctrl-D.")
        return sys.stdin.buffer.read(LIMIT + 1)
    try:
        with Path(source).open("rb") as file:
            return file.read(LIMIT + 1)
    except OSError as error:
        raise CaptureError(f"cannot read: {system_words(error)}", source) from error


def _read(paste: str | bytes, source: str | None, form: str | None) -> Pasted:
    try:
        return read_paste(paste, form)
    except PasteError as error:
        if source is None and isinstance(paste, str) and "\n" not in paste and os.path.isfile(paste):
            name = shlex.quote(paste)
            hints = f"dcpdump read {name}, if it is a capture", f"dcpdump explain -i {name}, if it holds bytes"
            raise PasteError(f"{paste!r} is a file, not bytes", "", hints[0], hints[1:]) from error
        hint, *more = (text.replace(NAME, shlex.quote(source or "-")) for text in (error.hint, *error.more))
        raise PasteError(error.what, error.where or source or "", hint, tuple(more)) from error


def _json(explained: Annotated, found: Sequence[Finding], asked: Invocation) -> str:
    row = as_json(explained.record, value_bytes=asked.value_bytes)
    if found:
        row["rules"] = [BROKEN.object(each) for each in found]
        for rule in row["rules"] if asked.redactor is not None else ():
            del rule["message"]  # which may quote parts of keys
    if explained.suggestion is not None:
        suggestion: dict[str, Any] = {
            "edits": [
                {
                    "field": edit.label,
                    "offset": edit.start,
                    "length": edit.end - edit.start,
                    "from": edit.before,
                    "to": edit.after,
                }
                for edit in explained.suggestion.edits
            ]
        }
        if asked.redactor is None:
            suggestion["frame"] = as_json(explained.suggestion.record, value_bytes=asked.value_bytes)
        row["suggestion"] = suggestion
    return dump(row) + "\n"


def _rules(found: Sequence[Finding], asked: Invocation, view: View) -> str:
    """Return the findings on a frame as text. Their messages may quote parts of keys."""
    lines = frame_lines(found, with_message=asked.redactor is None)
    return "".join(f"{view.palette.paint(line)}\n" for line in lines)


def _suggestion(suggestion: Suggestion, asked: Invocation, view: View) -> str:
    count = len(suggestion.edits)
    head = [Line(LineKind.HINT, f"Consistent with {count} edit{'s' if count > 1 else ''}:")]
    head += [Line(LineKind.HINT, f"  {edit}") for edit in suggestion.edits]
    if asked.redactor is None:
        head.append(Line(LineKind.HINT, "which reads:"))
    text = "".join(f"{view.palette.paint(line)}\n" for line in head)
    if asked.redactor is not None:  # a wrong suggestion would print bytes of a key as numbers
        return text
    return text + OUTPUTS[asked.format].write(suggestion.record, view)
