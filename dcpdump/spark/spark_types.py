"""Convert columns to Spark's types: it has no unsigned numbers and no dictionaries, so each is widened.

They are the types that Spark gives the columns when it reads the tables of the pipeline.
"""

import pyarrow as pa

_WIDER = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
}


def schema_of(schema: pa.Schema) -> pa.Schema:
    """Return a schema with Spark's types."""
    return pa.schema([pa.field(field.name, _kind(field.type)) for field in schema])


def batch_of(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return those columns of a batch that ``schema`` has, in Spark's types."""
    columns = [batch.column(field.name).cast(field.type) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _kind(kind: pa.DataType) -> pa.DataType:
    if kind in _WIDER:
        return _WIDER[kind]
    if pa.types.is_dictionary(kind):
        return kind.value_type
    if pa.types.is_list(kind):
        return pa.list_(pa.field("element", _kind(kind.value_type)))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, _kind(field.type)) for field in kind])
    return kind
