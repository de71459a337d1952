"""What a single message holds, as check judges it: sections, datatypes and values, by what the two ends agreed on."""

import re

import cramjam
import pytest

from tests.support.conversation import HELLO, LOGIN, MAX, OPEN, findings, findings_of, opening, packets, said
from tests.support.findings import Captured, certain

STREAM = "STREAM vb=5\n"
MARKER = "RX snapshot-marker{start=1, end=9, flags=0x5}\n"
BEGUN = STREAM + MARKER
#: 0x40: bodies are left out, and the datatype stays that of the document.
LEFT_OUT = opening(0x45)
#: The document was compressed; its xattrs are not.
XATTRS_ALONE = "#0000000e0000000a5f73006173646600"


def shapes(captured: Captured) -> list[str]:
    """Return the certain findings about shapes, without what a conforming peer answers."""
    return [re.sub(r" \([A-Z]\w+\)$", "", each) for each in certain(captured, "DCP103", "DCP104", "DCP105")]


@pytest.mark.parametrize(
    "message",
    [
        f"RX mutation{{seqno=1, datatype=6, value={XATTRS_ALONE}}}\n",
        f"RX mutation{{seqno=1, datatype=7, value={XATTRS_ALONE}}}\n",
        "RX deletion{seqno=1, datatype=1}\n",
        "RX deletion{seqno=1, datatype=3}\n",
    ],
)
def test_a_datatype_without_its_body_is_judged_by_the_open_flag_only(message: str) -> None:
    assert shapes(LEFT_OUT + BEGUN + message) == []
    assert len(shapes(opening() + BEGUN + message)) == 1
    for text in (LEFT_OUT + BEGUN + message, opening() + BEGUN + message):
        captured = packets(said(text))
        for joined in range(len(packets(said(opening()))) - 2, len(captured)):
            assert shapes(captured[joined:]) == []
        one_way = [packet for packet in captured if packet.data[34:36] != captured[0].data[34:36]]
        assert shapes(one_way) == []


OLD = "DCP103 suspicious: {} in a layout of old releases ({})"
UNKNOWN_BITS = "DCP104 violation: datatype 0x09 has unknown bits"


@pytest.mark.parametrize("before", ["", "RX mutation{seqno=1}\n"])
@pytest.mark.parametrize(
    ("message", "wanted"),
    [
        ("mutation{seqno=2, layout=1}", []),
        ("mutation{seqno=2, layout=1-28}", [OLD.format("MUTATION", "1-28")]),
        ("mutation{seqno=2, layout=1-30}", [OLD.format("MUTATION", "1-30")]),
        ("mutation{seqno=2, layout=1-clen}", [OLD.format("MUTATION", "1-clen")]),
        ("deletion{seqno=2, layout=1-clen}", [OLD.format("DELETION", "1-clen")]),
        ("system-event{seqno=2, layout=5.x}", [OLD.format("SYSTEM_EVENT", "5.x")]),
        ("mutation{seqno=2, datatype=9}", [UNKNOWN_BITS]),
        ("deletion{seqno=2, datatype=9}", [UNKNOWN_BITS]),
        ("deletion{seqno=2, datatype=1}", ["DCP103 violation: DELETION has datatype 0x01: JSON without XATTR"]),
        ("deletion{seqno=2, value=x}", ["DCP103 suspicious: DELETION has a body of 1 bytes"]),
        ("seqno-advanced{seqno=9, datatype=1}", ["DCP103 violation: SEQNO_ADVANCED has datatype 0x01"]),
        ("oso-snapshot{flags=1, datatype=1}", ["DCP103 violation: OSO_SNAPSHOT has datatype 0x01"]),
        ("prepare{seqno=2, durability-level=3}", []),
        ("prepare{seqno=2, durability-level=0}", ["DCP103 violation: PREPARE: durability level 0 has no meaning"]),
        ("prepare{seqno=2, durability-level=4}", ["DCP103 violation: PREPARE: durability level 4 has no meaning"]),
        ("prepare{seqno=2, deleted=2}", []),
        ("stream-end{status=8}", []),
        ("stream-end{status=99}", ["DCP103 suspicious: STREAM_END: reason 99 has no meaning"]),
        ("set-vbucket-state{state=4}", []),
        ("set-vbucket-state{state=5}", ["DCP103 violation: SET_VBUCKET_STATE: state 5 has no meaning"]),
        ("oso-snapshot{flags=3}", ["DCP103 violation: OSO_SNAPSHOT: flags 0x3 are start and end"]),
        ("oso-snapshot{flags=0}", ["DCP103 violation: OSO_SNAPSHOT: flags 0x0 are neither start nor end"]),
        ("oso-snapshot{flags=6}", ["DCP103 violation: OSO_SNAPSHOT: flags 0x4 have no meaning"]),
        ("prepare{seqno=2, cas=0}", ["DCP103 violation: PREPARE has CAS 0"]),
        ("commit{prepared-seqno=1, commit-seqno=2, datatype=2}", ["DCP103 violation: COMMIT has datatype 0x02"]),
        ("stream-end{status=2, value=x}", ["DCP103 violation: STREAM_END: value must be empty but has 1 bytes"]),
    ],
)
def test_a_shape_is_reported_once_wherever_it_stands(before: str, message: str, wanted: list[str]) -> None:
    assert shapes(opening() + BEGUN + before + f"RX {message}\n") == wanted


NOTHING = "have no meaning"


@pytest.mark.parametrize(
    ("flags", "wanted"),
    [
        (0x365, ""),
        (0x0D, ""),
        (0x400, f"violation: OPEN: flags 0x400 {NOTHING}"),
        (0x80000001, f"violation: OPEN: flags 0x80000000 {NOTHING}"),
        (0x11, "suspicious: OPEN: flags 0x10 are of old releases"),
        (0x4D, "violation: OPEN: flags 0x8 (no-value) and 0x40 (no-value-with-underlying-datatype) exclude each other"),
        (0x101, "violation: OPEN: flag 0x100 (include-deleted-user-xattrs) needs 0x4 (include-xattrs)"),
        (0x204, "violation: OPEN: flag 0x200 (skip-deletes-in-initial-backfill) needs 0x1 (producer)"),
    ],
)
def test_open_flags(flags: int, wanted: str) -> None:
    assert shapes(opening(flags)) == ([f"DCP103 {wanted}"] if wanted else [])


@pytest.mark.parametrize("message", ["add-stream", "stream-request"])
@pytest.mark.parametrize(
    ("flags", "wanted"),
    [
        (0xF7, ""),
        (0x111, ""),
        (0x800, f"violation: %s: flags 0x800 {NOTHING}"),
        (0x200, f"violation: %s: flags 0x200 {NOTHING}"),
        (0x08, "suspicious: %s: flags 0x8 are of old releases"),
        (0x104, "violation: %s: flag 0x100 (cache-transfer) excludes 0x4"),
    ],
)
def test_stream_flags(message: str, flags: int, wanted: str) -> None:
    name = {"add-stream": "ADD_STREAM", "stream-request": "STREAM_REQ"}[message]
    text = opening(0x04 if message == "add-stream" else 0x05) + f"TX {message}{{vb=5, flags={flags}}}\n"
    assert shapes(text) == ([f"DCP103 {wanted % name}"] if wanted else [])


def test_a_stream_request_has_a_value_only_with_collections() -> None:
    request = 'TX stream-request{vb=5, value={"uid":"0"}}\n'
    expected = "DCP103 violation: STREAM_REQ: it has a value, and HELLO did not grant collections"
    assert shapes(opening(collections=True) + request) == []
    assert shapes(opening() + request) == [expected]
    captured = packets(said(opening() + request))
    answered = 4  # the packet with the answer to HELLO
    assert [shapes(captured[at:]) for at in range(12)] == [[expected]] * (answered + 1) + [[]] * 7
    again = packets(said(opening() + HELLO % ("|0x12", "|0x12") + request))
    for lost in range(3, len(again) - 1):
        assert shapes(again[:lost] + again[lost + 1 :]) == []


@pytest.mark.parametrize(
    ("begun", "layout", "wanted"),
    [
        (opening(0x05), "1", ""),
        (opening(0x25), "2", ""),
        (opening(0x05), "2", "version 2, and DCP_OPEN did not ask for delete times"),
        (opening(0x05, collections=True), "2", "version 2, and DCP_OPEN did not ask for delete times"),
        (opening(0x25), "1", "version 1, and DCP_OPEN asked for delete times"),
        (opening(0x25, collections=True), "1", "version 1, and DCP_OPEN asked for delete times"),
    ],
)
def test_the_version_of_deletions_is_that_of_the_open_flags(begun: str, layout: str, wanted: str) -> None:
    text = begun + BEGUN + f"RX deletion{{seqno=1, layout={layout}}}\n"
    assert shapes(text) == ([f"DCP103 violation: DELETION: it is of {wanted}"] if wanted else [])
    captured = packets(said(text))
    assert shapes(captured[len(packets(said(begun))) :]) == []


@pytest.mark.parametrize(("features", "second"), [("", False), ("|0x12", True)])
def test_a_consumer_takes_deletions_with_times_where_it_has_collections(features: str, second: bool) -> None:
    begun = HELLO % (features, features) + LOGIN + OPEN % (0, "replication:n1")
    for layout in ("1", "2"):
        text = begun + MARKER.replace("RX", "TX") + f"TX deletion{{seqno=1, layout={layout}}}\n"
        assert bool(shapes(text)) is (layout == "2" and not second)


def with_xattrs(*pairs: tuple[str, str], body: str = "") -> str:
    """Return a value with xattrs, as a conversation writes it."""
    each = [key.encode() + b"\0" + text.encode() + b"\0" for key, text in pairs]
    block = b"".join(len(pair).to_bytes(4, "big") + pair for pair in each)
    return "#" + (len(block).to_bytes(4, "big") + block + body.encode()).hex()


def compressed(value: str) -> str:
    """Return a value as it is written, compressed."""
    return "#" + bytes(cramjam.snappy.compress_raw(bytes.fromhex(value[1:]))).hex()


@pytest.mark.parametrize(
    ("pairs", "wanted"),
    [
        ([("_s", "1"), ("a", '{"x":[1]}'), ("b", '"text"'), ("c", "null")], ""),
        ([("a", "1"), ("b", "1"), ("a", "2")], "xattr 2 has the key of one before it"),
        ([("a", "1"), ("", "1")], "xattr 1 has an empty key"),
        ([("a", "not json")], "the value of xattr 0 is not JSON"),
        ([("a", "")], "the value of xattr 0 is not JSON"),
        ([("a", '{"x":1} 2')], "the value of xattr 0 is not JSON"),
        ([("_s", f'"{"x" * (1024 * 1024 - 10)}"')], ""),
        ([("_s", f'"{"x" * (1024 * 1024 - 9)}"')], "system xattrs of 1,048,577 bytes"),
    ],
)
def test_xattrs_are_judged_as_a_server_does(pairs: list[tuple[str, str]], wanted: str) -> None:
    documents = "".join(
        f"RX mutation{{seqno={seqno}, datatype=5, value={with_xattrs(*pairs, body='{}')}}}\n" for seqno in (1, 2)
    )
    found = findings_of(packets(said(opening() + BEGUN + documents), 60_000))
    status = "E2big" if "bytes" in wanted else "XattrEinval"
    assert [(each.rule.id, each.message, each.status) for each in found] == [("F5", wanted, status)] * 2 * bool(wanted)


X = ("_s", "1")


@pytest.mark.parametrize("name", ["deletion", "expiration"])
@pytest.mark.parametrize(
    ("datatype", "value", "size"),
    [
        (0, "", 0),
        (0, "raw", 3),
        (4, with_xattrs(X), 0),
        (4, with_xattrs(X, body="body"), 4),
        (5, with_xattrs(X, body='{"x":1}'), 7),
        (6, compressed(with_xattrs(X)), 0),
        (6, compressed(with_xattrs(X, body="body")), 4),
    ],
)
def test_a_deletion_has_no_body_but_xattrs(name: str, datatype: int, value: str, size: int) -> None:
    begun = opening(0x25 if name == "expiration" else 0x05, controls="enable_expiry_opcode=true") + BEGUN
    wanted = [f"DCP103 suspicious: {name.upper()} has a body of {size} bytes"] * bool(size)
    for before in ("", "RX mutation{seqno=1}\n"):
        assert shapes(f"{begun}{before}RX {name}{{seqno=2, datatype={datatype}, value={value}}}\n") == wanted


@pytest.mark.parametrize(
    ("deleted", "datatype", "value", "size"),
    [
        (0, 0, "raw", 0),
        (1, 0, "", 0),
        (1, 0, "raw", 3),
        (2, 1, "{}", 2),
        (1, 4, with_xattrs(X), 0),
        (1, 4, with_xattrs(X, body="body"), 4),
        (1, 6, compressed(with_xattrs(X)), 0),
    ],
)
def test_a_prepare_of_a_deletion_has_no_body_but_xattrs(deleted: int, datatype: int, value: str, size: int) -> None:
    wanted = [f"DCP103 suspicious: PREPARE of a deletion has a body of {size} bytes"] * bool(size)
    message = f"RX prepare{{seqno=2, deleted={deleted}, datatype={datatype}, value={value}}}\n"
    for before in ("", "RX mutation{seqno=1}\n"):
        assert shapes(opening(controls="enable_sync_writes=true") + BEGUN + before + message) == wanted


EMPTY = "DCP105 violation: the value is marked XATTR and is empty"


@pytest.mark.parametrize("flags", [0x05, 0x0D, 0x45])
@pytest.mark.parametrize("message", ["mutation", "deletion", "prepare"])
@pytest.mark.parametrize("datatype", [4, 5, 6, 7])
def test_a_value_marked_xattr_is_not_empty(flags: int, message: str, datatype: int) -> None:
    begun = opening(flags, controls="enable_sync_writes=true") + BEGUN
    text = begun + "".join(f"RX {message}{{seqno={seqno}, datatype={datatype}, value=}}\n" for seqno in (1, 2, 3))
    assert shapes(text) == [EMPTY] * 3 * (flags != 0x45)
    captured = packets(said(text))
    assert shapes(captured[len(packets(said(begun))) :]) == []


BEGAN, EXPIRING = opening() + BEGUN, opening(0x25, controls="enable_expiry_opcode=true") + BEGUN
MESSAGE = "RX mutation{seqno=1, datatype=%d, value=%s}\n"
BODY, METADATA = b'{"a":1}'.hex(), "01020000"
EXPIRATION, MISSED = "RX expiration{seqno=1}\n", "DCP103 violation: EXPIRATION, and enable_expiry_opcode is not on"
ASKS = "TX control{key=%s, value=true}\n"
ASKS_EXPIRY, ASKS_SNAPPY = ASKS % "enable_expiry_opcode", ASKS % "enable_value_compression"
GRANTED, REFUSED = "RX control-response{success}\n", "RX control-response{einval}\n"
NO_SNAPPY, SNAPPY = opening().replace("|0xa|", "|"), MESSAGE % (2, "#05106162636465")
OLD_REQUEST = f"HEX TX 8053000028000006{40:08x}{6:08x}{0:016x}{0:032x}{MAX:016x}{0:032x}\n"
CASES = {
    "metadata behind a body": (BEGAN + MESSAGE % (1, f"#{BODY}{METADATA}, nmeta=4"), []),
    "metadata of another length": (
        BEGAN + MESSAGE % (1, f"#{BODY}{METADATA}, nmeta=2"),
        ["DCP105 suspicious: the body is marked JSON but is not: at byte 7 the value is over, and more follows"]),
    "metadata alone, of JSON": (BEGAN + MESSAGE % (1, f"#{METADATA}, nmeta=4"), []),
    "metadata alone, of xattrs": (BEGAN + MESSAGE % (4, f"#{METADATA}, nmeta=4"), [EMPTY]),
    "nothing": (BEGAN + MESSAGE % (0, ""), []),
    "nothing, as JSON": (BEGAN + MESSAGE % (1, ""), []),
    "xattrs of no length, and no body": (opening(0x0D) + BEGUN + MESSAGE % (4, "#00000000"), []),
    "xattrs, and no body": (opening(0x0D) + BEGUN + MESSAGE % (4, with_xattrs(X)), []),
    "xattrs, and a body": (opening(0x0D) + BEGUN + MESSAGE % (4, with_xattrs(X, body="{}")), []),
    "a datatype of a consumer": (
        opening(controls="connection_buffer_size=1000") + BEGUN
        + "TX buffer-acknowledgement{buffer-bytes=1, datatype=1}\n" + OLD_REQUEST,
        ["DCP103 violation: BUFFER_ACKNOWLEDGEMENT has datatype 0x01", OLD.format("STREAM_REQ", "1-40")]),
    "compression that a control asked for, up to 5.1": (NO_SNAPPY + ASKS_SNAPPY + GRANTED + BEGUN + SNAPPY, []),
    "compression that was refused": (
        NO_SNAPPY + ASKS_SNAPPY + REFUSED + BEGUN + SNAPPY,
        ["DCP104 violation: the value is marked Snappy, which HELLO did not grant"]),
    "an expiration": (EXPIRING + EXPIRATION, []),
    "an expiration of an old layout": (
        EXPIRING + EXPIRATION.replace("=1}", "=1, layout=1-18}"), [OLD.format("EXPIRATION", "1-18")]),
    "an expiration that nobody asked for": (opening(0x25) + BEGUN + EXPIRATION, [MISSED]),
    "an expiration without delete times": (
        opening(0x05, controls="enable_expiry_opcode=true") + BEGUN + EXPIRATION, [MISSED]),
    "an expiration that was refused": (opening(0x25) + ASKS_EXPIRY + REFUSED + BEGUN + EXPIRATION, [MISSED]),
    "an expiration that may be granted": (opening(0x25) + ASKS_EXPIRY + BEGUN + EXPIRATION, []),
}  # fmt: skip


@pytest.mark.parametrize(("text", "wanted"), CASES.values(), ids=CASES)
def test_a_shape_is_judged_by_what_was_agreed_on(text: str, wanted: list[str]) -> None:
    assert shapes(text) == wanted


def test_expirations_are_not_judged_where_what_was_agreed_on_was_not_captured() -> None:
    captured = packets(said(opening(0x25) + BEGUN + EXPIRATION))
    opened = 9  # the packet with DCP_OPEN
    for at in range(3, len(captured) - 1):
        assert shapes(captured[at:]) == ([MISSED] if at <= opened else [])
        assert shapes(captured[:at] + captured[at + 1 :]) == []


@pytest.mark.parametrize("value", ["x", with_xattrs(("a", "1"), body="x")])
def test_no_receiver_refuses_a_body_that_is_not_json(value: str) -> None:
    bits = 5 if value.startswith("#") else 1
    message = f"RX mutation{{seqno=1, datatype={bits}, value={value}}}\n"
    found = [(each.severity.value, each.status) for each in findings(opening() + BEGUN + message)]
    assert found == [("suspicious", "")]
    compressed = "RX mutation{seqno=1, datatype=2, value=#ffffffffff}\n"
    assert [each.status for each in findings(opening() + BEGUN + compressed)] == ["Einval"]
