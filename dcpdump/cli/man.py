"""Write man pages: commands of click and pages of Markdown as roff. Knows only the Markdown of the pages of help."""

import re
from collections.abc import Iterator

import click

from dcpdump import __version__
from dcpdump.cli.grouped import GroupedCommand

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
