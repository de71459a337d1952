"""Provide ``dcpdump help``: pages that answer one question each."""

from importlib.resources import files

import click

from dcpdump.cli.grouped import command
from dcpdump.cli.sink import Sink
from dcpdump.errors import DcpdumpError
from dcpdump.text import nearest


def pages() -> dict[str, str]:
    """Return the Markdown of all pages, by name."""
    folder = files("dcpdump").joinpath("help")
    found = sorted((each.name, each) for each in folder.iterdir() if each.name.endswith(".md"))
    return {name.removesuffix(".md"): each.read_text("utf-8") for name, each in found}


def question(page: str) -> str:
    """Return the heading of a page, which is the question that it answers."""
    return page.partition("\n")[0].removeprefix("# ")


@command(
    "dcpdump help",
    "dcpdump help filters",
    "dcpdump help read",
    params=[click.Argument(["name"], required=False)],
)
def help_command(name: str | None) -> None:
    """Print a page of help; without NAME, list the pages.

    NAME is a page ('dcpdump help filters') or a command ('dcpdump help read').
    """
    root = click.get_current_context().find_root()
    found, group = pages(), root.command
    assert isinstance(group, click.Group)
    if name is None:
        width = max(map(len, found))
        text = "".join(f"{each:<{width}}  {question(page)}\n" for each, page in found.items())
        text += "\n'dcpdump help NAME' prints one; NAME may also be a command.\n"
    elif name in found:
        text = found[name]
    elif name in group.list_commands(root):
        command = group.get_command(root, name)
        assert command is not None
        with click.Context(command, info_name=name, parent=root) as inner:
            text = command.get_help(inner) + "\n"
    else:
        near = nearest(name, [*found, *group.list_commands(root)], n=1)
        hint = f"did you mean '{near[0]}'?" if near else f"pages are {', '.join(found)}"
        raise DcpdumpError(f"there is no page {name!r}", hint=hint)
    with Sink(None, paged=True) as sink:
        sink.write(text)
