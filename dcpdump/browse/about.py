"""About: what the captures are, how far they are read, and what of them is lost or damaged."""

import os
from collections.abc import Sequence
from contextlib import suppress

from dcpdump.browse.reader import Reader
from dcpdump.clock import clock_in_use
from dcpdump.net.packet import NO_TIME
from dcpdump.render.style import Line, LineKind
from dcpdump.render.text_columns import bytes_text
from dcpdump.streams.wording import span
from dcpdump.text import counted


def about(paths: Sequence[str], index: Reader) -> list[Line]:
    """Return in lines what is known of captures."""
    read, size = index.progress
    lines = [Line(LineKind.TITLE, "captures")]
    for path in paths:
        with suppress(OSError):
            lines.append(Line(LineKind.PLAIN, f"  {path}  {bytes_text(os.stat(path).st_size)}"))
    words = [counted(index.frames, "frame"), counted(len({ends.connection for ends in index.ends}), "connection")]
    far = "all of it is read" if index.complete else f"{bytes_text(read)} are read"
    far += f" of {bytes_text(size)}" if size and not index.complete else ""
    lines += [Line(LineKind.PLAIN, ""), Line(LineKind.PLAIN, " · ".join([*words, far]))]
    times = index.columns.ts_ns[index.columns.ts_ns != NO_TIME]
    if len(times):
        first, last = (clock_in_use().full(int(ts)) for ts in (times.min(), times.max()))
        lines.append(Line(LineKind.PLAIN, f"{first} to {last} ({span(int(times.max() - times.min()))})"))
    if index.lost.gaps:
        lines.append(Line(LineKind.PROBLEM, index.lost.words()))
    if index.skipped_bytes:
        lines.append(Line(LineKind.PROBLEM, f"{counted(index.skipped_bytes, 'byte')} skipped"))
    lines += [Line(LineKind.PROBLEM, str(damage)) for damage in index.damage] or [
        Line(LineKind.GOOD, "nothing of the files is damaged")
    ]
    return lines
