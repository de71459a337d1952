"""One schema for every capture: each name of the flat record is a column, typed as the protocol table says."""

from dcpdump.arrow import schema
from dcpdump.arrow.other_tables import files, gaps
from dcpdump.batch.frame_batch import HEADER, dtype_of
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
                places = part.fields if isinstance(part, FlatTable) else [part]
                for place in places:
                    if isinstance(place, Field):
                        column = schema.frames().field("collection" if place.name == "collection_id" else place.key)
                        assert column.type.bit_width == 8 * place.width, place.name


def test_some_columns_are_what_readers_rely_on() -> None:
    types = {field.name: str(field.type) for field in schema.frames()}
    wanted = {"frame": "int64", "time": "timestamp[us, tz=UTC]", "cas": "uint64", "key": "binary", "value": "binary"}
    wanted |= {"by_seqno": "uint64", "opcode": "uint8", "features": "list<item: uint16>"}
    wanted |= {"failover_log": "list<item: struct<vbucket_uuid: uint64, seqno: uint64>>"}
    assert wanted.items() <= types.items()
    assert types["name"].startswith("dictionary<values=string")


def test_the_header_type_has_the_places_of_the_header_fields() -> None:
    classic = [field.width for field in header_fields(MAGICS[0x80])]
    widths = [HEADER.fields[name][0].itemsize for name in HEADER.names or () if HEADER.fields]
    assert widths == classic
    assert HEADER.itemsize == sum(classic)


def test_plans_are_compiled_from_the_table() -> None:
    for plan in PLANS:
        assert dtype_of(plan.layout.extras).itemsize == plan.layout.extras_length
        assert plan.layout in plan.message.request
    assert {plan.message.opcode for plan in PLANS} >= {*range(0x55, 0x5A), 0x5D, *range(0x60, 0x66)}


def test_a_schema_is_printed_a_column_a_line() -> None:
    for made, version in ((schema.frames(), "frames/1"), (gaps(), "gaps/1"), (files(), "files/1")):
        lines = schema.text(made).splitlines()
        assert lines[0] == f"dcpdump.{version}"
        assert [line.split()[0] for line in lines[1:]] == made.names
    assert schema.text(gaps()).splitlines()[1].split() == ["connection", "int32"]
