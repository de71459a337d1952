"""Provide ``dcpdump spec``: print the layouts of messages, from the table that the decoder uses."""

import click

from dcpdump.cli.grouped import command
from dcpdump.cli.sink import Sink
from dcpdump.filter import FilterError, Opcode, find_opcodes
from dcpdump.render import spec as pages
from dcpdump.spec import MESSAGES, PUSHES, UNKNOWN_NAME, find


@command(
    "dcpdump spec",
    "dcpdump spec mutation",
    "dcpdump spec 0x57",
    params=[
        click.Argument(["opcode"], required=False),
        click.Option(["--all", "everything"], is_flag=True, help="List the other opcodes of the connection too."),
    ],
)
def spec(opcode: str | None, everything: bool) -> None:
    """Print a message's byte grids, fields, rules, flags and errors; without OPCODE, all messages in a line each.

    OPCODE is a name (mutation, DCP_MUTATION) or a number (0x57); "streams" prints the phases
    of streams and connections.
    """
    with Sink(None, paged=True) as sink:
        if opcode is None:
            sink.write(pages.index([m for m in MESSAGES.values() if m.dcp or m.known or everything]))
            sink.write("\nSent by a server of its own accord (magic 0x82):\n")
            sink.write(pages.index(list(PUSHES.values())))
            return
        if opcode == "streams":
            sink.write(pages.phases())
            return
        found = [find(number, server=server) for server, number in sorted(_numbers(opcode))]
        known = [message for message in found if message.name != UNKNOWN_NAME]
        if not known:
            raise FilterError(f"no message has the opcode {opcode}", hint="dcpdump spec --all lists the messages")
        sink.write("\n".join(pages.page(message) for message in known))


def _numbers(name: str) -> set[Opcode]:
    try:
        return find_opcodes(name)
    except FilterError as error:
        hint = error.hint or "dcpdump spec lists the messages"
        raise FilterError(f"there is no message {name!r}", hint=hint) from error
