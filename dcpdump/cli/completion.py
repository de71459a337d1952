"""Complete words on the command line: messages, statuses, rules, interfaces, pages; everything else is a file.

Each list is made only when a shell asks for it.
"""

from collections.abc import Callable, Iterable, Sequence

import click
from click.shell_completion import CompletionItem, FishComplete, add_completion_class

from dcpdump.errors import DcpdumpError

#: What can be completed: pairs of a word and what it means.
Choices = Callable[[], Iterable[tuple[str, str]]]


class Completed(click.types.StringParamType):
    """A text, or a list of words with commas, of which the last is completed; ``!`` before a word stays."""

    def __init__(self, choices: Choices) -> None:
        self._choices = choices

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Return the words that go on as the last one begins."""
        before, comma, word = incomplete.rpartition(",")
        sign = "!" if word.startswith("!") else ""
        begun = word.removeprefix(sign).casefold()
        return [
            CompletionItem(f"{before}{comma}{sign}{choice}", help=about)
            for choice, about in self._choices()
            if choice.casefold().startswith(begun)
        ]


class File(click.types.StringParamType):
    """A name of a file."""

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Have the shell complete a file."""
        return [CompletionItem(incomplete, type="file")]


@add_completion_class
class Fish(FishComplete):
    """The completion of fish, with words that have commas in them."""

    source_template = FishComplete.source_template.replace('string split ","', 'string split --max 1 ","')


def complete(params: Iterable[click.Parameter]) -> None:
    """Have the parameters of a command completed by their names, where they are plain texts."""
    for param in params:
        if type(param.type) is click.types.StringParamType and param.name is not None:
            names = (param.name, *(word.removeprefix("--") for word in param.opts))
            found = next((_BY_NAME[name] for name in names if name in _BY_NAME), None)
            param.type = found or param.type


def words_of(names: Sequence[tuple[str, str]], incomplete: str) -> list[CompletionItem]:
    """Return commands that begin so; where there is none, have the shell complete a file."""
    found = [CompletionItem(name, help=about) for name, about in names if name.startswith(incomplete)]
    return found or [CompletionItem(incomplete, type="file")]


def _opcodes() -> Iterable[tuple[str, str]]:
    from dcpdump.spec import MESSAGES

    numbers: dict[str, list[str]] = {}
    for opcode, message in MESSAGES.items():  # NOOP is two of them, and an option takes both
        numbers.setdefault(message.name.removeprefix("DCP_").lower(), []).append(f"0x{opcode:02x}")
    return [(name, ", ".join(opcodes)) for name, opcodes in numbers.items()]


def _statuses() -> Iterable[tuple[str, str]]:
    from dcpdump.spec.statuses import STATUS

    return [(name.lower(), f"0x{number:02x}") for number, name in STATUS.names.items()]


def _rules() -> Iterable[tuple[str, str]]:
    from dcpdump.check.rules import RULES

    return [(rule.code, rule.title) for rule in RULES]


def _causes() -> Iterable[tuple[str, str]]:
    from dcpdump.streams.causes import Cause
    from dcpdump.streams.knowledge import Reason

    return [(each.value, "") for each in (*Cause, *Reason)]


def _interfaces() -> Iterable[tuple[str, str]]:
    from dcpdump.capture.live import interfaces

    try:
        return [(each.name, " ".join(each.addresses)) for each in interfaces()]
    except (DcpdumpError, OSError):
        return []


def _pages() -> Iterable[tuple[str, str]]:
    from dcpdump.cli.help import pages, question
    from dcpdump.cli.main import COMMANDS

    return [
        *((name, question(page)) for name, page in pages().items()),
        *((name, about) for name, (_, about) in COMMANDS.items()),
    ]


#: By the name of an argument or an option.
_BY_NAME: dict[str, click.ParamType] = {  # type: ignore[type-arg]
    **dict.fromkeys("captures output out write source keylog salt-file".split(), File()),
    "opcode": Completed(_opcodes),
    "status": Completed(_statuses),
    "kind": Completed(lambda: [("request", ""), ("response", "")]),
    **dict.fromkeys("select ignore explain".split(), Completed(_rules)),
    "cause": Completed(_causes),
    "interface": Completed(_interfaces),
    "name": Completed(_pages),
}
