"""Run the command line: commands by name, imported only when called, and the exit codes that end them.

QUESTIONS is the one place that names commands without importing them: ``--help`` prints from it.
"""

import gc
import os
import shlex
import sys
from collections.abc import Iterable
from importlib import import_module
from io import TextIOWrapper
from pathlib import Path
from typing import Any, NoReturn

import click
from click.shell_completion import CompletionItem, shell_complete

from dcpdump import __version__
from dcpdump.cli import signals
from dcpdump.cli.grouped import BriefHelp, config_path, defaults, printing, sections, words_of
from dcpdump.cli.signals import EndedAtOnce
from dcpdump.cli.sink import NO_PAGER, PLAIN, refuse_closed_output
from dcpdump.cli.terminal import complain, end_line, note, trace
from dcpdump.errors import DcpdumpError, ExitCode, is_out_of_memory, system_words
from dcpdump.startup import is_compiled, keep_numpy_to_one_thread, keep_pandas_out
from dcpdump.text import nearest

# -- the version --------------------------------------------------------------------------------------

_BUILT = "dcpdump.built"  #: in a context: whether the version is to say how it was built


def _version(ctx: click.Context) -> str:
    built = f" ({'compiled' if is_compiled() else 'interpreted'})" if ctx.meta[_BUILT] else ""
    return f"dcpdump {__version__}{built}"


#: The commands by what somebody wants, as --help lists them: name → help in one line.
#: A command is in the module of its name.
QUESTIONS: dict[str, dict[str, str]] = {
    "Look at frames": {
        "read": "Print the DCP frames of captures.",
        "browse": "Browse frames, fields, bytes, streams and findings in the terminal.",
        "sniff": "Print the DCP frames of an interface as they pass.",
        "relay": "Pass connections on to a server, and print the frames that pass.",
        "explain": "Annotate pasted bytes, in whatever form they come.",
        "spec": "Print the layout, the rules and the errors of a message.",
        "stats": "Count frames by message, vbucket, size and latency.",
    },
    "Find what is wrong": {
        "diagnose": "Say on one screen what is wrong in a capture, worst first.",
        "report": "Write one HTML page of what is wrong, with pictures.",
        "streams": "Say what became of each DCP stream, and why.",
        "rollbacks": "Explain rollbacks: the request, the failover log, the clause.",
        "flow": "Show flow control: who blocked whom, and when.",
        "conns": "List connections: client, features, controls, how they ended.",
        "key": "Show what was sent of a document, and whether that is all.",
        "check": "List broken rules of the protocol, with the frames.",
        "diff": "Compare two captures: what one side sent and the other never saw.",
        "top": "Watch connections and streams as they are now: rates, lag, buffers.",
    },
    "Share captures": {
        "carve": "Write the packets of chosen frames to a smaller capture.",
        "redact": "Write a capture without keys, values and names, to be shared.",
    },
    "Make tables": {
        "sql": "Ask captures in SQL: frames, streams, gaps, findings, files.",
        "export": "Write frames, streams and gaps as Parquet, Arrow or csv.",
        "pipeline": "Write the tables of archives of captures, on Spark if large.",
    },
    "Learn more": {
        "help": "Print a page of help, or the help of a command.",
    },
}
COMMANDS = {name: about for commands in QUESTIONS.values() for name, about in commands.items()}

_BROKEN_OFF = (ExitCode.INTERRUPTED, ExitCode.TERMINATED, ExitCode.HUNG_UP)
_BARE = "dcpdump.bare"  #: in a context: the file that was named without a command and with no option


class LazyGroup(BriefHelp, click.Group):
    """A group whose commands are imported when they are called."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse arguments: options of the group may stand anywhere, and without a command ``read`` is meant."""
        ctx.meta[_BUILT] = "-v" in args  # which must be known before the version is printed
        own = [arg for arg in args if arg in _ANYWHERE]
        others = [arg for arg in args if arg not in _ANYWHERE]
        asks_here = not others or others[0] in _OF_GROUP or not others[0].startswith("-") or others[0] == "-"
        return super().parse_args(ctx, [*own, *others] if asks_here else [*own, "read", *others])

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command."""
        status = super().invoke(ctx)
        bare, done = ctx.meta.get(_BARE), status in (ExitCode.DONE, ExitCode.DAMAGED)
        if bare is not None and done and sys.stdout.isatty() and sys.stderr.isatty():
            note(f"hint: what is wrong in it, worst first: dcpdump diagnose {bare}")
        return status

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands, in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command."""
        if cmd_name not in COMMANDS:
            return None
        found = vars(import_module(f"dcpdump.cli.{cmd_name}")).values()
        return next(each for each in found if isinstance(each, click.Command) and each.name == cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Take the first argument as a command; a file, or what must be meant as one, means ``read`` of it."""
        word = args[0]
        if word not in COMMANDS:
            if word == "-" or os.sep in word or Path(word).exists():
                if word != "-" and len(args) == 1:
                    ctx.meta[_BARE] = shlex.quote(word)
                return self._with_defaults(ctx, "read", args)
            near = nearest(word, COMMANDS, n=1)
            hint = f"did you mean '{near[0]}'?" if near else "dcpdump --help lists the commands"
            raise DcpdumpError(f"no such command or file: {word!r}", hint=hint)
        return self._with_defaults(ctx, word, args[1:])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete a command, an option, or a file that is to be read; no command is imported for that."""
        if incomplete.startswith("-"):
            return click.Command.shell_complete(self, ctx, incomplete)
        return words_of(list(COMMANDS.items()), incomplete)

    def _with_defaults(
        self, ctx: click.Context, name: str, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return a command, with the defaults that a file and variables have for it."""
        command = self.get_command(ctx, name)
        if command is not None and not ctx.resilient_parsing:
            path = None if name == "help" else config_path()  # help says how to mend it
            section = {} if path is None else sections(path, COMMANDS).get(name, {})
            ctx.default_map = {name: defaults(path, command, section)}
        return name, command, args

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands by what they are used for, without importing them."""
        for question, commands in QUESTIONS.items():
            with formatter.section(question):
                formatter.write_dl(list(commands.items()))

    def format_brief(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands."""
        self.format_commands(ctx, formatter)


#: Options of the group that may stand behind a command too, and those that may not.
_ANYWHERE = frozenset({"--debug", "--no-pager"})
_OF_GROUP = frozenset({"-h", "--help", "-v", "--version", "--"})
#: The variable by which a shell asks for completions.
_COMPLETION = "_DCPDUMP_COMPLETE"


@click.group(
    cls=LazyGroup,
    params=[
        click.Option(["-v"], is_flag=True, expose_value=False, help="With --version: say whether it is compiled."),
        printing(["--version"], "Print the version.", _version),
        click.Option(["--no-pager"], is_flag=True, help="Print long output of a terminal without a pager."),
        click.Option(["--debug"], is_flag=True, help="Show the traceback of an error."),
    ],
)
@click.pass_context
def main(ctx: click.Context, debug: bool, no_pager: bool) -> None:
    """A packet inspector for Couchbase's Database Change Protocol (DCP).

    Reads captures (pcap, pcapng), finds the DCP conversations in them on any port, and prints every frame
    as the specification draws it. 'dcpdump FILE' is short for 'dcpdump read FILE'.
    """
    ctx.meta[NO_PAGER] = no_pager


def run(arguments: list[str] | None = None) -> NoReturn:
    """Run the command line, and end the process with one of the documented exit codes."""
    words = sys.argv[1:] if arguments is None else arguments
    streams = [stream for stream in (sys.stdout, sys.stderr) if isinstance(stream, TextIOWrapper)]
    for stream in streams:
        stream.reconfigure(errors=PLAIN)
    sys.excepthook = trace
    keep_numpy_to_one_thread()
    keep_pandas_out()
    # What is imported stays: looking for cycles in it, again and again and once more at the end, would find none.
    gc.set_threshold(100_000, 50, 100)
    try:
        signals.raise_at_signals()
        status = outcome(words) or signals.raised() or ExitCode.DONE
    except KeyboardInterrupt:  # of a signal that came when all was done
        status = signals.raised() or ExitCode.INTERRUPTED
    except BrokenPipeError:  # of standard error, while an error was reported
        status = ExitCode.PIPE_CLOSED
    except OSError:
        if not signals.hung_up():
            raise
        status = ExitCode.HUNG_UP
    except EndedAtOnce as ended:
        signals.clean_up()
        os._exit(ended.code)  # freeing the objects of a large input takes seconds
    if signals.hung_up() and status in (ExitCode.UNWRITABLE, ExitCode.TERMINATED):
        status = ExitCode.HUNG_UP  # the terminal is gone that was to be written to
    if status in _BROKEN_OFF:
        signals.clean_up()
    signals.end_at_signals()
    for stream in streams:
        status = _finished(stream, status)
    gc.freeze()
    # CPython notes a KeyboardInterrupt that leaves code made from text, as of dataclasses, and would end as if SIGINT
    # had killed it, whatever the status is. Other code from text makes it forget.
    exec("")
    sys.exit(status)


def _finished(stream: TextIOWrapper, status: int) -> int:
    """Flush a stream, and return the exit code. What has no reader any more is discarded.

    Otherwise the interpreter's own flush at exit would complain, or wait.
    """
    try:
        if status not in (ExitCode.PIPE_CLOSED, *_BROKEN_OFF):
            stream.flush()
            return status
    except BrokenPipeError:
        status = ExitCode.PIPE_CLOSED
    except OSError:
        status = status or ExitCode.UNWRITABLE
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    return status


def outcome(words: list[str]) -> int:
    """Run the command line, and return the exit code; errors are reported on standard error."""
    debug = "--debug" in words
    try:
        return _invoked(words)
    except BrokenPipeError:
        return ExitCode.PIPE_CLOSED
    except KeyboardInterrupt:
        if not signals.terminated():
            end_line()
        return signals.raised() or ExitCode.INTERRUPTED
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.ctx.get_help() if error.ctx else "", err=True)
        return ExitCode.USAGE
    except click.UsageError as error:
        if isinstance(error, click.NoSuchOption):
            error = click.NoSuchOption(error.option_name, None, _near_options(error), error.ctx)
        hint = f"{error.ctx.command_path} --help" if error.ctx else "dcpdump --help"
        return _complain(error.format_message(), (hint,), ExitCode.USAGE)
    except DcpdumpError as error:
        if debug:
            raise
        return _complain(str(error), (error.hint, *error.more), error.status)
    except OSError as error:
        if debug:
            raise
        where = f" ({error.filename})" if error.filename else ""
        return _complain(f"cannot write: {system_words(error)}{where}", (), ExitCode.UNWRITABLE)
    except Exception as error:
        if (status := signals.raised()) is not None:
            return status
        if debug:
            raise
        if is_out_of_memory(error):
            hint = "ulimit -v, or the limit of the container, says how much there may be"
            return _complain("not enough memory", (hint,), ExitCode.UNWRITABLE)
        return _complain(
            f"a bug in dcpdump: {type(error).__name__}: {error}",
            ("run again with 'dcpdump --debug …' and report what it prints",),
            ExitCode.BUG,
        )


def _invoked(words: list[str]) -> int:
    """Run the command line, and return the exit code. Click's own ``main`` has others for closed pipes and Ctrl-C."""
    completing = os.environ.get(_COMPLETION)
    if completing:
        return shell_complete(main, {}, "dcpdump", _COMPLETION, completing)
    try:
        with main.make_context("dcpdump", [*words]) as ctx:
            status = main.invoke(ctx)
    except click.exceptions.Exit:  # help, the version or a schema was printed; nothing, where there is no output
        refuse_closed_output()
        return ExitCode.DONE
    return status if isinstance(status, int) else ExitCode.DONE


def _near_options(error: click.NoSuchOption) -> list[str]:
    """Return the options of the command that are similar to a wrong one, hyphens ignored."""
    params = error.ctx.command.params if error.ctx else []
    names = {name.lstrip("-"): name for param in params for name in param.opts if name.startswith("--")}
    return [names[near] for near in nearest(error.option_name.lstrip("-"), names, n=3, cutoff=0.7)]


def _complain(what: str, hints: Iterable[str], status: int) -> int:
    complain(what, hints)
    return status
