"""Provide ``dcpdump help``: pages that answer one question each, and all of it as man pages."""

import re
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import click

from dcpdump import __version__
from dcpdump.cli.grouped import GroupedCommand
from dcpdump.cli.main import CommandError
from dcpdump.cli.sink import Sink, refuse_empty
from dcpdump.errors import OutputError
from dcpdump.text import nearest

# -- man pages ----------------------------------------------------------------------------------------
# Commands of click and pages of Markdown as roff. Knows only the Markdown of the pages of help.

_BOLD = re.compile(r"\*\*(.+?)\*\*")
_CODE = re.compile(r"`([^`]+)`")


def man_of_command(command: click.Command, ctx: click.Context) -> str:
    """Return the man page (section 1) of a command: its synopsis, what it does, its options."""
    name = ctx.command_path.replace(" ", "-")
    summary, _, rest = (command.help or "").strip().partition("\n")
    usage = " ".join(command.collect_usage_pieces(ctx))
    lines = [_heading(name, 1), ".SH NAME", f"{_plain(name)} \\- {_plain(summary.rstrip('.'))}"]
    lines += [".SH SYNOPSIS", f".B {_plain(ctx.command_path)}", _plain(usage), ".SH DESCRIPTION", _plain(summary)]
    for paragraph in re.split(r"\n\s*\n", rest.strip()):
        lines += [".PP", _plain(" ".join(paragraph.replace("\b", "").split()))] if paragraph.strip() else []
    if isinstance(command, click.Group):
        lines.append(".SH COMMANDS")
        for each in command.list_commands(ctx):
            found = command.get_command(ctx, each)
            assert found is not None
            lines += [".TP", f".B {_plain(each)}", _plain(found.get_short_help_str(200))]
    params = [param for param in command.get_params(ctx) if isinstance(param, click.Option)]
    options = [record for param in params if (record := param.get_help_record(ctx))]
    lines.append(".SH OPTIONS")
    for option, text in options:
        lines += [".TP", f".B {_plain(option)}", _plain(" ".join(text.split()))]
    if isinstance(command, GroupedCommand):
        lines += [".SH EXAMPLES", ".nf", *map(_plain, command.examples), ".fi"]
    return "\n".join(lines) + "\n"


def man_of_page(name: str, page: str) -> str:
    """Return the man page (section 7) of a page of help, which is Markdown."""
    question, _, body = page.partition("\n")
    title = f"dcpdump-{name}"
    lines = [_heading(title, 7), ".SH NAME", f"{_plain(title)} \\- {_plain(question.removeprefix('# '))}"]
    return "\n".join([*lines, ".SH DESCRIPTION", *_roff(body.strip().split("\n"))]) + "\n"


def _roff(lines: list[str]) -> Iterator[str]:
    """Yield lines of roff for lines of Markdown: paragraphs, lists, tables, code, headings."""
    in_code = False
    for line in lines:
        if line.startswith("```"):
            in_code = not in_code
            yield from (".PP", ".nf") if in_code else (".fi", ".PP")
        elif in_code:
            yield _plain(line)
        elif not line:
            yield ".PP"
        elif line.startswith("## "):
            yield f'.SS "{_plain(line[3:])}"'
        elif line.startswith("|"):
            cells = [cell.strip() for cell in line.replace("\\|", "\0").strip("|").split("|")]
            if not set("".join(cells)) <= set("-: "):
                yield from (".TP", f".B {_styled(cells[0])}", _styled("  ".join(cells[1:])).replace("\0", "|"))
        elif line.startswith("- "):
            yield from (".IP \\(bu 2", _styled(line[2:]))
        else:
            yield _styled(line.strip())


def _styled(text: str) -> str:
    marked = _BOLD.sub("\1\\1\2", _CODE.sub("\1\\1\2", text))
    return _plain(marked).replace("\1", "\\fB").replace("\2", "\\fR")


def _plain(text: str) -> str:
    """Return text in which roff finds no command."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{escaped}" if escaped.startswith((".", "'")) else escaped


def _heading(name: str, section: int) -> str:
    return f'.TH "{name.upper()}" {section} "" "dcpdump {__version__}"'


def pages() -> dict[str, str]:
    """Return the Markdown of all pages, by name."""
    folder = files("dcpdump").joinpath("help")
    found = sorted((each.name, each) for each in folder.iterdir() if each.name.endswith(".md"))
    return {name.removesuffix(".md"): each.read_text("utf-8") for name, each in found}


def question(page: str) -> str:
    """Return the heading of a page, which is the question that it answers."""
    return page.partition("\n")[0].removeprefix("# ")


@click.command(
    "help",
    cls=GroupedCommand,
    examples=(
        "dcpdump help",
        "dcpdump help filters",
        "dcpdump help --man ~/.local/share/man/man1",
    ),
)
@click.argument("name", required=False)
@click.option("--man", "folder", type=click.Path(), help="Write all of it as man pages to a folder.")
@click.pass_context
def help_command(ctx: click.Context, name: str | None, folder: str | None) -> None:
    """Print a page of help; without NAME, list the pages.

    NAME is a page ('dcpdump help filters') or a command ('dcpdump help read').
    """
    found, group = pages(), ctx.find_root().command
    assert isinstance(group, click.Group)
    if folder is not None:
        refuse_empty(folder)
        _write_man(found, group, ctx.find_root(), Path(folder))
        return
    if name is None:
        width = max(map(len, found))
        text = "".join(f"{each:<{width}}  {question(page)}\n" for each, page in found.items())
        text += "\n'dcpdump help NAME' prints one; NAME may also be a command.\n"
    elif name in found:
        text = found[name]
    elif name in group.list_commands(ctx):
        command = group.get_command(ctx, name)
        assert command is not None
        with click.Context(command, info_name=name, parent=ctx.find_root()) as inner:
            text = command.get_help(inner) + "\n"
    else:
        near = nearest(name, [*found, *group.list_commands(ctx)], n=1)
        hint = f"did you mean '{near[0]}'?" if near else f"pages are {', '.join(found)}"
        raise CommandError(f"there is no page {name!r}", hint)
    with Sink(None, paged=True) as sink:
        sink.write(text)


def _write_man(found: dict[str, str], group: click.Group, root: click.Context, folder: Path) -> None:
    """Write a man page for the program, each command and each page of help."""
    texts = {"dcpdump.1": man_of_command(group, root)}
    for name in group.list_commands(root):
        command = group.get_command(root, name)
        assert command is not None
        with click.Context(command, info_name=name, parent=root) as inner:
            texts[f"dcpdump-{name}.1"] = man_of_command(command, inner)
    texts |= {f"dcpdump-{name}.7": man_of_page(name, page) for name, page in found.items()}
    if folder.exists() and not folder.is_dir():
        raise OutputError("the output is not a folder", str(folder))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            (folder / name).write_text(text, "utf-8")
    except OSError as error:
        raise OutputError(f"cannot write man pages to {folder}: {error.strerror}") from error
