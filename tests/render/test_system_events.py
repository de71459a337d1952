"""System events in FlatBuffers: what is not sent has its default, and every format says so."""

import json

import pytest

from dcpdump.spec.field import FlatTable
from dcpdump.wire.decode import decode
from dcpdump.wire.encode import encode
from dcpdump.wire.frame import RawFrame, Span, unpack_header
from tests.support.console import run

IN_DEFAULT_SCOPE = (
    "805f00060d00000000000046000000010000000000000000000000000000000400000000026d79636f6c6c"
    "1400000010001400040000000c000000000010001000000002000000000000000900000004000000060000006d79636f6c6c00"
)
UNSENT = """\
  scope id                      : 0x00000000 (default, not sent)
  ttl valid                     : 0x00 (default, not sent)
  max ttl                       : 0x00000000 (default, not sent)
  history                       : 0x00 (default, not sent)
  default collection MVS        : 0x0000000000000000 (default, not sent)
  metered                       : 0x00 (default, not sent)
  flush uid                     : 0x0000000000000000 (default, not sent)
"""
EVENTS = {0: "BeginCollection", 1: "EndCollection", 3: "CreateScope", 4: "DropScope", 5: "ModifyCollection"}


@pytest.mark.parametrize("form", ["table", "grid"])
def test_a_field_that_was_not_sent_has_a_row_without_offsets(form: str) -> None:
    printed = run(f"dcpdump explain -q -f {form} {IN_DEFAULT_SCOPE}").out
    assert printed.endswith(f"  (FlatBuffers)          (93)   : 0x00\n{UNSENT}\n")
    assert printed.count("not sent") == 7


def test_the_line_names_a_scope_that_was_not_sent() -> None:
    assert run(f"dcpdump explain -q -f line {IN_DEFAULT_SCOPE}").out == (
        "RX system-event{vb=0, seqno=4, event=BeginCollection, version=2, manifest-uid=0x2, collection-id=9, "
        "scope-id=0(not sent), key=mycoll}\n"
    )


@pytest.mark.parametrize("event", EVENTS)
def test_all_that_ndjson_says_of_an_event_is_in_its_table(event: int) -> None:
    values = {"event": event, "version": 2, "manifest_uid": 0, "scope_id": 0}
    frame = decode(RawFrame.of(encode("DCP_SYSTEM_EVENT", values, layout="2", key=b"" if event in (1, 4) else b"n")))
    text = frame.raw.data.hex()
    rows = run(f"dcpdump explain -q {text}").out
    fields = json.loads(run(f"dcpdump explain -q -f ndjson {text}").out)["fields"]
    tables = [part for part in frame.layout.parts if isinstance(part, FlatTable)]
    labels = {field.name: field.label for table in tables for field in table.fields}
    assert fields["event_name"] == EVENTS[event]
    assert {name for name in labels if name in fields} >= {"manifest_uid", "scope_id"}
    assert [name for name in labels if name in fields and f"\n  {labels[name]} " not in rows] == []


def test_an_event_of_another_version_has_nothing_unsent() -> None:
    for version in (0, 1):
        values = {"event": 0, "version": version, "collection_id": 9}
        assert decode(RawFrame.of(encode("DCP_SYSTEM_EVENT", values, key=b"n"))).unsent == []


def test_of_a_table_that_was_not_captured_whole_no_field_is_said_to_be_unsent() -> None:
    data = bytes.fromhex(IN_DEFAULT_SCOPE)
    lossy = data[:49] + bytes(4) + data[53:]  # in the vtable, where zeros would mean defaults
    frame = decode(RawFrame(lossy, unpack_header(lossy), holes=(Span(49, 53),)))
    assert frame.unsent == []
    assert [(each.field.label, each.start, each.end, each.value) for each in frame.fields[-1:]] == [
        ("Value", 43, 94, None)
    ]
    assert frame.get("collection_id") is None
