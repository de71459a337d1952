"""Format the help of commands: options in groups, and examples at the end."""

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from dcpdump.cli.completion import complete
from dcpdump.cli.config import take_from_environment

if TYPE_CHECKING:
    from dcpdump.render.json_schema import Rows

#: title → the options that stand under it, in whichever command they are
GROUPS: dict[str, str] = {
    "What to choose": """--opcode --vbucket --seqno --kind --status --key --collection --opaque --stream-id
        --connection --host --port --frame --by --since --until --tz --problems --latency --context --count --stuck
        --rolled-back --ended --cause --select --ignore""",
    "How to read": """--listen --to --interface --list-interfaces --duration --bpf --buffer --input --form --salvage
        --follow --max-spool --keylog --memory --jobs --interactive""",
    "How to judge": "--idle --fail-on --no-check",
    "How to show": """--format --time --all --resume --sort --reverse --color --value-bytes --no-mouse --once --interval
        --rows --title --frames --summary --quiet --schema""",
    "What to hide": "--show-secrets --redact --redact-level --level --salt --salt-file",
    "Where to write": "--output --write -C -G -W --tables --force --with-secrets",
}
_TITLES = {option: title for title, options in GROUPS.items() for option in options.split()}


class GroupedCommand(click.Command):
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
        groups: dict[str, list[tuple[str, str]]] = {title: [] for title in GROUPS}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None and isinstance(param, click.Option):
                title = next((_TITLES[name] for name in param.opts if name in _TITLES), "Other options")
                groups.setdefault(title, []).append(record)
        for title, records in groups.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples."""
        with formatter.section("Examples"):
            for example in self.examples:
                formatter.write(f"  {example}\n")


def _schema_option(rows: "Rows", own: Callable[[], Any] | None) -> click.Option:
    """Return the option that prints what the rows of a command are, and does no more."""

    def show(ctx: click.Context, _: click.Parameter, asked: bool) -> None:
        if asked:
            from dcpdump.render.json_schema import schema

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
