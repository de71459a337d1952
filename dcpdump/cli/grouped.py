"""Make commands whose options stand in groups, whose words a shell completes, and whose help ends with examples."""

import json
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem, FishComplete, add_completion_class

from dcpdump.cli.config import take_from_environment
from dcpdump.errors import DcpdumpError

if TYPE_CHECKING:
    from dcpdump.render.objects import Rows


# -- words that a shell completes ---------------------------------------------------------------------
# Messages, statuses, rules, interfaces, pages; everything else is a file.
#
# Each list is made only when a shell asks for it.

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
        *COMMANDS.items(),
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


#: title → the options that stand under it, in whichever command they are
GROUPS: dict[str, str] = {
    "What to choose": """--opcode --vbucket --seqno --kind --status --key --collection --opaque --stream-id
        --connection --host --port --frame --by --since --until --tz --problems --latency --context --count --stuck
        --rolled-back --ended --cause --select --ignore""",
    "How to read": """--listen --to --interface --list-interfaces --duration --bpf --buffer --input --form --salvage
        --follow --max-spool --keylog --memory --jobs --chain --interactive""",
    "How to judge": "--idle --fail-on --fail-fast --no-check",
    "How to show": """--format --time --all --resume --sort --reverse --color --value-bytes --no-mouse --once --interval
        --rows --keys --title --frames --summary --quiet --schema""",
    "What to hide": "--show-secrets --redact --redact-level --level --salt --salt-file",
    "Where to write": "--output --write -C -G -W --tables --file-mb --keep-index --force --with-secrets",
}
_TITLES = {option: title for title, options in GROUPS.items() for option in options.split()}
#: The options that most people use, in whichever command they are: -h shows these alone.
COMMON = frozenset(
    """--opcode --vbucket --seqno --status --key --connection --since --count --stuck --cause --ignore --by
    --listen --to --interface --input --follow --keylog --interactive --fail-on --no-check --format --all --resume
    --once --keys --redact --level --output --write --tables --explain --watch --title""".split()
)
#: Examples that -h shows, and how wide an option may be beside what it does.
_EXAMPLES, _WIDE = 2, 23


class BriefHelp(click.Command):
    """A command of which -h shows what most people use, and --help everything."""

    def __init__(self, *args: Any, **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        text = "Show what is used most."
        brief = click.Option(["help", "-h"], is_flag=True, is_eager=True, expose_value=False, callback=_show, help=text)
        self.params.append(brief)

    def get_brief_help(self, ctx: click.Context) -> str:
        """Return the help of -h: how to use the command, what it does, what it is usually given."""
        formatter = ctx.make_formatter()
        self.format_usage(ctx, formatter)
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text((self.help or "").partition("\n\n")[0])
        self.format_brief(ctx, formatter)
        return f"{formatter.getvalue()}\nAll options: {ctx.command_path} --help"

    def format_brief(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write what the command is usually given."""


def _show(ctx: click.Context, _: click.Parameter, asked: bool) -> None:
    """Print the short help where it is asked for, and end."""
    if asked:
        assert isinstance(ctx.command, BriefHelp)
        click.echo(ctx.command.get_brief_help(ctx))
        ctx.exit()


class GroupedCommand(BriefHelp):
    """A command whose help has its options in groups, and examples; its words are completed by their names.

    ``rows``: the kinds of rows that it prints as ndjson; or else ``schema`` returns what --schema prints.
    """

    def __init__(
        self,
        *args: Any,
        examples: tuple[str, ...],
        rows: "Rows" = (),
        schema: Callable[[], Any] | None = None,
        **attributes: Any,
    ) -> None:
        super().__init__(*args, **attributes)
        self.examples = examples
        complete(self.params)
        if rows or schema is not None:
            self.params.append(_schema_option(rows, schema))
        take_from_environment(self.name, self.params)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the words of the command line; errors of all kinds know their command, for the hint."""
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            error.ctx = error.ctx or ctx
            raise

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options under the titles of their groups; others last."""
        for title, records in self._records(ctx).items():
            if records:
                with formatter.section(title):
                    formatter.write_dl([record for _, record in records])

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples."""
        _write_examples(formatter, self.examples)

    def format_brief(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the common options, and some examples."""
        records = [record for group in self._records(ctx).values() for common, record in group if common]
        if records:
            with formatter.section("Options"):
                formatter.write_dl(records, col_max=_WIDE)
        _write_examples(formatter, self.examples[:_EXAMPLES])

    def _records(self, ctx: click.Context) -> dict[str, list[tuple[bool, tuple[str, str]]]]:
        """Return what help says of each option, by the titles of their groups, and whether the option is common."""
        groups: dict[str, list[tuple[bool, tuple[str, str]]]] = {title: [] for title in GROUPS}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None and isinstance(param, click.Option):
                title = next((_TITLES[name] for name in param.opts if name in _TITLES), "Other options")
                groups.setdefault(title, []).append((not COMMON.isdisjoint(param.opts), record))
        return groups


def _write_examples(formatter: click.HelpFormatter, examples: Sequence[str]) -> None:
    with formatter.section("Examples"):
        for example in examples:
            formatter.write(f"  {example}\n")


def _schema_option(rows: "Rows", own: Callable[[], Any] | None) -> click.Option:
    """Return the option that prints what the rows of a command are, and does no more."""

    def show(ctx: click.Context, _: click.Parameter, asked: bool) -> None:
        if asked:
            from dcpdump.render.objects import schema

            found = schema(ctx.info_name or "", rows) if own is None else own()
            click.echo(json.dumps(found, indent=2, ensure_ascii=False))
            ctx.exit()

    return click.Option(
        ["--schema"],
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=show,
        help="Print the JSON Schema of the rows of -f ndjson, and do nothing.",
    )
