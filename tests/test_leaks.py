"""What --redact and redact hide is nowhere: in no command, no format, no file, no note, in no spelling."""

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dcpdump.arrow.other_tables import Judging
from dcpdump.batch.block import blocks
from dcpdump.capture.file import Capture
from dcpdump.dissect import Dissector
from dcpdump.net.packet import Packet
from dcpdump.record import Record
from dcpdump.redact import Pseudonyms, Redactor, is_damaged, is_stray
from dcpdump.rewrite.concealed_frame import Concealer
from dcpdump.spec.field import Blob
from dcpdump.streams.dissection import Watching
from dcpdump.streams.ledger import Ledger
from dcpdump.streams.redacted import hide
from tests.support import traces
from tests.support.check_cases import CASES
from tests.support.console import Printed, run
from tests.support.conversation import packets, said
from tests.support.packets import TcpTalk, flow
from tests.support.planted import NAMED, PRIVATE, Planted, conversation, frames, token
from tests.support.secret_talk import saved

LEVELS = {"partial": (PRIVATE,), "full": (PRIVATE, NAMED)}
CELLS = re.compile(r"\b0x([0-9a-fA-F]{2})\b")
HOST = re.compile(r"\b10\.0\.0\.\d+\b")
TABLES = "frames,gaps,streams,findings,files"
#: Each command in its formats; CAPTURE, OTHER, BYTES and OUT stand for paths. Grids have the tables in them.
COMMANDS = [
    *(f"read CAPTURE -f {form} --value-bytes all --summary json" for form in ("grid", "line", "ndjson", "csv")),
    *(f"explain -i BYTES --form raw -f {form} --value-bytes all" for form in ("table", "ndjson")),
    *(f"{name} CAPTURE -f {form}" for name in ("streams", "conns", "rollbacks", "flow") for form in ("text", "ndjson")),
    *(f"stats CAPTURE --keys 99 -f {form}" for form in ("text", "ndjson")),
    *(f"top CAPTURE --once -f {form}" for form in ("text", "ndjson")),
    *(f"key * CAPTURE --value-bytes all -f {form}" for form in ("text", "ndjson")),
    *(f"check CAPTURE --all -f {form}" for form in ("text", "ndjson", "sarif")),
    *(f"diagnose CAPTURE -f {form}" for form in ("text", "ndjson")),
    "report CAPTURE -o OUT/page.html",
    *(f"sql 'select * from {table}' CAPTURE -f ndjson" for table in TABLES.split(",")),
    *(f"diff CAPTURE OTHER {by} -f {form}" for by in ("", "--by key") for form in ("text", "ndjson")),
    *(f"export CAPTURE -o OUT --value-bytes all --tables {TABLES} -f {form}" for form in ("parquet", "arrow", "csv")),
    "pipeline CAPTURE -o OUT --engine local --value-bytes all",
]


def spellings(stem: bytes) -> Iterator[str]:
    """Yield what a stem looks like in an output: as any text may, and as numbers."""
    yield stem.hex().upper()
    yield from traces.spellings(stem)
    yield from as_numbers(stem)


def as_numbers(stem: bytes) -> Iterator[str]:
    """Yield the numbers that a stem, or a part of four bytes, would be taken for where one of that width stands."""
    for width in (8, 4):
        for at in range(len(stem) - width + 1):
            part = stem[at : at + width]
            for number in (int.from_bytes(part, "big"), int.from_bytes(part, "little")):
                yield str(number)
                yield f"{number:,}"
                yield f"0x{number:x}"


def found(text: str, stems: Iterable[bytes]) -> list[str]:
    """Return what is around each spelling of a stem in a text, the first few."""
    cells = "".join(CELLS.findall(text)) if "Byte/" in text else ""
    every = [(said, spelling) for stem in stems for spelling in spellings(stem) for said in (text, cells)]
    places = [(said, said.find(spelling)) for said, spelling in every]
    return [said[max(0, at - 200) : at + 60] for said, at in places if at >= 0]


def talk() -> TcpTalk:
    """Return all of it on two connections, with bytes that are not a frame, and a frame that is cut."""
    plain = TcpTalk(segment=1400, acks=False)
    for each in conversation():
        plain.send(*each)
    cut = next(each for each in conversation() if token()[:8] in each.data)
    plain.send(0, cut.data[:-6]).fin()
    other = TcpTalk(flow("10.0.0.7:50001"), segment=1400, acks=False, number=len(plain.packets) + 1)
    every = list(frames())
    for each in every:
        other.send(*each)
    other.send(1, token() * 20).send(1, b"".join(each.data for each in every[:8] if each.direction)).fin()
    plain.packets += other.packets
    return plain


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("planted")
    saved(talk().packets, folder / "a.pcap")
    saved([packet for packet in talk().packets if packet.number % 7], folder / "other.pcap")
    saved(talk().packets, folder / "a.pcapng", pcapng=True)
    (folder / "bytes").write_bytes(b"".join(each.data for each in every_byte()))
    (folder / "salt").write_text("00" * 32)  # else a hash looks like a token by chance, one day
    return folder


def every_byte() -> list[Planted]:
    """Return what is pasted: all frames, and bytes that are not frames before and behind them."""
    return [Planted(0, token() * 4), *conversation(), *frames(), Planted(0, token() * 4)]


def written(folder: Path) -> Iterator[str]:
    """Yield the contents of the files of a folder, those of columns row by row."""
    for path in sorted(each for each in folder.rglob("*") if each.is_file()):
        data = path.read_bytes()
        yield data.decode("latin-1")
        if path.suffix == ".parquet":
            yield str(pq.ParquetFile(path).read().to_pylist())
        elif path.suffix == ".arrow":
            yield str(pa.ipc.open_file(path).read_all().to_pylist())


def output_of(command: str, planted: Path, out: Path, options: str) -> str:
    """Return everything that a command prints and writes."""
    words = command.replace("CAPTURE", str(planted / "a.pcap")).replace("BYTES", str(planted / "bytes"))
    words = words.replace("OTHER", str(planted / "other.pcap"))
    if "OUT/" in command:
        out.mkdir()
    printed = run(f"dcpdump {words.replace('OUT', str(out))} {options}".replace("key * ", "key '*' "))
    assert printed.code in (0, 1, 4), printed.err
    return "\n".join((printed.out, printed.err, *written(out)))


#: In the daily leg the levels take turns: the formats of a command are hidden by the same code. So are rows of a query
#: that an export has, too.
_NIGHTLY = ("from frames", "-f arrow")
_IN_TURN = [
    pytest.param(
        command, level, marks=[pytest.mark.nightly] * ((number + turn) % 2 or any(map(command.count, _NIGHTLY)))
    )
    for number, command in enumerate(COMMANDS)
    for turn, level in enumerate(LEVELS)
]


@pytest.mark.parametrize(("command", "level"), _IN_TURN)
def test_no_command_says_what_is_to_be_hidden(command: str, level: str, planted: Path, tmp_path: Path) -> None:
    text = output_of(command, planted, tmp_path / level, f"--redact-level {level} --salt-file {planted}/salt")
    assert found(text, LEVELS[level]) == []
    assert level == "partial" or HOST.findall(text) == []


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", ["a.pcap", "a.pcapng"])
def test_no_capture_holds_what_is_to_be_hidden(name: str, level: str, planted: Path, tmp_path: Path) -> None:
    printed: Printed = run(f"dcpdump redact {planted / name} -w {tmp_path}/out --level {level}")
    assert printed.code in (0, 4), printed.err
    assert found((tmp_path / "out").read_bytes().decode("latin-1") + printed.err, LEVELS[level]) == []


@pytest.mark.parametrize("rules", [True, False], ids=["with rules", "without"])
@pytest.mark.parametrize("level", LEVELS)
def test_no_hidden_ledger_holds_what_is_to_be_hidden(level: str, rules: bool) -> None:
    ledger = learned(rules=rules)
    assert all(found("\n".join(texts(ledger)), (stem,)) for stem in (PRIVATE, NAMED))
    hide(ledger, Redactor(b"salt", full=level == "full"))
    assert found("\n".join(texts(ledger)), LEVELS[level]) == []


def learned(*, rules: bool) -> Ledger:
    """Return the ledger of all of it, and of a connection without losses; ``rules``: as check needs it."""
    dissection, packets = Watching(), talk().packets
    whole = TcpTalk(flow("10.0.0.7:50002"), segment=1400, acks=False, number=len(packets) + 1)
    for each in conversation():
        whole.send(*each)
    judging = Judging(dissection, rules=rules)
    for block in blocks([*packets, *whole.packets]):
        for parts in dissection.feed_block(block):
            judging.feed(parts)
    for parts in dissection.close_blocks():
        judging.feed(parts)
    judging.close(None)
    return judging.ledger


def texts(root: object) -> Iterator[str]:
    """Yield every text and all bytes that can be reached from an object."""
    seen, left = set[int](), [root]
    while left:
        each = left.pop()
        if isinstance(each, str | bytes):
            yield each if isinstance(each, str) else each.decode("latin-1")
        if isinstance(each, str | bytes | type) or id(each) in seen:
            continue
        seen.add(id(each))
        if isinstance(each, Mapping):
            left += [*each.keys(), *each.values()]
        elif isinstance(each, Iterable):
            left += each
        names = [name for kind in type(each).__mro__ for name in getattr(kind, "__slots__", ())]
        left += [getattr(each, name) for name in (*names, *getattr(each, "__dict__", ())) if hasattr(each, name)]


def test_tokens_would_be_seen(planted: Path, tmp_path: Path) -> None:
    for command in (COMMANDS[2], COMMANDS[-4]):
        clear = output_of(command, planted, tmp_path / "clear", "")
        assert all(found(clear, (stem,)) for stem in (PRIVATE, NAMED)), command
    for spelling in spellings(PRIVATE):
        assert found(f"x{spelling}x", (PRIVATE,)), spelling


SAMPLES = sorted(Path("samples").glob("*.pcap"))


def records(captured: list[Packet]) -> Iterator[Record]:
    dissector = Dissector()
    for packet in captured:
        yield from dissector.feed(packet)
    yield from dissector.close()


def everything() -> Iterator[Record]:
    for path in SAMPLES:
        yield from records(list(Capture(str(path))))
    for case in CASES.values():
        yield from records(packets(said(case.trips)))
        yield from records(packets(said(case.spares)))


def changed(record: Record, data: bytes) -> set[str]:
    """Return the fields of a frame whose bytes are others in ``data``; short texts may stay by chance."""
    whole = record.frame.raw.data
    return {
        f"{record.frame.message.name} {field.section.name} {field.field.name}"
        for field in record.frame.fields
        if isinstance(field.field, Blob) and field.end - field.start >= 4
        if whole[field.start : field.end].strip(b"\0")  # the lengths of xattrs that are not there
        if whole[field.start : field.end] != data[field.start : field.end]
    }


@pytest.mark.parametrize("full", [False, True], ids=["partial", "full"])
def test_redact_and_read_hide_the_same_fields(full: bool) -> None:
    redactor, concealer = Redactor(b"salt", full=full), Concealer(Pseudonyms(b"salt"), full=full)
    seen: set[str] = set()
    for record in everything():
        if is_damaged(record.frame) or is_stray(record.frame):
            continue  # of those both hide all bytes that are not certainly numbers
        shown = changed(record, redactor.record(record).frame.raw.data)
        seen |= shown
        assert shown == changed(record, concealer.conceal(record).data), record.frame.message.name
    assert ("DCP_SYSTEM_EVENT KEY key" in seen) == full
    assert {"DCP_MUTATION KEY key", "DCP_MUTATION VALUE value", "SELECT_BUCKET KEY key"} <= seen
