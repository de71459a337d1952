"""Fit any values into Arrow's arrays. What does not fit its column becomes null; no value ends a run.

Knows types and nothing of frames. Text may hold half a character (JSON can spell a lone surrogate): it is replaced by
its escape, as JSON has it.
"""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

_MISFITS = (pa.ArrowException, OverflowError, TypeError, ValueError)


def fitted(values: Sequence[Any], kind: pa.DataType) -> tuple[pa.Array, list[int]]:
    """Return values as an array, and the indices of those of which something did not fit."""
    try:
        return pa.array(values, kind), []
    except _MISFITS:
        pairs = [_fit(value, kind) for value in values]
    misfits = [place for place, (_, fits) in enumerate(pairs) if not fits]
    return pa.array([value for value, _ in pairs], kind), misfits


def batch_of(rows: Sequence[dict[str, Any]], schema: pa.Schema) -> pa.RecordBatch:
    """Return rows as a batch."""
    columns = [fitted([row.get(field.name) for row in rows], field.type)[0] for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def encodable(text: str) -> str:
    """Return text that can be encoded as UTF-8."""
    return text.encode("utf-8", "backslashreplace").decode()


def _fit(value: Any, kind: pa.DataType) -> tuple[Any, bool]:
    """Return as much of a value as fits, and whether that is all of it."""
    if value is None:
        return None, True
    if pa.types.is_struct(kind) and isinstance(value, dict):
        fields = {field.name: _fit(value.get(field.name), field.type) for field in kind}
        return {name: part for name, (part, _) in fields.items()}, all(fits for _, fits in fields.values())
    if pa.types.is_list(kind) and isinstance(value, (list, tuple)):
        parts = [_fit(part, kind.value_type) for part in value]
        return [part for part, _ in parts], all(fits for _, fits in parts)
    if pa.types.is_string(kind) and isinstance(value, str):
        return encodable(value), True
    try:
        pa.array([value], kind)
    except _MISFITS:
        return None, False
    return value, True
