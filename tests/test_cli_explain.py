"""dcpdump explain and spec: pastes in, pages out."""

import json
from pathlib import Path

import pytest

from dcpdump.spec import MESSAGES
from tests.console import run

NOOP = "805c00000000000000000000819698000000000000000000"
TABLE = """\
DCP_NOOP command
Field        (offset) (value)
Magic        (0)    : 0x80
Opcode       (1)    : 0x5c
Key length   (2,3)  : 0x0000
Extra length (4)    : 0x00
Data type    (5)    : 0x00
Vbucket      (6,7)  : 0x0000
Total body   (8-11) : 0x00000000
Opaque       (12-15): 0x81969800
CAS          (16-23): 0x0000000000000000

"""


def test_arguments_a_file_and_standard_input_are_the_same(tmp_path: Path) -> None:
    paste = tmp_path / "paste.txt"
    paste.write_text(NOOP)
    spaced = " ".join(NOOP[at : at + 2] for at in range(0, len(NOOP), 2))
    for printed in (
        run(f"dcpdump explain -q {NOOP}"),
        run(f"dcpdump explain -q {spaced}"),
        run("dcpdump explain -q", NOOP),
        run("dcpdump explain -q -", NOOP),
        run(f"dcpdump explain -q -i {paste}"),
        run("dcpdump explain -q", bytes.fromhex(NOOP)),
    ):
        assert printed == (0, TABLE, "")


def test_it_says_which_form_it_took() -> None:
    assert run(f"dcpdump explain {NOOP}").err == "form: hex\n"


def test_json_leaves_out_what_only_a_capture_can_give() -> None:
    assert json.loads(run(f"dcpdump explain -q -f ndjson {NOOP}").out) == {
        "length": 24,
        "magic": 128,
        "kind": "request",
        "opcode": 92,
        "name": "DCP_NOOP",
        "layout": "1",
        "vbucket": 0,
        "opaque": 0x81969800,
        "cas": "0x0000000000000000",
        "datatype": 0,
    }


def test_a_contradiction_comes_with_the_edit_that_mends_it() -> None:
    marker = "80560000" + "14000000" + "00000000" + "deadbeef" + "00" * 8 + "00" * 15 + "08" + "00000001"
    row = json.loads(run(f"dcpdump explain -q -f ndjson {marker}").out)
    assert [problem["text"] for problem in row["problems"]] == [
        "extras length says 20 (byte 4) but total body leaves 0",
        "the header says 24 bytes, 44 are there: 20 are left over",
    ]
    assert row["suggestion"]["edits"] == [{"field": "Total body", "offset": 8, "length": 4, "from": 0, "to": 20}]
    assert row["suggestion"]["frame"]["fields"] == {
        "start_seqno": 0,
        "end_seqno": 8,
        "snapshot_type": 1,
        "snapshot_type_names": ["memory"],
    }


def test_what_cannot_be_read_is_refused_with_a_hint() -> None:
    printed = run("dcpdump explain", "no bytes in here")
    assert (printed.code, printed.out) == (2, "")
    assert printed.err.startswith("dcpdump: error: no bytes found in this text (it begins 'no bytes in here')\nhint: ")


def test_a_paste_that_is_not_there_is_an_error() -> None:
    printed = run("dcpdump explain -i /nowhere/paste.txt")
    assert printed == (3, "", "dcpdump: error: cannot read: no such file or directory (/nowhere/paste.txt)\n")


def test_credentials_are_masked_unless_asked_for() -> None:
    auth = "80210005" + "00" * 4 + "0000000f" + "00" * 12 + b"PLAIN\0user\0pass".hex()
    for form in ("table", "grid", "line", "ndjson", "csv"):
        printed = run(f"dcpdump explain -q -f {form} {auth}")
        assert "pass" not in printed.out
        assert b"pass".hex() not in printed.out.replace("0x", "").replace(" ", "")
    assert "pass" in run(f"dcpdump explain -q --show-secrets {auth}").out


def test_filters_choose_among_pasted_frames() -> None:
    two = NOOP + "805d0000040000000000000400001000000000000000000000001000"
    printed = run(f"dcpdump explain -q --opcode buffer_acknowledgement -f line {two}")
    assert printed.out == "TX buffer-acknowledgement{buffer-bytes=4096}\n"


@pytest.mark.parametrize("message", [m for m in MESSAGES.values() if m.dcp], ids=lambda m: m.name)
def test_every_message_has_a_page(message: object) -> None:
    from dcpdump.spec.field import Message

    assert isinstance(message, Message)
    page = run(f"dcpdump spec {message.name}").out
    assert page.startswith(f"{message.name} (opcode 0x{message.opcode:02x})\n")
    assert run(f"dcpdump spec 0x{message.opcode:02x}").out.startswith(page)
    for layout in message.request:
        for field in layout.extras:
            assert field.label in page


def test_the_index_has_every_dcp_message() -> None:
    listed = run("dcpdump spec").out
    assert [line.split()[1] for line in listed.splitlines() if " DCP_" in line] == [
        message.name for message in MESSAGES.values() if message.dcp
    ]


def test_a_page_that_does_not_exist_names_the_nearest() -> None:
    printed = run("dcpdump spec mutatoin")
    assert printed == (
        2,
        "",
        "dcpdump: error: unknown opcode 'mutatoin' for --opcode\nhint: did you mean mutation (0x57)?\n",
    )


def test_what_an_edit_would_read_is_left_out_where_it_might_show_a_key() -> None:
    """Of a damaged frame nobody knows where its key is: read as numbers it would be in clear."""
    damaged = "80570009140000000000002600000001" + 28 * "00" + b"SECRETDOCKEY-VALUE".hex()
    for form in ("table", "grid", "line", "ndjson", "csv"):
        clear = run(f"dcpdump explain -q -f {form} {damaged}").out
        hidden = run(f"dcpdump explain -q --redact -f {form} {damaged}").out
        assert b"SECR".hex() in clear.lower() or str(int.from_bytes(b"SECR", "big")) in clear or "SECRET" in clear
        assert not any(trace in hidden for trace in (b"SECR".hex(), str(int.from_bytes(b"SECR", "big")), "SECRET")), (
            form
        )
    assert json.loads(run(f"dcpdump explain -q --redact -f ndjson {damaged}").out)["suggestion"].keys() == {"edits"}
