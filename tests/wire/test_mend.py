"""mend(): the smallest edit under which contradictory bytes are one consistent frame."""

import pytest
from hypothesis import HealthCheck, given, settings

from dcpdump.spec.header import HEADER_LENGTH
from dcpdump.wire.decode import decode
from dcpdump.wire.encode import encode
from dcpdump.wire.frame import RawFrame, unpack_header
from dcpdump.wire.mend import Edit, Mended, mend
from tests.support.fields import changed
from tests.support.strategies import damaged

BODY_LENGTH = ("Total body", 8, 12)
EXTRAS_LENGTH = ("Extra length", 4, 5)
KEY_LENGTH = ("Key length", 2, 4)


def mended(data: bytes) -> Mended | None:
    return mend(decode(RawFrame(data, unpack_header(data.ljust(HEADER_LENGTH, b"\0")))), data)


def edits(data: bytes) -> list[str]:
    found = mended(data)
    return [str(edit) for edit in found.edits] if found else []


MUTATION = encode("DCP_MUTATION", {"by_seqno": 4, "rev_seqno": 1}, key=b"hello", value=b"world")
MARKER = encode("DCP_SNAPSHOT_MARKER", {"version": 0, "start_seqno": 1, "end_seqno": 8, "max_visible_seqno": 8})
CONTROL = encode("DCP_CONTROL", key=b"enable_noop", value=b"true")
LONGER = encode("DCP_MUTATION", {"by_seqno": 4}, key=b"c::hello", value=b"world")
DELETION = encode("DCP_DELETION", {"by_seqno": 5, "rev_seqno": 1}, layout="2", key=b"\x08k", cas=1)


@pytest.mark.parametrize(
    ("whole", "at", "wrong", "says"),
    [
        (MUTATION, 8, "00000000", ["Total body (8-11): 0x00000000 -> 0x00000029"]),
        (MUTATION, 8, "00000028", ["Total body (8-11): 0x00000028 -> 0x00000029"]),
        (MUTATION, 8, "ffffffff", ["Total body (8-11): 0xffffffff -> 0x00000029"]),
        (MUTATION, 4, "00", ["Extra length (4): 0x00 -> 0x1f"]),
        (MARKER, 4, "14", ["Extra length (4): 0x14 -> 0x01"]),
        (MARKER, 24, "01", ["Version (24): 0x01 -> 0x00"]),
        (encode("DCP_STREAM_END", {"status": 1}), 2, "0001", ["Key length (2-3): 0x0001 -> 0x0000"]),
        (encode("DCP_ADD_STREAM", {"stream_opaque": 5}, response=True), 4, "05", ["Extra length (4): 0x05 -> 0x04"]),
        (encode("DCP_NOOP"), 8, "00000005", ["Total body (8-11): 0x00000005 -> 0x00000000"]),
        (CONTROL, 2, "0000", ["Key length (2-3): 0x0000 -> 0x000b"]),  # as the name of its key says
        (LONGER, 8, "00000029", ["Total body (8-11): 0x00000029 -> 0x0000002c"]),  # one edit is better than two
        (DELETION, 8, "00000000", ["Total body (8-11): 0x00000000 -> 0x00000017"]),  # whose opcode fits
    ],
)
def test_one_wrong_field_is_found_and_put_right(whole: bytes, at: int, wrong: str, says: list[str]) -> None:
    broken = changed(whole, at, wrong)
    assert edits(broken) == says
    found = mended(broken)
    assert found is not None
    assert found.data == whole


def test_where_several_are_needed_the_value_keeps_its_length() -> None:
    broken = changed(changed(changed(LONGER, 2, "0005"), 4, "1d"), 8, "00000027")
    found = mended(broken)
    assert found == Mended(LONGER, (Edit(*KEY_LENGTH, 5, 8), Edit(*EXTRAS_LENGTH, 29, 31), Edit(*BODY_LENGTH, 39, 44)))


def test_extras_of_another_document_say_that_the_opcode_is_wrong() -> None:
    expired = changed(DELETION, 1, "59")
    assert mended(expired) == Mended(DELETION, (Edit("Opcode", 1, 2, 0x59, 0x58),))
    assert mended(changed(MUTATION, 1, "58")) == Mended(MUTATION, (Edit("Opcode", 1, 2, 0x58, 0x57),))


def test_a_key_has_no_second_id_of_a_collection_behind_its_own() -> None:
    data = changed(encode("DCP_EXPIRATION", {"by_seqno": 5}, key=b"\0\x08k", cas=1), 2, "0002")
    assert edits(changed(data, 8, "00000016")) == []


def test_the_key_of_a_system_event_is_text_without_an_id() -> None:
    event = encode("DCP_SYSTEM_EVENT", {"by_seqno": 4, "event": 1, "version": 0, "manifest_uid": 2}, key=b"name")
    assert mended(event) is None


def test_a_layout_of_today_is_preferred_to_an_old_one() -> None:
    data = changed(changed(MUTATION, 4, "1d"), 8, "00000028")  # with 30 bytes of extras the value has 6, as it says
    assert edits(data) == [
        "Key length (2-3): 0x0005 -> 0x0004",
        "Extra length (4): 0x1d -> 0x1f",
        "Total body (8-11): 0x00000028 -> 0x00000029",
    ]


def test_a_reading_that_breaks_a_rule_is_not_offered() -> None:
    broken = changed(MUTATION, 8, "00000000")
    frame = decode(RawFrame(broken, unpack_header(broken)))
    assert mend(frame, broken, lambda reading: reading.get("by_seqno") == 4) is None
    assert mend(frame, broken, lambda reading: reading.get("by_seqno") == 5) == mended(broken)


HEX = bytes.fromhex
LATER = HEX("805f00010d0000030000001e00001000000000000000000000000000000000040000000600630000000000000002")
LATER += HEX("0000000900000008")


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(MUTATION, id="a frame without contradiction"),
        pytest.param(MUTATION[:23], id="less than a header"),
        pytest.param(encode("DCP_NOOP") + bytes(4), id="bytes where a message has none"),
        pytest.param(encode("DCP_STREAM_END") + bytes(7), id="bytes that no layout accounts for"),
        pytest.param(encode(0x99, value=b"x") + b"y", id="an unknown message"),
        pytest.param(encode("DCP_MUTATION", {"nmeta": 9}, key=b"\0k", value=b"val"), id="metadata beyond the value"),
        pytest.param(HEX("805e000b0400000000000013") + bytes(16) + b"enable_nooptrue", id="extras that are not there"),
        pytest.param(HEX("82010001000100000000000a") + bytes(12) + b'b{"rev":1}', id="a value that is whole JSON"),
        pytest.param(LATER, id="an event of a later version"),
    ],
)
def test_what_no_edit_helps_stays_as_it_is(data: bytes) -> None:
    assert mended(data) is None


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(
            changed(encode("SELECT_BUCKET", key=b"b") + bytes(70_000), 2, "0005"), id="more than a key may have"
        ),
        pytest.param(encode("DCP_DELETION", key=b"k" * 300 + b"::x")[:-1] + b"xy", id="a name longer than its length"),
    ],
)
def test_no_edit_is_of_a_number_that_its_field_cannot_have(data: bytes) -> None:
    found = mended(data)
    assert found is None or all(edit.after < 1 << 8 * (edit.end - edit.start) for edit in found.edits)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(damaged())
def test_what_is_mended_is_one_frame_without_problems_of_the_same_length(data: bytes) -> None:
    found = mended(data)
    if found is None:
        return
    frame = decode(RawFrame(found.data, unpack_header(found.data)))
    assert frame.problems == ()
    assert len(found.data) == len(data)
    assert found.edits
    rebuilt = bytearray(data)
    for edit in found.edits:
        assert int.from_bytes(data[edit.start : edit.end], "big") == edit.before
        rebuilt[edit.start : edit.end] = edit.after.to_bytes(edit.end - edit.start, "big")
    assert bytes(rebuilt) == found.data
