"""Define how commands read captures: the same options for all of them."""

import os
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import click

from dcpdump.capture.key_log import KeyLogError, KeyLogs
from dcpdump.cli.options import Command, Display, Size
from dcpdump.cli.terminal import note
from dcpdump.errors import CaptureError
from dcpdump.net.limits import DEFAULT, Limits
from dcpdump.startup import dataclass, field
from dcpdump.text import INSTALL_TLS, counted

if TYPE_CHECKING:
    from dcpdump.capture import Capture
    from dcpdump.cli.sniff import InterfaceSource
    from dcpdump.tls.secrets import Secrets


# -- key logs: the option that names them, and what is said of them -----------------------------------

VARIABLE = "DCPDUMP_KEYLOG"
_HELP = "Open TLS by its key log, as SSLKEYLOGFILE has it; repeatable."

keylog_option = click.option(
    "--keylog", metavar="FILE", multiple=True, help=f"{_HELP} [env var: {VARIABLE}]", show_envvar=False
)


def can_open() -> bool:
    """Return whether TLS can be opened here."""
    return find_spec("cryptography") is not None


def load_ciphers() -> None:
    """Load what opens records, where that cannot be done later."""
    import_module("dcpdump.tls.openers")
    import_module("dcpdump.tls.unsealer")


def key_logs(options: dict[str, Any], captures: Sequence[str] = ()) -> KeyLogs:
    """Take the option out of ``options``, open the key logs, and read them: as they grow, where a capture may.

    Without captures there is an interface, or a relay.
    """
    paths = tuple(options.pop("keylog", ()))
    if not paths and os.environ.get(VARIABLE):
        paths = (os.environ[VARIABLE],)
    if not paths:
        return KeyLogs()
    given = click.get_current_context().params
    if "-" in paths and ("-" in captures or paths.count("-") > 1):
        raise click.UsageError("standard input can be the capture or one key log, not both")
    if not can_open():
        raise KeyLogError("reading TLS needs cryptography", "", INSTALL_TLS)
    logs = KeyLogs(paths)
    quiet = bool(given.get("quiet")) or given.get("summary") == "none"
    if captures:
        logs.read()
    grows = not captures or bool(given.get("follow")) or any(map(_is_pipe, captures))
    if grows:  # what is captured now is decoded with secrets that are logged now
        logs.grow()
    for each in () if quiet else logs.files:
        if not grows and not each.taken:
            odd = each.refused
            what = f" ({counted(odd, 'line')} not understood)" if odd else ""
            note(f"dcpdump: note: {each.path} holds no TLS secret{what}")
        elif each.open_to_others:
            mode = each.open_to_others
            note(f"dcpdump: note: {each.path} is readable by others (mode {mode}); it opens these connections")
    return logs


def _is_pipe(path: str) -> bool:
    """Return whether a capture comes from a pipe: it is neither a file nor a folder, a glob or a place elsewhere."""
    return path == "-" or (os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path))


# -- an interface, instead of captures -----------------------------------------------------------------


def interface_options(*, lists: bool = True) -> Callable[[Command], Command]:
    """Add the options for what to capture. ``lists``: and one that lists the interfaces."""
    seconds = click.FloatRange(min=0, min_open=True)
    buffer = "Most bytes of packets that wait."

    def add(command: Command) -> Command:
        command = click.option("--buffer", type=Size(), default="128M", show_default=True, help=buffer)(command)
        text = "A filter as tcpdump takes it; needs libpcap."
        command = click.option("--bpf", metavar="FILTER", help=text)(command)
        command = click.option("--duration", type=seconds, metavar="SECONDS", help="Stop after so long.")(command)
        if lists:
            text = "List the interfaces, and do no more."
            command = click.option("-D", "--list-interfaces", is_flag=True, help=text)(command)
        text = "Where to capture; the default: any." if lists else "Capture here, instead of reading captures."
        return click.option("-i", "--interface", metavar="IFACE", help=text)(command)

    return add


def is_live(options: dict[str, Any], captures: Sequence[str], *, needs_one: bool = True) -> bool:
    """Return whether there is an interface, and no captures. ``needs_one``: not where neither is named.

    Raises UsageError where there are both, or options of the other.
    """
    if needs_one and not captures and not options["interface"]:
        raise click.UsageError("Missing argument 'CAPTURE…'.")
    if captures and options["interface"]:
        raise click.UsageError("either an interface (-i) or captures, not both")
    for name in ("salvage", "follow"):
        if not captures and options[name]:
            raise click.UsageError(f"--{name} is of captures, not of an interface")
    for name in ("duration", "bpf"):
        if captures and options[name]:
            raise click.UsageError(f"--{name} is of an interface (-i), not of captures")
    return not captures


#: What an analysis imports when it needs it.
_LATER = ("csv", "dcpdump.diagnosis.diagnosis", "dcpdump.streams.rates", "dcpdump.streams.dissection")


def interface_source(
    options: dict[str, Any], port: str | None, shown: Display, given: "InputOptions"
) -> "InterfaceSource":
    """Take the options for what to capture out of ``options``, and return the interface, open. Raises LiveError."""
    from dcpdump.cli.sniff import InterfaceSource, tap

    for name in _LATER:  # once rights are dropped, our own files may be unreadable
        import_module(name)
    return InterfaceSource(tap(options, port), shown, given.keys)


# -- captures ------------------------------------------------------------------------------------------

_SALVAGE = "After garbage in a capture, continue at the next plausible record."
_FOLLOW = "Wait for more at the end of a capture that is still being written."
#: The help of --jobs.
PROCESSES = "Most processes at work; the default: the cores."
_MEMORY = "Most memory for segments that wait, and for connections and streams."


@dataclass(frozen=True, slots=True)
class InputOptions:
    """How captures are read."""

    salvage: bool = False
    follow: bool = False
    memory: int = DEFAULT.memory
    keys: KeyLogs = field(default_factory=KeyLogs)  #: that open TLS

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
        from dcpdump.capture import open_capture

        self.keys.secrets.forget_connections()
        opened: list[Capture] = []
        for path in paths:
            try:
                opened.append(open_capture(path, salvage=self.salvage, follow=self.follow, secrets=self.secrets))
            except CaptureError:
                if os.path.lexists(path) or (path == paths[-1] and not opened):
                    raise
                note(f"dcpdump: note: {path}: it was deleted before it was read")
        return opened


def input_options(*, follow: bool = True, keylog: bool = True, jobs: str | None = "") -> Callable[[Command], Command]:
    """Add the options that say how captures are read.

    ``follow``: also while they grow; ``keylog``: also inside TLS; ``jobs``: by how many processes, as its
    help says; None: they are not counted.
    """

    def add(command: Command) -> Command:
        if jobs is not None:
            command = jobs_option(jobs)(command)
        size = Size(least="64k")  # a segment takes so much
        command = click.option("--memory", type=size, default="256M", show_default=True, help=_MEMORY)(command)
        if keylog:
            command = keylog_option(command)
        if follow:
            command = click.option("-F", "--follow", is_flag=True, help=_FOLLOW)(command)
        return click.option("--salvage", is_flag=True, help=_SALVAGE)(command)

    return add


def jobs_option(text: str = "") -> Callable[[Command], Command]:
    """Add the option for how many processes may be used. ``text``: of what; without it the command uses one.

    Such a command takes the option all the same, as scripts give it to every command, but its help is silent about it.
    """
    number = click.IntRange(min=1)
    return click.option("-j", "--jobs", type=number, metavar="N", help=text, expose_value=bool(text), hidden=not text)


def input_of(options: dict[str, Any], captures: Sequence[str]) -> InputOptions:
    """Take the options that say how captures are read, which are named so, out of ``options``."""
    keys = key_logs(options, captures) if "keylog" in options else KeyLogs()
    return InputOptions(options.pop("salvage", False), options.pop("follow", False), options.pop("memory"), keys)
