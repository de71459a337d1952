"""Make commands: options in groups, with defaults from a file; words that a shell completes; help with examples."""

import json
import os
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from importlib import import_module
from inspect import cleandoc
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem, FishComplete, add_completion_class

from dcpdump.errors import DcpdumpError, system_words
from dcpdump.text import nearest

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
        begun = _folded(word.removeprefix(sign))
        return [
            CompletionItem(f"{before}{comma}{sign}{choice}", help=about)
            for choice, about in self._choices()
            if _folded(choice).startswith(begun)
        ]


def _folded(word: str) -> str:
    return word.casefold().replace("-", "_")


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
    from dcpdump.spec import MESSAGES, PUSHES

    numbers: dict[str, list[str]] = {}
    for opcode, message in (*MESSAGES.items(), *PUSHES.items()):  # NOOP is two of them, and an option takes both
        numbers.setdefault(message.name.removeprefix("DCP_").lower(), []).append(f"0x{opcode:02x}")
    return [(name, ", ".join(opcodes)) for name, opcodes in numbers.items()]


def _statuses() -> Iterable[tuple[str, str]]:
    from dcpdump.spec.statuses import STATUS

    return [(name.lower(), f"0x{number:02x}") for number, name in STATUS.names.items()]


def _rules() -> Iterable[tuple[str, str]]:
    from dcpdump.check.rules import RULES

    return [(rule.code, rule.title) for rule in RULES]


def _causes() -> Iterable[tuple[str, str]]:
    from dcpdump.streams.causes import Cause, Reason

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


# -- defaults of options, from a file with a section for each command, or from variables --------------
# They may say how to show things, never what to write. Options that decide on exit codes, overwrite files or print
# secrets have to be given on the command line.

#: What neither a file nor an environment variable may set, by the names of parameters.
GIVEN_ONLY = frozenset(
    "output out write force fail_on select ignore no_check show_secrets salt with_secrets brief help schema explain "
    "listed list_interfaces count debug megabytes seconds files salvage".split()
)
#: Nor, in commands that end with 1 where something is wrong, the options that choose what is judged.
_JUDGED = frozenset("connection host port vbucket stream_id since until idle".split())
_JUDGES = ("check", "diagnose")
_CONFIG_HELP = "dcpdump help config"


class ConfigError(DcpdumpError):
    """What a file of defaults, or a variable, says is not right."""

    def __init__(self, what: str, hint: str = _CONFIG_HELP) -> None:
        super().__init__(what, hint=hint)


def config_path() -> str | None:
    """Return where the file of defaults is; None where there is none. An empty variable says so too."""
    named = os.environ.get("DCPDUMP_CONFIG")
    if named is not None:
        return named or None
    path = os.path.join(click.get_app_dir("dcpdump"), "config.toml")
    return path if os.path.exists(path) else None  # nor where a folder may not be entered: it is another user's


def _is_given_only(command: str | None, param: click.Parameter) -> bool:
    """Return whether an option of a command has to be given on the command line."""
    return param.name in GIVEN_ONLY or (command in _JUDGES and param.name in _JUDGED)


def sections(path: str, commands: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return the sections of a file. Raises ConfigError."""
    found = _parsed(path)
    for name, section in found.items():
        if name in commands and not isinstance(section, dict):
            raise ConfigError(f"{path}: {name} is not a section", f"[{name}], and below it: format = 'line'")
        if not isinstance(section, dict):
            raise ConfigError(f"{path}: {name} stands in no section", f"[read], and below it: {name} = …")
        if name not in commands:
            raise ConfigError(f"{path}: there is no command {name!r}", _nearest(name, commands, "[{}]"))
    return found


def defaults(path: str | None, command: click.Command, section: dict[str, Any]) -> dict[str, Any]:
    """Return what a section of a file, and variables, set, by the names of a command's parameters. Raises ConfigError.

    A variable of the command that sets nothing is refused too: it may be misspelt.
    """
    options = {word.lstrip("-"): param for param in command.params for word in param.opts if word.startswith("--")}
    found: dict[str, Any] = {}
    for key, value in section.items():
        where = f"{path}: [{command.name}] {key}"
        param = _set_by(key.replace("_", "-"), options, command.name, where, f"[{command.name}] {{}}")
        found[param.name or ""] = _value(where, value, param)
    begin = f"DCPDUMP_{command.name}_".upper()
    in_capitals = {name.replace("-", "_").upper(): param for name, param in options.items()}
    for variable in sorted(os.environ):
        text, name = os.environ[variable], variable.removeprefix(begin)
        if name != variable and text:
            param = _set_by(name, in_capitals, command.name, f"{variable}:", begin + "{}")
            found[param.name or ""] = _value(f"{variable}:", text, param, is_text=True)
    return found


def _set_by(
    name: str, options: Mapping[str, click.Parameter], command: str | None, where: str, form: str
) -> click.Parameter:
    """Return the option that a setting sets. Raises ConfigError where there is none, or the command line alone may.

    ``form``: what another setting would look like, whose name it has for {}.
    """
    param = options.get(name)
    if param is None:
        allowed = [each for each, other in options.items() if not _is_given_only(command, other)]
        raise ConfigError(f"{where.removesuffix(':')}: there is no such option", _nearest(name, allowed, form))
    if _is_given_only(command, param):
        raise ConfigError(f"{where} can be given on the command line only")
    return param


def _value(where: str, value: Any, param: click.Parameter, *, is_text: bool = False) -> Any:
    """Return a value as click takes a default. ``is_text``: it is text, as all variables are."""
    if is_text and param.multiple:
        value = param.type.split_envvar_value(value)
    several = list(value) if isinstance(value, (list, tuple)) else [value]
    is_flag = isinstance(param, click.Option) and param.is_flag
    if not all(isinstance(each, (str, int, float, bool)) for each in several):
        raise ConfigError(f"{where} is neither a text, a number nor true or false")
    if is_flag and not (is_text or isinstance(value, bool)):
        raise ConfigError(f"{where} is true or false")
    if not is_flag and (any(isinstance(each, bool) for each in several) or (several != [value] and not param.multiple)):
        raise ConfigError(f"{where} is a text or a number")
    texts = [str(each) for each in several]
    try:
        made = [param.type.convert(text, param, None) for text in texts]
    except click.BadParameter as error:
        what = f"{where} is true or false" if is_flag else f"{where.removesuffix(':')}: {error.message}"
        raise ConfigError(what) from error
    return made[0] if is_flag else texts if param.multiple else texts[0]


def _nearest(word: str, known: Iterable[str], form: str) -> str:
    near = nearest(word, known, n=1, cutoff=0.5)
    return f"did you mean {form.format(near[0])}?" if near else _CONFIG_HELP


def _parsed(path: str) -> dict[str, Any]:
    tomllib: Any = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    try:
        found: dict[str, Any] = tomllib.loads(Path(path).read_text("utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: cannot read: {system_words(error)}") from error
    except ValueError as error:
        raise ConfigError(f"{path}: is not TOML: {error}") from error
    return found


# -- the help of commands ------------------------------------------------------------------------------

#: title → the options that stand under it, in whichever command they are
GROUPS: dict[str, str] = {
    "Filter": """--opcode --vbucket --seqno --kind --status --key --collection --opaque --stream-id
        --connection --host --port --frame --by --since --until --tz --problems --latency --context --count --stuck
        --rolled-back --ended --cause --select --ignore""",
    "Input": """--listen --to --interface --list-interfaces --duration --bpf --buffer --input --form --salvage
        --align --follow --max-spool --keylog --memory --jobs --chain --interactive""",
    "Verdicts": "--idle --fail-on --fail-fast --no-check",
    "Display": """--format --time --all --resume --sort --reverse --color --value-bytes --no-mouse --once --interval
        --rows --keys --title --frames --summary --quiet --schema""",
    "Privacy": "--show-secrets --redact --redact-level --level --salt --salt-file",
    "Output": "--output --write -C -G -W --tables --file-mb --keep-index --force --with-secrets",
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
        self.params.append(printing(["brief", "-h"], "Show what is used most.", self._brief_help))

    def _brief_help(self, ctx: click.Context) -> str:
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


def printing(names: list[str], about: str, text: Callable[[click.Context], str]) -> click.Option:
    """Return an option that prints a text, and ends."""

    def show(ctx: click.Context, _: click.Parameter, asked: bool) -> None:
        if asked:
            click.echo(text(ctx))
            ctx.exit()

    return click.Option(names, is_flag=True, is_eager=True, expose_value=False, callback=show, help=about)


class GroupedCommand(BriefHelp):
    """A command of a function, whose help has its options in groups, and examples; its words are completed by names.

    ``function``: gets what its parameters name, of the options, and ``asked``, the Invocation; ``params``: options, or
    names of those that commands share; ``rows``: the kinds of rows that it prints as ndjson; or else ``schema`` returns
    what --schema prints; ``whole``: as Invocation has it.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        params: Sequence[click.Parameter | str],
        examples: tuple[str, ...],
        *,
        rows: "Rows" = (),
        schema: Callable[[], Any] | None = None,
        uncut: Collection[str] = (),
    ) -> None:
        names = function.__code__.co_varnames[: function.__code__.co_argcount]

        def invoke(**options: Any) -> Any:
            if "asked" in names:
                from dcpdump.cli.options import Invocation

                options["asked"] = Invocation(dict(options), uncut)
            return function(**{name: options[name] for name in names})

        own = [each for each in params if isinstance(each, click.Parameter)]
        if len(own) < len(params):
            from dcpdump.cli.options import named

            own = named(*params)
        own += [_schema_option(rows, schema)] if rows or schema else []
        name, text = function.__name__.removesuffix("_command"), cleandoc(function.__doc__ or "")
        super().__init__(name, callback=invoke, params=own, help=text)
        self.examples = examples
        complete(self.params)

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
                title = next((_TITLES[name] for name in param.opts if name in _TITLES), "Other")
                groups.setdefault(title, []).append((not COMMON.isdisjoint(param.opts), record))
        return groups


def command(
    *examples: str, params: Sequence[click.Parameter | str] = (), **attributes: Any
) -> Callable[[Callable[..., Any]], GroupedCommand]:
    """Return a decorator that makes a command of a function; ``params``, ``attributes``: as GroupedCommand has them."""
    return lambda function: GroupedCommand(function, params, examples, **attributes)


def _write_examples(formatter: click.HelpFormatter, examples: Sequence[str]) -> None:
    with formatter.section("Examples"):
        for example in examples:
            formatter.write(f"  {example}\n")


def _schema_option(rows: "Rows", own: Callable[[], Any] | None) -> click.Option:
    """Return the option that prints what the rows of a command are."""

    def text(ctx: click.Context) -> str:
        from dcpdump.render.objects import schema

        return json.dumps(own() if own else schema(ctx.info_name or "", rows), indent=2, ensure_ascii=False)

    return printing(["--schema"], "Print the JSON Schema of the rows of -f ndjson, and end.", text)
