"""Write the same tables on this machine alone, in one pass, for input that does not need a cluster."""

import gc
import os
from collections.abc import Iterable, Sequence
from typing import Any

from dcpdump.arrow.other_tables import OtherTables
from dcpdump.batch.part import Part, even_groups, joined
from dcpdump.batch.read_blocks import blocks_of
from dcpdump.capture import Capture, open_capture
from dcpdump.errors import CaptureError
from dcpdump.spark.input import fetched
from dcpdump.spark.outcome import UNUSABLE, Outcome
from dcpdump.spark.parts import Parts, table_of
from dcpdump.spark.row_options import Options
from dcpdump.streams.dissection import Watching
from dcpdump.tls.secrets import Secrets


def run(
    paths: Sequence[str], choice: Options, folder: str, tables: Iterable[str], secrets: Secrets | None = None
) -> Outcome:
    """Read captures as one timeline, and write the parts of their tables to a folder; ``secrets`` open TLS."""
    # Reference counts free what is made here; looking for cycles would take a tenth of the time.
    gc.disable()
    try:
        with fetched(paths) as names, Parts(folder, "00000", names) as parts:
            return _Engine(choice, parts, frozenset(tables), secrets).run(
                *_opened(names, secrets, salvage=choice.salvage)
            )
    finally:
        gc.enable()


def _opened(
    paths: Iterable[str], secrets: Secrets | None, *, salvage: bool = False
) -> tuple[list[Capture], list[dict[str, Any]]]:
    """Return the opened captures, and the rows of ``files`` for those that could not be opened."""
    captures: list[Capture] = []
    unusable: list[dict[str, Any]] = []
    for path in paths:
        try:
            captures.append(open_capture(path, salvage=salvage, secrets=secrets))
        except CaptureError as error:
            size = os.path.getsize(path) if os.path.isfile(path) else None
            row = {"file": path, "size": size, "packets": 0, "status": UNUSABLE, "problem": error.what}
            unusable.append(row)
    return captures, unusable


class _Engine:
    def __init__(self, choice: Options, parts: Parts, tables: frozenset[str], secrets: Secrets | None) -> None:
        self._choice = choice
        self._tables = tables
        self._parts = parts
        self._dissection = Watching(choice.limits, show_secrets=choice.show_secrets, secrets=secrets)
        self._table = choice.table()
        self._others = OtherTables({*tables, "files"}, self._dissection, choice.redactor)

    def run(self, captures: list[Capture], unusable: list[dict[str, Any]]) -> Outcome:
        dissection = self._dissection
        for block in blocks_of(captures):
            self._choice.begin(block.begins_ns)
            self._others.meet(block)
            self._take(dissection.feed_block(block))
        self._take(dissection.close_blocks())
        rows: list[dict[str, Any]] = []
        for name, batch in self._others.rows(captures):
            if name == "files":
                rows = sorted([*batch.to_pylist(), *unusable], key=lambda row: str(row["file"]))
                batch = table_of(rows, name)
            self._parts.feed(name, batch)
        tally, net = dissection.tally, dissection.balance
        return Outcome(
            self._parts.close(),
            tally.frames,
            tally.lost,
            tally.skipped_bytes,
            net.conflicts,
            rows,
            tally.foreign,
            self._table.cut,
        )

    def _take(self, some: Iterable[list[Part]]) -> None:
        for parts in some:
            for group in even_groups(parts) if "frames" in self._tables else ():
                batch = self._table.feed(joined(group))
                if batch is not None:
                    self._parts.feed("frames", batch)
            for name, rows in self._others.take(parts):
                self._parts.feed(name, rows)
            self._dissection.gaps.clear()
