"""Make the tables ``streams``, a row for each DCP stream, and ``findings``, a row for each broken rule.

The columns are the ndjson keys of ``dcpdump streams`` and ``dcpdump check``, with types. Frame numbers are left out,
since where many machines read one capture, none counts all frames.
"""

from collections.abc import Collection, Iterator, Sequence
from functools import cache
from typing import Any

import pyarrow as pa

from dcpdump.arrow.column_builder import batch_of
from dcpdump.arrow.schema import of_columns, stored, versioned
from dcpdump.check.finding import Fold
from dcpdump.redact import Redactor
from dcpdump.render.findings import FINDINGS
from dcpdump.render.streams import STREAMS, StreamRow
from dcpdump.spec.statuses import ROLLBACK
from dcpdump.streams.ledger import Ledger
from dcpdump.streams.redacted import hidden_stream
from dcpdump.streams.rollbacks import explain
from dcpdump.streams.stream import Stream
from dcpdump.streams.verdict import Judge

#: The most streams of a batch: rows take more memory than streams.
_AT_ONCE = 4_096


@cache
def streams() -> pa.Schema:
    """Return the schema of ``streams``."""
    fields = of_columns(STREAMS)
    at = next(at for at, field in enumerate(fields) if field.name == "requests")
    *asked, latency = fields[at].type.value_type
    why = [pa.field("clause", pa.string()), pa.field("why", pa.string())]  # of a rollback: the protocol's reason
    fields[at] = pa.field("requests", pa.list_(pa.struct([*asked, *why, latency])))
    return versioned("dcpdump.streams/1", fields)


@cache
def findings() -> pa.Schema:
    """Return the schema of ``findings``."""
    return versioned("dcpdump.findings/1", of_columns(FINDINGS))


def verdict_rows(ledger: Ledger, fold: Fold, names: Collection[str]) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Yield batches of these two tables with the table's name, of streams that are closed; at least one of each."""
    if "streams" in names:
        for batch in stream_rows(ledger.streams, Judge(ledger)):
            yield "streams", batch
    if "findings" in names:
        yield "findings", batch_of([stored(FINDINGS, each) for each in fold.findings()], findings())


def stream_rows(found: Sequence[Stream], judge: Judge, redactor: Redactor | None = None) -> Iterator[pa.RecordBatch]:
    """Yield batches of ``streams``, at least one. With a ``redactor``, names and addresses are hashed."""
    for at in range(0, max(1, len(found)), _AT_ONCE):
        yield batch_of([_stream(each, judge, redactor) for each in found[at : at + _AT_ONCE]], streams())


def _stream(stream: Stream, judge: Judge, redactor: Redactor | None) -> dict[str, Any]:
    shown = stream if redactor is None else hidden_stream(stream, redactor)
    row = stored(STREAMS, StreamRow(shown, judge.verdict(stream)))
    for request, asked in zip(stream.requests, row["requests"], strict=True):
        if request.status == ROLLBACK:
            explanation = explain(request, stream, judge.ledger)
            asked |= {"clause": explanation.clause.value, "why": explanation.text}
    return row
