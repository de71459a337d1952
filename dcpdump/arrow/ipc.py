"""Pass batches of a table as bytes, from the process that made them to the one that writes them.

Only columns with values are passed. Each batch comes with its own words; the receiver numbers them alike in every
batch, in the order in which they occur.
"""

import numpy as np
import pyarrow as pa

from dcpdump.arrow.column_builder import Vocabulary

#: Key of a batch's metadata: in how many of its rows a value was cut.
_CUT = b"cut"


def pack_batch(batch: pa.RecordBatch | None, cut: int = 0) -> bytes:
    """Return a batch as bytes, empty where it has no rows. ``cut``: in how many of them a value was cut."""
    if batch is None or not batch.num_rows:
        return b""
    batch = batch.select([at for at, column in enumerate(batch.columns) if column.null_count < len(column)])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema.with_metadata({_CUT: str(cut)})) as stream:
        stream.write_batch(batch)
    packed: bytes = sink.getvalue().to_pybytes()
    return packed


class ReceivedBatches:
    """The batches of one table as they are received, in order."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._vocabulary = Vocabulary()
        self.cut = 0  #: in how many rows so far a value was cut

    def batch(self, data: bytes | memoryview) -> pa.RecordBatch | None:
        """Return the next batch with all columns of its table; None for empty bytes."""
        if not data:
            return None
        with pa.ipc.open_stream(pa.py_buffer(bytes(data))) as stream:
            found = stream.read_next_batch()
        self.cut += int(found.schema.metadata[_CUT])
        places = {name: at for at, name in enumerate(found.schema.names)}
        columns = [
            self._column(field, found.column(places[field.name]))
            if field.name in places
            else self._vocabulary.nothing(field, found.num_rows)
            for field in self._schema
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _column(self, field: pa.Field, column: pa.Array) -> pa.Array:
        if not pa.types.is_dictionary(field.type):
            return column
        numbers = np.append(self._vocabulary.codes(field.name, column.dictionary.to_pylist()), -1).astype(np.int32)
        return self._vocabulary.numbered(field.name, numbers[column.indices.fill_null(-1).to_numpy()])
