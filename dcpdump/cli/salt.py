"""Read the salt of hashes from a file, which is made where it is missing; or make a random one. Never print it."""

import os
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from dcpdump.cli.stderr import note

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
        raise click.UsageError(f"--salt-file: cannot make {path}: {(error.strerror or '').lower()}") from error
    salt = os.urandom(32).hex().encode()
    with os.fdopen(handle, "wb") as file:
        file.write(salt + b"\n")
    note(f"note: {path} is new, with a fresh salt: who has it can try keys out, and it gives the same hashes again")
    return salt


def _read(path: str) -> bytes:
    try:
        salt = Path(path).read_bytes().strip()
    except OSError as error:
        raise click.UsageError(f"--salt-file: cannot read {path}: {(error.strerror or '').lower()}") from error
    if not salt:
        raise click.UsageError(f"--salt-file: {path} is empty")
    return salt
