"""Provide ``dcpdump browse``: a capture in the terminal, frame by frame. What draws it is imported when it is run."""

import sys
from importlib.util import find_spec
from typing import Any, TextIO

import click

from dcpdump.capture import expand
from dcpdump.cli.filter_text import words_of
from dcpdump.cli.grouped import GroupedCommand
from dcpdump.cli.input_options import input_of, input_options
from dcpdump.cli.options import (
    Size,
    ValueBytes,
    latency_option,
    redaction_options,
    selection,
    selection_options,
    times_of,
)
from dcpdump.cli.salt import hiding
from dcpdump.cli.standard_input import standard_input
from dcpdump.clock import writing_times
from dcpdump.errors import DcpdumpError
from dcpdump.install_hints import BROWSE
from dcpdump.record import DEFAULT_VALUE_BYTES

_INSTEAD = "dcpdump read CAPTURE | less, or dcpdump top CAPTURE"


@click.command(
    cls=GroupedCommand,
    examples=(
        "dcpdump browse node1.pcap",
        "dcpdump browse captures/ --status '!success'",
        "sudo tcpdump -U -w - port 11210 | dcpdump browse -",
    ),
)
@click.argument("captures", nargs=-1, required=True, metavar="CAPTURE…")
@selection_options(captures=True, frames=True, count=False)
@latency_option
@click.option("--value-bytes", type=ValueBytes(), help="How much of a value to show: a number, or all; by default 64.")
@click.option("--no-mouse", is_flag=True, help="Leave the mouse to the terminal, so that it selects text.")
@redaction_options
@click.option(
    "--max-spool",
    type=Size(),
    default="4G",
    show_default=True,
    help="Most that is kept of what cannot be read twice: compressed, on standard input, still growing.",
)
@input_options(jobs=None)
def browse(captures: tuple[str, ...], value_bytes: int | None, no_mouse: bool, max_spool: int, **options: Any) -> int:
    """Browse captures in the terminal: frames, their fields and bytes, streams, findings, connections.

    The first frames are shown at once, the others are read meanwhile. The options that choose are the filter of the
    beginning. '?' shows the keys. Needs Textual: pip install 'textual>=8'.
    """
    if find_spec("textual") is None:
        raise DcpdumpError("browsing needs Textual", "", BROWSE, (f"without it: {_INSTEAD}",))
    words, tz, times = words_of(options), options.get("tz"), times_of("text", options)
    selection(options)
    keylogs = options.get("keylog") or ()
    given = input_of(options, captures)
    shown = DEFAULT_VALUE_BYTES if value_bytes is None else None if value_bytes < 0 else value_bytes
    from dcpdump.cli.browsing import BrowseOptions, Browsing

    with hiding(options) as hidden, standard_input(captures, max_spool) as copies:
        copies = copies._replace(paths=expand(copies.paths), again=expand(copies.again))
        if not (copies.terminal and _is_terminal(sys.stdout) and _is_terminal(sys.stderr)):
            raise click.UsageError(f"browsing needs a terminal; instead: {_INSTEAD}")
        with (
            writing_times(times, None, None),
            Browsing(captures, copies, given, BrowseOptions(tz, keylogs, hidden, max_spool)) as browsing,
        ):
            return browsing.run(words, shown, mouse=not no_mouse)


def _is_terminal(stream: TextIO | None) -> bool:
    return stream is not None and stream.isatty()
