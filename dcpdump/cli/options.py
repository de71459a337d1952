"""Define the options that commands share, and what they mean together: what to choose, how to read it and to show it.

An option is defined by its usage, as help prints it; ``named`` returns shared options by their names. ``Invocation``
holds the options with which a command was called.
"""

import os
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from dcpdump.capture.key_log import KeyLogError, KeyLogs
from dcpdump.capture.paths import expand
from dcpdump.cli.sink import STANDARD_OUTPUT, Sink
from dcpdump.cli.terminal import note
from dcpdump.clock import PLAIN_TIMES, UTC, Clock, TimeKind, Zone, zone_of
from dcpdump.errors import CaptureError, system_words
from dcpdump.filter import Clause, FrameFilter, TimeWindow, clauses, parse_window
from dcpdump.filter.choices import BETWEEN, Ranges, parse_ranges
from dcpdump.net.limits import DEFAULT, Limits
from dcpdump.record import DEFAULT_VALUE_BYTES, Record
from dcpdump.startup import dataclass
from dcpdump.text import INSTALL_TLS, counted, nearest

if TYPE_CHECKING:
    from dcpdump.batch.filter import Masks
    from dcpdump.capture.file import Capture
    from dcpdump.cli.reading import Source
    from dcpdump.compare.align import Move
    from dcpdump.dissect import Dissector
    from dcpdump.redact import Redactor
    from dcpdump.tls.secrets import Secrets

D = TypeVar("D", bound="Dissector")

# -- an option, and what it takes ---------------------------------------------------------------------


class Size(click.ParamType):  # type: ignore[type-arg]
    """A number of bytes: 256M, 64k, 1G, 1048576. ``least``: the smallest that is taken, as it is written."""

    name = "SIZE"

    def __init__(self, least: str = "") -> None:
        self._least = least

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number of bytes."""
        size = self._bytes(str(value))
        if size is None:
            raise click.BadParameter(f"{value!r} is not a size, such as 256M", ctx, param)
        if self._least and size < (self._bytes(self._least) or 0):
            raise click.BadParameter(f"{value!r} is too little: {self._least} is the least", ctx, param)
        return size

    @staticmethod
    def _bytes(text: str) -> int | None:
        unit = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}.get(text[-1:].lower(), 1)
        digits = text[:-1] if unit > 1 else text
        return int(digits) * unit if digits.isdecimal() and len(digits) < 19 else None


#: What an option takes, by the word for it behind the option's names; elsewhere it takes a text.
_TYPES: dict[str, click.ParamType] = {  # type: ignore[type-arg]
    **dict.fromkeys(("N", "FILES"), click.IntRange(min=1)),
    **dict.fromkeys(("SECONDS", "MB"), click.FloatRange(min=0, min_open=True)),
    "SIZE": Size(),
}


def option(usage: str, text: str, type: Any = None, name: str = "", **how: Any) -> click.Option:
    """Make an option of its usage, as help writes it: ``-c, --count N``, ``--by [frame|key]``; a flag is ``--force``.

    ``text``: what help says of it; ``type``: what it takes, where its usage does not say that; ``name``: that of the
    parameter, where it is not the option's. A default is shown in the help unless ``show_default`` is False.
    """
    words = usage.replace(",", "").split()
    names = [word for word in words if word.startswith("-")]
    metavar = " ".join(words[len(names) :])
    if metavar.startswith("["):
        type, metavar = type or click.Choice(metavar[1:-1].split("|")), ""
    how = {"show_default": "default" in how, "is_flag": (not metavar and type is None) or None, **how}
    return click.Option(
        [*names, *filter(None, [name])], type=type or _TYPES.get(metavar), metavar=metavar or None, help=text, **how
    )


def is_given(name: str) -> bool:
    """Return whether an option stands on the command line of the command that runs."""
    context = click.get_current_context(silent=True)
    return context is not None and context.get_parameter_source(name) is ParameterSource.COMMANDLINE


# -- what hides: levels and salts ---------------------------------------------------------------------
# Read their salt from a file, made where it is missing; or make a random one. Never print it.


def level_of(options: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """Return the level of redaction (``partial``, ``full``; None without) and the file of the salt."""
    redact, level, path = (options.get(name) for name in ("redact", "redact_level", "salt_file"))
    if redact or level is not None:
        return level or "partial", path
    if is_given("salt_file"):
        raise click.UsageError("--salt-file is for hashes, and nothing is hidden: --redact is missing")
    return None, path


def salt_of(path: str | None) -> bytes:
    """Return the salt in a file; without a file, a random one. A missing file is made, readable by its owner alone."""
    if path is None:
        return os.urandom(32)
    try:
        with suppress(FileExistsError), open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(os.urandom(32).hex().encode() + b"\n")
            which = f"{path} is new, with a fresh salt"
            note(f"note: {which}: who has it can try keys out, and it gives the same hashes again")
        salt = Path(path).read_bytes().strip()
    except OSError as error:
        raise click.UsageError(f"--salt-file: cannot make or read {path}: {system_words(error)}") from error
    if not salt:
        raise click.UsageError(f"--salt-file: {path} is empty")
    return salt


# -- which frames -------------------------------------------------------------------------------------


def _join(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> str | None:
    return BETWEEN.join(values) if values else None


#: How an option is declared that chooses; given several times, its values add up, as those of a list do.
SEVERAL: dict[str, Any] = {"multiple": True, "callback": _join}


def clauses_in(options: Mapping[str, Any], names: Iterable[str]) -> list[Clause]:
    """Return what options choose, of those that are given. Raises FilterError."""
    given = ((name.replace("-", "_"), options.get(name.replace("-", "_"))) for name in names)
    return [getattr(clauses, f"by_{name}")(text) for name, text in given if text is not None]


@dataclass(frozen=True, slots=True)
class Selection:
    """Which frames to show."""

    filter: FrameFilter
    count: int | None
    window: TimeWindow | None
    texts: Mapping[str, str]  #: the options that the filter was made of, by their names

    @property
    def numbers(self) -> Ranges | None:
        """Return the numbers of the frames that may be shown; None where that is not asked."""
        return parse_ranges("--frame", self.texts["frame"]) if "frame" in self.texts else None

    @property
    def masks(self) -> "Masks":
        """Return the same filter, for many frames at once."""
        from dcpdump.batch.filter import masks  # here, because NumPy takes longer to load than most reads of few frames

        return masks(self.texts, self.filter, window=self.window)

    def begin(self, start_ns: int | None) -> None:
        """Take the time of the first packet, from which relative times count."""
        if self.window is not None and self.window.start_ns is None:
            self.window.start_ns = start_ns


def selection(options: Mapping[str, Any]) -> Selection:
    """Return what the options that choose frames select. Raises FilterError."""
    names = (*_CLAUSES, "since", "until")
    texts = {name: text for name in names if (text := options.get(name.replace("-", "_"))) is not None}
    found, window = clauses_in(options, _CLAUSES), None
    if options.get("problems"):
        found.append(clauses.with_problems)
    if "since" in texts or "until" in texts:
        window = TimeWindow(*parse_window(texts.get("since"), texts.get("until"), zone_in(options)))
        found.append(window)
    return Selection(FrameFilter(tuple(found)), options.get("count"), window, texts)


def zone_in(options: Mapping[str, Any]) -> Zone:
    """Return the zone that ``options`` name. Raises ZoneError."""
    return UTC if options.get("tz") is None else zone_of(options["tz"])


# -- how to show them ---------------------------------------------------------------------------------


_TIMES = "Times for people: a absolute (the default), r from the start of the capture, d {}."
_VALUE_BYTES = "How much of a value to show: a number, or all; by default {}."


def time_option(delta: str) -> click.Option:
    """Return the option for what times are counted from. ``delta``: what with ``d``."""
    return option("-t, --time [a|r|d]", _TIMES.format(delta))


def value_bytes_option(default: str) -> click.Option:
    """Return the option for how much of a value is shown. ``default``: how much that is without it, as help says it."""
    return option("--value-bytes N", _VALUE_BYTES.format(default), _value_bytes)


def _value_bytes(value: str) -> int:
    """Return a number of bytes; -1 for ``all``, and for more than any value has."""
    if value == "all":
        return -1
    if value.isdecimal():
        return int(value) if len(value) < 19 else -1
    raise click.BadParameter(f"{value!r} is neither a number of bytes nor 'all'")


class FormatChoice(click.Choice):  # type: ignore[type-arg]
    """A format of the output; a wrong one is answered with the nearest."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the format."""
        if value in self.choices:
            return str(value)
        near = nearest(str(value), self.choices, n=1)
        meant = f"; did you mean {near[0]}?" if near else ""
        raise click.BadParameter(f"{value!r} is not one of {', '.join(self.choices)}{meant}", ctx, param)


def format_option(formats: Sequence[str]) -> click.Option:
    """Return the option for the format of the output; the first is the default."""
    return option("-f, --format", "", FormatChoice(formats), default=formats[0])


# -- what is read: captures, or an interface ------------------------------------------------------------

_KEYLOG_VARIABLE = "DCPDUMP_KEYLOG"
#: What an analysis imports when it needs it.
_LATER = ("csv", "dcpdump.diagnosis.diagnosis", "dcpdump.batch.traffic_over_time", "dcpdump.streams.dissection")


def _can_open() -> bool:
    """Return whether TLS can be opened here."""
    return find_spec("cryptography") is not None


def _is_pipe(path: str) -> bool:
    """Return whether a capture comes from a pipe: it is neither a file nor a folder, a glob or a place elsewhere."""
    return path == "-" or (os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path))


def _moved(names: Sequence[str], moves: "Sequence[Move]") -> Iterator[str]:
    """Yield which captures were moved, by how much and why, and which have nothing in common with any other."""
    others = {move.like for move in moves}
    unmoved = [name for at, name in enumerate(names) if moves[at].like is None and at not in others]
    for name, (ns, like, segments) in zip(names, moves, strict=True):
        if like is not None:
            common = f"{counted(segments, 'segment')} captured in {names[like]} too"
            yield f"{name}: times moved by {ns / 1e9:+.6f} s: {common}"
    if len(unmoved) == len(names):
        yield "--align: no connection was captured twice: no times are moved"
    elif unmoved:
        more = f" and {len(unmoved) - 1:,} more" if len(unmoved) > 1 else ""
        yield f"{unmoved[0]}{more}: captured in no other file: times are not moved"


# -- all options that several commands have -------------------------------------------------------------

#: What the levels of redaction are, in whichever command.
LEVELS = "partial: keys, values, xattrs, users, buckets; full: names of collections, scopes and clients, and hosts too."
_CONTENTS = "opcode vbucket seqno kind status key collection opaque stream-id"
_CLAUSES = f"{_CONTENTS} connection host port frame latency".split()
#: What help says of them, by their usage.
_SHARED = {
    # which frames
    "--opcode NAMES": "Messages: mutation,deletion · 0x57 · '!noop'.",
    "--vbucket RANGES": "vBuckets: 7 · 0-63,512.",
    "--seqno RANGES": "Sequence numbers: 42 · 100-200 · 100- · -50.",
    "--kind KIND": "request or response.",
    "--status NAMES": "Responses by status: rollback · 0x23 · '!success'.",
    "--key PATTERN": "Keys: 'user::*' · '/^user::[0-9]+$/'.",
    "--collection NAMES": "Collections: shop.carts · carts · 0x8,0x9 · '!_default'.",
    "--opaque NUMBERS": "Opaques: 0xdeadbeef.",
    "--stream-id NUMBERS": "DCP stream ids.",
    "--connection NUMBERS": "Connections by their number.",
    "--host ADDRESSES": "Frames from or to an address.",
    "--port PORTS": "Frames from or to a TCP port.",
    "--frame NUMBERS": "Frames by their number: 7 · 100-200,512.",
    # where each frame is read together with its request
    "--latency BOUND": "Responses by the time since their request: '>5ms' · '<=250us'; of several, all must hold.",
    "-c, --count N": "Stop after N matching frames.",
    "--problems": "Only frames with problems.",
    "--since TIME": "From a time: 2026-11-20T10:00:00Z, 10:00:00.250, or +30s from the start.",
    "--until TIME": "Up to a time, as --since.",
    "--tz ZONE": "Zone of times: local, utc, +02:00, Europe/Berlin; by default utc. Times for programs are always UTC.",
    # how captures are read, or an interface is
    "--salvage": "After garbage in a capture, continue at the next plausible record.",
    "--align": "Move the times of captures that have packets in common, so that all are by one clock.",
    "-F, --follow": "Wait for more at the end of a capture that is still being written.",
    "--keylog FILE": f"Open TLS by its key log, as SSLKEYLOGFILE has it; repeatable. [env var: {_KEYLOG_VARIABLE}]",
    "--memory SIZE": "Memory for waiting segments, connections and streams, at most.",
    "-i, --interface IFACE": "Capture here, instead of reading captures.",
    "-D, --list-interfaces": "List the interfaces, and end.",
    "--duration SECONDS": "Stop after so long.",
    "--bpf FILTER": "A filter as tcpdump takes it; needs libpcap.",
    "--buffer SIZE": "Memory for packets that wait to be decoded, at most.",
    # how frames are shown, and where
    "--color [auto|always|never]": "When to colour.",
    "--value-bytes N": _VALUE_BYTES.format("64 in every format"),
    "-t, --time [a|r|d]": _TIMES.format("since the frame above"),
    "-o, --output FILE": "Write to a file, whole or not at all.",
    "--force": "Let -o replace an existing file.",
    "--summary [text|json|none]": "Byte accounting at the end.",
    "-q, --quiet": "No summary on standard error.",
    "--show-secrets": "Print authentication payloads.",
    "--redact": "Hash keys, values, xattrs, user and bucket names.",
    "--redact-level [partial|full]": LEVELS,
    "--salt-file FILE": "The salt of the hashes; made if missing. By default the salt is random, and forgotten.",
}
#: What else is to be known of some of them.
_MORE: dict[str, dict[str, Any]] = {
    **dict.fromkeys(_CLAUSES, SEVERAL),
    "keylog": {"multiple": True, "show_envvar": False},
    "memory": {"type": Size(least="64k"), "default": "256M"},  # a segment takes so much
    "buffer": {"default": "128M"},
    "color": {"default": "auto", "show_default": False},
    "value-bytes": {"type": _value_bytes},
    "summary": {"default": "text", "show_default": False},
    "salt-file": {"envvar": "DCPDUMP_SALT_FILE"},
}
_USAGES = {next(word[2:] for word in usage.split() if word.startswith("--")): usage for usage in _SHARED}
#: Arguments, and variants of shared options, by names in capitals: what makes them, and its arguments.
_VARIANTS: dict[str, tuple[Callable[..., click.Parameter], Sequence[Any], dict[str, Any]]] = {
    "CAPTURE…": (click.Argument, [["captures"]], {"nargs": -1, "required": True, "metavar": "CAPTURE…"}),
    "[CAPTURE…]": (click.Argument, [["captures"]], {"nargs": -1, "metavar": "[CAPTURE…]"}),
    "ANY-INTERFACE": (option, ["-i, --interface IFACE", "Where to capture; the default: any."], {}),
    # Scripts give it to every command; the help of those that use one process is silent about it.
    "ONE-JOB": (option, ["-j, --jobs N", ""], {"expose_value": False, "hidden": True}),
    "NO-SUMMARY": (option, ["-q, --quiet", "No summary: --summary none."], {}),
}
#: Options that stand together.
_SETS = {
    "CONTENTS": _CONTENTS,
    "FRAMES": f"{_CONTENTS} connection host port count problems since until tz",
    "NUMBERED-FRAMES": f"{_CONTENTS} connection host port frame count problems since until tz",
    "INPUT": "salvage align follow keylog memory ONE-JOB",
    "LIVE": "interface duration bpf buffer",
    "REDACTION": "redact redact-level salt-file",
}


def named(*params: click.Parameter | str) -> list[click.Parameter]:
    """Return the parameters of a command: those that are given, and shared ones by their names, in this order."""
    found: list[click.Parameter] = []
    for each in params:
        if isinstance(each, click.Parameter):
            found.append(each)
            continue
        for name in (word for words in each.split() for word in _SETS.get(words, words).split()):
            if name in _VARIANTS:
                make, words, how = _VARIANTS[name]
                found.append(make(*words, **how))
            else:
                found.append(option(_USAGES[name], _SHARED[_USAGES[name]], **_MORE.get(name, {})))
    return found


# -- the call of a command ------------------------------------------------------------------------------


class Invocation:
    """The options with which a command was called, and what they mean together, which is worked out on first use.

    ``uncut``: the formats in which values are not cut by default.
    """

    def __init__(self, options: dict[str, Any], uncut: Collection[str] = ()) -> None:
        self.options = options
        self.captures: tuple[str, ...] = options.get("captures", ())  #: as they are named
        self.order: Callable[[Iterable[Any]], list[Any]] = list  #: of rows
        self.format: str = options.get("format", "")
        self.path: str | None = options.get("output")  #: of the output
        self.force: bool = options.get("force", False)
        self.show_secrets: bool = options.get("show_secrets", False)
        self.salvage: bool = options.get("salvage", False)
        self.memory: int = options.get("memory", DEFAULT.memory)
        given = options.get("value_bytes")
        shown = (-1 if self.format in uncut else DEFAULT_VALUE_BYTES) if given is None else given
        self.value_bytes: int | None = None if shown < 0 else shown

    def validate(self) -> None:
        """Work all of it out before anything is opened: raise an error for options that are wrong."""
        _ = self.frames, self.redactor, self.times, self.keys

    def again(self) -> "Invocation":
        """Return the same for another reading: relative times count from its own start."""
        other = copy(self)
        vars(other).pop("frames", None)
        return other

    # -- which frames, and how to show them ---------------------------------------------------------------

    @cached_property
    def frames(self) -> Selection:
        """Return which frames to show. Raises FilterError."""
        return selection(self.options)

    @cached_property
    def redactor(self) -> "Redactor | None":
        """Return what hides; None without redaction."""
        level, salt_file = level_of(self.options)
        if level is None:
            return None
        from dcpdump.redact import Redactor

        return Redactor(salt_of(salt_file), full=level == "full")

    def shown(self, record: Record) -> Record:
        """Return a record as it may be shown: redacted, if that was requested."""
        return record if self.redactor is None else self.redactor.record(record)

    @cached_property
    def times(self) -> Clock:
        """Return what writes times for people. Raises UsageError for programs that ask for others."""
        kind = self.options.get("time")
        if self.format not in ("ndjson", "csv", "sarif"):
            return Clock(TimeKind(kind or "a"), zone_in(self.options))
        if kind is not None:
            raise click.UsageError(f"-t is for people: {self.format} always has the time in UTC")
        return PLAIN_TIMES

    def coloured(self, terminal: bool) -> bool:
        """Return whether to use colour: by the option, then NO_COLOR, FORCE_COLOR, TERM=dumb, then the terminal."""
        color = self.options.get("color", "never")
        if color != "auto":
            return bool(color == "always")
        if os.environ.get("NO_COLOR"):
            return False
        if os.environ.get("FORCE_COLOR", "0") not in ("", "0"):
            return True
        return terminal and os.environ.get("TERM") != "dumb"

    # -- how captures are read ----------------------------------------------------------------------------

    @cached_property
    def keys(self) -> KeyLogs:
        """Return the key logs that open TLS, read: as they grow, where captures may, or where there is none."""
        options, captures = self.options, self.captures
        paths = tuple(options.get("keylog") or ())
        if "keylog" in options and not paths and os.environ.get(_KEYLOG_VARIABLE):
            paths = (os.environ[_KEYLOG_VARIABLE],)
        if not paths:
            return KeyLogs()
        if "-" in paths and ("-" in captures or paths.count("-") > 1):
            raise click.UsageError("standard input can be the capture or one key log, not both")
        if not _can_open():
            raise KeyLogError("reading TLS needs cryptography", "", INSTALL_TLS)
        logs = KeyLogs(paths)
        if captures:
            logs.read()
        grows = not captures or bool(options.get("follow")) or any(map(_is_pipe, captures))
        if grows:  # what is captured now is decoded with secrets that are logged now
            logs.grow()
        for each in logs.files:
            if not grows and not each.accepted:
                odd = each.refused
                what = f" ({counted(odd, 'line')} not understood)" if odd else ""
                self.say(f"dcpdump: note: {each.path} holds no TLS secret{what}")
            elif each.open_to_others:
                mode = each.open_to_others
                self.say(f"dcpdump: note: {each.path} is readable by others (mode {mode}); it opens these connections")
        return logs

    @property
    def secrets(self) -> "Secrets | None":
        """Return what opens TLS; None where nothing could: then captures only say that they carry secrets."""
        return self.keys.secrets if _can_open() else None

    @property
    def limits(self) -> Limits:
        """Return the limits of reassembly."""
        return Limits.within(self.memory)

    def open(self, paths: Sequence[str]) -> "list[Capture]":
        """Open captures, to be read once; of several, not those that are deleted by now. Raises errors.CaptureError."""
        from dcpdump.capture.file import Capture

        follow, align = bool(self.options.get("follow")), self.options.get("align")
        if align and (follow or any(map(_is_pipe, paths))):
            raise click.UsageError("--align reads captures twice: not standard input, a pipe, or what is followed (-F)")
        self.keys.secrets.forget_connections()
        opened: list[Capture] = []
        for path in paths:
            try:
                opened.append(Capture(path, salvage=self.salvage, follow=follow, secrets=self.secrets))
            except CaptureError:
                if os.path.lexists(path) or (path == paths[-1] and not opened):
                    raise
                note(f"dcpdump: note: {path}: it was deleted before it was read")
        if align:
            self._align(opened)
        return opened

    def _align(self, captures: "Sequence[Capture]") -> None:
        """Find by how much the times of captures are to be moved, and say so."""
        from dcpdump.cli.reading import progress
        from dcpdump.compare.align import moves

        names = [each.name for each in captures]
        with progress(names):
            found = moves(captures, self.memory)
        for capture, move in zip(captures, found, strict=True):
            capture.moved_ns = move.ns
        self.say(*(f"dcpdump: note: {line}" for line in _moved(names, found)))

    @cached_property
    def paths(self) -> list[str]:
        """Return the captures, file by file; or the interface."""
        return expand(self.captures)

    @property
    def summary(self) -> str:
        """Return the format of the run's summary."""
        return "none" if self.options.get("quiet") else self.options.get("summary", "text")

    @property
    def terminal(self) -> bool:
        """Return whether a terminal gets the output."""
        return sys.stdout is not None and self.path in STANDARD_OUTPUT and sys.stdout.isatty()

    def say(self, *lines: str) -> None:
        """Write lines on standard error, unless nothing is to be said there."""
        for line in () if self.summary == "none" else lines:
            note(line)

    def sink(self, *, paged: bool = True) -> Sink:
        """Open the output, which none of the inputs may be."""
        return Sink(self.path, force=self.force, inputs=self.paths, paged=paged)

    def dissect(self, kind: Callable[..., D]) -> D:
        """Make a dissector of a kind as is requested."""
        return kind(self.limits, show_secrets=self.show_secrets, secrets=self.secrets)

    def source(self, *, needs_one: bool = True) -> "Source":
        """Open the captures, or the interface, whose rights are given up. Raises LiveError.

        ``needs_one``: one of them has to be named. Raises UsageError where both are, or options of the other.
        """
        options = self.options
        if needs_one and not self.captures and not options.get("interface"):
            raise click.UsageError("Missing argument 'CAPTURE…'.")
        if self.captures and options.get("interface"):
            raise click.UsageError("either an interface (-i) or captures, not both")
        for name in () if self.captures else ("salvage", "align", "follow"):
            if options[name]:
                raise click.UsageError(f"--{name} is of captures, not of an interface")
        for name in ("duration", "bpf") if self.captures else ():
            if options.get(name):
                raise click.UsageError(f"--{name} is of an interface (-i), not of captures")
        if self.captures:
            from dcpdump.cli.reading import CaptureSource

            return CaptureSource(self.open(self.paths))
        from dcpdump.cli.sniff import InterfaceSource

        for later in _LATER:  # once rights are dropped, our own files may be unreadable
            import_module(later)
        return InterfaceSource(self)
