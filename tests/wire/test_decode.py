"""decode(): golden frames of every message with whole values, and damage with the exact words for it."""

from typing import Any, NamedTuple

import pytest

from dcpdump.annotate import annotate
from dcpdump.record import Record, as_json
from dcpdump.wire.decode import MOST_ITEMS, decode
from dcpdump.wire.encode import EncodeError, encode
from dcpdump.wire.frame import Fault, Frame, Problem, RawFrame, Section, Span, unpack_header
from dcpdump.wire.value import Content
from tests.support.fields import changed, encoded_fields

FOREVER = 0xFFFF_FFFF_FFFF_FFFF
FEATURES = [0x06, 0x0B, 0x0A, 0x12]
MARKER = {"start_seqno": 1, "end_seqno": 8, "snapshot_type": 2, "max_visible_seqno": 8, "high_completed_seqno": 7}
MARKER_22 = {**MARKER, "version": 2, "snapshot_type": 6, "purge_seqno": 3}
FIRST = {"by_seqno": 4, "rev_seqno": 1}
SECOND = {"by_seqno": 5, "rev_seqno": 1, "delete_time": 0x5F000000}


class Golden(NamedTuple):
    """Bytes, and everything that their frame says."""

    wire: bytes
    name: str
    layout: str
    given: dict[str, Any]  #: that encode() makes them of


def golden(wire: str, name: str, values: dict[str, Any] | None = None, *, layout: str = "1", **given: Any) -> Golden:
    return Golden(bytes.fromhex(wire), name, layout, {"values": values or {}, "opaque": 0x1000, **given})


#: Of what no page of the specification shows: each page is one by itself.
GOLDEN = [
    golden("801f0007000000000000000f00001000000000000000000064637064756d700006000b000a0012",
           "HELLO", {"features": FEATURES}, key=b"dcpdump"),
    golden("181f0300000000000000000b0000100000000000000000000200100006000b000a0012",
           "HELLO", {"features": FEATURES}, response=True, framing=b"\x02\x00\x10"),
    golden("80530000300000050000004e00001000000000000000000000000000000000000000000000000064ffffffffffffffff00000000feeddeca"
           "000000000000005a00000000000000787b22636f6c6c656374696f6e73223a5b2238225d2c22736964223a37317d",
           "DCP_STREAM_REQ", {"flags": 0, "reserved": 0, "start_seqno": 100, "end_seqno": FOREVER,
           "vbucket_uuid": 0xFEEDDECA, "snap_start_seqno": 90, "snap_end_seqno": 120}, vbucket=5,
           value=b'{"collections":["8"],"sid":71}'),
    golden("08550300040000050000000700001000000000000000000022004700000001",
           "DCP_STREAM_END", {"status": 1}, vbucket=5, stream_id=71),
    golden("805600000100000000000025deadbeef00000000000000000000000000000000010000000000000008000000020000000000000008000000"
           "0000000007",
           "DCP_SNAPSHOT_MARKER", {"version": 0, **MARKER}, layout="2.0", opaque=0xDEADBEEF),
    golden("805600000100000000000035deadbeef00000000000000000200000000000000010000000000000008000000060000000000000008000000"
           "000000000700000000000000030000000000000006",
           "DCP_SNAPSHOT_MARKER", {**MARKER_22, "high_prepared_seqno": 6}, layout="2.2", opaque=0xDEADBEEF),
    golden("80560000010000000000002ddeadbeef00000000000000000200000000000000010000000000000008000000060000000000000008000000"
           "00000000070000000000000003",
           "DCP_SNAPSHOT_MARKER", MARKER_22, layout="2.2-pre", opaque=0xDEADBEEF),
    golden("80560000010000000000002d0000100000000000000000000100000000000000010000000000000008000000020000000000000008000000"
           "000000000717a1b2c3d4e5f607",
           "DCP_SNAPSHOT_MARKER", {**MARKER, "version": 1, "timestamp": 0x17A1B2C3D4E5F607}, layout="2.1"),
    golden("805700061f0002100000002a0000100011223344556677880000000000000004000000000000000100000000000000000000000000000008"
           "68656c6c6f776f726c64",
           "DCP_MUTATION", FIRST, key=b"\x08hello", value=b"world", vbucket=0x210, cas=0x1122334455667788),
    golden("80570008200002100000002d0000121000000000000000000000000000000004000000000000000100000000000000000000000000000001"
           "633a3a68656c6c6f776f726c64",
           "DCP_MUTATION", {**FIRST, "clen": 1}, layout="1-clen", key=b"c::hello", value=b"world", vbucket=0x210,
           opaque=0x1210),
    golden("805700051f0002100000002d0000100000000000000000000000000000000004000000000000000100000000000000000000000000040068"
           "656c6c6f776f726c6401020000",
           "DCP_MUTATION", {**FIRST, "nmeta": 4, "metadata": b"\x01\x02\0\0"}, key=b"hello", value=b"world",
           vbucket=0x210),
    golden("8058000612000000000000180000100000000000000000010000000000000005000000000000000100000068656c6c6f",
           "DCP_DELETION", {"by_seqno": 5, "rev_seqno": 1}, key=b"\0hello", cas=1),
    golden("80580006150000000000001b000010000000000000000001000000000000000500000000000000015f000000000068656c6c6f",
           "DCP_DELETION", SECOND, layout="2", key=b"\0hello", cas=1),
    golden("08580306150000000000001e000010000000000000000001220047000000000000000500000000000000015f000000000068656c6c6f",
           "DCP_DELETION", SECOND, layout="2", key=b"\0hello", cas=1, stream_id=71),
    golden("805c00000000000000000000819698000000000000000000",
           "DCP_NOOP", opaque=0x81969800),
    golden("805f000c0d0002100000002d000012100000000000000000000000000000000400000000016d79636f6c6c656374696f6e00000000000000"
           "02000000000000000800011940",
           "DCP_SYSTEM_EVENT", {"by_seqno": 4, "event": 0, "version": 1, "manifest_uid": 2, "scope_id": 0,
           "collection_id": 8, "max_ttl": 72000}, key=b"mycollection", vbucket=0x210, opaque=0x1210),
    golden("806000061f0000000000002a0000100000000000000000010000000000000004000000000000000100000000000000000000000000000100"
           "68656c6c6f776f726c64",
           "DCP_PREPARE", {**FIRST, "durability_level": 1}, key=b"\0hello", value=b"world", cas=1),
    golden("8064000008000000000000080000100000000000000000000000000000000009",
           "DCP_SEQNO_ADVANCED", {"by_seqno": 9}),
    golden("8066000000000000000000330000100000000000000000000000000000000004000000000000000100000000000000050000000500000000"
           "000000000006000a0068656c6c6f776f726c64",
           "DCP_CACHE_TRANSFER", {"items": [{"cas": 4, "by_seqno": 1, "rev_seqno": 5, "cache_hint": 10,
           "key": b"\0hello", "value": b"world"}]}),
    golden("8201000710000000000000170000100000000000000000000000000000000001000000000000000764656661756c74",
           "ClustermapChangeNotification", {"epoch": 1, "revision": 7}, layout="2", key=b"default"),
]  # fmt: skip
TRANSFER = next(each.wire for each in GOLDEN if each.name == "DCP_CACHE_TRANSFER")


def read(data: bytes, **options: bool) -> Frame:
    """Decode all of the bytes as one frame."""
    return decode(RawFrame(data, unpack_header(data.ljust(24, b"\0"))), **options)


def texts(frame: Frame) -> str:
    """Return what is wrong with a frame: of each problem its code and its words."""
    return " | ".join(f"{problem.code.value}: {problem.text}" for problem in frame.problems)


def values_of(frame: Frame) -> dict[str, Any]:
    """Return a frame's values in the form that encode() takes: fields, groups as lists, metadata."""
    out: dict[str, Any] = dict(frame.lookup)
    for field in frame.fields:
        if field.field.name == "metadata":
            out["metadata"] = field.value
        if field.group in ("", "flat", "secret"):
            continue
        items = out.setdefault(field.group, [])
        if field.field.name == field.group:
            items.append(field.value)
            continue
        if field.item == len(items):
            items.append({})
        items[field.item][field.field.name] = field.value
    return out


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda golden: f"{golden.name} {golden.layout}")
def test_a_golden_frame_says_what_it_says(golden: Golden) -> None:
    data, name, layout, given = golden
    frame = read(data)
    assert (frame.message.name, frame.layout.version, texts(frame)) == (name, layout, "")
    assert encode(name, layout=layout, **given) == data
    assert encoded_fields(frame) == data
    assert frame.header.vbucket_or_status == given.get("status" if given.get("response") else "vbucket", 0)
    assert (frame.header.opaque, frame.header.cas) == (given["opaque"], given.get("cas", 0))
    assert (frame.key, frame.stream_id) == (given.get("key"), given.get("stream_id"))
    zeros = {field.name: 0 for field in frame.layout.extras}
    found = values_of(frame)
    for item in found.get("items", ()):
        more = {"key_length": len(item["key"]), "value_length": len(item["value"])}
        more |= {"flags": 0, "expiration": 0, "datatype": 0}
        assert {name: item.pop(name) for name in more} == more
    assert found == {**zeros, **given["values"]}
    if not isinstance(frame.layout.value, tuple):
        assert (frame.value or b"") == given.get("value", b"")


# -- damage: what does not fit, in words ----------------------------------------------------------------------

MUTATION = encode("DCP_MUTATION", FIRST, key=b"hello", value=b"world")
VERSIONED = encode("DCP_SNAPSHOT_MARKER", {**MARKER, "version": 0})
EVENT = encode("DCP_SYSTEM_EVENT", {"event": 0, "version": 1}, layout="1")
DAMAGE = {
    "nothing": (b"", "cut: the header needs 24 bytes, 0 are there"),
    "a header without total body": (MUTATION[:6], "cut: the header needs 24 bytes, 6 are there"),
    "a cut header": (MUTATION[:23], "cut: the header needs 24 bytes, 23 are there"),
    "a cut value": (MUTATION[:60], "cut: the frame is cut short: 65 bytes promised, 60 are there"),
    "cut extras": (MUTATION[:40], "cut: the frame is cut short: 65 bytes promised, 40 are there"),
    "bytes left over": (MUTATION + b"!!", "left_over: the header says 65 bytes, 67 are there: 2 are left over"),
    "a wrong magic": (changed(MUTATION, 0, "7f"), "unknown_magic: 0x7f is not a magic of the protocol"),
    "an unknown opcode": (changed(MUTATION, 1, "99"), "unknown_opcode: opcode 0x99 is not known"),
    "a key longer than the body": (changed(MUTATION, 2, "0100"),
        "lengths_contradict: key length says 256 (bytes 2,3) but total body leaves 10"),
    "extras longer than the body": (changed(encode("DCP_NOOP"), 4, "08"),
        "lengths_contradict: extras length says 8 (byte 4) but total body leaves 0"
        " | unknown_layout: extras length 8 fits no layout of DCP_NOOP (0)"),
    "extras of an unknown length": (changed(MUTATION, 4, "1d"),
        "unknown_layout: extras length 29 fits no layout of DCP_MUTATION (28, 30, 31 or 32)"),
    "an unknown datatype": (changed(MUTATION, 5, "09"), "unknown_datatype: datatype 0x09 has unknown bits"),
    "a body beyond the limit": (changed(MUTATION, 8, "7f000029"),
        "too_large: total body 2130706473 (bytes 8-11) is more than a server accepts (31457280)"
        " | cut: the frame is cut short: 2130706497 bytes promised, 65 are there"),
    "more metadata than value": (changed(MUTATION, 52, "0006"), "wrong_length: nmeta says 6 but the value has 5 bytes"),
    "no key where it must be": (encode("DCP_MUTATION", FIRST, value=b"v"),
        "must_be_present: key must be present but is empty"),
    "a body where none may be": (encode("DCP_NOOP", key=b"k", value=b"vv"),
        "must_be_empty: key must be empty but has 1 bytes | must_be_empty: value must be empty but has 2 bytes"),
    "a marker of no version's length": (encode("DCP_SNAPSHOT_MARKER", {**MARKER, "version": 0}, value=b"extra"),
        "unknown_layout: value length 41 fits no layout of DCP_SNAPSHOT_MARKER here (36)"),
    "a marker of an unknown version": (changed(VERSIONED, 24, "03"),
        "unknown_layout: version 3 is none that DCP_SNAPSHOT_MARKER has here (0, 1 or 2)"),
    "a marker's version beside the length of another": (changed(VERSIONED, 24, "01"),
        "unknown_layout: value length 36 fits no layout of DCP_SNAPSHOT_MARKER here (44)"),
    "a value without a name": (encode("DCP_STREAM_END", {"status": 9}), "unknown_value: flag 0x00000009 has no name"),
    "a bit without a name": (encode("DCP_SNAPSHOT_MARKER", {"snapshot_type": 0x41}),
        "unknown_value: Snapshot Type 0x00000040 has no name"),
    "half an item of a list": (encode("DCP_GET_FAILOVER_LOG", response=True, value=bytes(20)),
        "wrong_length: failover_log: 4 bytes are left, an item needs 16"),
    "a record that promises more than there is": (changed(TRANSFER, 60, "ffff"),
        "wrong_length: items[0]: key needs 65535 bytes, 11 are left"
        " | wrong_length: items[0]: value needs 5 bytes, 0 are left"),
    "a transfer of nothing": (bytes.fromhex("806600000000000100000000000010000000000000000000"),
        "must_be_present: items: there are none, at least 1 must be there"),
    "a reason that is no status of an application": (encode("DCP_STREAM_END", {"status": 0xFFFF_FFFF}),
        "unknown_value: flag 0xffffffff has no name"),
    "a value longer than its fields": (encode("DCP_SYSTEM_EVENT", {"event": 0, "version": 1}, layout="1", value=b"??"),
        "left_over: 2 bytes of value are left over"),
    "a value cut short": (EVENT[:-4], "cut: the frame is cut short: 57 bytes promised, 53 are there"),
    "an event without a layout": (changed(EVENT, 32, "00000002"),
        "unknown_layout: event 2 is none that DCP_SYSTEM_EVENT has here (0, 1, 3, 4 or 5)"),
}  # fmt: skip


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_is_named(name: str) -> None:
    data, problems = DAMAGE[name]
    assert texts(read(data)) == problems


def test_a_problem_says_where_what_is_needed_and_what_is_there() -> None:
    frame = read(MUTATION[:60])
    assert frame.problems == (
        Problem(Fault.CUT, "the frame is cut short: 65 bytes promised, 60 are there", 60, 60, 65, 60),
    )
    frame, said = read(changed(MUTATION, 2, "0100")), "key length says 256 (bytes 2,3) but total body leaves 10"
    assert frame.problems == (Problem(Fault.LENGTHS_CONTRADICT, said, 2, 4, 256, 10),)
    assert as_json(Record(1, frame, Content(), None))["problems"] == [
        {"code": "lengths_contradict", "text": said, "offset": 2, "length": 2}
    ]


def test_an_error_response_may_hold_json_and_a_status_that_has_no_name_is_named_so() -> None:
    frame = read(encode("DCP_STREAM_REQ", response=True, status=0x88, value=b"{}", datatype=1))
    assert (frame.layout.version, frame.value, texts(frame)) == ("error", b"{}", "")
    assert texts(read(encode("DCP_NOOP", response=True, status=0xFF01))) == ""


def test_bytes_that_were_lost_inside_a_frame_leave_their_fields_without_a_value() -> None:
    raw = RawFrame(MUTATION, unpack_header(MUTATION), holes=(Span(30, 42),))
    frame = decode(raw)
    by_name = {field.field.name: field.value for field in frame.fields}
    assert [by_name[name] for name in ("by_seqno", "rev_seqno", "flags", "expiration")] == [None, None, None, 0]
    assert (frame.key, frame.value, frame.get("by_seqno")) == (b"hello", b"world", None)
    assert frame.problems == (Problem(Fault.LOST, "12 bytes of the frame were lost", 30, 42),)


# -- framing extras -------------------------------------------------------------------------------------------


def test_servers_forget_the_framing_length_of_a_deletion_with_a_stream_id() -> None:
    wire = bytes.fromhex(
        "08580006150000000000001e000010000000000000000001220047000000000000000500000000000000015f000000000068656c6c6f"
    )
    frame = read(wire)
    assert (frame.stream_id, frame.lookup, frame.key) == (71, {**SECOND, "unused": 0}, b"\0hello")
    assert (frame.value, frame.value_length) == (None, 0)
    assert [annotated.suggestion for annotated in annotate((wire,))] == [None]
    said = "framing extras length says 0 (byte 2) but a stream id stands there: a known bug of the server; read as 3"
    assert frame.problems == (Problem(Fault.STREAM_ID_NOT_COUNTED, said, 2, 3, 3, 0),)


def framing(data: bytes, *, response: bool = False) -> tuple[list[tuple[str, int | bytes | None]], str]:
    """Decode framing extras of a NOOP, and return their fields by label, and what is wrong."""
    frame = read(encode("DCP_NOOP", framing=data, response=response))
    fields = [(field.field.label, field.value) for field in frame.fields if field.section is Section.FRAMING]
    return fields, texts(frame)


@pytest.mark.parametrize(
    ("data", "fields"),
    [
        ("00", [("Barrier frame", 0)]),
        ("1101", [("DurabilityRequirement frame", 0x11), ("level", 1)]),
        ("130203e8", [("DurabilityRequirement frame", 0x13), ("level", 2), ("timeout ms", 1000)]),
        ("220047", [("DcpStreamId frame", 0x22), ("stream id", 71)]),
        ("326162", [("OpenTracing frame", 0x32), ("tracing context", b"ab")]),
        ("43626f62", [("Impersonate frame", 0x43), ("user", b"bob")]),
        ("50", [("PreserveTtl frame", 0x50)]),
        ("6178", [("ImpersonateExtraPrivilege frame", 0x61), ("privilege", b"x")]),
        ("720001", [("ImpersonateWithTokenAuthDataId frame", 0x72), ("token id", 1)]),
        ("4f01" + "61" * 16, [("Impersonate frame", 0x4F01), ("user", b"a" * 16)]),
    ],
)
def test_a_requests_frame_infos_are_read_by_id(data: str, fields: list[tuple[str, int | bytes]]) -> None:
    assert framing(bytes.fromhex(data)) == (fields, "")


def test_a_responses_frame_infos_mean_something_else() -> None:
    read: list[tuple[str, int | bytes | None]] = [
        *(("ServerRecvSendDuration frame", 0x02), ("server duration", 0x10)),
        *(("ReadUnits frame", 0x12), ("read units", 3), ("WriteUnits frame", 0x22), ("write units", 4)),
        *(("ThrottleDuration frame", 0x32), ("throttle duration", 5)),
    ]
    assert framing(bytes.fromhex("020010120003220004320005"), response=True) == (read, "")


@pytest.mark.parametrize(
    ("data", "problems"),
    [
        ("2100", "wrong_length: DcpStreamId has 1 bytes, needs 2"),
        ("40", "wrong_length: Impersonate has 0 bytes, needs 1 or more"),
        ("1203ff", "wrong_length: DurabilityRequirement has 2 bytes, needs 1 or 3"),
        ("1100", "unknown_value: level 0x00 has no name"),
        ("13040001", "unknown_value: level 0x04 has no name"),
        ("8101", "unknown_frame_info: frame info id 8 is not known"),
        (
            "f00001",
            "unknown_frame_info: frame info id 15 is not known | wrong_length: frame info 0 needs 1 bytes, 0 are left",
        ),
        ("f005", "unknown_frame_info: frame info id 20 is not known"),
        ("ff050061", "wrong_length: frame info 20 needs 15 bytes, 1 are left"),
        ("2200", "wrong_length: frame info 2 needs 2 bytes, 1 are left"),
        ("ff", "wrong_length: frame info 15 needs 15 bytes, 0 are left"),
    ],
)
def test_odd_frame_infos_are_named(data: str, problems: str) -> None:
    assert framing(bytes.fromhex(data))[1] == problems


@pytest.mark.parametrize(("deleted", "name"), [(0, "alive"), (1, "deleted"), (2, "deleted"), (255, "deleted")])
def test_a_prepare_deletes_by_any_number_but_zero(deleted: int, name: str) -> None:
    values = {"by_seqno": 4, "deleted": deleted, "durability_level": 1}
    frame = read(encode("DCP_PREPARE", values, key=b"\0k"))
    assert texts(frame) == ""
    row = as_json(Record(1, frame, Content(), None))
    assert (row["fields"]["deleted"], row["fields"]["deleted_name"]) == (deleted, name)


# -- FlatBuffers ----------------------------------------------------------------------------------------------


def test_a_system_event_in_flatbuffers_has_its_slots_wherever_they_lie() -> None:
    table = {"manifest_uid": 7, "scope_id": 8, "collection_id": 9, "history": 1}
    data = encode("DCP_SYSTEM_EVENT", {"event": 0, "version": 2, "name_in_scope": b"beer", **table}, key=b"beer")
    frame = read(data)
    assert texts(frame) == ""
    assert {name: frame.lookup[name] for name in table} == table
    assert frame.get("max_ttl") == 0, "a slot that is missing has the default"
    assert [field.value for field in frame.fields if field.field.name == "name_in_scope"] == [b"beer"]
    assert encoded_fields(frame) == data


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("", "root offset lies outside, at 0"),
        ("ffffffff", "table lies outside, at 4294967295"),
        ("04000000", "table lies outside, at 4"),
        ("0400000000000080", "vtable lies outside, at 2147483652"),
        ("04000000ffffff7f", "vtable lies outside, at -2147483643"),
        ("080000000200040004000000", "vtable of 2 bytes at 4 does not fit"),
        ("0800000010000400" + "04000000", "vtable of 16 bytes at 4 does not fit"),
        ("0c0000000800080004000000" + "08000000", "manifest_uid lies outside, at 16"),
        ("0c00000006000800ff7f0000" + "08000000", "manifest_uid lies outside, at 32779"),
    ],
)
def test_a_hostile_flatbuffers_table_is_refused_by_the_step_that_leads_outside(value: str, problem: str) -> None:
    given = {"event": 0, "version": 2}
    data = encode("DCP_SYSTEM_EVENT", given, layout="2", key=b"k")
    body = bytes.fromhex(value)
    head = changed(data[: 24 + 13 + 1], 8, f"{14 + len(body):08x}")
    assert texts(read(head + body)) == f"not_flatbuffers: no FlatBuffers table: {problem}"


# -- secrets --------------------------------------------------------------------------------------------------


def test_a_credential_is_masked_as_soon_as_it_is_decoded() -> None:
    data = encode("SASL_AUTH", key=b"PLAIN", value=b"\0bob\0hunter2")
    assert read(data).value == b"*" * 12
    for each in (data, data + b"hunter2", data[:-1], changed(data, 4, "02"), changed(data, 8, "00000005")):
        assert b"hunter2" not in repr(read(each)).encode()
    assert read(data, show_secrets=True).value == b"\0bob\0hunter2"


@pytest.mark.parametrize("response", [False, True])
@pytest.mark.parametrize("opcode", [0x21, 0x22, 0x2D, 0x2E, 0x2F, 0x84, 0xF1, 0xF4, 0xF5, 0xF8])
def test_every_message_that_carries_credentials_is_masked(opcode: int, response: bool) -> None:
    data = encode(opcode, value=b"hunter2", response=response)
    assert b"hunter2" not in repr(read(data)).encode()


# -- encode ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "given", "error"),
    [
        ("DCP_NOPE", {}, "no message is named 'DCP_NOPE'"),
        ("DCP_NOOP", {"values": {"seqno": 1}}, "DCP_NOOP request has no field seqno (none)"),
        ("DCP_OPEN", {"layout": "2"}, "DCP_OPEN request has no layout '2' (1)"),
        ("DCP_OPEN", {"values": {"flags": 1 << 32}}, "flags is not a number of 4 bytes: 4294967296"),
        ("DCP_OPEN", {"vbucket": -1}, "vbucket_or_status is not a number of 2 bytes: -1"),
        ("DCP_MUTATION", {"key": bytes(300), "stream_id": 1}, "key_length is not a number of 1 bytes: 300"),
        ("DCP_NOOP", {"framing": b"\0", "magic": 0x80}, "magic 0x80 has no framing extras"),
        ("DCP_NOOP", {"values": {"metadata": b"x"}}, "DCP_NOOP request has no field metadata (none)"),
        ("HELLO", {"response": True, "status": 0x21}, "no layout of the HELLO response has these values"),
        ("HELLO", {"values": {"features": [{"name": 1}]}}, "an item of features has no field name"),
        ("HELLO", {"values": {"features": 6}}, "features is a list, not 6"),
    ],
)
def test_what_cannot_be_encoded_is_refused_with_the_reason(name: str, given: dict[str, Any], error: str) -> None:
    with pytest.raises(EncodeError) as refused:
        encode(name, **given)
    assert str(refused.value) == error


def test_no_more_items_are_taken_apart_than_any_server_sends() -> None:
    data = encode("HELLO", {"features": [6] * (MOST_ITEMS + 3)})
    frame = read(data)
    assert len(frame.fields) == 9 + MOST_ITEMS + 1  # the header's fields, the items, the rest
    said = "features: after 16,384 items 6 bytes are not taken apart"
    assert frame.problems == (Problem(Fault.LEFT_OVER, said, len(data) - 6, len(data), 0, 6),)
    assert encoded_fields(frame) == data
    assert texts(read(encode("HELLO", {"features": [6] * MOST_ITEMS}))) == ""
