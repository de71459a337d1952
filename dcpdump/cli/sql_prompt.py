"""Ask for queries one after the other, with completion and history where the terminal has readline."""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from dcpdump.arrow import schema
from dcpdump.arrow.folder import SCHEMAS
from dcpdump.cli import exit as code
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
    with _interruptible(), _readline() if terminal else _nothing():
        for text in _texts(terminal):
            try:
                _obey(text) if text.startswith(".") else answer(text)
            except KeyboardInterrupt:
                end_line()
                complain("the query was aborted", ())
            except CaptureError:
                raise
            except DcpdumpError as error:
                complain(str(error), (error.hint, *error.more))
    return code.DONE


def words() -> list[str]:
    """Return what can be completed: tables, columns, keywords."""
    columns = [name for make in SCHEMAS.values() for name in make().names]
    return sorted({*SCHEMAS, *columns, *_KEYWORDS})


def _texts(terminal: bool) -> Iterator[str]:
    """Yield queries, without the ';' at their ends, and commands."""
    lines: list[str] = []
    while True:
        try:
            line = input((_MORE if lines else _PROMPT) if terminal else "")
        except EOFError:
            if terminal:
                click.echo()
            if lines:
                yield "\n".join(lines)
            return
        except KeyboardInterrupt:  # what was typed so far is not wanted
            lines = []
            click.echo()
            continue
        if not lines and line.strip() in (".quit", ".exit", "quit", "exit"):
            return
        if line.strip():
            lines.append(line)
        whole = "\n".join(lines).strip()
        if whole.endswith(";") or whole.startswith("."):
            lines = []
            yield whole.rstrip("; \n")


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
def _interruptible() -> Iterator[None]:
    """Have every Ctrl-C raise KeyboardInterrupt: each aborts one query."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


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
