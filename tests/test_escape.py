"""Texts from outside are shown safely, wherever they come from: each as itself, moving no cursor, on its line."""

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from unicodedata import category

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcpdump.escape import safe, safe_json
from dcpdump.wire.encode import encode
from tests.support.captures import Pcapng
from tests.support.console import Printed, contents, run
from tests.support.packets import TcpTalk
from tests.support.planted import hello
from tests.support.secret_talk import saved

WIRE = [
    *(b"\x1b[2J\x1b[H", b"\x1b]0;pwned\x07", "\x9b31m".encode(), b"\x9b31m"),  # of terminals, of 8 bits and bare too
    *(b"password\x08\x08\x08", b"good\rbad", b"one\ntwo\r\n", b"a\0b", b"a\x7fb"),
    # right to left, isolates, zero width, ends of lines, tags, private, noncharacters, soft hyphen
    *(
        text.encode()
        for text in ("abc\u202etxt.exe", "\u2066\u2067\u2068\u2069", "a\u200bb\u200dc\ufeffd", "a\u2028b\u2029c")
    ),
    *(text.encode() for text in ("\U000e0041\U000e007f", "\ue000\U000f0000", "\ufffe\uffff\U0010ffff", "a\u00adb")),
    *(b"\xc0\x80\xe0\x80\x80", b"\xed\xa0\x80\xed\xbf\xbf", b"\xff\xfe\x80", "é".encode()[:1]),  # no UTF-8
    *(b"[bold red]x[/] [link=http://evil]y[/link]", b'=cmd|"/c calc"!A1', b'a,"b"\n,c'),  # to rich, tables and CSV
]


@pytest.mark.parametrize(
    ("wire", "text"),
    [
        (b"hello", "hello"),
        ("grüße 東京 😀".encode(), "grüße 東京 😀"),
        (b"\x1b[2J", "\\x1b[2J"),
        (b"\0\n\r\t\x7f", "\\x00\\x0a\\x0d\\x09\\x7f"),
        ("\x9b".encode(), "\\xc2\\x9b"),
        (b"\xff", "\\xff"),
        ("\u202e".encode(), "\\xe2\\x80\\xae"),
        ("\u2028".encode(), "\\xe2\\x80\\xa8"),
        (b"\xed\xa0\x80", "\\xed\\xa0\\x80"),
        ("\U000e0041".encode(), "\\xf3\\xa0\\x81\\x81"),
        ("\u00a0\u3000".encode(), "\u00a0\u3000"),
        ("a\ud800", "a\\xed\\xa0\\x80"),
        ("", ""),
    ],
)
def test_text_comes_out_as_itself_and_everything_else_as_the_bytes_it_is(wire: bytes | str, text: str) -> None:
    assert safe(wire) == text


def unsafe(text: str) -> list[str]:
    return [char for char in text if category(char) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")]


@given(st.one_of(st.binary(), st.text(), st.sampled_from(WIRE)))
def test_nothing_unsafe_passes(wire: bytes | str) -> None:
    assert unsafe(safe(wire)) == []


@given(st.text(alphabet=st.characters(categories=["L", "N", "P", "S", "Zs"])))
def test_printable_text_is_not_touched(text: str) -> None:
    assert safe(text.encode()) == text


@given(st.recursive(st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=5))
def test_json_made_safe_is_the_same_json(document: object) -> None:
    text = safe_json(json.dumps(document, ensure_ascii=False))
    assert unsafe(text) == []
    assert json.loads(text) == document


def everything_evil() -> bytes:
    """Return frames that hold evil text wherever text can stand."""
    out = []
    for evil in WIRE:
        block = (len(evil) * 2 + 2).to_bytes(4, "big") + evil.replace(b"\0", b"") + b"\0" + evil + b"\0"
        xattrs = len(block).to_bytes(4, "big") + block
        quoted = evil.decode("utf-8", "replace").replace("\\", "").replace('"', "")
        control = ('{"uid":"' + "".join(c for c in quoted if c >= " ") + '"}').encode()
        out += [
            encode("DCP_OPEN", {"flags": 1}, key=evil, value=control),
            encode("DCP_CONTROL", key=evil, value=evil),
            encode("DCP_STREAM_REQ", value=control),
            encode("DCP_STREAM_REQ", value=b'{"' + evil + b'":1}'),
            encode("DCP_STREAM_REQ", response=True, status=4, value=control, datatype=1),
            encode("DCP_MUTATION", {"by_seqno": 1}, key=evil, value=evil),
            encode("DCP_MUTATION", {"by_seqno": 1, "clen": 1}, key=evil, value=evil),
            encode("DCP_MUTATION", {"by_seqno": 1}, key=b"k", value=xattrs + evil, datatype=4),
            encode("DCP_MUTATION", {"by_seqno": 1}, key=b"k", value=evil, datatype=3),
            encode("DCP_SYSTEM_EVENT", {"event": 0, "version": 2, "name_in_scope": evil}, key=evil),
            encode("DCP_CACHE_TRANSFER", {"items": [{"key": b"\0" + evil, "value": evil}]}),
            encode("DCP_NOOP", framing=bytes((0x4F, len(evil) - 15)) + evil if len(evil) > 15 else b"\x41" + evil[:1]),
            encode("HELLO", key=evil),
            encode("SASL_AUTH", key=evil, value=evil),
            encode("STAT", key=evil, response=True, value=evil),
        ]
    return b"".join(out)


@pytest.mark.parametrize("form", ["table", "grid", "line", "ndjson", "csv"])
def test_no_output_carries_a_character_that_came_from_the_wire_and_is_none(form: str) -> None:
    printed = run(f"dcpdump explain --form raw -f {form} --value-bytes all", everything_evil())
    assert printed.code == 0, printed.err
    assert {char for char in unsafe(printed.out + printed.err) if char not in "\r\n"} == set()


#: ESC, BEL, newline, CR, C1, bidi override, zero width, line separator, DEL; and what begins a line if it may.
EVIL = "e\x1b[31m\x07\nFORGED\r\x9b\u202e\u200b\u2028\x7fl"
FORGED = re.compile(r"^FORGED", re.MULTILINE)


def problems(printed: Printed, form: str = "") -> list[str]:
    """Return what is wrong with an output."""
    out = printed.out.replace("\r\n", "\n") if "csv" in form else printed.out
    odd = [f"{char!r}" for text in (out, printed.err) for char in unsafe(text) if char != "\n"]
    return odd + [f"line: {hit[0]}" for text in (out, printed.err) for hit in FORGED.finditer(text)]


def wrong(commands: Iterable[str]) -> dict[str, list[str]]:
    """Return what is wrong with the outputs of commands, of those where something is."""
    found = {}
    for command in commands:
        printed = run(f"dcpdump {command}")
        found[command] = (problems(printed, command) + ["Traceback"] * ("Traceback" in printed.err))[:4]
    return {command: some for command, some in found.items() if some}


def conversation() -> TcpTalk:
    """Return a connection in which everything has an evil name."""
    evil = EVIL.encode()
    escaped = EVIL.encode("unicode_escape").decode().replace("\\x", "\\u00")
    context = f'{{"error":{{"context":"{escaped}"}}}}'.encode()
    sent = TcpTalk()
    for each in hello():
        sent.send(*each)
    for opaque, (name, key) in enumerate((("HELLO", evil), ("SELECT_BUCKET", evil), ("DCP_OPEN", evil)), 2):
        sent.send(0, encode(name, key=key, opaque=opaque)).send(1, encode(name, response=True, opaque=opaque))
    for each in hello():
        sent.send(*each)
    sent.send(0, encode("DCP_CONTROL", key=evil, value=evil, opaque=9))
    sent.send(1, encode("DCP_CONTROL", response=True, opaque=9))
    asked = f'{{"collections":["{escaped}"]}}'.encode()
    sent.send(0, encode("DCP_STREAM_REQ", {"end_seqno": 9}, value=asked, vbucket=3, opaque=10))
    sent.send(1, encode("DCP_STREAM_REQ", response=True, status=0x88, value=context, datatype=1, opaque=10))
    sent.send(0, encode("DCP_STREAM_REQ", {"end_seqno": 9}, vbucket=4, opaque=11))
    log = {"failover_log": [{"vbucket_uuid": 5, "seqno": 0}]}
    sent.send(1, encode("DCP_STREAM_REQ", log, response=True, opaque=11))
    marker = {"start_seqno": 0, "end_seqno": 5, "snapshot_type": 1}
    sent.send(1, encode("DCP_SNAPSHOT_MARKER", marker, vbucket=4, opaque=11))
    event = {"by_seqno": 1, "event": 0, "version": 0, "collection_id": 9}
    sent.send(1, encode("DCP_SYSTEM_EVENT", event, layout="0", key=evil, vbucket=4, opaque=11))
    sent.send(1, encode("DCP_MUTATION", {"by_seqno": 2}, key=b"\x08" + evil, value=evil, vbucket=4, opaque=11))
    return sent.fin()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of evil names: a capture, a pcapng with comments, a damaged one, one that is not a capture."""
    home = tmp_path_factory.mktemp("evil") / f"d{EVIL}"
    home.mkdir()
    packets = conversation().packets
    saved(packets, home / f"{EVIL}.pcap")
    write, evil = Pcapng(), [(1, EVIL.encode()), (2, EVIL.encode())]
    blocks = [write.section(evil), write.interface(options=[*evil, (9, b"\x09")])]
    blocks += [write.packet(each.ts_ns or 0, each.data, options=evil[:1]) for each in packets]
    (home / f"{EVIL}.pcapng").write_bytes(b"".join(blocks))
    (home / f"cut{EVIL}.pcap").write_bytes((home / f"{EVIL}.pcap").read_bytes()[:-7])
    (home / f"none{EVIL}.pcap").write_bytes(b"hello world, this is no capture")
    (home / f"cut{EVIL}.pcap.gz").write_bytes(b"\x1f\x8b\x08\0\0\0\0\0\0\3" + EVIL.encode())
    (home / f"empty{EVIL}.txt").write_bytes(b"")
    return home


def reading(folder: Path) -> Iterator[str]:
    """Yield every command that reads captures, with names of files that are, and such that are not."""
    q = shlex.quote
    good, cut, none = (q(f"{folder}/{name}{EVIL}.pcap") for name in ("", "cut", "none"))
    every = f"{good} {q(f'{folder}/{EVIL}.pcapng')} {cut}"
    for files in (good, every, none, q(f"{folder}/missing{EVIL}"), q(str(folder)), q(f"{folder}/cut{EVIL}.pcap.gz")):
        for form in ("table", "grid", "line", "ndjson", "csv"):
            yield f"read {files} -f {form} --summary {'json' if form == 'ndjson' else 'text'}"
        for name in ("streams", "conns", "rollbacks", "flow", "stats", "top --once"):
            yield f"{name} {files}"
            yield f"{name} {files} -f ndjson"
        for form in ("text", "ndjson", "sarif"):
            yield f"check {files} -f {form}"
        for pattern in ("'*'", q(f"*{EVIL}*")):
            yield f"key {pattern} {files}"
        yield f"redact {files} -w {q(f'{folder}/out-{EVIL}')} --force"
        yield f"carve {files} -w {q(f'{folder}/carved-{EVIL}')} --force"
        yield f"export {files} -o {q(f'{folder}/tables-{EVIL}')} -f csv --force"
        yield f"pipeline {files} -o {q(f'{folder}/lake-{EVIL}')} --engine local"
    yield f"explain -i {q(f'{folder}/{EVIL}.pcap')}"
    yield f"explain -i {q(f'{folder}/cut{EVIL}.pcap.gz')}"
    yield f"explain -i {q(f'{folder}/missing{EVIL}')}"
    yield f"explain -i {q(f'{folder}/empty{EVIL}.txt')}"


OPTIONS = (
    "--opcode --vbucket --seqno --kind --status --key --collection --opaque --stream-id --connection --host --port "
    "--since --until --count --value-bytes --color --format --redact-level --salt-file --memory --jobs --summary"
).split()


def mistaken(folder: Path) -> Iterator[str]:
    """Yield commands with words that are wrong, or outputs that cannot be written."""
    evil, good, place = shlex.quote(EVIL), shlex.quote(f"{folder}/{EVIL}.pcap"), shlex.quote(str(folder))
    for option in OPTIONS:
        yield f"read {good} {option} {evil}"
        yield f"read {good} {option} {shlex.quote('/' + EVIL + '(/')}"
    yield from (evil, f"-{evil}", f"--{evil}", f"read --{evil}", f"spec {evil}", f"check --explain {evil}")
    for name, option in (("read", "-o"), ("check", "-o"), ("key '*'", "-o"), ("redact", "-w"), ("carve", "-w")):
        for output in (f"{place}/no/such/{evil}", good, place):
            yield f"{name} {good} {option} {output}"
    for name in (f"export {good}", f"pipeline {good} --engine local"):
        yield f"{name} -o {good}"
        yield f"{name} -o x --tables {evil}"
    yield from (f"pipeline {good} -o x --capture-id {evil}", f"pipeline {good} -o x --conf {evil}")
    yield from (f"check {good} --select {evil}", f"explain {evil}", f"explain --form {evil} 00")
    yield from (f"sniff -i {evil}", f"sniff --bpf {evil}", f"sniff -w {good} -i {evil}", f"top -i {evil}")
    yield f"read {good} --redact --salt-file {place}"


def test_no_command_prints_what_names_and_texts_hold(folder: Path) -> None:
    assert wrong(reading(folder)) == {}


def test_no_error_prints_what_words_hold(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    assert wrong(mistaken(folder)) == {}


def test_tables_as_text_hold_nothing_of_it_either(folder: Path, tmp_path: Path) -> None:
    good = shlex.quote(f"{folder}/{EVIL}.pcap")
    tables = "frames,gaps,streams,findings,files"
    assert run(f"dcpdump export {good} -o {tmp_path}/out -f csv -q --tables {tables}").code == 0
    for name, data in contents(tmp_path / "out").items():
        assert problems(Printed(0, data.decode(), ""), "csv") == [], name


@pytest.mark.parametrize(
    "words",
    [
        *("read FILE --key BYTES*", "read FILE --key /^BYTES/ -f ndjson", "stats FILE --key !BYTES", "key BYTES FILE"),
        *("diff FILE FILE", "redact FILE -w OUT --salt BYTES", "export FILE -o OUT", "export FILE -o OUT -f csv"),
        "pipeline FILE -o OUT --engine local",
        "sql 'select file, count(*) from frames group by file' FILE",
    ],
)
def test_arguments_need_not_be_utf_8(words: str, tmp_path: Path) -> None:
    odd, sent = os.fsdecode(b"k\xff"), TcpTalk()
    for number, key in enumerate((b"k\xff", b"k\xfe"), 1):
        sent.send(1, encode("DCP_MUTATION", {"by_seqno": number}, key=key, value=b"{}", opaque=1))
    file = saved(sent.fin(), tmp_path / f"{odd}.pcap")
    for name, word in (("FILE", str(file)), ("OUT", str(tmp_path / "out")), ("BYTES", odd)):
        words = words.replace(name, word)
    printed = run(f"dcpdump {words}")
    assert (printed.code, problems(printed)) == (0, []), printed.err
    if "--key" in words and "!" not in words:
        assert "1 of 2 frames shown" in printed.err


def test_a_query_that_is_not_utf_8_is_refused() -> None:
    printed = run(f"dcpdump sql \"select '{os.fsdecode(bytes([255]))}'\" samples/replica.pcap")
    assert (printed.code, printed.err.splitlines()[0]) == (2, "dcpdump: error: the query is not UTF-8")


@pytest.mark.parametrize("debug", [["--debug"], []])
def test_a_traceback_is_safe_too(debug: list[str], folder: Path) -> None:
    command = [sys.executable, "-m", "dcpdump", *debug, "read", f"missing{EVIL}"]
    environment = {**os.environ, "PYTHONPATH": os.getcwd()}
    done = subprocess.run(command, capture_output=True, cwd=folder, env=environment, check=False)
    printed = Printed(done.returncode, done.stdout.decode(), done.stderr.decode())
    assert problems(printed) == []
    assert ("Traceback" in printed.err, "FORGED" in printed.err) == (bool(debug), True)


def test_the_test_would_see_it() -> None:
    assert len(problems(Printed(0, EVIL, ""))) == 9
