"""Formats, values, files and what goes to which stream: whole or not at all, and nothing else is ever harmed."""

import csv
import io
import json
import os
import signal
import stat
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from threading import Thread

import duckdb
import pytest

from dcpdump.render.style import LineKind
from dcpdump.render.table import is_binary
from dcpdump.render.text_columns import Table
from dcpdump.unfinished import UnfinishedFolder, remove_left, temporary_folder, unfinished_file
from dcpdump.wire.encode import encode
from tests.support.console import contents, refusal, run
from tests.support.conversation import opening
from tests.support.diagnoses import objects, written
from tests.support.fields import snappy
from tests.support.live import PATIENCE, ROOT, fed, on_a_terminal, running, wait_for
from tests.support.packets import TcpTalk, flow
from tests.support.secret_talk import saved

REPLICA = Path("samples/replica.pcap")


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("", "0123456789" * 6 + "0123"),
        ("--value-bytes 3", "012"),
        ("--value-bytes 0", None),
        ("--value-bytes all", "0123456789" * 400),
    ],
)
def test_value_bytes_says_how_much_of_a_value_is_shown(option: str, value: str | None) -> None:
    (row,) = objects(f"dcpdump read {REPLICA} --key big {option}")
    assert (row["value_length"], row.get("value")) == (4000, value)


def test_the_help_says_how_much_of_a_value_is_shown(tmp_path: Path) -> None:
    frame = encode("DCP_MUTATION", {"by_seqno": 1}, key=b"k", value=b"v" * 200)
    path = saved(TcpTalk().send(1, frame), tmp_path / "long.pcap")
    for command, given, default in (
        ("read", str(path), "64 in every format"),
        ("explain", frame.hex(), "all, but 64 in ndjson and csv"),
    ):
        assert f"or all; by default {default}." in " ".join(run(f"dcpdump {command} --help").out.split())
        for form in ("table", "ndjson", "csv"):
            shown = 200 if command == "explain" and form == "table" else 64
            out = run(f"dcpdump {command} {given} -q -f {form}").out
            assert ("v" * shown in out, "v" * (shown + 1) in out) == (True, False)


def test_csv_writes_what_is_true_as_ndjson_does(tmp_path: Path) -> None:
    frames = b"".join(encode("DCP_MUTATION", {"by_seqno": 1 + at}, key=b"\x08key", opaque=9) for at in range(3))
    path = saved(TcpTalk().send(1, frames), tmp_path / "late.pcap")
    for command in (f"dcpdump read {path}", f"dcpdump explain {frames.hex()}"):
        rows = csv.DictReader(io.StringIO(run(f"{command} -f csv -q").out, newline=""), strict=True)
        assert [one["collection_inferred"] for one in objects(command)] == [True] * 3
        assert [row["collection_inferred"] for row in rows] == ["true"] * 3


def test_colour_is_only_for_those_who_want_it(monkeypatch: pytest.MonkeyPatch) -> None:
    command = f"dcpdump read {REPLICA} -c 1 -q"
    plain = run(command)
    assert ("\x1b" in plain.out, "\x1b[" in run(f"{command} --color always").out) == (False, True)
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[" in run(command).out
    assert run(f"{command} --color never") == plain
    monkeypatch.setenv("NO_COLOR", "1")
    assert run(command) == plain


def test_an_output_file_is_whole_private_and_never_written_over(tmp_path: Path) -> None:
    out, command = tmp_path / "frames.txt", f"dcpdump read {REPLICA} -q"
    assert run(f"{command} -o {out}") == (0, "", "")
    assert (out.read_text("utf-8"), stat.S_IMODE(out.stat().st_mode)) == (run(command).out, 0o600)
    assert run(f"{command} -o {out}") == refusal(5, f"the output exists already ({out})", "--force replaces it")
    assert run(f"{command} -c 1 -o {out} --force").code == 0
    assert (out.read_text("utf-8"), os.listdir(tmp_path)) == (run(f"{command} -c 1").out, ["frames.txt"])


def encoded(encoding: str, *words: str) -> tuple[str, str]:
    """Return what a process prints whose standard streams have an encoding."""
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    done = subprocess.run([sys.executable, "-m", "dcpdump", *words], env=environment, capture_output=True, check=True)
    return done.stdout.decode(encoding), done.stderr.decode(encoding)


@pytest.mark.parametrize(
    ("encoding", "bars", "between"),
    [("latin-1", "_____________#", "·"), ("ascii", "_____________#", "|")],
)
def test_what_an_encoding_does_not_have_is_drawn_with_what_it_has(encoding: str, bars: str, between: str) -> None:
    out, err = encoded(encoding, "stats", str(REPLICA))
    summary = "27 frames read · 60 packets · 1 connection · 5,188 B of payload, all decoded\n"
    assert (out.splitlines()[-2], err) == (f"  {bars}", summary.replace("·", between))


@pytest.mark.parametrize("command", ["read --help", "spec mutation"])
def test_help_is_printed_in_an_encoding_that_lacks_its_characters(command: str) -> None:
    plain = run(f"dcpdump {command}").out.replace("→", "->").replace("…", "...")
    assert encoded("latin-1", *command.split()) == (plain, "")


def test_objects_keep_their_text_in_an_encoding_that_lacks_its_characters() -> None:
    frame = encode("DCP_MUTATION", {"by_seqno": 1}, key="ключ 🎉 é".encode(), value=b"1")
    out, _ = encoded("ascii", "explain", "-q", "-f", "ndjson", frame.hex())
    assert json.loads(out)["key"] == "ключ 🎉 é"


def test_options_that_would_do_nothing_are_not_there() -> None:
    for command in ("streams", "check", "stats", "conns", "flow", "rollbacks", "diagnose", "diff", "top"):
        options = run(f"dcpdump {command} --help").out
        assert ("--value-bytes" in options, "--show-secrets" in options) == (False, False), command


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGKILL, -9), (signal.SIGTERM, 143)], ids=["killed", "terminated"]
)
def test_a_run_that_is_ended_leaves_nothing_under_the_final_name(number: int, code: int, tmp_path: Path) -> None:
    out = tmp_path / "frames.txt"
    with fed(["read", "-", "-o", str(out), "-q"], REPLICA.read_bytes()[:3000]) as process:
        wait_for(lambda: bool(os.listdir(tmp_path)))
        process.send_signal(number)
        assert process.wait(PATIENCE) == code
    left = [(path.name.startswith(".frames.txt."), path.stat().st_mode & 0o777) for path in tmp_path.iterdir()]
    assert left == [(True, 0o600)] * (number == signal.SIGKILL)
    assert run(f"dcpdump read {REPLICA} -q -o {out}").code == 0, "what is left is not in the way"
    assert os.listdir(tmp_path) == ["frames.txt"], "and the next run removes it"


FULL_DISK = "cannot write: no space left on device"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full here")
@pytest.mark.parametrize("form", ["table", "grid", "line", "ndjson", "csv"])
def test_a_full_disk_is_reported_in_every_format_and_a_device_is_not_replaced(form: str) -> None:
    before = os.stat("/dev/full")
    for more in ("", "--force"):
        command = f"dcpdump read {REPLICA} -q -f {form} {more}"
        assert run(f"{command} -o /dev/full") == refusal(5, f"{FULL_DISK} (/dev/full)")
        assert run(f"{command} -o /dev/null") == (0, "", "")
    after = os.stat("/dev/full")
    assert (after.st_ino, after.st_rdev, stat.S_ISCHR(after.st_mode)) == (before.st_ino, before.st_rdev, True)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full here")
def test_standard_output_that_is_full_is_reported() -> None:
    with open("/dev/full", "wb") as full:
        command = [sys.executable, "-m", "dcpdump", "read", str(REPLICA), "-q"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, timeout=PATIENCE)
    assert (done.returncode, "", done.stderr.decode()) == refusal(5, f"{FULL_DISK} (standard output)")


def test_a_named_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe, read = tmp_path / "pipe", list[str]()
    os.mkfifo(pipe)
    reader = Thread(target=lambda: read.append(pipe.read_text("utf-8")))
    reader.start()
    assert run(f"dcpdump read {REPLICA} -q -f line -o {pipe}") == (0, "", "")
    reader.join(PATIENCE)
    assert (read, pipe.is_fifo()) == ([run(f"dcpdump read {REPLICA} -q -f line").out], True)


def test_a_symlink_at_the_output_is_not_followed(tmp_path: Path) -> None:
    victim, link, loose = tmp_path / "victim", tmp_path / "link", tmp_path / "loose"
    victim.write_text("precious")
    link.symlink_to(victim)
    loose.symlink_to(tmp_path / "nowhere")
    for name in (link, loose):
        refused = refusal(5, f"the output exists already ({name})", "--force replaces it")
        assert run(f"dcpdump read {REPLICA} -q -o {name}") == refused
        assert run(f"dcpdump read {REPLICA} -q -o {name} --force").code == 0
        assert not name.is_symlink(), "the link itself is replaced"
    assert victim.read_text() == "precious"
    assert sorted(os.listdir(tmp_path)) == ["link", "loose", "victim"]


@pytest.mark.parametrize("how", ["itself", "symbolic", "hard", "roundabout"])
def test_the_input_is_never_the_output(how: str, tmp_path: Path) -> None:
    capture, out = tmp_path / "a.pcap", tmp_path / "out"
    capture.write_bytes(REPLICA.read_bytes())
    if how == "symbolic":
        out.symlink_to(capture)
    elif how == "hard":
        out.hardlink_to(capture)
    elif how == "roundabout":
        (tmp_path / "deep").mkdir()
        out = tmp_path / "deep" / ".." / "a.pcap"
    else:
        out = capture
    for command in (
        f"dcpdump read {capture}",
        f"dcpdump read {tmp_path}/*.pcap",
        f"dcpdump explain -q --form raw -i {capture}",
    ):
        assert run(f"{command} -o {out} --force") == refusal(5, f"the output is one of the inputs ({out})")
        assert capture.read_bytes() == REPLICA.read_bytes()


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is read-only for root")
def test_a_folder_that_is_read_only_is_reported(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    assert run(f"dcpdump read {REPLICA} -o {tmp_path}/frames.txt").code == 5


def test_an_error_on_the_way_leaves_the_old_file_as_it_was(tmp_path: Path) -> None:
    out = tmp_path / "frames.txt"
    out.write_text("old")
    assert run(f"dcpdump read {tmp_path}/none.pcap -o {out} --force").code == 3
    assert run(f"dcpdump explain zz -o {out} --force").code == 2
    assert out.read_text() == "old"
    assert os.listdir(tmp_path) == ["frames.txt"]


STREAM = "STREAM vb=5\nRX snapshot-marker{start=0, end=9, flags=0x5}\n"
LONG = b'{"text":"' + b"a" * 100 + b'"}'
HEAD = LONG[:64].decode() + "… +47 B"
DEEP = b"[" * 2000 + b"]" * 2000
CASES = [
    (1, b'{"a":1}', '{"a":1} (JSON, valid)'),
    (1, b'{"a" 1}', '{"a" 1} (JSON, not valid: at byte 5 there is no colon)'),
    (1, b'{"a":', '{"a": (JSON, not valid: it ends too soon)'),
    (1, DEEP, "[" * 64 + "… +3,936 B (JSON)"),
    (0, b"plain text", "plain text"),
    (0, b"two\nlines", "two\\x0alines"),
    (0, b"\x00\x01\xff", "\\x00\\x01\\xff (binary)"),
    (0, b"a" * 63 + "ä".encode() + b"b" * 9, "a" * 63 + "\\xc3… +10 B"),
    (2, snappy(LONG), f"{HEAD} (Snappy, 111 bytes, 21 on the wire)"),
    (3, snappy(LONG), f"{HEAD} (JSON|Snappy, valid, 111 bytes, 21 on the wire)"),
    (2, snappy(b"\x00" * 9), "\\x00" * 9 + " (Snappy, binary, 9 bytes, 11 on the wire)"),
]


def value_line(folder: Path, datatype: int, value: bytes, options: str) -> str:
    line = f"RX mutation{{seqno:1, key=a, datatype={datatype}, value=#{value.hex()}}}\n"
    path = written(opening() + STREAM + line, folder / "talk.pcap")
    printed = run(f"dcpdump read {path} --opcode mutation -q {options}").out
    (found,) = [each for each in printed.splitlines() if "Value" in each]
    return found.replace("\x1b[0m", "")


def test_binary_is_what_is_no_text() -> None:
    texts = [b"", b"a\tb\r\n", "größer".encode(), b"\xe2\x82", b"\x1b[0m", b"\xff"]
    assert [is_binary(text, cut=False) for text in texts] == [False, False, False, True, True, True]
    assert not is_binary(b"\xe2\x82", cut=True)


@pytest.mark.parametrize("options", ["", "--color always"])
@pytest.mark.parametrize(("datatype", "value", "shown"), CASES, ids=range(len(CASES)))
def test_a_value_is_described(tmp_path: Path, datatype: int, value: bytes, shown: str, options: str) -> None:
    assert value_line(tmp_path, datatype, value, options).endswith(f": {shown}")


def test_a_hidden_value_is_described_as_it_was(tmp_path: Path) -> None:
    notes = [value_line(tmp_path, datatype, value, "--redact").partition(" (JSON")[2] for datatype, value, _ in CASES]
    wanted = [", valid)", ", not valid: at byte 5 there is no colon)", ", not valid: it ends too soon)", ")"]
    assert notes == [*wanted, *[""] * 5, "|Snappy, valid, 111 bytes, 21 on the wire)", ""]


@pytest.mark.parametrize("command", ["read -f ndjson", "export -f csv"])
def test_more_than_any_value_has_is_all_of_it(command: str, tmp_path: Path) -> None:
    found = []
    for most in ("all", *("9" * digits for digits in (18, 20, 5000))):
        asked = f"dcpdump {command} samples/replica.pcap -o {tmp_path}/out --force -q --value-bytes {most}"
        found.append((run(asked).code, contents(tmp_path / "out")))
    assert found == [found[0]] * 4


XATTRS = struct.pack(">II", 12, 8) + b"_s\0" + b'"x"' + b"\0" + b"\0"
QUERY = """select sum(try(decode(value)->>'$.n')::int) a, sum(value_length) b,
    count(*) filter (octet_length(value) < value_length) c from {table} where name = 'DCP_MUTATION'"""
#: Of each number: whether its document has xattrs, is compressed, and its length. Some are longer than what is decoded
#: at a time.
LENGTHS = [*[1024] * 8, *[1_500_000] * 8]


def document(number: int) -> bytes:
    """Return a mutation of a JSON document whose number stands at its end."""
    value, datatype = b'{"pad": "%s", "n": %d}' % (b"=" * (LENGTHS[number] - 20), number + 10), 1
    if number & 1:
        value, datatype = XATTRS + value, datatype | 4
    if number & 2:
        value, datatype = snappy(value), datatype | 2
    given = {"by_seqno": number + 1, "rev_seqno": 1}
    return encode("DCP_MUTATION", given, key=b"k", value=value, datatype=datatype, vbucket=7, opaque=9)


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a documents of documents: plain, compressed, with xattrs, and both."""
    talk = TcpTalk(flow(), acks=False).send(0, encode("DCP_OPEN", {"flags": 1}, key=b"x"))
    for number in range(len(LENGTHS)):
        talk.send(1, document(number))
    return saved(talk, tmp_path_factory.mktemp("whole") / "whole.pcap")


@pytest.mark.parametrize(("option", "cut"), [("", 0), ("--value-bytes 1100", 8)])
@pytest.mark.parametrize("command", ["sql", "export", "pipeline --engine local"])
def test_sums_over_values_are_right_and_what_was_cut_is_said(
    command: str, option: str, cut: int, documents: Path, tmp_path: Path
) -> None:
    if command == "sql":
        printed = run(f'dcpdump sql "{QUERY.format(table="frames")}" {documents} -f ndjson {option}')
        sums = list(json.loads(printed.out).values())
    else:
        printed = run(f"dcpdump {command} {documents} -o {tmp_path}/out --tables frames {option}")
        paths = [str(path) for path in tmp_path.rglob("*.parquet") if "/frames" in str(path)]
        sums = duckdb.sql(QUERY.format(table=f"read_parquet({paths})")).fetchall()[0]
    assert (printed.code, [int(each) for each in sums]) == (0, [sum(range(10, 26 - cut)), sum(LENGTHS), cut])
    note = f"values were cut in {cut} rows by {option}: value_length says how long they were"
    assert (note in printed.err) == (cut > 0)


@pytest.fixture
def killed(tmp_path: Path) -> Callable[[str], None]:
    """Return a function that makes something unfinished in a process, which is killed then."""

    def kill(expression: str) -> None:
        code = f"from dcpdump.unfinished import *; x = {expression}; print(flush=True); input()"
        pipe = subprocess.PIPE
        with running([sys.executable, "-c", code], stdin=pipe, stdout=pipe, cwd=ROOT) as process:
            assert process.stdout is not None
            process.stdout.readline()
            process.send_signal(signal.SIGKILL)
            process.wait(PATIENCE)

    return kill


def test_files_and_folders_of_killed_runs_are_removed(tmp_path: Path, killed: Callable[[str], None]) -> None:
    killed(f"unfinished_file(Path({str(tmp_path / 'a.txt')!r}))")
    killed(f"UnfinishedFolder(Path({str(tmp_path / 'a.txt')!r}))")
    assert len(os.listdir(tmp_path)) == 1, "the second run removed what the first had left"
    remove_left(tmp_path / "a.txt")
    assert os.listdir(tmp_path) == []


def test_what_the_living_have_not_finished_stays(tmp_path: Path) -> None:
    fd, file = unfinished_file(tmp_path / "a")
    folder = UnfinishedFolder(tmp_path / "a")
    for name in ("a", "a.b", ".a.short.part", ".a.b.01234567.part"):
        (tmp_path / name).touch()
    before = sorted(os.listdir(tmp_path))
    remove_left(tmp_path / "a")
    assert sorted(os.listdir(tmp_path)) == before
    os.close(fd)
    folder.remove()
    remove_left(tmp_path / "a")
    assert sorted(os.listdir(tmp_path)) == [".a.b.01234567.part", ".a.short.part", "a", "a.b"]
    assert not file.exists()


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("export CAPTURE -o DIR/out", "out"),
        ("redact CAPTURE samples/history.pcap -w DIR/out", "out"),
        ("redact CAPTURE -w DIR/out", "out"),
        ("carve CAPTURE -w DIR/out", "out"),
        ("pipeline CAPTURE -o DIR --capture-id out --engine local", "out"),
    ],
)
def test_every_command_removes_what_was_left_and_writes_for_its_owner_alone(
    command: str, name: str, tmp_path: Path, killed: Callable[[str], None]
) -> None:
    killed(f"UnfinishedFolder(Path({str(tmp_path / name)!r}))")
    before = os.umask(0)
    try:
        printed = run(f"dcpdump {command.replace('CAPTURE', str(REPLICA)).replace('DIR', str(tmp_path))} -q")
    finally:
        os.umask(before)
    assert printed.code == 0, printed.err
    assert [each for each in os.listdir(tmp_path) if each.startswith(".")] == []
    modes = {stat.S_IMODE(each.stat().st_mode) & 0o077 for each in tmp_path.rglob("*")}
    assert modes == {0}


@pytest.mark.parametrize("name", ["dcpdump-sql", "dcpdump-fetched"])
def test_what_killed_runs_left_where_the_system_keeps_it_is_removed_too(
    name: str, tmp_path: Path, killed: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    killed(f"temporary_folder({name!r})")
    (left,) = os.listdir(tmp_path)
    with temporary_folder(name) as folder:
        assert os.listdir(tmp_path) == [folder.name] != [left]
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert os.listdir(tmp_path) == []


def test_a_query_removes_what_a_killed_one_left_of_documents(
    tmp_path: Path, killed: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    killed("__import__('dcpdump.sql.database').sql.database.Engine({})")
    assert len(os.listdir(tmp_path)) == 1
    assert run(f"dcpdump sql 'SELECT 1' {REPLICA}").code == 0
    assert os.listdir(tmp_path) == []


def test_a_folder_that_another_run_removes_before_it_is_locked_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, mkdtemp = list[str](), tempfile.mkdtemp

    def make(**how: str) -> str:
        made.append(mkdtemp(**how))
        if len(made) == 1:
            remove_left(tmp_path / "a")  # as another run does that begins just now
        return made[-1]

    monkeypatch.setattr(tempfile, "mkdtemp", make)
    with UnfinishedFolder(tmp_path / "a") as folder:
        assert [str(folder)] == made[1:]
        assert [each.path for each in os.scandir(tmp_path)] == made[1:]


ABANDONED = "StateChanged; abandoned: not requested again in 120 s"
TABLE = Table(
    ("conn", "client", "vb", "asked", "bytes", "verdict"),
    [
        ("0", "kafka-7f", "417", "12:07:11.006", "188", f"ended ({ABANDONED})"),
        ("0", "kafka-7f", "12", "12:07:11.008", "", "open and flowing"),
    ],
    right=("vb", "bytes"),
    least=("bytes", "asked"),
    kinds=(LineKind.PROBLEM, LineKind.PLAIN),
)


def texts(width: int | None, table: Table = TABLE) -> list[str]:
    return [line.text for line in table.lines(width)]


def test_where_there_is_room_it_is_as_wide_as_its_cells() -> None:
    wide = [
        "conn  client     vb  asked         bytes  verdict",
        "0     kafka-7f  417  12:07:11.006    188  ended (StateChanged; abandoned: not requested again in 120 s)",
        "0     kafka-7f   12  12:07:11.008         open and flowing",
    ]
    assert texts(None) == texts(200) == wide


def test_what_all_rows_have_becomes_a_heading_and_the_last_column_continues_below_itself() -> None:
    assert texts(80) == [
        "all: client kafka-7f",
        "conn   vb  asked         bytes  verdict",
        "0     417  12:07:11.006    188  ended (StateChanged; abandoned: not requested",
        "                                again in 120 s)",
        "0      12  12:07:11.008         open and flowing",
    ]


def test_columns_that_are_needed_least_go_first_and_it_is_said() -> None:
    assert texts(50) == [
        "all: client kafka-7f",
        "conn   vb  bytes  verdict",
        "0     417    188  ended (StateChanged; abandoned:",
        "                  not requested again in 120 s)",
        "0      12         open and flowing",
        "not shown here: asked (too narrow; '| cat' shows",
        "  all)",
    ]


def test_columns_stand_below_one_another_where_characters_are_wide() -> None:
    rows = [("配信", "5", "値段は五千円です、値段は五千円です。"), ("kafka", "417", "open")]
    table = Table(("client", "vb", "verdict"), rows, right=("vb",))
    assert texts(None, table) == [
        "client   vb  verdict",
        "配信      5  値段は五千円です、値段は五千円です。",
        "kafka   417  open",
    ]
    assert texts(45, table) == [
        "client   vb  verdict",
        "配信      5  値段は五千円です、値段は五千円で",
        "             す。",
        "kafka   417  open",
    ]


def test_one_wide_column_does_not_take_the_others_along() -> None:
    rows = [("0", 60 * "n", "417", "188", "open and flowing"), ("1", "kafka", "12", "", "open and flowing")]
    table = Table(("conn", "client", "vb", "bytes", "verdict"), rows, right=("vb", "bytes"), least=("bytes",))
    assert texts(50, table) == [
        "conn   vb  bytes  verdict",
        "0     417    188  open and flowing",
        "1      12         open and flowing",
        "not shown here: client (too narrow; '| cat' shows",
        "  all)",
    ]


def test_a_row_keeps_its_kind_on_all_its_lines() -> None:
    kinds = [line.kind for line in TABLE.lines(80)]
    assert kinds == [LineKind.COLUMNS, LineKind.COLUMNS, LineKind.PROBLEM, LineKind.PROBLEM, LineKind.PLAIN]


@pytest.mark.parametrize("command", ["streams", "conns", "flow", "rollbacks", "check", "key *"])
def test_no_line_of_a_command_is_wider_than_the_terminal(command: str) -> None:
    name, columns = ("stopped", 60) if command != "rollbacks" else ("rollback-loop", 80)
    _, lines = on_a_terminal([*command.split(), f"samples/{name}.pcap", "-q"], columns)
    assert (lines != [], [line for line in lines if len(line) > columns]) == (True, [])


def test_a_connection_is_a_card_on_a_terminal() -> None:
    _, card = on_a_terminal(["conns", "samples/stopped.pcap", "-q"])
    assert card[0].startswith("connection 0  kafka-7f · kafka-connector · bucket shop")
    assert "  ends      10.0.5.9:50317 → 10.0.5.1:11210, the server is producer" in card


WORDS = ["streams", "samples/stopped.pcap", "-q"]


def test_a_pager_shows_what_goes_to_a_terminal(tmp_path: Path) -> None:
    out = tmp_path / "paged"
    assert on_a_terminal(WORDS, DCPDUMP_PAGER=f"cat > {out}") == (0, [])
    assert "abandoned" in out.read_text()
    out.unlink()
    assert on_a_terminal(["--no-pager", *WORDS], DCPDUMP_PAGER=f"cat > {out}")[1] != []
    assert not out.exists()


def test_without_the_pager_that_was_asked_for_nothing_is_lost() -> None:
    _, (note, *lines) = on_a_terminal(WORDS, 200, DCPDUMP_PAGER="nosuch -R")
    assert note == "dcpdump: note: there is no pager nosuch -R: --no-pager, PAGER"
    assert lines == on_a_terminal(["--no-pager", *WORDS], 200)[1]
    error = ["dcpdump: error: the pager could not be started (X=1 nosuch)", "hint: --no-pager"]
    assert on_a_terminal(WORDS, 200, DCPDUMP_PAGER="X=1 nosuch")[1][-2:] == error


def test_a_pager_that_is_left_early_ends_the_command_without_a_word() -> None:
    assert on_a_terminal(["read", "samples/rollback-loop.pcap", "-q"], DCPDUMP_PAGER="head -1")[1][1:] == []


def test_a_cell_of_space_alone_that_is_wider_than_the_terminal_is_an_empty_line() -> None:
    assert texts(40, Table(("a",), [(60 * " ",), ("b",)])) == ["a", "", "b"]


def test_a_first_column_that_leaves_no_room_continues_below_itself() -> None:
    table = Table(("key", "vb", "bytes"), [(40 * "k", "5", "324"), ("k2", "12", "60")], right=("vb", "bytes"))
    assert texts(30, table) == [
        "key               vb  bytes",
        "kkkkkkkkkkkkkkkk   5    324",
        "kkkkkkkkkkkkkkkk",
        "kkkkkkkk",
        "k2                12     60",
    ]
