"""Index captures and decode their spans, all in one process, beside what one reading of everything makes of them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pyarrow as pa

from dcpdump.arrow.frame_table import FrameTable
from dcpdump.arrow.other_tables import OtherTables
from dcpdump.batch.filter import Masks
from dcpdump.batch.frame_batch import joined
from dcpdump.batch.read_blocks import blocks_of
from dcpdump.capture.file import Capture
from dcpdump.filter import FrameFilter
from dcpdump.spark.chain import Chain, ChainCheckpoint, ChainSpan
from dcpdump.spark.decoding import Decoding, Options
from dcpdump.spark.filesystem import Input
from dcpdump.spark.indexing import Indexing
from dcpdump.streams.dissection import Watching
from dcpdump.tls.secrets import Secrets

Row = dict[str, Any]
FAST, JUDGED = ("gaps",), ("gaps", "streams", "findings")


@dataclass
class Rows:
    """The rows of an input by table, and the spans that they were made in."""

    tables: dict[str, list[Row]] = field(default_factory=dict)
    spans: list[ChainSpan] = field(default_factory=list)


def _present(batch: pa.RecordBatch) -> list[Row]:
    """Return rows without what is null in them."""
    return [{name: value for name, value in row.items() if value is not None} for row in batch.to_pylist()]


def differences(found: dict[str, list[Row]], expected: dict[str, list[Row]]) -> list[object]:
    """Return the first row of each table that differs, as found and as expected."""
    return [
        (name, next((pair for pair in zip_longest(found.get(name, ()), expected[name]) if pair[0] != pair[1]), None))
        for name in expected
        if found.get(name) != expected[name]
    ]


def secrets_of(key_log: bytes | None) -> Secrets | None:
    """Return the secrets of a key log."""
    if key_log is None:
        return None
    secrets = Secrets()
    secrets.feed(key_log)
    return secrets


def in_spans(
    paths: Sequence[Path | str],
    distance: int,
    options: Options | None = None,
    tables: Sequence[str] = FAST,
    key_log: bytes | None = None,
) -> Rows:
    """Return the rows of captures that are one chain, with checkpoints so many bytes apart."""
    options = options or Options(block_bytes=min(distance, 1 << 16))
    chain = Chain("", tuple(Input(str(path), Path(path).stat().st_size) for path in paths))
    indexing, out, states = Indexing(chain, options, tables, distance), Rows({name: [] for name in tables}), {}
    for name, batch in indexing.rows(secrets_of(key_log)):
        if name == "index":
            states[batch.column("number")[0].as_py()] = batch.column("state")[0].as_py()
        elif name in tables:
            out.tables[name] += _present(batch)
    out.spans, out.tables["frames"] = indexing.indexed.spans, []
    for span in out.spans:
        begin = ChainCheckpoint.unpacked(states[span.number], "state")
        for batch in Decoding(span, begin, options, secrets_of(key_log)):
            out.tables["frames"] += _present(batch)
    return out


def whole(
    paths: Sequence[Path | str],
    options: Options | None = None,
    tables: Sequence[str] = FAST,
    key_log: bytes | None = None,
) -> dict[str, list[Row]]:
    """Return the rows of one reading of everything, as ``export`` has them."""
    options, secrets = options or Options(block_bytes=1 << 16), secrets_of(key_log)
    dissection, table = Watching(options.limits, secrets=secrets), FrameTable(Masks(FrameFilter(())), None)
    others, out = OtherTables(tables, dissection), dict[str, list[Row]]({name: [] for name in (*tables, "frames")})
    captures = [Capture(str(path), salvage=options.salvage, secrets=secrets) for path in paths]

    def take(batches: list[Any]) -> None:
        batch = table.feed(joined(batches)) if batches else None
        out["frames"] += [] if batch is None else _present(batch)
        for name, rows in others.feed(batches):
            out[name] += _present(rows)
        dissection.gaps.clear()

    for block in blocks_of(captures, options.block_bytes):
        others.observe(block)
        for batches in dissection.feed_block(block):
            take(batches)
    for batches in dissection.close_blocks():
        take(batches)
    for name, rows in others.rows(captures):
        out[name] += _present(rows)
    return out
