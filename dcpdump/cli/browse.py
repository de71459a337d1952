"""Provide ``dcpdump browse``: a capture in the terminal, frame by frame. What draws it is imported when it is run."""

import os
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from itertools import chain
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

import click

from dcpdump.browse.analysis import Analysing
from dcpdump.capture.paths import expand
from dcpdump.cli.grouped import command, complete
from dcpdump.cli.options import (
    Invocation,
    Selection,
    level_of,
    named,
    option,
    salt_of,
    selection,
    value_bytes_option,
)
from dcpdump.cli.signals import Stop, raise_at_signals
from dcpdump.cli.terminal import clear_status, note, status
from dcpdump.clock import writing_times
from dcpdump.errors import CaptureError, DcpdumpError, ExitCode, OutputError
from dcpdump.filter import FilterError
from dcpdump.filter.choices import BETWEEN
from dcpdump.index.columns import SPOOL_BYTES, Columns
from dcpdump.processes import ForkedWorker, can_fork, write_all
from dcpdump.render.text_columns import bytes_text
from dcpdump.text import INSTALL_BROWSE, nearest

if TYPE_CHECKING:
    from dcpdump.browse.analysis import Analysis
    from dcpdump.browse.app import BrowseApp
    from dcpdump.browse.browser import Commands
    from dcpdump.browse.frame_service import FrameService
    from dcpdump.redact import Redactor


# -- captures on standard input -----------------------------------------------------------------------
# It is copied to a file as it comes, and the terminal takes its place.

STANDARD_INPUT = "-"
_CHUNK = 1 << 16


class Copies(NamedTuple):
    """The captures, by names for the first reading, and by names for reading again."""

    paths: Sequence[str]
    again: Sequence[str]
    terminal: bool  #: whether standard input is a terminal now
    copy: int | None = None  #: the file that standard input is copied to
    limit: int = 0  #: bytes of that, at most

    def check(self) -> None:
        """Raise OutputError where what came was too much to be read again."""
        if self.copy is not None and os.fstat(self.copy).st_size >= self.limit:
            raise OutputError(f"standard input is longer than --max-spool ({bytes_text(self.limit)})")


@contextmanager
def standard_input(named: Sequence[str], limit: int) -> Iterator[Copies]:
    """Yield the captures, with standard input copied where one comes there and a terminal can be had for the keys.

    ``limit``: how many bytes of standard input are kept to be read again.
    """
    interactive = sys.stdin is not None and sys.stdin.isatty()
    if STANDARD_INPUT not in named or interactive or sys.stdin is None or not can_fork():
        yield Copies(named, named, interactive)
        return
    try:
        terminal = os.open("/dev/tty", os.O_RDWR)
    except OSError:
        yield Copies(named, named, False)
        return
    (read, write), source = os.pipe(), sys.stdin.fileno()
    try:
        with TemporaryFile(buffering=0) as copy:
            # What the other process writes is behind a name that every process of this user can open.
            again = f"/proc/{os.getpid()}/fd/{copy.fileno()}" if os.path.isdir("/proc/self/fd") else ""

            def copied(_: int, __: int) -> None:
                os.close(read)
                _copy(source, write, copy.fileno(), limit)

            worker = ForkedWorker(copied)
            os.close(write)
            os.dup2(terminal, source)
            os.close(terminal)
            try:
                paths = [f"/dev/fd/{read}" if name == STANDARD_INPUT else name for name in named]
                files = [again if name == STANDARD_INPUT else name for name in named]
                yield Copies(paths, files, True, copy.fileno(), limit)
            finally:
                worker.kill()
                os.close(read)
    except OSError as error:
        raise CaptureError(f"standard input cannot be copied: {error.strerror}", STANDARD_INPUT) from error


def _copy(source: int, pipe: int, file: int, limit: int) -> None:
    """Copy all that comes to a file, up to the limit, and then to a pipe."""
    kept = 0
    while piece := os.read(source, _CHUNK):
        if kept < limit:
            write_all(file, piece[: limit - kept])
            kept += len(piece)
        write_all(pipe, piece)


# -- a filter that was typed as one text --------------------------------------------------------------
# The options of ``read`` that choose frames, with or without dashes.

#: The option that is not a clause: it says how times are written.
_ZONE = "tz"
_FILTER = "CONTENTS connection host port frame problems since until tz latency"


@cache
def _options() -> dict[str, click.Option]:
    """Return the options that choose frames, by their names without dashes."""

    options = [each for each in named(_FILTER) if isinstance(each, click.Option)]
    complete(options)
    return {each.opts[-1].lstrip("-"): each for each in options if each.name != _ZONE}


def filter_of(text: str, tz: str | None = None) -> Selection:
    """Return what a text chooses; ``tz``: the zone of its times. Raises FilterError, in the words of ``read``."""
    words = filter_words(text)
    command = click.Command("filter", params=list(_options().values()), add_help_option=False)
    try:
        context = command.make_context("filter", words)
    except click.UsageError as error:
        raise FilterError(error.format_message().rstrip(".").lower()) from error
    return selection(context.params | {"tz": tz})


def filter_words(text: str) -> list[str]:
    """Return a text as arguments of ``read``. Raises FilterError."""
    return [*chain.from_iterable(_clauses(text))]


def _clauses(text: str) -> list[tuple[str, ...]]:
    """Return the options of a text, each with its value, if it has one. Raises FilterError."""
    out: list[tuple[str, ...]] = []
    words = iter(_split(text))
    for word in words:
        name, equals, value = word.lstrip("-").partition("=")
        found = _options().get(name.replace("_", "-"))
        if found is None:
            near = nearest(name.lower(), _options(), n=3)
            hint = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(_options())}"
            raise FilterError(f"no such option: {word!r}", hint=hint)
        long = f"--{found.opts[-1].lstrip('-')}"
        if found.is_flag:
            out.append((long,))
            continue
        value = value if equals else next(words, "")
        if not value:
            raise FilterError(f"{long}: a value is missing", hint=f"{long} {found.metavar}: {found.help}")
        out.append((long, value))
    return out


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise FilterError(f"a quotation mark has no second one in {text!r}") from error


def words_of(options: Mapping[str, Any]) -> list[str]:
    """Return the options of a command that choose frames as they were given."""
    words: list[str] = []
    for name, each in _options().items():
        value = options.get(each.name or "")
        if value and each.is_flag:
            words.append(f"--{name}")
        elif value:
            words += [word for one in str(value).split(BETWEEN) for word in (f"--{name}", one)]
    return words


def with_clause(text: str, name: str, value: str) -> str:
    """Return a filter with another clause; one of the same name is replaced."""
    try:
        given = _clauses(text)
    except FilterError:
        given = []
    kept = [each for each in given if each[0] != f"--{name}"]
    return shlex.join(chain.from_iterable([*kept, (f"--{name}", value)]))


def completions(text: str) -> list[str]:
    """Return what a text may be completed to: names of options, and the words that a shell completes behind these."""
    before, blank, last = text.rpartition(" ")
    head, lacks = before + blank, None  # the option whose value comes last
    try:
        for word in _split(before):
            found = _options().get(word.lstrip("-"))
            lacks = found if lacks is None and found is not None and not found.is_flag else None
    except ValueError:
        return []
    if lacks is not None:
        context = click.Context(click.Command("filter"))
        return [head + item.value for item in lacks.type.shell_complete(context, lacks, last)]
    name = last.lstrip("-")
    dashes, begun = last.removesuffix(name), name.lower().replace("_", "-")
    return [f"{head}{dashes}{each} " for each in _options() if each.startswith(begun)]


_INSTEAD = "dcpdump read CAPTURE | less, or dcpdump top CAPTURE"


@command(
    "dcpdump browse node1.pcap",
    "dcpdump browse captures/ --status '!success'",
    "sudo tcpdump -U -w - port 11210 | dcpdump browse -",
    params=[
        f"CAPTURE… {_FILTER}",
        value_bytes_option("64"),
        option("--no-mouse", "Leave the mouse to the terminal, so that it selects text."),
        "REDACTION",
        option(
            "--max-spool SIZE",
            "Disk space for input that cannot be read twice (compressed, standard input, still growing), at most.",
            default="4G",
        ),
        "salvage follow keylog memory",
    ],
)
def browse(asked: Invocation, no_mouse: bool, max_spool: int) -> int:
    """Browse captures in the terminal: frames, their fields and bytes, streams, findings, connections.

    The first frames are shown at once, the others are read meanwhile. The options that choose are the filter of the
    beginning. '?' shows the keys. Needs Textual: pip install 'textual>=8'.
    """
    if find_spec("textual") is None:
        raise DcpdumpError("browsing needs Textual", "", INSTALL_BROWSE, (f"without it: {_INSTEAD}",))
    words = words_of(asked.options)
    _ = asked.frames, asked.times, asked.keys  # what is wrong with one of them is said before anything is read
    with hiding(asked.options) as hidden, standard_input(asked.captures, max_spool) as copies:
        copies = copies._replace(paths=expand(copies.paths), again=expand(copies.again))
        if not (copies.terminal and _is_terminal(sys.stdout) and _is_terminal(sys.stderr)):
            raise click.UsageError(f"browsing needs a terminal; instead: {_INSTEAD}")
        with writing_times(asked.times, None, None), Browsing(copies, asked, hidden) as browsing:
            return browsing.run(words, asked.value_bytes, mouse=not no_mouse)


def _is_terminal(stream: TextIO | None) -> bool:
    return stream is not None and stream.isatty()


# -- a screen over what was opened --------------------------------------------------------------------
# The index, the reading of all frames beside it, the screen, and how all of that ends.

#: Seconds to wait for a frame of a growing input before the screen opens without one.
_PATIENCE_S = 1.0
#: Seconds without a first frame after which the progress of reading is shown.
_SILENCE_S = 1.0
#: Decoded batches that are kept: those around the cursor, and where it was before.
_BATCHES = 6


class Hiding(NamedTuple):
    """What hides, and the options by which another command hides the same."""

    redactor: "Redactor | None" = None
    shown: Sequence[str] = ()  #: of a command that is shown to people
    run: Sequence[str] = ()  #: of a command that is run at once: it has the same hashes


_NOTHING_HIDDEN = Hiding()


@contextmanager
def hiding(options: Mapping[str, Any]) -> Iterator[Hiding]:
    """Yield what the options of redaction ask for."""
    level, path = level_of(options)
    if level is None:
        yield _NOTHING_HIDDEN
        return
    from dcpdump.redact import Redactor

    salt = os.urandom(32).hex().encode() if path is None else salt_of(path)
    shown = ["--redact"] if level == "partial" else ["--redact-level", level]
    shown += [] if path is None else ["--salt-file", path]
    with TemporaryFile(buffering=0) as file:  # without a name: nothing is left of it
        file.write(salt)
        name = f"/proc/{os.getpid()}/fd/{file.fileno()}"
        run = ["--salt-file", name] if path is None and os.path.exists(name) else []
        yield Hiding(Redactor(salt, full=level == "full"), shown, [*shown, *run])


def commands_of(
    named: Sequence[str],
    paths: Sequence[str],
    options: Sequence[str],
    tz: str | None,
    hidden: Hiding = _NOTHING_HIDDEN,
) -> "Commands":
    """Return what the screen asks about filters and commands.

    ``named``: the captures, as they were given; ``options``: how they are read.
    """
    from dcpdump.browse.browser import Commands

    hides, zone = hidden.redactor is not None, ["--tz", tz] if tz else []

    def words(name: str, text: str, frames: str, more: Sequence[str]) -> list[str]:
        """Return a command: with ``more`` it is to be run, else to be shown."""
        if hides and name == "carve":
            raise FilterError("packets hold what is hidden here: write .ndjson, or use dcpdump carve and redact")
        given, how = (paths, hidden.run) if more else (named, hidden.shown)
        chosen = [*filter_words(text), *(["--frame", frames] if frames else [])]
        return [sys.executable, "-m", "dcpdump", name, *given, *chosen, *options, *zone, *how, *more]

    return Commands(hides, lambda text: filter_of(text, tz), completions, with_clause, words)


class Browsing:
    """The captures in the browser. Leaving the ``with`` ends the other processes."""

    def __init__(self, copies: Copies, asked: Invocation, hidden: Hiding = _NOTHING_HIDDEN) -> None:
        from dcpdump.browse.indexed_frames import IndexedFrames  # which knows how messages are written

        self._named, self._asked, self._hidden = asked.captures, asked, hidden
        self._tz: str | None = asked.options.get("tz")
        self._copies, self._paths = copies, copies.again
        self._analysing = Analysing(self._analyse)
        self._frames = IndexedFrames(self._service)

    def __enter__(self) -> "Browsing":
        return self

    def __exit__(self, *_: object) -> None:
        self._analysing.close()
        self._frames.close()

    def _service(self, columns: Columns) -> "FrameService":
        """Open the captures, and return the frame service, in the process that reads."""
        from dcpdump.browse.frame_service import FrameService
        from dcpdump.index.building import IndexOptions
        from dcpdump.index.capture_index import CaptureIndex

        asked, spool = self._asked, self._asked.options.get("max_spool", SPOOL_BYTES)
        options = IndexOptions(asked.limits, asked.secrets, batches=_BATCHES, spool_bytes=spool)
        index = CaptureIndex(asked.open(self._copies.paths), options, columns)
        return FrameService(index, lambda text: filter_of(text, self._tz).masks, self._hidden.redactor)

    def run(self, words: Sequence[str], value_bytes: int | None, *, mouse: bool) -> int:
        """Open the screen, and return the exit code. ``words``: the filter of the beginning."""
        import_module("dcpdump.browse.app")  # while the first frames are indexed in the other process
        if not self._find_frames():
            return self._say_nothing_found()
        app = self.app(shlex.join(words), value_bytes)
        with Stop() as stop:  # an exception in the middle of what asyncio makes leaves it half made
            app.stopped = lambda: stop.status
            ended = app.run(mouse=mouse)
        raise_at_signals()
        if app.error is not None:
            raise app.error
        for damage in self._frames.damage:
            note(f"dcpdump: warning: {damage}")
        if ended == ExitCode.UNUSABLE:
            return self._say_nothing_found()
        if ended:
            return ended
        hurt = self._frames.damage or self._frames.state.lost[0] or self._frames.state.skipped_bytes
        return ExitCode.DAMAGED if hurt else ExitCode.DONE

    def app(self, text: str, value_bytes: int | None) -> "BrowseApp":
        """Return the screen. ``text``: the filter of the beginning."""
        from dcpdump.browse.app import BrowseApp
        from dcpdump.browse.browser import OpenCaptures

        options, frames, analysing = self._asked.options, self._frames, self._analysing
        again = ["--salvage"] * self._asked.salvage
        again += [word for name in options.get("keylog") or () for word in ("--keylog", name)]
        commands, follows = commands_of(self._named, self._paths, again, self._tz, self._hidden), options.get("follow")
        name, paths = self._name(), self._paths
        return BrowseApp(OpenCaptures(name, frames, commands, analysing, value_bytes, paths, text, bool(follows)))

    def _find_frames(self) -> bool:
        """Read up to the first frame; return whether there is one, or may be. Raises what ends reading before it."""
        frames, begun = self._frames, time.monotonic()
        try:
            while not (frames.count or frames.complete or frames.failure):
                frames.step(0.1)
                passed, (read, size) = time.monotonic() - begun, frames.state.progress
                if size is None and passed > _PATIENCE_S:
                    break
                if size and passed > _SILENCE_S and sys.stderr.isatty():
                    status(f"{100 * read // size} % read, no DCP so far")
        finally:
            clear_status()
        if frames.error is not None and not frames.count:
            raise frames.error
        return bool(frames.count) or not frames.complete

    def _say_nothing_found(self) -> int:
        """Say what there is instead of frames, as ``read`` does."""
        from dcpdump.batch.dissector import Dissection
        from dcpdump.cli.reading import CaptureSource
        from dcpdump.cli.summary import summarise

        dissection = self._asked.dissect(Dissection)
        captures = self._asked.open(self._paths)
        for block in CaptureSource(captures).blocks():
            for _ in () if block is None else dissection.feed_block(block):
                dissection.gaps.clear()
        for _ in dissection.close_blocks():
            dissection.gaps.clear()
        summarise(dissection, captures, 0, "text")
        return ExitCode.UNUSABLE

    def _name(self) -> str:
        names = [
            "standard input" if name == STANDARD_INPUT else os.path.basename(name.rstrip(os.sep)) or name
            for name in self._named
        ]
        return names[0] if len(names) == 1 else f"{names[0]} … {names[-1]} ({len(names)})"

    def _analyse(self, report: Callable[[float], None]) -> "Analysis":
        """Run the ledger and the rules over all frames, in the other process."""
        from dcpdump.cli.diagnose import analyse

        self._copies.check()
        everything = Invocation({"salvage": self._asked.salvage, "memory": self._asked.memory})
        everything.keys, everything.redactor = self._asked.keys, self._hidden.redactor
        return analyse(self._paths, everything, report)
