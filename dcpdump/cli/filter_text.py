"""Read a filter that was typed as one text: the options of ``read`` that choose frames, with or without dashes."""

import shlex
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

import click

from dcpdump.cli.options import Selection, latency_option, selection, selection_options
from dcpdump.filter import FilterError
from dcpdump.filter.choices import BETWEEN
from dcpdump.spec import MESSAGES, PUSHES
from dcpdump.spec.statuses import STATUS
from dcpdump.text import nearest

#: The option that is not a clause: it says how times are written.
_ZONE = "tz"


@cache
def _options() -> dict[str, click.Option]:
    """Return the options that choose frames, by their names without dashes."""

    @click.command()
    @selection_options(captures=True, frames=True, count=False)
    @latency_option
    def command(**_: object) -> None:
        """Choose frames."""

    options = [each for each in command.params if isinstance(each, click.Option)]
    return {each.opts[-1].lstrip("-"): each for each in options if each.name != _ZONE}


def filter_of(text: str, tz: str | None = None) -> Selection:
    """Return what a text chooses; ``tz``: the zone of its times. Raises FilterError, in the words of ``read``."""
    words = filter_words(text)
    command = click.Command("filter", params=list(_options().values()), add_help_option=False)
    try:
        context = command.make_context("filter", words)
    except click.UsageError as error:
        raise FilterError(error.format_message().rstrip(".").lower()) from error
    return selection(context.params | {"tz": tz})


def filter_words(text: str) -> list[str]:
    """Return a text as arguments of ``read``. Raises FilterError."""
    out: list[str] = []
    words = iter(_split(text))
    for word in words:
        name, equals, value = word.lstrip("-").partition("=")
        option = _options().get(name.replace("_", "-"))
        if option is None:
            near = nearest(name.lower(), _options(), n=3)
            hint = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(_options())}"
            raise FilterError(f"no such option: {word!r}", hint=hint)
        out.append(f"--{option.opts[-1].lstrip('-')}")
        if option.is_flag:
            continue
        value = value if equals else next(words, "")
        if not value:
            raise FilterError(f"{out[-1]}: a value is missing", hint=f"{out[-1]} {option.metavar}: {option.help}")
        out.append(value)
    return out


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise FilterError(f"a quotation mark has no second one in {text!r}") from error


def words_of(options: Mapping[str, Any]) -> list[str]:
    """Return the options of a command that choose frames as they were given."""
    words: list[str] = []
    for name, option in _options().items():
        value = options.get(option.name or "")
        if value:
            values = [] if option.is_flag else str(value).split(BETWEEN)
            words += [f"--{name}"] if option.is_flag else [word for one in values for word in (f"--{name}", one)]
    return words


def text_of(words: Iterable[str]) -> str:
    """Return arguments as a text."""
    return " ".join(map(shlex.quote, words))


def with_clause(text: str, name: str, value: str) -> str:
    """Return a filter with another clause; one of the same name is replaced."""
    try:
        words = filter_words(text)
    except FilterError:
        words = []
    kept: list[str] = []
    at = 0
    while at < len(words):
        wide = 1 if _options()[words[at].lstrip("-")].is_flag else 2
        if words[at] != f"--{name}":
            kept += words[at : at + wide]
        at += wide
    return text_of([*kept, f"--{name}", value])


def completions(text: str) -> list[str]:
    """Return what a text may be completed to: names of options, of messages, statuses and kinds."""
    before, blank, last = text.rpartition(" ")
    head = before + blank
    try:
        complete = _split(before)
    except ValueError:
        return []
    option = _options().get(complete[-1].lstrip("-")) if complete else None
    if option is not None and not option.is_flag and not _is_value(complete):
        done, comma, word = last.rpartition(",")
        bang = "!" * word.startswith("!")
        names = _values(option.opts[-1].lstrip("-"))
        return [head + done + comma + bang + name for name in _beginning(names, word[len(bang) :])]
    dashes = last[: len(last) - len(last.lstrip("-"))]
    return [f"{head}{dashes}{name} " for name in _beginning(_options(), last.lstrip("-"))]


def _is_value(words: Sequence[str]) -> bool:
    """Return whether the last word is the value of the option before it."""
    value = False
    for word in words:
        option = _options().get(word.lstrip("-"))
        value = not value and option is not None and not option.is_flag
    return not value


def _beginning(names: Iterable[str], start: str) -> list[str]:
    folded = start.lower().replace("-", "_")
    return [name for name in names if name.lower().replace("-", "_").startswith(folded)]


def _values(option: str) -> list[str]:
    if option == "opcode":
        names = {message.name.removeprefix("DCP_").lower() for message in (*MESSAGES.values(), *PUSHES.values())}
        return sorted(names)
    if option == "status":
        return sorted(name.lower().replace(" ", "_") for name in STATUS.names.values())
    return ["request", "response"] if option == "kind" else []
