"""Make the tables ``streams``, a row for each DCP stream, and ``findings``, a row for each broken rule.

The columns are the ndjson keys of ``dcpdump streams`` and ``dcpdump check``, with types. Frame numbers are left out,
since where many machines read one capture, none counts all frames.
"""

from collections.abc import Collection, Iterator, Sequence
from functools import cache
from typing import Any

import pyarrow as pa

from dcpdump.arrow.column_builder import batch_of
from dcpdump.arrow.schema import MOMENT, WORDS, of_columns, stored
from dcpdump.check.finding import Fold
from dcpdump.redact import Redactor
from dcpdump.render.findings import FINDINGS
from dcpdump.render.streams import STREAMS, StreamRow
from dcpdump.spec.statuses import ROLLBACK
from dcpdump.streams.ledger import Ledger
from dcpdump.streams.redacted import hidden_place
from dcpdump.streams.request import Request
from dcpdump.streams.rollbacks import explain
from dcpdump.streams.stream import Stream
from dcpdump.streams.verdict import Judge

_U64, _COUNT = pa.uint64(), pa.int64()
_REQUEST = pa.struct(
    [
        pa.field("time", MOMENT),
        pa.field("opaque", pa.uint32()),
        pa.field("flags", pa.uint32()),
        pa.field("flags_names", WORDS),
        pa.field("start_seqno", _U64),
        pa.field("end_seqno", _U64),
        pa.field("vbucket_uuid", _U64),
        pa.field("snap_start_seqno", _U64),
        pa.field("snap_end_seqno", _U64),
        pa.field("collections", WORDS),
        pa.field("scope", pa.string()),
        pa.field("status", pa.uint32()),
        pa.field("status_name", pa.string()),
        pa.field("rollback_seqno", _U64),
        pa.field("clause", pa.string()),  # of a rollback: the protocol's reason
        pa.field("why", pa.string()),
        pa.field("latency_us", _COUNT),
    ]
)
#: The most streams of a batch: rows take more memory than streams.
_AT_ONCE = 4_096


@cache
def streams() -> pa.Schema:
    """Return the schema of ``streams``."""
    seqnos = pa.struct([pa.field("start_seqno", _U64), pa.field("end_seqno", _U64)])
    entry = pa.struct([pa.field("vbucket_uuid", _U64), pa.field("seqno", _U64)])
    nested = {"requests": pa.list_(_REQUEST), "snapshot": seqnos, "failover_log": pa.list_(entry)}
    return of_columns("dcpdump.streams/1", STREAMS, nested)


@cache
def findings() -> pa.Schema:
    """Return the schema of ``findings``."""
    return of_columns("dcpdump.findings/1", FINDINGS)


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
    shown = stream if redactor is None else hidden_place(stream, redactor)
    row = stored(STREAMS, StreamRow(shown, judge.verdict(stream)))
    asked = zip(stream.requests, row["requests"], strict=True)
    row["requests"] = [_request(request, shown, stream, judge.ledger) for request, shown in asked]
    log = row.get("failover_log", ())
    row["failover_log"] = [{**each, "vbucket_uuid": int(each["vbucket_uuid"], 16)} for each in log] or None
    return row


def _request(request: Request, shown: dict[str, Any], stream: Stream, ledger: Ledger) -> dict[str, Any]:
    row = {**shown, "time": _moment(request.ts_ns), "vbucket_uuid": request.vbucket_uuid}
    if request.status == ROLLBACK:
        explanation = explain(request, stream, ledger)
        row |= {"clause": explanation.clause.value, "why": explanation.text}
    return row


def _moment(ts_ns: int | None) -> int | None:
    return None if ts_ns is None else ts_ns // 1000
