"""Print the version."""

import click

from dcpdump import __version__
from dcpdump.startup import is_compiled

_BUILT = "dcpdump.built"  #: in a context: whether the version is to say how it was built


def note_built(ctx: click.Context, _: click.Parameter, asked: bool) -> None:
    """Note whether the version is to say how it was built."""
    ctx.meta[_BUILT] = asked


def print_version(ctx: click.Context, _: click.Parameter, asked: bool) -> None:
    """Print the version where it is asked for, and end."""
    if asked:
        built = f" ({'compiled' if is_compiled() else 'interpreted'})" if ctx.meta.get(_BUILT) else ""
        click.echo(f"dcpdump {__version__}{built}")
        ctx.exit()
