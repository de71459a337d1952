"""What keys and values mean: collection ids, Snappy, xattrs, JSON; and where they are wrong about themselves."""

import json
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcpdump.spec.names import JSON, SNAPPY, XATTR
from dcpdump.wire.decode import decode
from dcpdump.wire.encode import Item as Record
from dcpdump.wire.encode import encode
from dcpdump.wire.frame import Fault, Frame, RawFrame
from dcpdump.wire.json_text import MOST_NESTED, MOST_VALUES, NotParsed, json_fault, parse_json
from dcpdump.wire.value import (
    MAX_VALUE,
    MOST_XATTRS,
    Body,
    Content,
    Item,
    Prefix,
    SplitValue,
    decompress,
    interpret,
    leb128,
    open_value,
    read_prefix,
    split_xattrs,
)
from tests.support.fields import changed, snappy
from tests.support.fields import xattr_block as xattrs

# -- collection ids -------------------------------------------------------------------------------------------


IDS = {"00": 0, "08": 8, "7f": 127, "8001": 128, "d50a": 0x555, "ab04": 555, "ff7f": 16383, "808001": 16384}


@pytest.mark.parametrize(("wire", "collection"), [*IDS.items(), ("ffffffff0f", 0xFFFFFFFF)])
def test_a_collection_id_is_leb128(wire: str, collection: int) -> None:
    data = bytes.fromhex(wire)
    assert read_prefix(data + b"key") == Prefix(collection, len(data))
    assert leb128(collection) == data


SHORTEST, LONG = "the collection id is not in its shortest form", "the collection id is longer than 32 bits"


@pytest.mark.parametrize(
    ("wire", "prefix"),
    [
        *(("", None), ("80", None), ("ffffffff", None), ("ffffffffff", None)),
        *(("8000", Prefix(0, 2, SHORTEST)), ("888000", Prefix(8, 3, SHORTEST))),
        *(("ffffffff1f", Prefix(0x1FFFFFFFF, 5, LONG)), ("ffffffffff01", Prefix(0xFFFFFFFFF, 6, LONG))),
    ],
)
def test_a_collection_id_that_is_cut_or_too_long_is_reported(wire: str, prefix: Prefix | None) -> None:
    assert read_prefix(bytes.fromhex(wire)) == prefix


def frame(key: bytes = b"", value: bytes = b"", datatype: int = 0, **values: int) -> Frame:
    return decoded("DCP_MUTATION", {"by_seqno": 4, **values}, key=key, value=value, datatype=datatype)


def decoded(name: str, values: dict[str, Any] | None = None, **given: Any) -> Frame:
    return decode(RawFrame.of(encode(name, values, **given)))


def faults(content: Content) -> list[str]:
    """Return the problems of a value, each with its code."""
    return [f"{problem.code.value}: {problem.text}" for problem in content.problems]


def test_a_key_is_taken_apart_only_where_the_connection_has_collections() -> None:
    one = frame(b"\x08hello", b"world")
    assert interpret(one, collections=True) == Content(b"hello", 8, body=Body(b"world"))
    assert interpret(one, collections=False) == Content(b"\x08hello", body=Body(b"world"))
    assert interpret(one, collections=None) == Content(b"\x08hello", collection_inferred=True, body=Body(b"world"))
    assert interpret(one, collections=True, inferred=True) == Content(b"hello", 8, True, body=Body(b"world"))


@pytest.mark.parametrize(
    ("key", "logical", "collection", "problem"),
    [
        (b"\x80", b"\x80", None, "the key ends inside its collection id"),
        (b"\x08", b"", 8, "the key has a collection id and nothing else"),
        (b"\x07k", b"k", 7, "collection id 7 is reserved"),
        (b"\x80\x00k", b"k", 0, "the collection id is not in its shortest form"),
    ],
)
def test_an_odd_collection_id_is_named(key: bytes, logical: bytes, collection: int | None, problem: str) -> None:
    content = interpret(frame(key), collections=True)
    assert (content.key, content.collection, faults(content)) == (logical, collection, [f"collection_id: {problem}"])


def test_a_system_events_key_never_has_a_collection_id() -> None:
    event = decoded("DCP_SYSTEM_EVENT", {"event": 0, "version": 0, "collection_id": 9}, key=b"my")
    assert interpret(event, collections=True).key == b"my"


def test_the_preview_of_collections_spells_the_collection_in_the_key() -> None:
    assert interpret(frame(b"c::hello", clen=1), collections=None) == Content(b"c::hello", collection_name=b"c")
    content = interpret(frame(b"c::hello", clen=2), collections=None)
    assert content.hints == ("clen says 2, but the separator '::' stands at byte 1 of the key",)
    said = "wrong_length: clen says 6 but the key has 5 bytes"
    assert faults(interpret(frame(b"hello", clen=6), collections=None)) == [said]
    assert interpret(frame(b"hello", clen=0), collections=None) == Content(b"hello")


def test_ids_in_the_order_of_the_old_draft_are_noticed() -> None:
    given = {"event": 0, "version": 1, "scope_id": 8, "collection_id": 0}
    event = decoded("DCP_SYSTEM_EVENT", given, key=b"my")
    hint = "scope id and collection id look swapped: the default collection is never created"
    assert interpret(event, collections=True).hints == (hint,)


# -- Snappy ---------------------------------------------------------------------------------------------------


NO_END, TOO_LONG = "its length does not end", "its length is longer than 32 bits"
MORE = "more than the 22020096 that a document may have"


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        *((data, f"the value is not Snappy: {NO_END}") for data in (b"", b"\x80\x80", b"\xff" * 12)),
        *((each, f"the value is not Snappy: {TOO_LONG}") for each in (b"\xff" * 4 + b"\x1f", b"\xff" * 5 + b"\1")),
        (b"\x05\x05ab", "the value is not Snappy: its compressed bytes are damaged"),
        (leb128(MAX_VALUE), "the Snappy value claims 22020096 bytes from 4, which cannot be"),
        (leb128(1000) + b"ab", "the Snappy value claims 1000 bytes from 4, which cannot be"),
        *(
            (leb128(size) + bytes(50), f"the Snappy value claims {size} bytes, {MORE}")
            for size in (MAX_VALUE + 1, 1 << 30, (1 << 32) - 1)
        ),
    ],
)
def test_a_claim_that_cannot_be_is_refused_before_anything_is_decompressed(data: bytes, fault: str) -> None:
    assert decompress(data) == (None, fault)


def test_small_claims_are_checked_against_what_there_is() -> None:
    assert decompress(b"\0") == (b"", "")
    assert decompress(b"\x01\x00a") == (b"a", "")
    for lie in (b"\x01", b"\x00\x00a", b"\x02\x00a", b"\x05\x10abc", b"\x04\x00a\x05\xff"):
        plain, fault = decompress(lie)
        assert plain is None
        assert fault.startswith("the value is not Snappy: ")


def test_the_largest_document_and_the_best_ratio_are_still_read() -> None:
    plain = bytes(MAX_VALUE)
    assert decompress(snappy(plain)) == (plain, "")


HOSTILE = """
import resource, sys
from dcpdump.wire.value import decompress
limit = 400 * 1024 * 1024
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
for claim in (0, 1, 20 << 20, (20 << 20) + 1, 1 << 30, (1 << 32) - 1):
    length = bytearray()
    number = claim
    while number > 0x7F:
        length.append(number & 0x7F | 0x80)
        number >>= 7
    length.append(number)
    for rest in (b"", b"\\0", b"\\xfe" * 64, b"\\xfe\\xff\\xff" * 300_000):
        plain, fault = decompress(bytes(length) + rest)
        assert (plain is None) == bool(fault), (claim, len(rest), fault)
for length in (b"\\xff" * 6, b"\\xff\\xff\\xff\\xff\\xff\\x0f", b"\\xff" * 100):
    assert decompress(length)[0] is None
"""


def test_no_claim_ends_the_process_where_memory_is_limited() -> None:
    done = subprocess.run([sys.executable, "-c", HOSTILE], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


# -- xattrs ---------------------------------------------------------------------------------------------------

ILL = "is not a key and a value, each ended by a zero byte"


@pytest.mark.parametrize(
    ("value", "split"),
    [
        ("", (None, "", "", "the xattrs need 4 bytes of length, the value has 0")),
        ("000000", (None, "000000", "", "the xattrs need 4 bytes of length, the value has 3")),
        ("0000000161", ((), "", "61", "xattr 0 needs 4 bytes of length, 1 are left")),
        ("ffffffff61", (None, "ffffffff61", "", "the xattrs claim 4294967295 bytes, 1 are there")),
        ("0000000200006162", ((), "6162", "0000", "xattr 0 needs 4 bytes of length, 2 are left")),
        ("000000060000000261007b", ((), "7b", "000000026100", f"xattr 0 {ILL}")),
        ("00000006000000ff6100", ((), "", "000000ff6100", "xattr 0 claims 255 bytes, 2 are left")),
        ("0000000600000002616278", ((), "78", "000000026162", f"xattr 0 {ILL}")),
        ("0000000e00000004610031000000000261627b7d", (((b"a", b"1"),), "7b7d", "000000026162", f"xattr 1 {ILL}")),
    ],
)
def test_xattrs_that_lie_about_their_lengths_are_named_and_no_byte_is_lost(
    value: str, split: tuple[object, str, str, str]
) -> None:
    found = split_xattrs(bytes.fromhex(value))
    assert (found.xattrs, found.body.hex(), found.unread.hex(), found.fault) == split


@settings(max_examples=100)
@given(st.binary(max_size=60))
def test_no_bytes_make_the_xattrs_raise(value: bytes) -> None:
    found = split_xattrs(value)
    assert found.fault or found.xattrs is not None
    if found.xattrs is None:
        assert found == SplitValue(None, value, fault=found.fault)
    else:
        length = len(value) - 4 - len(found.body)
        read = xattrs(*found.xattrs)[4:]
        assert value == length.to_bytes(4, "big") + read + found.unread + found.body


def test_a_value_is_opened_in_the_order_snappy_xattrs_json() -> None:
    plain = xattrs((b"_sync", b"1")) + b'{"a": 1}'
    pairs = ((b"_sync", b"1"),)
    assert open_value(snappy(plain), SNAPPY | XATTR | JSON) == Body(b'{"a": 1}', pairs)
    assert open_value(plain, XATTR) == Body(b'{"a": 1}', pairs)
    assert open_value(plain, 0) == Body(plain)
    broken = open_value(snappy(plain)[:-3], SNAPPY | XATTR | JSON)
    assert (broken.value, broken.compressed, broken.xattrs) == (snappy(plain)[:-3], True, None)


def test_what_cannot_be_read_of_xattrs_has_a_place_in_a_value_that_is_not_compressed() -> None:
    plain = bytes.fromhex("0000000f 0000000461003100 0000003261623a") + b'{"b":2}'
    told = ((Fault.NOT_XATTRS, "xattr 1 claims 50 bytes, 3 are left"),)
    unread = bytes.fromhex("0000003261623a")
    body = Body(b'{"b":2}', ((b"a", b"1"),), told, unread=unread, unread_at=12)
    assert open_value(plain, XATTR | JSON) == body
    assert open_value(snappy(plain), SNAPPY | XATTR | JSON) == replace(body, unread_at=None)


@pytest.mark.parametrize(
    ("value", "datatype", "code"),
    [(b"\xff" * 9, SNAPPY, Fault.NOT_SNAPPY), (b"v", XATTR, Fault.NOT_XATTRS), (b"{", JSON, Fault.NOT_JSON)],
)
def test_what_is_wrong_with_a_value_has_the_code_of_its_kind_and_its_place(
    value: bytes, datatype: int, code: Fault
) -> None:
    content = interpret(frame(b"k", value, datatype), collections=False)
    assert [(problem.code, problem.start, problem.end) for problem in content.problems] == [(code, 56, 56 + len(value))]


def test_a_datatype_may_describe_a_body_that_was_removed() -> None:
    assert interpret(frame(b"k", b"", SNAPPY | XATTR | JSON), collections=False) == Content(b"k")


def test_a_connection_that_keeps_the_datatype_of_removed_values_has_no_faults() -> None:
    hint = "the connection keeps the datatype of values that it leaves out: shown as it is"
    block = xattrs((b"_sync", b"1"))
    content = interpret(frame(b"k", block, SNAPPY | XATTR), collections=False, underlying_datatype=True)
    assert content == Content(b"k", body=Body(b"", ((b"_sync", b"1"),)), hints=(hint,))
    content = interpret(frame(b"k", b"rest", SNAPPY | XATTR), collections=False, underlying_datatype=True)
    assert content == Content(b"k", body=Body(b"rest"), hints=(hint,))


# -- JSON -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("begin", "end"), [(b"[", b"]"), (b'{"[[":', b"}")])
def test_json_is_parsed_as_deep_as_a_bound_that_no_machine_moves(begin: bytes, end: bytes) -> None:
    parsed = parse_json(begin * MOST_NESTED + b"1" + end * MOST_NESTED)
    for _ in range(MOST_NESTED):
        parsed = parsed[0] if isinstance(parsed, list) else parsed["[["]
    assert parsed == 1
    for depth in (MOST_NESTED + 1, 100_000):
        with pytest.raises(NotParsed):
            parse_json(begin * depth + b"1" + end * depth)
        assert json_fault(begin * depth + b"1" + end * depth) == ""
    assert parse_json(b"[" + b"[]," * 1000 + b"[]]") == [[]] * 1001


def test_json_with_very_many_values_is_not_taken_apart_and_judged_without_making_them() -> None:
    with pytest.raises(NotParsed, match="has more than 262,144 values"):
        parse_json(b"[" + b"1," * MOST_VALUES + b"1]")
    many = b"1," * (2 * MOST_VALUES)
    assert json_fault(b"[" + many + b"1]") == ""
    assert json_fault(b"[" + many + b"]") == "the body is marked JSON but is not: it is no JSON"
    assert json_fault(b"[" * 100 + many + b"]" + b"]" * 99) == ""  # it nests too deep to tell


@pytest.mark.parametrize("text", [rb'"\\[["', rb'"\\"', rb'"\"[[["', rb'"]\""', rb'"\\\"["'])
def test_brackets_in_strings_do_not_nest(text: bytes) -> None:
    value = b"[" + b"[]," * MOST_NESTED + text + b"]"
    assert parse_json(value)[-1] == json.loads(text)
    deep = b"[" * (MOST_NESTED - 1) + b"[" + text + b"]" + b"]" * (MOST_NESTED - 1)
    assert json.loads(deep) == parse_json(deep)
    with pytest.raises(NotParsed):
        parse_json(b"[" + deep + b"]")


def test_no_more_xattrs_are_taken_apart_than_any_document_has() -> None:
    pair = b"\0\0\0\4k\0v\0"
    block = pair * (MOST_XATTRS + 2)
    pairs, fault = ((b"k", b"v"),) * MOST_XATTRS, "after 16,384 xattrs 16 bytes of xattrs are not taken apart"
    assert split_xattrs(len(block).to_bytes(4, "big") + block + b"{}") == SplitValue(pairs, b"{}", pair * 2, fault)
    whole = pair * MOST_XATTRS
    assert split_xattrs(len(whole).to_bytes(4, "big") + whole) == SplitValue(pairs, b"")


def test_a_number_of_any_length_is_json() -> None:
    assert json_fault(b"9" * 100_000) == ""
    assert parse_json(b"-12") == -12
    assert json_fault(b"1" * 100_000 + b".5e999999") == ""
    assert parse_json(b"[1e400, -1e400, 1.5]") == ["1e400", "-1e400", 1.5]


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        (b"\xff", "at byte 0 it is no UTF-8"),
        (b'"\xed\xa0\x80"', "at byte 1 it is no UTF-8"),
        (b"", "it ends too soon"),
        (b"{", "it ends too soon"),
        (b'["a", ', "it ends too soon"),
        (b"{'a':1}", "at byte 1 there is no name in double quotes"),
        (b'{"a" 1}', "at byte 5 there is no colon"),
        (b"[1 2]", "at byte 3 there is no comma"),
        (b"1 2", "at byte 2 the value is over, and more follows"),
        (b'{"a":1}\x01\0\0\0', "at byte 7 the value is over, and more follows"),
        (b"\x00", "at byte 0 there is no value"),
        (b"nul", "at byte 0 there is no value"),
        (b'["\xc3\xa4", nul]', "at byte 7 there is no value"),
        (b'{"a', "at byte 1 a string begins that does not end"),
        (b'"\n"', "at byte 1 a control character stands in a string"),
        (b'["\\q"]', "at byte 2 a string has an escape that is none"),
        (b'["\\u00"]', "at byte 3 a string has an escape that is none"),
    ],
)
def test_what_is_not_json_is_reported_in_words_of_its_own(body: bytes, complaint: str) -> None:
    assert json_fault(body) == f"the body is marked JSON but is not: {complaint}"


def test_odd_json_is_json_and_not_a_number_is_not() -> None:
    odd = (b'{"a":1,"a":2}', b'"\\ud800"', b'"\\u0000"', b" 1 ", b'{"": null}', b"1e400")
    assert list(map(json_fault, odd)) == [""] * len(odd)
    for body in (b"NaN", b"Infinity", b"-Infinity", b'{"a": NaN}'):
        assert json_fault(body).endswith(" is not JSON")


def test_a_lone_surrogate_of_a_control_message_can_be_written_out_again() -> None:
    request = decoded("DCP_STREAM_REQ", value=b'{"uid":"\\ud800"}')
    document = interpret(request, collections=True).document
    assert document == {"uid": "\ud800"}
    json.dumps(document).encode()


def test_the_json_of_the_control_plane_is_parsed_whatever_the_datatype_says() -> None:
    request = decoded("DCP_STREAM_REQ", value=b'{"collections":["8"],"sid":71}')
    assert interpret(request, collections=True).document == {"collections": ["8"], "sid": 71}
    broken = interpret(decoded("DCP_STREAM_REQ", value=b"{"), collections=True)
    assert broken.document is None
    assert faults(broken)[0].startswith("not_json: the value is not JSON: ")


def test_asterisks_that_stand_for_a_credential_are_not_judged() -> None:
    answer = encode("SASL_AUTH", value=b'{"error":{"ref":"a"},"a":1}', response=True, status=0x20, datatype=JSON)
    frame = decode(RawFrame.of(answer))
    assert interpret(frame, collections=None) == Content(body=Body(b"*" * 27))
    shown = decode(RawFrame.of(answer), show_secrets=True)
    assert interpret(shown, collections=None).document == {"error": {"ref": "a"}, "a": 1}


def test_an_errors_context_is_parsed_where_the_datatype_says_json() -> None:
    reported = encode("DCP_STREAM_REQ", response=True, status=4, value=b'{"error":{"context":"no"}}', datatype=1)
    assert interpret(decode(RawFrame.of(reported)), collections=True).document == {"error": {"context": "no"}}
    compressed = encode("DCP_STREAM_REQ", response=True, status=4, value=snappy(b'{"a":1}'), datatype=3)
    assert interpret(decode(RawFrame.of(compressed)), collections=True).document == {"a": 1}


@pytest.mark.parametrize("status", [0x07, 0x00])
def test_a_compressed_map_in_a_response_is_shown_as_it_is_meant(status: int) -> None:
    name = "DCP_STREAM_REQ" if status else "GET_CLUSTER_CONFIG"
    reported = encode(name, response=True, status=status, value=snappy(b'{"rev":12}'), datatype=3)
    content = interpret(decode(RawFrame.of(reported)), collections=True)
    assert (content.body, content.document, content.problems) == (Body(b'{"rev":12}'), {"rev": 12}, ())
    broken = encode(name, response=True, status=status, value=b"\xff" * 12, datatype=3)
    assert len(interpret(decode(RawFrame.of(broken)), collections=True).problems) == 1


def test_a_compressed_map_that_a_server_pushes_is_shown_as_it_is_meant() -> None:
    push = bytes.fromhex("8201000710030000") + (23 + len(snappy(b"{}"))).to_bytes(4, "big") + bytes(12 + 16)
    content = interpret(decode(RawFrame.of(push + b"default" + snappy(b"{}"))), collections=True)
    assert (content.body, content.problems) == (Body(b"{}"), ())


# -- cache transfer -------------------------------------------------------------------------------------------


def test_a_cache_transfers_records_are_read_each_with_its_datatype() -> None:
    plain = b'{"a": 1}'
    items: list[Record] = [
        {"key": b"\0one", "value": snappy(plain), "datatype": SNAPPY | JSON},
        {"key": b"\x08two", "value": b"", "datatype": JSON},
    ]
    found = interpret(decoded("DCP_CACHE_TRANSFER", {"items": items}), collections=None)
    assert found.items == (Item(0, b"one", Body(plain)), Item(8, b"two", Body(b"")))
    assert found.problems == ()


RESERVED, NOTHING = "collection_id: collection id 7 is reserved", "collection_id: the key ends inside its collection id"


@pytest.mark.parametrize(
    ("length", "there", "problems"),
    [
        *((6, b"\0", []), (2, b"\0", []), (6, b"\0hell", []), (6, b"\x80", []), (6, b"\x07", [RESERVED])),
        (300, b"\0hello", ["wrong_length: items[0]: key_len 300 is not 2 to 251"]),
        (0xFFFF, b"", ["wrong_length: items[0]: key_len 65535 is not 2 to 251"]),
        (1, b"", ["wrong_length: items[0]: key_len 1 is not 2 to 251"]),
        (0, b"", ["wrong_length: items[0]: key_len 0 is not 2 to 251", NOTHING]),
    ],
)
def test_the_length_of_a_cached_key_is_judged_by_what_it_says(length: int, there: bytes, problems: list[str]) -> None:
    data = encode("DCP_CACHE_TRANSFER", {"items": [{"key": b"", "value": b""}]}) + there
    data = changed(changed(data, 8, f"{len(data) - 24:08x}"), 24 + 36, f"{length:04x}")
    found = interpret(decode(RawFrame.of(data)), collections=None)
    assert faults(found) == problems
    places = [(each.start, each.end) for each in found.problems if "key_len" in each.text]
    assert places == [(60, 62)] * len(places)
