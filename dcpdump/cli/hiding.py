"""Hide keys, values and names in what is browsed, and in what is written from there, by the same hashes."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any, NamedTuple

from dcpdump.cli.salt import level_of, salt_of

if TYPE_CHECKING:
    from dcpdump.redact import Redactor


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
    salt = os.urandom(32).hex().encode()
    with TemporaryFile(buffering=0) as file:  # without a name: nothing is left of it
        file.write(salt)
        name = f"/proc/{os.getpid()}/fd/{file.fileno()}"
        run = ("--salt-file", name) if os.path.exists(name) else ()
        yield Hiding(Redactor(salt, full=level == "full"), words, (*words, *run))
