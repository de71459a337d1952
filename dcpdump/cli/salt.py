"""Hide by hashes: read their salt from a file, made where it is missing; or make a random one. Never print it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click
from click.core import ParameterSource

from dcpdump.cli.stderr import note
from dcpdump.errors import system_words

if TYPE_CHECKING:
    from dcpdump.redact import Redactor

#: The help text of the option.
SALT_FILE = "The salt of the hashes; made where it is missing. Without it the salt is random, and forgotten."


def level_of(options: dict[str, Any]) -> tuple[str | None, str | None]:
    """Take the options that hide out of ``options``.

    Return how much is to be hidden, ``partial`` or ``full``, None where nothing is, and the file of the salt.
    """
    redact, level, path = (options.pop(name) for name in ("redact", "redact_level", "salt_file"))
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
def hiding(options: dict[str, Any]) -> Iterator[Hiding]:
    """Take the options of redaction out of ``options``; yield what they ask for."""
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
