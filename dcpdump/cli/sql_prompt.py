"""Ask for queries one after the other, with completion and history where the terminal has readline."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from dcpdump.arrow import schema
from dcpdump.arrow.folder import SCHEMAS
from dcpdump.cli import exit as code
from dcpdump.cli.signals import Interruptible
from dcpdump.cli.stderr import complain, end_line
from dcpdump.errors import CaptureError, DcpdumpError

_PROMPT, _MORE = "sql> ", "...> "
_HELP = f"""A query ends with ';'. Tables: {", ".join(SCHEMAS)}. Tab completes their columns.
.schema [TABLE]  columns and their types
.help            this
.quit            leave, as Ctrl-D does; Ctrl-C aborts a query
"""
_HISTORY_LINES = 1000
_KEYWORDS = """select from where group by order having limit join using with as distinct between in is not null and or
    count sum min max avg desc asc describe summarize timestamp interval""".split()
#: Between these, readline looks for the word to complete.
_DELIMITERS = " \t\n,;()=<>+-*/'\"."


def prompt(answer: Callable[[str], int]) -> int:
    """Answer queries until the input ends, and return the exit code."""
    terminal = sys.stdin is not None and sys.stdin.isatty()
    if terminal:
        click.echo(_HELP, nl=False)
    queries = _Queries(terminal)
    with Interruptible() as interruptible, _readline() if terminal else _nothing():
        while not queries.ended:
            if not interruptible.run(queries.read):
                queries.drop()
            elif not interruptible.run(partial(_answer, answer, queries.text)):
                end_line()
                complain("the query was aborted", ())
    return code.DONE


def _answer(answer: Callable[[str], int], text: str) -> None:
    """Answer a query, or do what a command with a dot says; what is wrong in it is reported."""
    try:
        if text:
            _obey(text) if text.startswith(".") else answer(text)
    except CaptureError:
        raise
    except DcpdumpError as error:
        complain(str(error), (error.hint, *error.more))


def words() -> list[str]:
    """Return what can be completed: tables, columns, keywords."""
    columns = [name for make in SCHEMAS.values() for name in make().names]
    return sorted({*SCHEMAS, *columns, *_KEYWORDS})


class _Queries:
    """What is typed: queries, and commands. ``text``: the one that was read, without the ';' at its end."""

    def __init__(self, terminal: bool) -> None:
        self._terminal = terminal
        self._lines: list[str] = []
        self.text = ""
        self.ended = False

    def read(self) -> None:
        """Read one, or to the end of the input: what is then left is a query too."""
        self.text = ""
        while not self.ended and not self.text:
            self._read_line()

    def drop(self) -> None:
        """Forget the lines of what is not wanted."""
        self._lines = []
        click.echo()

    def _read_line(self) -> None:
        try:
            line = input((_MORE if self._lines else _PROMPT) if self._terminal else "")
        except EOFError:
            self.ended = True
            if self._terminal:
                click.echo()
            self._take()
            return
        if not self._lines and line.strip() in (".quit", ".exit", "quit", "exit"):
            self.ended = True
        elif line.strip():
            self._lines.append(line)
            if line.rstrip().endswith(";") or self._lines[0].startswith("."):
                self._take()

    def _take(self) -> None:
        self.text = "\n".join(self._lines).strip().rstrip("; \n")
        self._lines = []


def _obey(command: str) -> None:
    """Do what a command with a dot says."""
    name, *tables = command.split()
    unknown = next((each for each in tables if each not in SCHEMAS), None)
    if name not in (".schema", ".tables", ".help") or unknown is not None:
        what = f"no such table: {unknown}" if name == ".schema" else f"no such command: {name}"
        raise DcpdumpError(what, "", _HELP.partition("\n")[0] if unknown else ".help lists the commands")
    if name == ".help":
        click.echo(_HELP, nl=False)
    for each in tables or SCHEMAS if name == ".schema" else ():
        click.echo(f"{each} {schema.text(SCHEMAS[each]())}", nl=False)
    if name == ".tables":
        click.echo("\n".join(SCHEMAS))


@contextmanager
def _nothing() -> Iterator[None]:
    yield


@contextmanager
def _readline() -> Iterator[None]:
    """Complete words, and keep the queries of earlier runs, where Python has readline."""
    try:
        readline: Any = import_module("readline")
    except ImportError:
        yield
        return
    known = words()

    def complete(text: str, state: int) -> str | None:
        found = [word for word in known if word.startswith(text.lower())]
        return found[state] if state < len(found) else None

    readline.set_completer_delims(_DELIMITERS)
    readline.set_completer(complete)
    readline.parse_and_bind("bind ^I rl_complete" if "libedit" in (readline.__doc__ or "") else "tab: complete")
    history = _history()
    with suppress(OSError):
        readline.read_history_file(history)
    try:
        yield
    finally:
        with suppress(OSError):  # a home that cannot be written
            history.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(os.open(history, os.O_CREAT | os.O_WRONLY, 0o600))
            readline.set_history_length(_HISTORY_LINES)
            readline.write_history_file(history)


def _history() -> Path:
    """Return the file that keeps queries. They may quote keys: it is for its owner alone."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "dcpdump" / "sql-history"
