"""Read defaults of options from a file, a section for each command. It may say how to show things, never what to write.

Options that decide on exit codes, overwrite files or print secrets have to be given on the command line.
"""

import os
import sys
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from dcpdump.errors import system_words
from dcpdump.text import nearest

#: Where the file is, if not in the platform's place; empty: there is none.
VARIABLE = "DCPDUMP_CONFIG"
#: What neither a file nor an environment variable may set, by the names of parameters.
GIVEN_ONLY = frozenset(
    "output out write force fail_on select ignore no_check show_secrets salt with_secrets help schema explain listed "
    "list_interfaces count debug megabytes seconds files salvage".split()
)
#: And of commands that end with 1 where something is wrong: what chooses is what is judged.
_JUDGED = frozenset("connection host port vbucket stream_id since until idle".split())
_JUDGES = ("check", "diagnose")
Sections = dict[str, dict[str, Any]]


class ConfigError(click.UsageError):
    """What a file of defaults, or a variable, says is not right."""

    def __init__(self, path: str, what: str, hint: str = "dcpdump help config") -> None:
        super().__init__(f"{path}: {what}")
        self.hint = hint


def config_path() -> str | None:
    """Return where the file of defaults is; None where there is none."""
    named = os.environ.get(VARIABLE)
    if named is not None:
        return named or None
    path = os.path.join(click.get_app_dir("dcpdump"), "config.toml")
    return path if os.path.exists(path) else None  # nor where a folder may not be entered: it is another user's


def is_given_only(command: str | None, param: click.Parameter) -> bool:
    """Return whether an option of a command has to be given on the command line."""
    return param.name in GIVEN_ONLY or (command in _JUDGES and param.name in _JUDGED)


def take_from_environment(command: str | None, params: Iterable[click.Parameter]) -> None:
    """Have options taken from variables by their long names, but those that the command line alone may give."""
    for param in params:
        if not isinstance(param, click.Option):
            continue
        if is_given_only(command, param):
            param.allow_from_autoenv = False
        elif param.envvar is None and param.name not in (names := _long_names(param)) and names:
            param.envvar = _beginning(command) + names[0].upper()


def refuse_unknown_variables(command: str, params: Iterable[click.Parameter]) -> None:
    """Raise ConfigError for a variable of a command that sets nothing: it may be misspelt."""
    begin = _beginning(command)
    options = {name.upper(): param for param in params for name in (*_long_names(param), param.name or "")}
    for variable in sorted(os.environ):
        if not variable.startswith(begin) or not os.environ[variable]:
            continue
        name = variable.removeprefix(begin)
        param = options.get(name)
        if param is None:
            near = nearest(name, [name for name, each in options.items() if not is_given_only(command, each)])
            hint = f"did you mean {begin}{near[0]}?" if near else "dcpdump help config"
            raise ConfigError(variable, "there is no such option", hint)
        if is_given_only(command, param):
            raise ConfigError(variable, "can be given on the command line only")
        text = os.environ[variable]
        values = param.type.split_envvar_value(text) if param.multiple else [text]  # as click takes them
        _refuse_values(variable, "", values, param)


def _beginning(command: str | None) -> str:
    """Return what the names of a command's variables begin with."""
    return f"DCPDUMP_{command or ''}_".upper()


def _long_names(param: click.Parameter) -> list[str]:
    """Return the long names of an option, as they stand in variables, but in lower case."""
    return [word.lstrip("-").replace("-", "_") for word in param.opts if word.startswith("--")]


def sections(path: str, commands: Iterable[str]) -> Sections:
    """Return the sections of a file. Raises ConfigError."""
    found = _parsed(path)
    for name, section in found.items():
        if name in commands and not isinstance(section, dict):
            raise ConfigError(path, f"{name} is not a section", f"[{name}], and below it: format = 'line'")
        if not isinstance(section, dict):
            raise ConfigError(path, f"{name} stands in no section", f"[read], and below it: {name} = …")
        if name not in commands:
            raise ConfigError(path, f"there is no command {name!r}", _nearest(name, commands, "[{}]"))
    return found


def defaults(path: str, command: click.Command, section: dict[str, Any]) -> dict[str, Any]:
    """Return the defaults of a command by the names of its parameters. Raises ConfigError."""
    options = {word.lstrip("-"): param for param in command.params for word in param.opts if word.startswith("--")}
    out: dict[str, Any] = {}
    for key, value in section.items():
        param = options.get(key.replace("_", "-"))
        if param is None or param.name is None:
            allowed = [name for name, each in options.items() if not is_given_only(command.name, each)]
            hint = _nearest(key, allowed, f"[{command.name}] {{}}")
            raise ConfigError(path, f"[{command.name}] {key}: there is no such option", hint)
        if is_given_only(command.name, param):
            raise ConfigError(path, f"[{command.name}] {key} can be given on the command line only")
        out[param.name] = _value(path, f"[{command.name}] {key}", value, param)
    return out


def _value(path: str, where: str, value: Any, param: click.Parameter) -> Any:
    """Return a value as click takes a default; what it means is checked there."""
    several = value if isinstance(value, list) else [value]
    if not all(isinstance(each, (str, int, float, bool)) for each in several):
        raise ConfigError(path, f"{where} is neither a text, a number nor true or false")
    if isinstance(param, click.Option) and param.is_flag:
        if not isinstance(value, bool):
            raise ConfigError(path, f"{where} is true or false")
        return value
    if any(isinstance(each, bool) for each in several) or (isinstance(value, list) and not param.multiple):
        raise ConfigError(path, f"{where} is a text or a number")
    _refuse_values(path, f"{where}: ", map(str, several), param)
    return [str(each) for each in several] if param.multiple else str(value)


def _refuse_values(path: str, where: str, values: Iterable[str], param: click.Parameter) -> None:
    """Raise ConfigError for a value that an option does not take."""
    try:
        for each in values:
            param.type.convert(each, param, None)
    except click.BadParameter as error:
        is_flag = isinstance(param, click.Option) and param.is_flag
        raise ConfigError(path, where + ("is true or false" if is_flag else error.message)) from error


def _nearest(word: str, known: Iterable[str], form: str) -> str:
    near = nearest(word.replace("_", "-"), list(known), n=1, cutoff=0.4)
    return f"did you mean {form.format(near[0])}?" if near else "dcpdump help config"


def _parsed(path: str) -> dict[str, Any]:
    tomllib: Any = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    try:
        found: dict[str, Any] = tomllib.loads(Path(path).read_text("utf-8"))
    except OSError as error:
        raise ConfigError(path, f"cannot read: {system_words(error)}") from error
    except ValueError as error:
        raise ConfigError(path, f"is not TOML: {error}") from error
    return found
