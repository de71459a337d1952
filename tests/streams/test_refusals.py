"""A refusal of a stream names the member of the request that is at fault."""

import json
from pathlib import Path
from typing import Any

import pytest

from dcpdump.streams.request import fault_of
from tests.support.console import run
from tests.support.conversation import opening
from tests.support.diagnoses import objects, written
from tests.support.ledgers import ledger, verdicts

OPEN, COLLECTIONS = opening(), opening(collections=True)
SID = "CONTROL enable_stream_id=true\n"
ID = "an id is a string of 1 to 8 hexadecimal digits"
KNOWN = "known are sid, uid, scope, collections, purge_seqno, cts"
NOTHING = "nothing in the request explains it"
FROM_1 = "is not a number from 1 to 65535"
#: Names of the vbucket's collections, as its stream has them.
NAMED = """STREAM vb=4
RX snapshot-marker{start=0, end=9, flags=0x5}
RX system-event{seqno:1, event=3, version=0, manifest-uid=5, scope-id=8, key=shop}
RX system-event{seqno:2, event=0, version=0, manifest-uid=5, scope-id=8, collection-id=9, key=carts}
"""


def refused(asked: str = "", status: str = "einval", *, more: str = "", answer: str = "") -> str:
    """Return a request, of which ``asked`` is the value, and its refusal."""
    value = f", value=#{asked.encode().hex()}" if asked else ""
    said = f", datatype=1, value=#{answer.encode().hex()}" if answer else ""
    return f"TX stream-request{{vb=5{more}{value}}}\nRX stream-request-response{{{status}{said}}}\n"


def why(text: str) -> str:
    """Return the reason of the last stream's refusal, without its status."""
    found = verdicts(text)[-1]
    assert found.startswith("refused (")
    return found.partition(": ")[2].removesuffix(")")


def briefs(text: str) -> list[str]:
    return [fault_of(stream) for stream in ledger(text).streams]


def error(**said: Any) -> str:
    return json.dumps({"error": said})


@pytest.mark.parametrize(
    ("value", "brief", "right"),
    [
        ('{"collections":[8]}', "collections: 8 is not a string", ID),
        ('{"collections":["8","0x9"]}', 'collections: "0x9" has 0x', ID),
        ('{"collections":["zz"]}', 'collections: "zz" is not hexadecimal', ID),
        ('{"collections":[""]}', 'collections: "" is empty', ID),
        ('{"collections":["123456789"]}', 'collections: "123456789" has 9 digits', ID),
        ('{"collections":["2"]}', 'collections: "2" is reserved for the server', ""),
        ('{"collections":["8","08"]}', 'collections: "08" is there twice', "servers before 7.6 accept that"),
        ('{"collections":[]}', "collections: [] is empty", "a server may accept that, and end the stream"),
        ('{"collections":"8"}', 'collections: "8" is not a list', ""),
        ('{"scope":8}', "scope: 8 is not a string", ID),
        ('{"scope":"0x8"}', 'scope: "0x8" has 0x', ID),
        ('{"scope":"1"}', 'scope: "1" is reserved for the server', ""),
        ('{"scope":"8","collections":["9"]}', 'scope: "8" excludes collections', "a stream is of one or the other"),
        ('{"cts":5}', "cts: 5 is not an object", ""),
        ('{"cts":{"free_memory":-1}}', "cts.free_memory: -1 is not an unsigned number", ""),
        ('{"cts":{"free_memory":true}}', "cts.free_memory: true is not an unsigned number", ""),
        ('{"cts":{"all_keys":1}}', "cts.all_keys: 1 is not a boolean", ""),
        ('{"purge_seqno":4000}', "purge_seqno: 4000 is not a string", "it is a decimal number in quotes"),
        ('{"purge_seqno":"abc"}', 'purge_seqno: "abc" is not a decimal number', ""),
        ('{"purge_seqno":"18446744073709551616"}', 'purge_seqno: "18446744073709551616" is above 2^64-1', ""),
        ('{"sid":"1"}', f'sid: "1" {FROM_1}', ""),
        ('{"sid":-1}', f"sid: -1 {FROM_1}", ""),
        ('{"sid":1.0}', f"sid: 1.0 {FROM_1}", ""),
        ('{"sid":0}', f"sid: 0 {FROM_1}", ""),
        ('{"sid":65536}', f"sid: 65536 {FROM_1}", ""),
        ('{"sid":65538}', f"sid: 65538 {FROM_1}", "a server may take it for 2"),
        ('{"uid":5}', "uid: 5 is not a string", "servers before 7.0 refuse that, later ones ignore it"),
        ('{"uid":"0x5"}', 'uid: "0x5" has 0x', "servers before 7.0 refuse that, later ones ignore it"),
        ("{}", "value: {} has no known key", KNOWN),
        ('{"filter":[]}', 'value: {"filter":[]} has no known key', KNOWN),
        ('{"Collection":["8"]}', 'value: {"Collection":["8"]} has no known key', f"{KNOWN}, and near is collections"),
        ("[8]", "value: [8] is no JSON object", ""),
        ("null", "value: null is no JSON object", ""),
        ('{"scope" "8"}', 'value: {"scope" "8"} is no JSON: at byte 9 there is no colon', ""),
        ('{"scope":', 'value: {"scope": is no JSON: it ends too soon, at byte 9', ""),
    ],
)
def test_a_refusal_names_the_member_of_the_json_that_is_at_fault(value: str, brief: str, right: str) -> None:
    text = COLLECTIONS + refused(value)
    assert (why(text), briefs(text)) == (f"{brief}; {right}" if right else brief, [brief])


@pytest.mark.parametrize(
    "value",
    [
        "",
        '{"uid":"1f"}',
        '{"scope":"0"}',
        '{"collections":["0","8","fFfFfFfF"],"more":0}',
        '{"purge_seqno":"4000"}',
        '{"cts":{"free_memory":0,"all_keys":false}}',
        '{"sid":65535}',
    ],
)
def test_nothing_is_at_fault_in_a_request_that_a_server_accepts(value: str) -> None:
    text = COLLECTIONS + refused(value)
    assert (why(text), briefs(text)) == (NOTHING, [""])


@pytest.mark.parametrize(
    ("flags", "said", "brief"),
    [
        (0x200, "flags: 0x200 is no known flag", True),
        (0x8, "flags: 0x8 (no-value) was removed in 5.0", True),
        (0x106, "flags: 0x100 (cache-transfer) excludes 0x6 (disk-only, to-latest)", True),
        (0x111, f"{NOTHING}, unless the server is too old for cache-transfer", False),
        (0x60, f"{NOTHING}, unless the server is too old for strict-vbuuid and from-latest", False),
        (0x17, NOTHING, False),
    ],
)
def test_a_refusal_names_the_flags_that_are_at_fault(flags: int, said: str, brief: bool) -> None:
    text = COLLECTIONS + refused('{"scope":8}' * brief, more=f", flags={flags:#x}")
    assert (why(text), briefs(text)) == (said, [said if brief else ""])


def test_a_value_needs_collections_and_no_datatype() -> None:
    assert why(OPEN + refused('{"scope":"8"}')) == "value: needs collections, which HELLO did not grant"
    assert why(COLLECTIONS + refused('{"scope":"8"}', more=", datatype=1")) == "datatype: 0x01 is not 0"


def test_what_was_not_captured_or_cannot_be_read_is_not_at_fault() -> None:
    deep = '{"scope":' + "[" * 200
    assert why(COLLECTIONS + refused(deep)) == "its JSON is not known"
    assert briefs(COLLECTIONS + "RX stream-request-response{einval}\n") == []


def test_a_long_value_is_cut() -> None:
    assert why(COLLECTIONS + refused(f'{{"scope":"{"x" * 99}"}}')) == f'scope: "{"x" * 38}… is not hexadecimal; {ID}'
    assert why(COLLECTIONS + refused("\x1b[2J" + "x" * 99)) == (
        rf"value: \x1b[2J{'x' * 32}… is no JSON: at byte 0 there is no value"
    )


def test_a_stream_id_that_is_refused_is_named_where_it_is_at_fault() -> None:
    assert why(COLLECTIONS + SID + refused('{"sid":0}', "dcpstreamidinvalid")) == f"sid: 0 {FROM_1}"
    assert why(COLLECTIONS + SID + refused('{"uid":5}', "dcpstreamidinvalid")) == (
        "enable_stream_id was accepted, and it has no stream id"
    )


@pytest.mark.parametrize(
    ("asked", "status", "answer", "said"),
    [
        ('{"collections":["a"]}', "unknowncollection", "", "unknown collection 0xa"),
        ('{"collections":["9"]}', "unknowncollection", "", "unknown collection 0x9 shop.carts"),
        ('{"collections":["a","9"]}', "unknowncollection", "", "unknown collection among 0xa, 0x9 shop.carts"),
        ('{"scope":"8"}', "unknownscope", "", "unknown scope 0x8 shop"),
        ("", "unknowncollection", "", "unknown collection: the default one was dropped, if it asked for no other"),
        ('{"collections":["a","b"]}', "unknowncollection", error(context="unknown collection:0xb"),
         "unknown collection 0xb (server: unknown collection:0xb"),
        ('{"collections":["a","b"]}', "unknowncollection", error(context="Unknown scope or collection in operation"),
         "unknown collection among 0xa, 0xb (server: Unknown scope or collection in operation"),
    ],
)  # fmt: skip
def test_a_collection_that_is_unknown_is_named(asked: str, status: str, answer: str, said: str) -> None:
    text = COLLECTIONS + NAMED + refused(asked, status, answer=answer)
    assert (why(text).removesuffix(")"), briefs(text)) == (said, ["", said.partition(" (")[0]])


def test_of_many_collections_the_first_are_named() -> None:
    many = json.dumps({"collections": [f"{number:x}" for number in range(16, 1016)]}, separators=(",", ":"))
    assert why(COLLECTIONS + refused(many, "unknowncollection")) == (
        "unknown collection among 0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17 and 992 more"
    )


def test_streams_that_are_granted_have_no_fault() -> None:
    assert briefs(COLLECTIONS + refused('{"scope":8}') + "STREAM vb=5\n") == [""]
    assert briefs(COLLECTIONS + 'STREAM vb=5, value={"uid":5}\n') == [""]


def test_a_request_that_was_refused_has_its_fault_in_ndjson(tmp_path: Path) -> None:
    path = written(COLLECTIONS + refused('{"scope":8}') + refused('{"scope":"8"}'), tmp_path / "talk.pcap")
    (row,) = objects(f"dcpdump streams {path}")
    assert [each.get("fault") for each in row["requests"]] == [
        {"member": "scope", "value": "8", "text": f"scope: 8 is not a string; {ID}"},
        None,
    ]


@pytest.mark.parametrize(
    "form", ["streams", "streams -f ndjson", "diagnose", "diagnose -f ndjson", "check", "check -f ndjson"]
)
@pytest.mark.parametrize("value", ['{"scope":"Margarete"}', '{"Margarete":8}', '{"cts":"Margarete"}', "Margarete"])
def test_a_member_at_fault_is_named_without_what_is_hidden(form: str, value: str, tmp_path: Path) -> None:
    granted = f"STREAM vb=6, value={value}\n"
    path = written(COLLECTIONS + refused(value, answer=error(ref="Margarete")) + granted, tmp_path / "talk.pcap")
    command, *options = form.split()
    shown = run(f"dcpdump {command} {path} {' '.join(options)} --redact").out
    assert "Margarete" not in shown
    assert shown
    if command == "streams":
        member = "cts" if "cts" in value else "scope" if "scope" in value else "value"
        assert f"{member}: {'*' * len(value if member == 'value' else json.dumps('Margarete'))} is" in shown.replace(
            " has", " is"
        )


def test_ids_and_numbers_at_fault_are_not_hidden(tmp_path: Path) -> None:
    path = written(COLLECTIONS + refused('{"collections":["0x8"]}'), tmp_path / "talk.pcap")
    (row,) = objects(f"dcpdump streams {path} --redact")
    assert row["why"].startswith('Einval 0x04: collections: "0x8" has 0x;')
