"""Format the help of commands: options in groups, and examples at the end."""

import json
from collections.abc import Callable
from typing import Any

import click

from dcpdump.cli.completion import complete
from dcpdump.cli.config import take_from_environment
from dcpdump.render.row_keys import COMMANDS as ROW_COMMANDS

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

EXAMPLES: dict[str, tuple[str, ...]] = {
    "read": (
        "dcpdump read node1.pcap --opcode stream_end --context 3 -f line",
        "dcpdump read captures/ --vbucket 417 --seqno 100-200 -f ndjson",
        "ssh node tcpdump -U -w - port 11210 | dcpdump read -",
    ),
    "sniff": (
        "sudo dcpdump sniff -i any --port 11210 -f line",
        "sudo dcpdump sniff -i eth0 -w node1.pcapng -C 100 -W 10",
        "sudo dcpdump sniff --opcode stream_end --duration 60",
    ),
    "relay": (
        "dcpdump relay --listen 12210 --to db1:11210 -f line",
        "dcpdump relay --listen 12210 --to db1 --opcode stream_req,stream_end -w talk.pcapng",
        "dcpdump relay --listen 12207 --to db1:11207 --keylog keys.log",
    ),
    "explain": (
        "dcpdump explain 805c00000000000000000000819698000000000000000000",
        "xxd frame.bin | dcpdump explain",
        "dcpdump explain -i paste.txt -f grid",
    ),
    "browse": (
        "dcpdump browse node1.pcap",
        "dcpdump browse captures/ --status '!success'",
        "sudo tcpdump -U -w - port 11210 | dcpdump browse -",
    ),
    "stats": (
        "dcpdump stats node1.pcap",
        "dcpdump stats captures/ --connection 3",
        "dcpdump stats node1.pcap --opcode mutation --since +30s --until +60s",
    ),
    "streams": (
        "dcpdump streams node1.pcap --stuck",
        "dcpdump streams captures/ --vbucket 417",
        "dcpdump streams node1.pcap --ended -f ndjson",
    ),
    "conns": (
        "dcpdump conns node1.pcap",
        "dcpdump conns captures/ --port 11210",
        "dcpdump conns node1.pcap -f ndjson",
    ),
    "rollbacks": (
        "dcpdump rollbacks node1.pcap",
        "dcpdump rollbacks captures/ --vbucket 500 --resume",
        "dcpdump rollbacks node1.pcap -f ndjson",
    ),
    "flow": (
        "dcpdump flow node1.pcap",
        "dcpdump flow node1.pcap --connection 2",
        "dcpdump flow captures/ -f ndjson",
    ),
    "key": (
        "dcpdump key user::1001 node1.pcap",
        "dcpdump key 'order::*' captures/ --vbucket 12",
        "dcpdump key '/^user::[0-9]+$/' node1.pcap -f ndjson",
    ),
    "top": (
        "sudo dcpdump top -i any --port 11210",
        "dcpdump top node1.pcap",
        "ssh node tcpdump -U -w - port 11210 | dcpdump top -",
    ),
    "check": (
        "dcpdump check node1.pcap",
        "dcpdump check captures/ --ignore DCP418 --fail-on suspicious",
        "dcpdump check --explain DCP402",
    ),
    "diff": (
        "dcpdump diff producer.pcap consumer.pcap",
        "dcpdump diff before-proxy.pcap after-proxy.pcap --opcode mutation,deletion",
        "dcpdump diff consumer1.pcap consumer2.pcap --by key",
    ),
    "diagnose": (
        "dcpdump diagnose node1.pcap",
        "dcpdump diagnose captures/ --since 12:02:11.000",
        "dcpdump diagnose node1.pcap -f ndjson",
    ),
    "report": (
        "dcpdump report node1.pcap -o node1.html",
        "dcpdump report captures/ -o ticket.html --redact --title 'lag of kafka-orders'",
        "dcpdump report node1.pcap -o hour.html --since 12:00:00 --until 13:00:00",
    ),
    "redact": (
        "dcpdump redact node1.pcap -w for-support.pcapng",
        "dcpdump redact node1.pcap -w for-support.pcapng --level full",
        "dcpdump redact node1/*.pcap -w folder/ --salt-file salt",
    ),
    "carve": (
        "dcpdump carve node1.pcap --vbucket 417 -w piece.pcapng",
        "dcpdump carve captures/ --connection 3 --since +30s -w piece.pcapng",
        "dcpdump carve node1.pcap --problems -w - | dcpdump read -",
    ),
    "export": (
        "dcpdump export captures/ -o tables",
        "dcpdump export node1.pcap -o tables --opcode mutation -f csv",
        "dcpdump export --schema",
    ),
    "sql": (
        "dcpdump sql 'select name, count(*) from frames group by all order by 2 desc' node1.pcap",
        "dcpdump sql \"from findings where severity = 'violation'\" captures/ -f csv -o findings.csv",
        "dcpdump sql -i node1.pcap",
    ),
    "pipeline": (
        "dcpdump pipeline captures/ -o tables",
        "dcpdump pipeline s3://archive/node1/ -o s3://tables/ --capture-id node1",
        "dcpdump pipeline captures/ -o tables --watch",
    ),
    "spec": ("dcpdump spec", "dcpdump spec mutation", "dcpdump spec 0x57"),
    "help": ("dcpdump help", "dcpdump help filters", "dcpdump help --man ~/.local/share/man/man1"),
}


class GroupedCommand(click.Command):
    """A command whose help has its options in groups, and examples; its words are completed by their names.

    ``schema``: returns that of its rows, where they are not in the table of rows.
    """

    def __init__(self, *args: Any, schema: Callable[[], Any] | None = None, **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        complete(self.params)
        if schema is not None or self.name in ROW_COMMANDS:
            self.params.append(_schema_option(schema))
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
            for example in EXAMPLES[ctx.info_name or ""]:
                formatter.write(f"  {example}\n")


def _schema_option(own: Callable[[], Any] | None) -> click.Option:
    """Return the option that prints what the rows of a command are, and does no more."""

    def show(ctx: click.Context, _: click.Parameter, asked: bool) -> None:
        if asked:
            from dcpdump.render.json_schema import schema

            found = schema(ctx.info_name or "") if own is None else own()
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
