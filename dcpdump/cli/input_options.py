"""Define how commands read captures: the same options for all of them."""

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from dcpdump.capture.key_log import KeyLogs
from dcpdump.cli.key_logs import can_open, key_logs, keylog_option
from dcpdump.cli.options import Command, Size
from dcpdump.cli.stderr import note
from dcpdump.errors import CaptureError
from dcpdump.net.limits import DEFAULT, Limits
from dcpdump.startup import dataclass, field

if TYPE_CHECKING:
    from dcpdump.capture import Capture
    from dcpdump.tls.secrets import Secrets

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


def jobs_option(text: str = PROCESSES) -> Callable[[Command], Command]:
    """Add the option for how many processes may be used; where no ``text`` says of what, the command uses one."""
    one = "Most processes at work; this command takes one."
    number = click.IntRange(min=1)
    return click.option("-j", "--jobs", type=number, metavar="N", help=text or one, expose_value=bool(text))


def input_of(options: dict[str, Any], captures: Sequence[str]) -> InputOptions:
    """Take the options that say how captures are read, which are named so, out of ``options``."""
    keys = key_logs(options, captures) if "keylog" in options else KeyLogs()
    return InputOptions(options.pop("salvage", False), options.pop("follow", False), options.pop("memory"), keys)
