"""Define the options that commands share, in small frozen groups: what to choose, how to read it, how to show it."""

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click
from click.core import ParameterSource

from dcpdump.capture.key_log import KeyLogError, KeyLogs
from dcpdump.cli.terminal import note
from dcpdump.clock import PLAIN_TIMES, UTC, Clock, TimeKind, Zone, zone_of
from dcpdump.errors import CaptureError, system_words
from dcpdump.filter import Clause, FrameFilter, TimeWindow, clauses, parse_window
from dcpdump.filter.choices import BETWEEN, Ranges, parse_ranges
from dcpdump.net.limits import DEFAULT, Limits
from dcpdump.record import DEFAULT_VALUE_BYTES, Record
from dcpdump.startup import dataclass, field
from dcpdump.text import INSTALL_TLS, counted, nearest

if TYPE_CHECKING:
    from dcpdump.batch.filter import Masks
    from dcpdump.capture.file import Capture
    from dcpdump.cli.sniff import InterfaceSource
    from dcpdump.compare.align import Move
    from dcpdump.redact import Redactor
    from dcpdump.tls.secrets import Secrets


# -- what hides: levels and salts ---------------------------------------------------------------------
# Read their salt from a file, made where it is missing; or make a random one. Never print it.

#: The help text of the option.
SALT_FILE = "The salt of the hashes; made where it is missing. Without it the salt is random, and forgotten."


def level_of(options: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """Return the level of redaction (``partial``, ``full``; None without) and the file of the salt."""
    redact, level, path = (options[name] for name in ("redact", "redact_level", "salt_file"))
    if redact or level is not None:
        return level or "partial", path
    if is_given("salt_file"):
        raise click.UsageError("--salt-file is for hashes, and nothing is hidden: --redact is missing")
    return None, path


def is_given(name: str) -> bool:
    """Return whether an option stands on the command line of the command that runs."""
    context = click.get_current_context(silent=True)
    return context is not None and context.get_parameter_source(name) is ParameterSource.COMMANDLINE


def salt_of(path: str | None) -> bytes:
    """Return the salt in a file; without a file, a random one. A missing file is made, readable by its owner alone."""
    if path is None:
        return os.urandom(32)
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return _read(path)
    except OSError as error:
        raise click.UsageError(f"--salt-file: cannot make {path}: {system_words(error)}") from error
    salt = os.urandom(32).hex().encode()
    with os.fdopen(handle, "wb") as file:
        file.write(salt + b"\n")
    note(f"note: {path} is new, with a fresh salt: who has it can try keys out, and it gives the same hashes again")
    return salt


def _read(path: str) -> bytes:
    try:
        salt = Path(path).read_bytes().strip()
    except OSError as error:
        raise click.UsageError(f"--salt-file: cannot read {path}: {system_words(error)}") from error
    if not salt:
        raise click.UsageError(f"--salt-file: {path} is empty")
    return salt


class Hiding(NamedTuple):
    """What hides, and the options by which another command hides the same."""

    redactor: "Redactor | None" = None
    shown: tuple[str, ...] = ()  #: of a command that is shown to people
    run: tuple[str, ...] = ()  #: of a command that is run at once: it has the same hashes


@contextmanager
def hiding(options: Mapping[str, Any]) -> Iterator[Hiding]:
    """Yield what the options of redaction ask for."""
    level, path = level_of(options)
    if level is None:
        yield Hiding()
        return
    from dcpdump.redact import Redactor

    words = ("--redact",) if level == "partial" else ("--redact-level", level)
    if path is not None:
        words = (*words, "--salt-file", path)
        yield Hiding(Redactor(salt_of(path), full=level == "full"), words, words)
        return
    from tempfile import TemporaryFile  # here, as only what is redacted needs it

    salt = os.urandom(32).hex().encode()
    with TemporaryFile(buffering=0) as file:  # without a name: nothing is left of it
        file.write(salt)
        name = f"/proc/{os.getpid()}/fd/{file.fileno()}"
        run = ("--salt-file", name) if os.path.exists(name) else ()
        yield Hiding(Redactor(salt, full=level == "full"), words, (*words, *run))


Command = TypeVar("Command", bound=Callable[..., Any])


def together(*options: Callable[[Any], Any]) -> Callable[[Command], Command]:
    """Return a decorator that adds options, in this order."""

    def add(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return add


#: What the levels of redaction are, in whichever command.
LEVELS = "partial: keys, values, xattrs, users, buckets; full: names of collections, scopes and clients, and hosts too."


class ClauseOption(NamedTuple):
    """An option that chooses; given several times, its values add up, as those of a list do."""

    name: str
    parse: Callable[[str], Clause]  #: its text
    metavar: str
    text: str  #: of help

    def option(self, command: Command) -> Command:
        """Add the option to a command."""

        def join(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> str | None:
            return BETWEEN.join(values) if values else None

        made = click.option(f"--{self.name}", metavar=self.metavar, help=self.text, multiple=True, callback=join)
        return made(command)


VBUCKET = ClauseOption("vbucket", clauses.by_vbucket, "RANGES", "vBuckets: 7 · 0-63,512.")
COLLECTION = ClauseOption(
    "collection", clauses.by_collection, "NAMES", "Collections: shop.carts · carts · 0x8,0x9 · '!_default'."
)
STREAM_ID = ClauseOption("stream-id", clauses.by_stream_id, "NUMBERS", "DCP stream ids.")
_CLAUSES = (
    ClauseOption("opcode", clauses.by_opcode, "NAMES", "Messages: mutation,deletion · 0x57 · '!noop'."),
    VBUCKET,
    ClauseOption("seqno", clauses.by_seqno, "RANGES", "Sequence numbers: 42 · 100-200 · 100- · -50."),
    ClauseOption("kind", clauses.by_kind, "KIND", "request or response."),
    ClauseOption("status", clauses.by_status, "NAMES", "Responses by status: rollback · 0x23 · '!success'."),
    ClauseOption("key", clauses.by_key, "PATTERN", "Keys: 'user::*' · '/^user::[0-9]+$/'."),
    COLLECTION,
    ClauseOption("opaque", clauses.by_opaque, "NUMBERS", "Opaques: 0xdeadbeef."),
    STREAM_ID,
)
CAPTURE_CLAUSES = (
    ClauseOption("connection", clauses.by_connection, "NUMBERS", "Connections by their number."),
    ClauseOption("host", clauses.by_host, "ADDRESSES", "Frames from or to an address."),
    ClauseOption("port", clauses.by_port, "PORTS", "Frames from or to a TCP port."),
)
_FRAME = ClauseOption("frame", clauses.by_frame, "NUMBERS", "Frames by their number: 7 · 100-200,512.")
#: only where each frame is read together with its request
LATENCY = ClauseOption(
    "latency",
    clauses.by_latency,
    "BOUND",
    "Responses by the time since their request: '>5ms' · '<=250us'; of several, all must hold.",
)
_ALL_CLAUSES = (*_CLAUSES, *CAPTURE_CLAUSES, _FRAME, LATENCY)


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

    def accepts(self, record: Record) -> bool:
        """Return whether a frame is to be shown."""
        return self.filter.accepts(record)


@dataclass(frozen=True, slots=True)
class Display:
    """How to show frames, and where."""

    format: str
    color: str
    value_bytes: int | None
    path: str | None
    force: bool
    show_secrets: bool
    redactor: "Redactor | None" = None
    times: Clock = PLAIN_TIMES  #: writes the times of frames for people

    def shown(self, record: Record) -> Record:
        """Return the record as it may be shown: redacted, if that was asked for."""
        return record if self.redactor is None else self.redactor.record(record)

    def coloured(self, terminal: bool) -> bool:
        """Return whether to use colour: by the option, then NO_COLOR, FORCE_COLOR, TERM=dumb, then the terminal."""
        if self.color != "auto":
            return self.color == "always"
        if os.environ.get("NO_COLOR"):
            return False
        if os.environ.get("FORCE_COLOR", "0") not in ("", "0"):
            return True
        return terminal and os.environ.get("TERM") != "dumb"


#: The option for the zone of times, those that are read and those that are printed for people.
tz_option = click.option(
    "--tz",
    metavar="ZONE",
    help="Zone of times: local, utc, +02:00, Europe/Berlin; by default utc. Times for programs are always UTC.",
)
#: The options that choose frames by their times.
window_options = together(
    click.option(
        "--since", metavar="TIME", help="From a time: 2026-11-20T10:00:00Z, 10:00:00.250, or +30s from the start."
    ),
    click.option("--until", metavar="TIME", help="Up to a time, as --since."),
    tz_option,
)


def selection_options(*, captures: bool, frames: bool = False, count: bool = True) -> Callable[[Command], Command]:
    """Add the options that choose frames.

    ``captures``: those of connections and times too; ``frames``: of numbers; ``count``: the one that says when to stop.
    """
    most = click.option("-c", "--count", type=click.IntRange(min=1), metavar="N", help="Stop after N matching frames.")
    return together(
        *(each.option for each in (*_CLAUSES, *CAPTURE_CLAUSES * captures, *(_FRAME,) * frames)),
        *(most,) * count,
        click.option("--problems", is_flag=True, help="Only frames with problems."),
        *(window_options,) * captures,
    )


def zone_in(options: Mapping[str, Any]) -> Zone:
    """Return the zone that ``options`` name. Raises ZoneError."""
    return UTC if options.get("tz") is None else zone_of(options["tz"])


_TIMES = "Times for people: a absolute (the default), r from the start of the capture, d {delta}."


def time_option(delta: str = "since the frame above") -> Callable[[Command], Command]:
    """Add the option for what times are counted from. ``delta``: what with ``d``."""
    kinds = click.Choice([kind.value for kind in TimeKind])
    return click.option("-t", "--time", type=kinds, help=_TIMES.format(delta=delta))


def selection(options: Mapping[str, Any]) -> Selection:
    """Return what the options that choose frames select. Raises FilterError."""
    names = [each.name for each in _ALL_CLAUSES] + ["since", "until"]
    given = {name: options.get(name.replace("-", "_")) for name in names}
    texts = {name: text for name, text in given.items() if text is not None}
    found = [each.parse(texts[each.name]) for each in _ALL_CLAUSES if each.name in texts]
    if options.get("problems"):
        found.append(clauses.with_problems)
    window = _window(texts.get("since"), texts.get("until"), zone_in(options))
    if window is not None:
        found.append(window)
    return Selection(FrameFilter(tuple(found)), options.get("count"), window, texts)


def _window(since: str | None, until: str | None, zone: Zone) -> TimeWindow | None:
    return None if since is None and until is None else TimeWindow(*parse_window(since, until, zone))


def value_bytes_option(default: str) -> Callable[[Command], Command]:
    """Add the option for how much of a value is shown. ``default``: how much that is without it, as help says it."""
    text = f"How much of a value to show: a number, or all; by default {default}."
    return click.option("--value-bytes", type=_value_bytes, metavar="N", help=text)


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


#: The options that hide keys, values and names.
redaction_options = together(
    click.option("--redact", is_flag=True, help="Hash keys, values, xattrs, user and bucket names."),
    click.option("--redact-level", type=click.Choice(["partial", "full"]), help=LEVELS),
    click.option("--salt-file", metavar="FILE", envvar="DCPDUMP_SALT_FILE", help=SALT_FILE),
)


def display_options(
    formats: Sequence[str],
    *,
    value_bytes: str = "64 in every format",
    secrets: bool = True,
    folder: str = "",
    force: str = "Let -o replace an existing file.",
) -> Callable[[Command], Command]:
    """Add the options for how to show frames, and where; the first of ``formats`` is the default.

    ``value_bytes``: the default for how much of a value is shown, as help says it; "": no values are. ``secrets``:
    frames are shown that may hold them. ``folder``: what -o names, where that is a folder of tables; ``force``: what
    --force does.
    """
    colours = click.Choice(["auto", "always", "never"])
    where = folder or "Write to a file, whole or not at all."
    return together(
        *(
            click.option("-f", "--format", type=FormatChoice(formats), default=each, show_default=True)
            for each in formats[:1]
        ),
        *([] if folder else [click.option("--color", type=colours, default="auto", help="When to colour.")]),
        *([value_bytes_option(value_bytes)] if value_bytes else []),
        click.option("-o", "--output", metavar="DIR" if folder else "FILE", help=where),
        *([click.option("--force", is_flag=True, help=force)] if force else []),
        *([click.option("--show-secrets", is_flag=True, help="Print authentication payloads.")] if secrets else []),
        redaction_options,
    )


def summary_options(text: str = "Byte accounting at the end.") -> Callable[[Command], Command]:
    """Add the options for the summary of a run. ``text``: what that is."""
    return together(
        click.option("--summary", type=click.Choice(["text", "json", "none"]), default="text", help=text),
        click.option("-q", "--quiet", is_flag=True, help="No summary: --summary none."),
    )


def summary_of(options: Mapping[str, Any]) -> str:
    """Return the format of a run's summary."""
    return "none" if options["quiet"] else str(options["summary"])


def display(options: Mapping[str, Any], *, whole: Collection[str] = ()) -> Display:
    """Return how to show frames. ``whole``: the formats in which values are shown whole by default."""
    given, form = options.get("value_bytes"), options["format"]
    value_bytes = None if form in whole else DEFAULT_VALUE_BYTES
    if given is not None:
        value_bytes = None if given < 0 else given
    return Display(
        form,
        options["color"],
        value_bytes,
        options["output"],
        options["force"],
        options.get("show_secrets", False),
        redactor_of(options),
        times_of(form, options),
    )


def times_of(form: str, options: Mapping[str, Any]) -> Clock:
    """Return what writes times. Raises click.UsageError for programs."""
    kind = options.get("time")
    if form not in ("ndjson", "csv", "sarif"):
        return Clock(TimeKind(kind or "a"), zone_in(options))
    if kind is not None:
        raise click.UsageError(f"-t is for people: {form} always has the time in UTC")
    return PLAIN_TIMES


def redactor_of(options: Mapping[str, Any]) -> "Redactor | None":
    """Return the redactor; None without redaction."""
    level, salt_file = level_of(options)
    if level is None:
        return None
    from dcpdump.redact import Redactor

    return Redactor(salt_of(salt_file), full=level == "full")


# -- key logs: the option that names them, and what is said of them -----------------------------------

KEYLOG_VARIABLE = "DCPDUMP_KEYLOG"
_KEYLOG = "Open TLS by its key log, as SSLKEYLOGFILE has it; repeatable."

keylog_option = click.option(
    "--keylog", metavar="FILE", multiple=True, help=f"{_KEYLOG} [env var: {KEYLOG_VARIABLE}]", show_envvar=False
)


def can_open() -> bool:
    """Return whether TLS can be opened here."""
    return find_spec("cryptography") is not None


def key_logs(options: Mapping[str, Any], captures: Sequence[str] = ()) -> KeyLogs:
    """Open the key logs, and read them: as they grow, where a capture may.

    Without captures there is an interface, or a relay.
    """
    paths = tuple(options.get("keylog") or ())
    if not paths and os.environ.get(KEYLOG_VARIABLE):
        paths = (os.environ[KEYLOG_VARIABLE],)
    if not paths:
        return KeyLogs()
    given = click.get_current_context().params
    if "-" in paths and ("-" in captures or paths.count("-") > 1):
        raise click.UsageError("standard input can be the capture or one key log, not both")
    if not can_open():
        raise KeyLogError("reading TLS needs cryptography", "", INSTALL_TLS)
    logs = KeyLogs(paths)
    if captures:
        logs.read()
    grows = not captures or bool(given.get("follow")) or any(map(_is_pipe, captures))
    if grows:  # what is captured now is decoded with secrets that are logged now
        logs.grow()
    for each in () if _is_quiet() else logs.files:
        if not grows and not each.taken:
            odd = each.refused
            what = f" ({counted(odd, 'line')} not understood)" if odd else ""
            note(f"dcpdump: note: {each.path} holds no TLS secret{what}")
        elif each.open_to_others:
            mode = each.open_to_others
            note(f"dcpdump: note: {each.path} is readable by others (mode {mode}); it opens these connections")
    return logs


def _is_quiet() -> bool:
    """Return whether the command is to say nothing on standard error."""
    given = click.get_current_context().params
    return bool(given.get("quiet")) or given.get("summary") == "none"


def _is_pipe(path: str) -> bool:
    """Return whether a capture comes from a pipe: it is neither a file nor a folder, a glob or a place elsewhere."""
    return path == "-" or (os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path))


# -- an interface, instead of captures -----------------------------------------------------------------


def interface_options(*, lists: bool = True) -> Callable[[Command], Command]:
    """Add the options for what to capture. ``lists``: and one that lists the interfaces."""
    seconds = click.FloatRange(min=0, min_open=True)
    text = "Where to capture; the default: any." if lists else "Capture here, instead of reading captures."
    listing = click.option("-D", "--list-interfaces", is_flag=True, help="List the interfaces, and do no more.")
    buffer = "Most bytes of packets that wait."
    return together(
        click.option("-i", "--interface", metavar="IFACE", help=text),
        *(listing,) * lists,
        click.option("--duration", type=seconds, metavar="SECONDS", help="Stop after so long."),
        click.option("--bpf", metavar="FILTER", help="A filter as tcpdump takes it; needs libpcap."),
        click.option("--buffer", type=Size(), default="128M", show_default=True, help=buffer),
    )


def is_live(options: Mapping[str, Any], captures: Sequence[str], *, needs_one: bool = True) -> bool:
    """Return whether there is an interface, and no captures. ``needs_one``: not where neither is named.

    Raises UsageError where there are both, or options of the other.
    """
    if needs_one and not captures and not options["interface"]:
        raise click.UsageError("Missing argument 'CAPTURE…'.")
    if captures and options["interface"]:
        raise click.UsageError("either an interface (-i) or captures, not both")
    for name in ("salvage", "align", "follow"):
        if not captures and options[name]:
            raise click.UsageError(f"--{name} is of captures, not of an interface")
    for name in ("duration", "bpf"):
        if captures and options[name]:
            raise click.UsageError(f"--{name} is of an interface (-i), not of captures")
    return not captures


#: What an analysis imports when it needs it.
_LATER = ("csv", "dcpdump.diagnosis.diagnosis", "dcpdump.batch.traffic_over_time", "dcpdump.streams.dissection")


def interface_source(options: Mapping[str, Any], shown: Display, given: "InputOptions") -> "InterfaceSource":
    """Return the interface to capture on, open. Raises LiveError."""
    from dcpdump.cli.sniff import InterfaceSource

    for name in _LATER:  # once rights are dropped, our own files may be unreadable
        import_module(name)
    return InterfaceSource(options, shown, given.keys)


# -- captures ------------------------------------------------------------------------------------------

_SALVAGE = "After garbage in a capture, continue at the next plausible record."
_ALIGN = "Move the times of captures that have packets in common, so that all are by one clock."
_FOLLOW = "Wait for more at the end of a capture that is still being written."
#: The help of --jobs.
PROCESSES = "Worker processes; the default: the cores."
_MEMORY = "Most memory for segments that wait, and for connections and streams."


@dataclass(frozen=True, slots=True)
class InputOptions:
    """How captures are read."""

    salvage: bool = False
    follow: bool = False
    memory: int = DEFAULT.memory
    keys: KeyLogs = field(default_factory=KeyLogs)  #: that open TLS
    align: bool = False

    @property
    def secrets(self) -> "Secrets | None":
        """What opens TLS; None where nothing could: then captures only say that they carry secrets."""
        return self.keys.secrets if can_open() else None

    @property
    def limits(self) -> Limits:
        """Return the limits of reassembly."""
        return Limits.within(self.memory)

    def open(self, paths: Sequence[str]) -> "list[Capture]":
        """Open captures, to be read once; of several, not those that are deleted by now. Raises errors.CaptureError."""
        from dcpdump.capture.file import Capture

        if self.align and (self.follow or any(map(_is_pipe, paths))):
            raise click.UsageError("--align reads captures twice: not standard input, a pipe, or what is followed (-F)")
        self.keys.secrets.forget_connections()
        opened: list[Capture] = []
        for path in paths:
            try:
                opened.append(Capture(path, salvage=self.salvage, follow=self.follow, secrets=self.secrets))
            except CaptureError:
                if os.path.lexists(path) or (path == paths[-1] and not opened):
                    raise
                note(f"dcpdump: note: {path}: it was deleted before it was read")
        if self.align:
            self._align(opened)
        return opened

    def _align(self, captures: "Sequence[Capture]") -> None:
        """Find by how much the times of captures are to be moved, and say so."""
        from dcpdump.cli.reading import progress
        from dcpdump.compare.align import moves

        with progress(each.name for each in captures):
            found = moves(captures, self.memory)
        for capture, move in zip(captures, found, strict=True):
            capture.moved_ns = move.ns
        for line in () if _is_quiet() else _moved([each.name for each in captures], found):
            note(f"dcpdump: note: {line}")


def _moved(names: Sequence[str], moves: "Sequence[Move]") -> Iterator[str]:
    """Yield which captures were moved, by how much and why, and which have nothing in common with any other."""
    others = {move.like for move in moves}
    alone = [name for at, name in enumerate(names) if moves[at].like is None and at not in others]
    for name, (ns, like, segments) in zip(names, moves, strict=True):
        if like is not None:
            common = f"{counted(segments, 'segment')} captured in {names[like]} too"
            yield f"{name}: times moved by {ns / 1e9:+.6f} s: {common}"
    if len(alone) == len(names):
        yield "--align: no connection was captured twice: no times are moved"
    elif alone:
        more = f" and {len(alone) - 1:,} more" if len(alone) > 1 else ""
        yield f"{alone[0]}{more}: captured in no other file: times are not moved"


def input_options(
    *, follow: bool = True, keylog: bool = True, align: bool = True, jobs: str | None = ""
) -> Callable[[Command], Command]:
    """Add the options that say how captures are read.

    ``follow``: also while they grow; ``keylog``: also inside TLS; ``align``: as one timeline, though by several clocks;
    ``jobs``: by how many processes, as its help says; None: they are not counted.
    """

    size = Size(least="64k")  # a segment takes so much
    return together(
        click.option("--salvage", is_flag=True, help=_SALVAGE),
        *(click.option("--align", is_flag=True, help=_ALIGN),) * align,
        *(click.option("-F", "--follow", is_flag=True, help=_FOLLOW),) * follow,
        *(keylog_option,) * keylog,
        click.option("--memory", type=size, default="256M", show_default=True, help=_MEMORY),
        *(() if jobs is None else (jobs_option(jobs),)),
    )


def jobs_option(text: str = "") -> Callable[[Command], Command]:
    """Add the option for how many processes may be used. ``text``: of what; without it the command uses one.

    Such a command takes the option all the same, as scripts give it to every command, but its help is silent about it.
    """
    number = click.IntRange(min=1)
    return click.option("-j", "--jobs", type=number, metavar="N", help=text, expose_value=bool(text), hidden=not text)


def input_of(options: Mapping[str, Any], captures: Sequence[str]) -> InputOptions:
    """Return how captures, which are named so, are read."""
    keys = key_logs(options, captures) if "keylog" in options else KeyLogs()
    salvage, follow, align = (options.get(name, False) for name in ("salvage", "follow", "align"))
    return InputOptions(salvage, follow, options["memory"], keys, align)
