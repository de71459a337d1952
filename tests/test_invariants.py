"""What holds for any input, over the whole pipe: conservation, segmentation, prefixes, losslessness, determinism."""

import csv
import io
import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcpdump.capture.file import Capture
from dcpdump.dissect import Dissector
from dcpdump.net.packet import Packet
from dcpdump.record import Json, as_json, columns
from dcpdump.wire.encode import encode
from tests.support.captures import Pcapng, Record, pcap
from tests.support.console import run
from tests.support.damage import disturbed
from tests.support.live import PATIENCE
from tests.support.packets import ACK, FIN, TcpTalk, renumbered
from tests.support.secret_talk import saved
from tests.support.strategies import cut

SAMPLES = sorted(Path("samples").glob("*.pcap"))
modest = settings(max_examples=60, deadline=None)


def frames(count: int, dice: random.Random) -> list[bytes]:
    """Return the frames of one side of a connection: a stream, its marker, its documents."""
    out = [encode("DCP_OPEN", {"flags": 1}, key=b"me"), encode("DCP_STREAM_REQ", vbucket=3, opaque=9)]
    out.append(encode("DCP_SNAPSHOT_MARKER", {"start_seqno": 1, "end_seqno": count}, vbucket=3, opaque=9))
    for seqno in range(1, count + 1):
        value = dice.randbytes(dice.choice((0, 5, 60, 700)))
        given = {"by_seqno": seqno}
        out.append(encode("DCP_MUTATION", given, key=b"\x08key%d" % seqno, value=value, vbucket=3, opaque=9))
    return out


def dissected(packets: Iterable[Packet]) -> tuple[list[Json], Dissector]:
    machine = Dissector()
    records = [record for packet in packets for record in machine.feed(packet)] + machine.close()
    return [as_json(record, value_bytes=None) for record in records], machine


def without_packets(rows: list[Json]) -> list[Json]:
    """Return rows without what depends on how the bytes were cut into packets, and on their times."""
    volatile = {"packet", "time", "latency_us"}
    return [{name: value for name, value in row.items() if name not in volatile} for row in rows]


# -- I1: nothing is lost silently ---------------------------------------------------------------------------


def check_books(books: Json) -> None:
    payload = books["payload"]
    assert sum(payload.values()) == books["payload_bytes"]
    assert payload["pending"] == 0
    assert min(payload.values()) >= 0


def books_of(path: Path, options: str = "") -> Json:
    printed = run(f"dcpdump read {path} -f line --summary json {options}")
    assert printed.code in (0, 3, 4), printed.err
    last = printed.err.splitlines()[-1]
    found: Json = json.loads(last)
    return found


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_every_payload_byte_of_a_sample_is_accounted_for(path: Path) -> None:
    books = books_of(path)
    check_books(books)
    rows = [json.loads(line) for line in run(f"dcpdump read {path} -f ndjson -q").out.splitlines()]
    if not books["gaps"]:
        assert sum(row["length"] for row in rows) == books["payload"]["frames"]
    assert len(rows) == books["frames"] == books["shown"]


@pytest.mark.parametrize("seed", range(12))
def test_every_payload_byte_of_a_damaged_capture_is_accounted_for(seed: int, tmp_path: Path) -> None:
    dice = random.Random(seed)
    talk = TcpTalk(segment=dice.choice((60, 300, 1448)), syn=seed % 3 > 0, acks=seed % 4 > 0)
    talk.send(0, b"".join(frames(40, dice)[:2])).send(1, b"".join(frames(60, dice)[2:])).fin()
    harmed = disturbed(talk.packets, dice, loss=0.05, swap=0.04, again=0.08, cut=0.05)
    captured = renumbered([*harmed, *talk.packets[9:60]])  # many of which were lost before, or there already
    check_books(books_of(saved(captured, tmp_path / "damaged.pcap"), "--memory 64k"))


def test_a_hole_in_a_frame_is_in_the_books_and_in_the_frame() -> None:
    sent = frames(6, random.Random(1))
    sent.insert(5, encode("DCP_MUTATION", {"by_seqno": 2}, key=b"big", value=b"v" * 900, vbucket=3, opaque=9))
    talk = TcpTalk(segment=100_000).send(0, b"".join(sent[:5]))
    talk.send(0, sent[5][:200]).skip(0, 300).send(0, sent[5][500:]).send(0, b"".join(sent[6:])).fin()
    rows, machine = dissected(talk.packets)
    assert [row["length"] for row in rows] == [len(frame) for frame in sent]
    assert [problem["text"] for problem in rows[5]["problems"]] == ["300 bytes of the frame were lost"]
    assert machine.tally.lost.bytes == 300
    assert machine.tally.frame_bytes == machine.balance.payload_bytes == sum(map(len, sent)) - 300


# -- I2: how TCP cut it does not matter ---------------------------------------------------------------------

SENT = frames(25, random.Random(2))
STREAM = b"".join(SENT)
WHOLE, _ = dissected(TcpTalk(segment=100_000).send(0, STREAM).fin().packets)


@modest
@given(st.lists(st.integers(0, len(STREAM)), max_size=30), st.data())
def test_cutting_swapping_and_repeating_segments_changes_no_record(places: list[int], data: st.DataObject) -> None:
    talk = TcpTalk(segment=100_000)
    start = len(talk.packets)
    for piece in cut(STREAM, places):
        talk.send(0, piece)
    middle = talk.packets[start:]
    talk.packets.clear()
    opening = TcpTalk().packets
    order = data.draw(st.permutations(range(min(len(middle), 12))))
    middle[: len(order)] = [middle[place] for place in order]
    again = data.draw(st.lists(st.integers(0, len(middle) - 1), max_size=5))
    for place in sorted(again, reverse=True):
        middle.insert(place, middle[place])
    rows, machine = dissected(renumbered(opening + middle))
    assert without_packets(rows) == without_packets(WHOLE)
    assert (machine.tally.skipped_bytes, machine.balance.conflicts) == (0, 0)


# -- I3: what was read stays read ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["replica", "client-rollback", "damage"])
def test_the_frames_of_a_prefix_are_a_prefix_of_the_frames(name: str, tmp_path: Path) -> None:
    data = Path(f"samples/{name}.pcap").read_bytes()
    path = tmp_path / "prefix.pcap"

    def read(size: int) -> tuple[list[Json], list[Json]]:
        """Return the frames that whole packets completed, and those of the end."""
        path.write_bytes(data[:size])
        machine = Dissector()
        done: list[Json] = []
        late: list[Json] = []
        with Capture(str(path)) as capture:
            for packet in capture:
                (late if packet.damage else done).extend(map(as_json, machine.feed(packet)))
        return done, late + [as_json(one) for one in machine.close()]

    done, late = read(len(data))
    whole = done + late
    there = {(row["src"], row["offset"]): row for row in whole}
    for size in range(24, len(data), 97):
        done, late = read(size)
        assert done == whole[: len(done)], size
        # What was still open comes out too: what is whole of it is what it is in the end.
        for row in without_packets(late):
            if not row.get("problems"):
                known = without_packets([there[row["src"], row["offset"]]])[0]
                changing = ("frame", "gap_before", "request_frame", "confidence", "problems", "stream_id")
                assert [row[n] for n in row if n not in changing] == [known[n] for n in known if n not in changing]


# -- I4: machine output is lossless -------------------------------------------------------------------------


def reencoded(row: Json) -> bytes:
    """Return the frame of a row, encoded again from nothing but the row."""
    fields = {
        name: value
        for name, value in row.get("fields", {}).items()
        if not name.endswith(("_name", "_names")) and name not in ("nmeta",)
    }
    fields = {{"end_status": "status"}.get(name, name): _value(value) for name, value in fields.items()}
    framing = b"".join(_framing(info) for info in row.get("framing", []) if info["name"] != "DcpStreamId")
    return encode(
        row["name"],
        fields,
        response=row["kind"] == "response",
        layout=row["layout"],
        key=bytes.fromhex(row.get("key_hex", "")),
        value=row.get("value", "").encode(),
        vbucket=row.get("vbucket", 0),
        status=row.get("status", 0),
        opaque=row["opaque"],
        cas=int(row["cas"], 16),
        datatype=row["datatype"],
        stream_id=row.get("stream_id") if any(i["name"] == "DcpStreamId" for i in row.get("framing", [])) else None,
        framing=framing,
        magic=row["magic"],
    )


def _value(value: Any) -> Any:
    if isinstance(value, str):
        return int(value, 16) if value.startswith("0x") else value.encode()
    if isinstance(value, list):
        return [{k: _value(v) for k, v in item.items()} if isinstance(item, dict) else item for item in value]
    return value


def _framing(info: Json) -> bytes:
    assert info["name"] == "ServerRecvSendDuration", info
    return b"\x02" + int(info["server_duration"]).to_bytes(2, "big")


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_ndjson_holds_all_that_is_needed_to_write_the_frame_again(path: Path) -> None:
    machine = Dissector()
    with Capture(str(path)) as capture:
        records = [record for packet in capture for record in machine.feed(packet)] + machine.close()
    printed = run(f"dcpdump read {path} -f ndjson -q --value-bytes all")
    checked = 0
    for record, line in zip(records, printed.out.splitlines(), strict=True):
        row = json.loads(line)
        if row.get("problems") or row["datatype"] & 6 or "secret" in row.get("value", ""):
            continue  # what was decompressed, split or masked is shown as such, and not as its bytes
        assert reencoded(row) == record.frame.raw.data, line
        checked += 1
    assert checked > len(records) // 2


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_csv_reads_back_and_says_what_ndjson_says(path: Path) -> None:
    objects = [json.loads(line) for line in run(f"dcpdump read {path} -f ndjson -q").out.splitlines()]
    rows = list(csv.DictReader(io.StringIO(run(f"dcpdump read {path} -f csv -q").out, newline=""), strict=True))
    assert (list(rows[0]), len(rows)) == (columns(), len(objects))
    for row, whole in zip(rows, objects, strict=True):
        flat = {**whole.get("fields", {}), **whole}
        for name in ("frame", "offset", "name", "opaque", "cas", "key", "key_hex", "value", "by_seqno", "end_seqno"):
            assert row[name] == str(flat.get(name, "")), (name, whole)
        assert row["problems"] == "; ".join(problem["text"] for problem in whole.get("problems", []))


# -- I6: the same input, the same output --------------------------------------------------------------------


#: Prints two captures for people and for programs.
_PRINTING = """
from dcpdump.cli.main import outcome
for form in ("table", "ndjson"):
    outcome(["read", "samples/replica.pcap", "samples/damage.pcap", "-f", form, "--summary", "json"])
"""


def test_neither_place_nor_language_nor_chance_changes_a_byte() -> None:
    outputs = set()
    for changes in (
        {"TZ": "UTC", "LC_ALL": "C.UTF-8", "PYTHONHASHSEED": "0"},
        {"TZ": "Asia/Kathmandu", "COLUMNS": "20", "PYTHONHASHSEED": "1"},
        {"TZ": "America/St_Johns", "LANG": "tr_TR.UTF-8", "COLUMNS": "400", "PYTHONHASHSEED": "4242", "TERM": "dumb"},
    ):
        command = [sys.executable, "-c", _PRINTING]
        done = subprocess.run(command, env={**os.environ, **changes}, capture_output=True, timeout=PATIENCE)
        outputs.add((done.returncode, done.stdout, done.stderr))
    assert (len(outputs), done.stdout.count(b"DCP_MUTATION") > 9) == (1, True)


# -- I9: it always ends, with a documented code --------------------------------------------------------------


def test_the_command_line_reads_a_capture_from_any_year(tmp_path: Path) -> None:
    write = Pcapng()
    blocks = [write.section(), write.interface(1, 0, [(9, b"\0")])]  # time in whole seconds, of 64 bits
    for number, packet in enumerate(TcpTalk().send(0, encode("DCP_OPEN", key=b"me")).packets):
        blocks.append(write.packet((1 << 64) - 10 + number, packet.data))
    path = tmp_path / "future.pcapng"
    path.write_bytes(b"".join(blocks))
    for form in ("table", "line", "ndjson", "csv"):
        printed = run(f"dcpdump read {path} -f {form}")
        assert (printed.code, "DCP_OPEN" in printed.out.upper().replace("OPEN{", "DCP_OPEN")) == (0, True), printed.err


def test_every_prefix_and_every_flip_of_a_small_capture_ends_with_a_documented_code() -> None:
    talk = TcpTalk().send(0, encode("DCP_OPEN", key=b"me"))
    data = pcap([Record(packet.ts_ns or 0, packet.data) for packet in talk.packets])
    codes = set()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "small.pcap"
        for at in range(0, len(data), 5):
            for variant in (data[:at], data[:at] + bytes((data[at] ^ 0xFF,)) + data[at + 1 :]):
                path.write_bytes(variant)
                printed = run(f"dcpdump read {path} -f line")
                codes.add(printed.code)
                assert "Traceback" not in printed.err
    assert codes == {0, 3, 4}


def test_offsets_continue_behind_a_fin_that_was_not_the_last_word() -> None:
    dice = random.Random(3)
    sent = frames(6, dice)
    talk = TcpTalk(segment=100_000).send(0, b"".join(sent[:3]))
    talk.write(0, flags=FIN | ACK).write(1, flags=FIN | ACK)
    talk.send(0, b"".join(sent[3:])).fin()
    rows, _ = dissected(talk.packets)
    assert [row["offset"] for row in rows] == [sum(map(len, sent[:number])) for number in range(len(sent))]
