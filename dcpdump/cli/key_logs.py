"""Provide the option that names key logs, and what is said of them."""

import os
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import click

from dcpdump.capture.key_log import KeyLogError, KeyLogs
from dcpdump.cli.stderr import note
from dcpdump.text import INSTALL_TLS, counted

VARIABLE = "DCPDUMP_KEYLOG"
_HELP = "Open TLS with the secrets in a key log, as SSLKEYLOGFILE has it; repeatable."

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
