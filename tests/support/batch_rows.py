"""Spell rows of the table ``frames`` as ndjson spells them, so that both can be compared word for word."""

import json
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import pyarrow as pa

from dcpdump.arrow.frame_table import FrameTable
from dcpdump.batch.block import blocks
from dcpdump.batch.dissector import Dissection
from dcpdump.batch.filter import Masks
from dcpdump.batch.frame_batch import joined
from dcpdump.capture.file import Capture, timeline
from dcpdump.conversation import Tally
from dcpdump.dissect import Dissector
from dcpdump.escape import safe
from dcpdump.filter import FrameFilter
from dcpdump.net.limits import DEFAULT, Limits
from dcpdump.net.packet import Packet
from dcpdump.net.reassembly import Counters
from dcpdump.record import Json, Record, as_json, columns
from dcpdump.text import iso_time
from tests.support.pieces import all_pieces

IDENTITIES = {"cas", "vbucket_uuid", "manifest_uid", "old_vbucket_uuid", "flush_uid"}
#: Keys that ndjson has outside of ``fields``.
OUTSIDE = {
    *columns()[: columns().index("features")],
    *("framing", "collection", "collection_inferred", "collection_name", "key", "key_hex", "value_length"),
    *("value", "value_json", "xattrs", "xattrs_unread_hex", "problems", "hints"),
}


def scalar(packets: Iterable[Packet], *, value_bytes: int | None = 64, limits: Limits = DEFAULT) -> list[Json]:
    """Return the rows of the pipe that decodes one frame at a time."""
    records, _, _ = _dissected(tuple(packets), limits)
    rows = [as_json(record, value_bytes=value_bytes) for record in records]
    for row in rows:
        row.get("fields", {}).pop("collection_id", None)  # tables have it as collection
        # an identity that a FlatBuffers table leaves out:
        for name in IDENTITIES & row.get("fields", {}).keys():
            if row["fields"][name] == 0:
                row["fields"][name] = f"0x{0:016x}"
    return rows


def scalar_counts(packets: Iterable[Packet], *, limits: Limits = DEFAULT) -> tuple[Tally, Counters]:
    """Return the counters of the pipe that takes one packet at a time."""
    _, tally, counts = _dissected(tuple(packets), limits)
    return tally, counts


@lru_cache(maxsize=4)
def _dissected(packets: tuple[Packet, ...], limits: Limits) -> tuple[list[Record], Tally, Counters]:
    """Return the frames of packets, decoded one by one, and the counters."""
    dissector = Dissector(limits)
    records = [record for packet in packets for record in dissector.feed(packet)]
    records += dissector.close()
    return records, dissector.tally, dissector.balance


def present(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """Return the rows of a batch, without the columns that none of them has a value in."""
    columns = zip(batch.schema.names, batch.columns, strict=True)
    return batch.select([name for name, column in columns if column.null_count < len(column)]).to_pylist()  # type: ignore[no-any-return]


def columnar(
    packets: Iterable[Packet], *, value_bytes: int | None = 64, size: int = 1 << 20, limits: Limits = DEFAULT
) -> list[Json]:
    """Return the rows of the batch pipe, in blocks of ``size`` bytes."""
    return _columnar(tuple(packets), value_bytes, size, limits)[0]


def columnar_counts(
    packets: Iterable[Packet], *, size: int = 1 << 20, limits: Limits = DEFAULT
) -> tuple[Tally, Counters]:
    """Return the counters of the batch pipe."""
    _, tally, counts = _columnar(tuple(packets), 64, size, limits)
    return tally, counts


@lru_cache(maxsize=1)
def _columnar(
    packets: tuple[Packet, ...], value_bytes: int | None, size: int, limits: Limits
) -> tuple[list[Json], Tally, Counters]:
    """Return the rows of the batch pipe, made as frames come, and its counters."""
    dissection, table = Dissection(limits), FrameTable(Masks(FrameFilter()), value_bytes)
    batches: list[pa.RecordBatch | None] = []
    for block in blocks(packets, size):
        batches += [table.feed(joined(batches)) for batches in dissection.feed_block(block) if batches]
    batches += [table.feed(batch) for batch in all_pieces(dissection.close_blocks())]
    rows = [spelled(row) for batch in batches if batch is not None for row in present(batch)]
    return rows, dissection.tally, dissection.balance


def files(*paths: str) -> list[Packet]:
    """Return the packets of captures."""
    return list(timeline([Capture(path) for path in paths]))


def spelled(row: dict[str, Any]) -> Json:
    """Return a row as ndjson spells it."""
    row = {name: value for name, value in row.items() if value is not None}
    out: Json = {}
    fields: Json = {}
    del row["direction"]
    row.pop("time", None)
    if "time_ns" in row:
        out["time"] = iso_time(row.pop("time_ns"))
    for name, value in row.items():
        (out if name in OUTSIDE else fields)[name] = _value(name, value)
    if "value_json" in out:
        out["value_json"] = json.loads(out["value_json"])
    if fields:
        out["fields"] = fields
    return out


def _value(name: str, value: Any) -> Any:
    if name in IDENTITIES and isinstance(value, int):
        return f"0x{value:016x}"
    if name == "xattrs":
        return {safe(key): safe(text) for key, text in value}
    if isinstance(value, bytes):
        return safe(value)
    if isinstance(value, list):
        return [_value(name, each) for each in value]
    if isinstance(value, dict):
        return {key: _value(key, each) for key, each in value.items() if each is not None}
    return value
