"""dcpdump export: captures → the columnar tables."""

import gc
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any

import click

from dcpdump.capture import Capture, expand, open_capture
from dcpdump.cli import exit as code
from dcpdump.cli.options import Display, Selection, Size, display, display_options, selection, selection_options
from dcpdump.cli.sink import Sink
from dcpdump.cli.summary import status_of, summarise
from dcpdump.cli.tables import TableNames, need_pyarrow
from dcpdump.helper import LEAST_BYTES
from dcpdump.net.limits import DEFAULT, Limits

if TYPE_CHECKING:
    from dcpdump.columnar.block import Block
    from dcpdump.columnar.part import Part
    from dcpdump.tables.folder import Tables


@click.command()
@click.argument("captures", nargs=-1, metavar="CAPTURE…")
@selection_options(captures=True)
@display_options(("parquet", "arrow", "csv"))
@click.option("--schema", is_flag=True, help="Print the tables' columns and their types, and do nothing.")
@click.option(
    "--tables",
    type=TableNames(),
    default="frames,gaps,streams,files",
    show_default=True,
    help="Which to write; findings too: what check says takes longer than all the others together.",
)
@click.option("--salvage", is_flag=True, help="After garbage in a capture, go on at the next plausible record.")
@click.option("--memory", type=Size(), default="256M", show_default=True, help="Most memory to put segments in order.")
@click.option(
    "-j", "--jobs", type=click.IntRange(min=1), metavar="N", help="Threads and processes; default: the cores."
)
@click.option(
    "--summary", type=click.Choice(["text", "json", "none"]), default="text", help="The balance of all bytes."
)
@click.option("-q", "--quiet", is_flag=True, help="No summary: --summary none.")
def export(
    captures: tuple[str, ...],
    schema: bool,
    tables: tuple[str, ...],
    salvage: bool,
    memory: int,
    jobs: int | None,
    summary: str,
    quiet: bool,
    **options: Any,
) -> int:
    """Write the frames of captures as columns: tables for DuckDB, pandas, Polars, Spark.

    DIR gets frames, gaps (bytes that were never captured), streams (what became of each) and files (what was
    read), each with the same columns for every capture. It appears whole or not at all. Filters choose the rows
    of frames; streams and findings look at all.
    """
    need_pyarrow()
    chosen, shown = selection(options), display({**options, "color": "never"})
    if schema:
        _print_schemas()
        return code.DONE
    if not captures:
        raise click.UsageError("Missing argument 'CAPTURE…'.")
    if shown.path is None:
        raise click.UsageError("Missing option '-o': the folder to write to.")
    inputs = [open_capture(path, salvage=salvage) for path in expand(captures)]
    size = sum(os.path.getsize(capture.name) if capture.rereadable else LEAST_BYTES for capture in inputs)
    jobs = jobs or os.cpu_count() or 1
    limits = replace(DEFAULT, memory=memory)
    return Exporting(inputs, chosen, shown, limits, tables, jobs=jobs if size >= LEAST_BYTES else 1).run(
        "none" if quiet else summary
    )


# Of the options for frames as text, those that say nothing about tables are left out, and -o is a folder.
export.params = [option for option in export.params if option.name != "color"]
for _option in export.params:
    if isinstance(_option, click.Option) and _option.name == "output":
        _option.metavar, _option.help = "DIR", "The folder to write: whole or not at all."
    if isinstance(_option, click.Option) and _option.name == "force":
        _option.help = "Let -o replace the tables of an earlier export, by none where there is no DCP."


class Exporting:
    """One run over captures: what was chosen, where it goes, and what it came to."""

    def __init__(
        self,
        captures: Sequence[Capture],
        chosen: Selection,
        shown: Display,
        limits: Limits,
        tables: Sequence[str],
        *,
        jobs: int,
    ) -> None:
        from dcpdump.check.judging import Judging
        from dcpdump.columnar.decode import FrameTable
        from dcpdump.columnar.filter import masks
        from dcpdump.streams.watching import Watching
        from dcpdump.tables.account import Files

        self._captures = captures
        self._chosen = chosen
        self._shown = shown
        self._jobs = jobs
        self._wanted = tables
        self._dissection = Watching(limits, show_secrets=shown.show_secrets)
        self._table = FrameTable(
            masks(chosen.texts, chosen.filter, window=chosen.window),
            shown.value_bytes,
            count=chosen.count,
            show_secrets=shown.show_secrets,
            redactor=shown.redactor,
            apart=True,
        )
        self._rows = 0
        self._files = Files()
        self._judging: Judging | None = None
        if "streams" in tables or "findings" in tables:
            self._judging = Judging(self._dissection, rules="findings" in tables)
        self._last_ns: int | None = None

    def run(self, summary: str) -> int:
        """Read everything (or as much as was asked for), write the tables, and return the exit code.

        Where there is no frame there are no tables, nor are those of an earlier export that these were to replace.
        """
        from dcpdump.tables.folder import Tables

        # What is made here is freed by its last user; looking for cycles in it would take a tenth of the time.
        gc.disable()
        try:
            with Tables(self._shown.path or "", self._shown.format, self._wanted, force=self._shown.force) as tables:
                self._read(tables)
                if self._dissection.tally.frames:
                    problems = {each.name: [str(damage) for damage in each.damage] for each in self._captures}
                    tables.feed("files", self._files.rows(problems))
                    self._judge(tables)
                    tables.publish()
                else:
                    tables.withdraw()
        finally:
            gc.enable()
        summarise(self._dissection, self._captures, self._rows, summary)
        return status_of(self._dissection, self._captures)

    def _read(self, tables: "Tables") -> None:
        from dcpdump.cli.workers import Workers
        from dcpdump.columnar.carried import Arrivals
        from dcpdump.columnar.packed import packed, unpacked
        from dcpdump.columnar.schema import frames
        from dcpdump.columnar.stage import Stage

        blocks = self._blocks()
        first = next(blocks, None)  # which tells when the input begins, as all who decode have to know
        # Whoever counts rows has to see all of them.
        decoding: Workers[list[Part]] = Workers(
            self._jobs if self._chosen.count is None else 1, self._decode, packed, unpacked
        )
        decoding.begin()  # before there is a thread, of which processes that are copied would know nothing
        writing: Stage[Any] = Stage(lambda batch: tables.feed("frames", batch), beside=self._jobs > 1)
        arrivals = Arrivals(frames())

        def write(made: "Iterator[bytes | memoryview]") -> None:
            for data in made:
                batch = arrivals.batch(data)
                if batch is not None:
                    self._rows += batch.num_rows
                    writing.feed(batch)

        try:
            for parts in self._parts(blocks if first is None else chain((first,), blocks), tables):
                if parts and "frames" in self._wanted and not self._is_full:
                    write(decoding.put(parts))
                if self._judging is None and self._is_full:
                    break
            write(decoding.finish())
        finally:
            decoding.close()
        writing.close()

    def _parts(self, blocks: "Iterator[Block]", tables: "Tables") -> "Iterator[list[Part]]":
        """It gives what each block completed, and what is left in the end one by one, once others have seen it."""
        dissection, judging = self._dissection, self._judging
        for block in blocks:
            self._files.feed(block)
            parts = dissection.feed_block(block)
            self._lose(tables)
            if judging is not None:
                judging.feed(parts)
            yield parts
        parts = list(dissection.close_blocks())
        self._lose(tables)
        if judging is not None:
            judging.feed(parts)
        for part in parts:
            yield [part]

    def _decode(self, parts: "list[Part]") -> bytes:
        from dcpdump.columnar.carried import carried
        from dcpdump.columnar.part import joined

        return carried(self._table.feed(joined(parts)))

    @property
    def _is_full(self) -> bool:
        return self._chosen.count is not None and self._rows >= self._chosen.count

    def _lose(self, tables: "Tables") -> None:
        """It writes what was lost since the last time, before anybody else takes it away."""
        from dcpdump.tables.account import gap_rows

        gaps = self._dissection.gaps
        if gaps and "gaps" in self._wanted:
            tables.feed("gaps", gap_rows(gaps, self._shown.redactor))
        if self._judging is None:
            gaps.clear()

    def _judge(self, tables: "Tables") -> None:
        """It writes what became of the streams, and what the rules found."""
        if self._judging is None:
            return
        from dcpdump.tables import verdicts

        self._judging.close(self._last_ns, alone=len(self._captures) == 1)
        ledger, redactor = self._judging.ledger, self._shown.redactor
        if redactor is not None:
            self._judging.hide(redactor)
        if "streams" in self._wanted:
            tables.feed("streams", verdicts.stream_rows(ledger))
        if "findings" in self._wanted:
            tables.feed("findings", verdicts.finding_rows(self._judging.fold.findings()))

    def _blocks(self) -> "Iterator[Block]":
        from dcpdump.columnar.ahead import blocks_ahead

        for block in blocks_ahead(self._captures, self._jobs):
            self._chosen.begin(block.begins_ns)
            self._last_ns = block.where(-1).ts_ns
            yield block


def _print_schemas() -> None:
    from dcpdump.columnar import schema
    from dcpdump.tables.folder import SCHEMAS

    with Sink(None) as sink:
        sink.write("\n".join(schema.text(make()) for make in SCHEMAS.values()))
