"""Make the rows of ``files`` and ``gaps``: what each capture has, and which bytes were lost."""

import os
from collections.abc import Iterable

import pyarrow as pa

from dcpdump.arrow import schema
from dcpdump.arrow.arrays import batch_of
from dcpdump.batch.block import Block
from dcpdump.batch.ends import Lost
from dcpdump.net.no_time import NO_TIME
from dcpdump.redact import Redactor


def gap_rows(lost: Iterable[Lost], redactor: Redactor | None = None) -> pa.RecordBatch:
    """Return the rows of ``gaps``: what was skipped has none."""
    rows = [
        {
            "connection": ends.connection,
            "direction": ends.direction,
            "src": ends.src,
            "dst": ends.dst,
            "offset": each.gap.offset,
            "bytes": gap.length,
            "reason": gap.reason,
            "time": None if gap.seen.ts_ns is None else gap.seen.ts_ns // 1000,
            "time_ns": gap.seen.ts_ns,
            "packet": gap.seen.number,
            "file": gap.seen.file,
        }
        for each in lost
        for ends in (each.ends.redacted(redactor),)
        for gap in each.sent
    ]
    return batch_of(rows, schema.gaps())


class Files:
    """The packets of each capture. ``feed`` it every block."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[int, int | None, int | None]] = {}

    def feed(self, block: Block) -> None:
        """Note how many packets a file has, and the times of the first and the last."""
        for number, name in enumerate(block.files):
            mine = block.file == number
            times = block.ts_ns[mine]
            times = times[times != NO_TIME]
            count, first, last = self._seen.get(name, (0, None, None))
            if len(times):
                first = int(times.min()) if first is None else min(first, int(times.min()))
                last = int(times.max()) if last is None else max(last, int(times.max()))
            self._seen[name] = count + int(mine.sum()), first, last

    def rows(self, problems: dict[str, list[str]]) -> pa.RecordBatch:
        """Return the rows of ``files``; ``problems``: by file, what was found wrong with it."""
        rows = []
        for name, found in problems.items():
            count, first, last = self._seen.get(name, (0, None, None))
            rows.append(
                {
                    "file": name,
                    "size": os.path.getsize(name) if os.path.isfile(name) else None,
                    "packets": count,
                    "first": None if first is None else first // 1000,
                    "first_ns": first,
                    "last": None if last is None else last // 1000,
                    "last_ns": last,
                    "status": "damaged" if found else "ok",
                    "problem": "; ".join(found) or None,
                }
            )
        return batch_of(rows, schema.files())
