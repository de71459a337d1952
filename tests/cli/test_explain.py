"""dcpdump explain and spec: pastes in, pages out."""

import bz2
import gzip
import lzma
import os
from pathlib import Path
from zipfile import ZipFile

import cramjam
import pytest

from dcpdump.spec import MESSAGES
from dcpdump.wire.encode import Values, encode
from tests.paste.test_paste import MUTATION, STREAM_REQUEST, STREAM_RESPONSE
from tests.support.captures import Record, ethernet, pcap, pcapng
from tests.support.console import refusal, run
from tests.support.diagnoses import objects
from tests.support.paste_forms import pairs

NOOP = "805c00000000000000000000819698000000000000000000"
NOP = bytes.fromhex(NOOP).hex(" ")
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
Opaque       (12-15): 0x81969800 (2174130176)
CAS          (16-23): 0x0000000000000000

"""


def test_arguments_a_file_and_standard_input_are_the_same(tmp_path: Path) -> None:
    paste = tmp_path / "paste.txt"
    paste.write_text(NOOP)
    for words, stdin in (
        *((words, b"") for words in (NOOP, NOP, f"-i {paste}")),
        *(("", NOOP.encode()), ("-", NOOP.encode()), ("", bytes.fromhex(NOOP))),
    ):
        assert run(f"dcpdump explain -q {words}", stdin) == (0, TABLE, "")


def test_what_is_too_long_for_a_paste_is_not_read_whole(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    for data, error, hint in (
        (b"", f"more than 64 MiB are not a paste ({disk})", f"head -c 1M {disk} | dcpdump explain"),
        (pcap([]), f"this is a pcap capture, not a paste ({disk})", f"dcpdump read {disk}"),
    ):
        disk.write_bytes(data)
        os.truncate(disk, 1 << 40)
        assert run(f"dcpdump explain -i {disk}") == refusal(2, error, hint)


def test_what_a_cut_header_does_not_hold_is_not_reported() -> None:
    row: dict[str, object] = {"magic": 128, "kind": "request"}
    words: dict[int, dict[str, object]] = {
        2: {"opcode": 87, "name": "DCP_MUTATION"},
        6: {"layout": "1", "datatype": 0},
        8: {"vbucket": 528},
        12: {"length": 65, "value_length": 5},
        16: {"opaque": 0x1210},
    }
    for size in (1, 2, 6, 8, 12, 16, 23):
        row |= words.get(size, {})
        (reported,) = objects(f"dcpdump explain {MUTATION[:size].hex()}")
        text = f"the header needs 24 bytes, {size} are there"
        assert reported.pop("problems") == [{"code": "cut", "text": text, "offset": 0, "length": size}]
        assert reported == row
    for cut, name in ((MUTATION[:6], "mutation"), (STREAM_RESPONSE[:6], "stream-request-response")):
        shown = f"RX {name}{{}} ! the header needs 24 bytes, 6 are there\n"
        assert run(f"dcpdump explain -f line {cut.hex()}") == (
            0,
            shown,
            "input read as hex\n",
        )  # what is shown is no failure
    assert "the exit code is 0 all the same." in " ".join(run("dcpdump explain --help").out.split())


def test_a_contradiction_comes_with_the_edit_that_mends_it() -> None:
    marker = "80560000" + "14000000" + "00000000" + "deadbeef" + "00" * 8 + "00" * 15 + "08" + "00000001"
    (row,) = objects(f"dcpdump explain {marker}")
    assert [problem["text"] for problem in row["problems"]] == [
        "extras length says 20 (byte 4) but total body leaves 0",
        "the header says 24 bytes, 44 are there: 20 are left over",
    ]
    assert row["suggestion"]["edits"] == [{"field": "Total body", "offset": 8, "length": 4, "from": 0, "to": 20}]
    fields = {"start_seqno": 0, "end_seqno": 8, "snapshot_type": 1, "snapshot_type_names": ["memory"]}
    assert row["suggestion"]["frame"]["fields"] == fields


@pytest.mark.parametrize(
    ("pasted", "frames", "at"),
    [
        (f"de ad be ef {NOP}", 1, 4),
        (f"{NOP[30:]} {NOP} {NOP}", 2, 14),
        (f"de ad be ef {pairs(STREAM_REQUEST[:40])}", 1, 4),
    ],
    ids=["junk", "the end of a frame", "before a frame that is cut"],
)
def test_a_frame_behind_bytes_that_begin_none_is_found_and_noted(pasted: str, frames: int, at: int) -> None:
    note = f"input read as hex pairs\nnote: a frame begins at byte {at}; what stands before it begins none\n"
    printed = run(f"dcpdump explain -f line {pasted}")
    assert (printed.code, len(printed.out.splitlines()), printed.err) == (0, 1 + frames, note)
    assert run(f"dcpdump explain -q -f line {pasted}") == (0, printed.out, "")


def test_a_damaged_first_byte_hides_no_frame() -> None:
    shown = "RX noop{} ! 0x00 is not a magic of the protocol\nRX noop{}\n"
    assert run(f"dcpdump explain -f line 00{NOOP[2:]} {NOOP}") == (0, shown, "input read as hex groups\n")


RECORDS = [Record(0, ethernet(b"no DCP in here"))]
CAPTURE = pcap(RECORDS)
FILES = {
    "a pcap capture": (CAPTURE, ""),
    "a pcap capture of nanoseconds": (pcap(RECORDS, nano=True), ""),
    "a pcap capture of a big-endian machine": (pcap(RECORDS, big_endian=True), ""),
    "a pcapng capture": (pcapng(RECORDS), ""),
    "a pcapng capture of a big-endian machine": (pcapng(RECORDS, big_endian=True), ""),
    "gzip data": (gzip.compress(CAPTURE), "gzip -dc"),
    "zstd data": (bytes(cramjam.zstd.compress(CAPTURE)), "zstd -dc"),
    "lz4 data": (bytes(cramjam.lz4.compress(CAPTURE)), "lz4 -dc"),
    "xz data": (lzma.compress(CAPTURE), "xz -dc"),
    "bzip2 data": (bz2.compress(CAPTURE), "bzip2 -dc"),
}


@pytest.mark.parametrize("kind", FILES)
def test_a_capture_is_refused_with_the_command_that_reads_it(tmp_path: Path, kind: str) -> None:
    data, unpack = FILES[kind]
    path = tmp_path / "a capture"
    path.write_bytes(data)
    error = f"dcpdump: error: this is {kind.partition(' of ')[0]}, not a paste"
    hint = "hint: dcpdump read {0}\n" + (f"hint: {unpack} {{0}} | dcpdump explain\n" if unpack else "")
    assert run(f"dcpdump explain -i '{path}'") == (2, "", f"{error} ({path})\n" + hint.format(f"'{path}'"))
    assert run("dcpdump explain", data) == (2, "", f"{error}\n" + hint.format("-"))


def test_an_archive_is_refused_which_no_command_reads(tmp_path: Path) -> None:
    path = tmp_path / "captures.zip"
    with ZipFile(path, "w") as archive:
        archive.writestr("one.pcap", CAPTURE)
    wanted = refusal(2, f"this is a ZIP archive, not a paste ({path})", f"unzip -p {path} | dcpdump explain")
    assert run(f"dcpdump explain -i {path}") == wanted


def test_bytes_are_taken_for_what_the_user_says() -> None:
    printed = run("dcpdump explain -f line --form raw", CAPTURE)
    assert (printed.code, printed.err) == (0, "input read as raw bytes\n")


def test_filters_choose_among_pasted_frames() -> None:
    two = NOOP + "805d0000040000000000000400001000000000000000000000001000"
    shown = "TX buffer-acknowledgement{buffer-bytes=4096}\n"
    assert run(f"dcpdump explain -q --opcode buffer_acknowledgement -f line {two}").out == shown


def test_every_message_has_a_page() -> None:
    messages = [message for message in MESSAGES.values() if message.dcp]
    for message in messages:
        page = run(f"dcpdump spec {message.name}").out
        assert page.startswith(f"{message.name} (opcode 0x{message.opcode:02x})\n")
        assert run(f"dcpdump spec 0x{message.opcode:02x}").out.startswith(page)
        assert [field.label for each in message.request for field in each.extras if field.label not in page] == []
    listed = [line for line in run("dcpdump spec").out.splitlines() if " DCP_" in line]
    assert [line.split()[1] for line in listed] == [message.name for message in messages]
    assert "0x5f  DCP_SYSTEM_EVENT             producer     layouts 0, 1, 2, 5.x" in listed  # each layout once
    assert "0x51  DCP_ADD_STREAM               manager" in listed


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("system_event", "\nRequest, layout 0 (when extras_length = 13, event = 3 (CreateScope), version = 0)\n"),
        ("stream_req", "\nResponse, layout 1-rollback (when status = 35 (Rollback))\n"),
        ("snapshot_marker", "  extras 1 byte · key must be empty · value has fields\n"),
        ("snapshot_marker", "        Total 1 byte\n"),
    ],
)
def test_a_page_says_values_by_their_names_and_one_byte_as_one(name: str, says: str) -> None:
    assert says in run(f"dcpdump spec {name}").out


def test_a_page_says_what_flags_mean_what_is_refused_and_what_closes_the_connection() -> None:
    page = run("dcpdump spec add_stream").out
    for line in (
        "  - 0x00000008 no-value (old, refused today): keys and metadata only; removed in 5.0, where no-value",
        "  - 0x00000040 from-latest: the server sets the start seqno to the vbucket's high seqno (7.2)\n",
        "  - 0x07 NotMyVbucket: the vbucket is missing here, or is active here\n",
        "\nErrors:\n  - 0x02 KeyEexists: a stream for the vbucket exists, here or at the producer\n",
    ):
        assert line in page
    assert page.endswith("  - (disconnect): another client has opened a connection of the same name meanwhile\n")


def test_what_an_edit_would_read_is_left_out_where_it_might_show_a_key() -> None:
    """Damage leaves open where a frame's key is: read as numbers it would be in clear."""
    seqno = 15 * "00" + "04" + 12 * "00"  # a reading with seqno 0 would not be suggested
    damaged = "80570009140000000000002600000001" + seqno + b"SECRETDOCKEY-VALUE".hex()
    traces = (b"SECR".hex(), str(int.from_bytes(b"SECR", "big")), "SECRET")
    for form in ("table", "grid", "line", "ndjson", "csv"):
        clear, hidden = (run(f"dcpdump explain -q {how} -f {form} {damaged}").out for how in ("", "--redact"))
        assert any(trace in clear or trace in clear.lower() for trace in traces), form
        assert not any(trace in hidden for trace in traces), form
    assert objects(f"dcpdump explain --redact {damaged}")[0]["suggestion"].keys() == {"edits"}


DROP_OF_DEFAULT = "805f00000d0000000000001d00001000" + 15 * "00" + "09000000010000000000000000020000000000000000"


REFUSED_DOCUMENT = "8157000000010004000000190000100000000000000000007b226572726f72223a7b22636f6e74657874223a2278227d7d"


@pytest.mark.parametrize(
    ("pasted", "line"),
    [
        (
            DROP_OF_DEFAULT,
            "system-event{vb=0, seqno=9, event=EndCollection, manifest-uid=0x2, scope-id=0, collection-id=0}",
        ),
        ("8299" + "00" * 22, "unknown-0x99{}"),
        (REFUSED_DOCUMENT, 'mutation-response{einval, value={"error":{"context":"x"}}}'),
    ],
    ids=["the ids of the default collection are 0", "a server asks", "what is said of a refused document"],
)
def test_a_line_says_what_a_frame_is_about(pasted: str, line: str) -> None:
    first = run(f"dcpdump explain -q -f line {pasted}").out.splitlines()[0]
    assert first.partition(" ! ")[0][3:] == line


def test_a_frame_info_with_three_bytes_of_tag_is_an_object_of_its_own() -> None:
    infos = bytes([0x22, 0, 7, 0xFF, 0, 0]) + b"x" * 15
    (row,) = objects(f"dcpdump explain {encode('DCP_NOOP', framing=infos).hex()}")
    unknown = {"name": "unknown", "frame_info_data": "x" * 15}
    assert row["framing"] == [{"name": "DcpStreamId", "stream_id": 7}, unknown]


def test_the_default_of_an_id_is_written_as_the_id_would_be() -> None:
    values: Values = {"event": 0, "version": 2, "collection_id": 9, "name_in_scope": b"c"}
    event = encode("DCP_SYSTEM_EVENT", values, key=b"c")
    fields = objects(f"dcpdump explain {event.hex()}")[0]["fields"]
    ids = {"manifest_uid": "0x0000000000000000", "flush_uid": "0x0000000000000000", "scope_id": 0, "collection_id": 9}
    assert {name: fields[name] for name in ids} == ids


def test_the_example_of_the_help_is_one_whole_frame() -> None:
    (example,) = (line.split()[2] for line in run("dcpdump explain --help").out.splitlines() if " explain 80" in line)
    assert run(f"dcpdump explain -q -f line {example}").out == "RX noop{}\n"


def test_no_edit_is_suggested_that_leads_to_a_broken_rule() -> None:
    for seqno, suggested in ((4, True), (0, False)):
        data = bytearray(encode("DCP_MUTATION", {"by_seqno": seqno}, key=b"hello", value=b"world"))
        data[8:12] = bytes(4)
        assert ("suggestion" in objects(f"dcpdump explain {data.hex()}")[0]) is suggested
