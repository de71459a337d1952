"""One schema for every capture: each name of the flat record is a column, typed as the protocol table says."""

import pyarrow as pa

from dcpdump.arrow import schema
from dcpdump.batch.part import HEADER, dtype_of
from dcpdump.batch.plans import PLANS
from dcpdump.record import columns
from dcpdump.spec import MESSAGES, PUSHES
from dcpdump.spec.field import Field, FlatTable
from dcpdump.spec.header import MAGICS, header_fields


def test_every_name_of_the_flat_record_is_a_column() -> None:
    assert set(columns()) <= set(schema.frames().names)
    assert len(set(schema.frames().names)) == len(schema.frames().names)


def test_a_field_has_the_width_that_the_table_gives_it() -> None:
    for message in (*MESSAGES.values(), *PUSHES.values()):
        for layout in message.layouts:
            for part in (*layout.extras, *layout.parts):
                places = [slot.field for slot in part.slots] if isinstance(part, FlatTable) else [part]
                for place in places:
                    if isinstance(place, Field):
                        column = schema.frames().field("collection" if place.name == "collection_id" else place.key)
                        assert column.type.bit_width == 8 * place.width, place.name


def test_some_columns_are_what_readers_rely_on() -> None:
    types = {field.name: str(field.type) for field in schema.frames()}
    assert {
        name: types[name] for name in ("frame", "time", "cas", "key", "value", "by_seqno", "opcode", "features")
    } == {
        "frame": "int64",
        "time": "timestamp[us, tz=UTC]",
        "cas": "uint64",
        "key": "binary",
        "value": "binary",
        "by_seqno": "uint64",
        "opcode": "uint8",
        "features": "list<item: uint16>",
    }
    assert types["failover_log"] == "list<item: struct<vbucket_uuid: uint64, seqno: uint64>>"
    assert types["name"].startswith("dictionary<values=string")


def test_the_schema_says_its_version() -> None:
    versions = [make().metadata[b"schema"] for make in (schema.frames, schema.gaps, schema.files)]
    assert versions == [b"dcpdump.frames/1", b"dcpdump.gaps/1", b"dcpdump.files/1"]


def test_the_header_type_has_the_places_of_the_header_fields() -> None:
    classic = [field.width for field in header_fields(MAGICS[0x80])]
    widths = [HEADER.fields[name][0].itemsize for name in HEADER.names or () if HEADER.fields]
    assert widths == classic
    assert HEADER.itemsize == sum(classic)


def test_plans_are_compiled_from_the_table() -> None:
    for plan in PLANS:
        assert dtype_of(plan.layout.extras).itemsize == plan.layout.extras_length
        assert plan.layout in plan.message.request
    assert {plan.message.opcode for plan in PLANS} >= {
        0x55,
        0x56,
        0x57,
        0x58,
        0x59,
        0x5D,
        0x60,
        0x61,
        0x62,
        0x63,
        0x64,
        0x65,
    }


def test_a_schema_is_printed_a_column_a_line() -> None:
    lines = schema.text(schema.gaps()).splitlines()
    assert lines[0] == "dcpdump.gaps/1"
    assert lines[1].split() == ["connection", "int32"]
    assert len(lines) == 1 + len(schema.gaps())
    assert isinstance(schema.gaps(), pa.Schema)
