"""Redaction: nothing of a document survives in any format, and what belonged together still does."""

import secrets
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest

from dcpdump.record import Record, as_json
from dcpdump.redact import Pseudonyms, Redactor
from dcpdump.render import OUTPUTS, View
from dcpdump.render.style import Palette
from dcpdump.spec.names import COLLECTIONS
from dcpdump.wire.decode import decode
from dcpdump.wire.encode import Item, encode
from dcpdump.wire.frame import RawFrame, Span, unpack_header
from dcpdump.wire.session import Session
from tests.support.console import run
from tests.support.conversation import opening, packets, said
from tests.support.fields import snappy, xattr_block
from tests.support.legs import sizes
from tests.support.packets import TcpTalk
from tests.support.secret_talk import saved
from tests.support.traces import traces

KEY, VALUE, NAME, TEXT = b"Kq7zPw9xLmT4", b"Vj3!nR8dYw@5uHc2", b"Xb6_tGe1", b"Ws0~fDo9Qk"
PRIVATE = (KEY, VALUE, NAME, TEXT)
SALT = b"salt"


def xattrs(document: bytes) -> bytes:
    return xattr_block((NAME, TEXT)) + document


def cached(*items: tuple[bytes, int]) -> bytes:
    """Return a cache transfer of values with their datatypes."""
    records: list[Item] = [{"key": PREFIXED, "value": value, "datatype": datatype} for value, datatype in items]
    return encode("DCP_CACHE_TRANSFER", {"items": records})


def damaged(document: bytes) -> bytes:
    """Return a document behind an xattr, and behind another whose length lies."""
    block = xattrs(b"")[4:] + b"\0\0\xff\xff" + TEXT
    return len(block).to_bytes(4, "big") + block + document


PREFIXED = b"\x08" + KEY
CONTEXT = b'{"error":{"context":"' + VALUE + b'"}}'
FRAMES = {
    "mutation": encode("DCP_MUTATION", {"by_seqno": 4}, key=PREFIXED, value=VALUE),
    "xattrs": encode("DCP_MUTATION", {"by_seqno": 4}, key=PREFIXED, value=xattrs(VALUE), datatype=4),
    "snappy": encode("DCP_MUTATION", {"by_seqno": 4}, key=PREFIXED, value=snappy(xattrs(VALUE)), datatype=7),
    "deletion": encode("DCP_DELETION", {"by_seqno": 4}, key=PREFIXED, value=xattrs(b""), datatype=4),
    "metadata": encode("DCP_MUTATION", {"by_seqno": 4, "metadata": VALUE}, key=PREFIXED, value=VALUE),
    "prepare": encode("DCP_PREPARE", {"by_seqno": 4}, key=PREFIXED, value=VALUE),
    "cache transfer": cached((VALUE, 0), (xattrs(VALUE), 4), (VALUE, 2)),
    "damaged xattrs": encode("DCP_MUTATION", {"by_seqno": 4}, key=PREFIXED, value=damaged(VALUE), datatype=4),
    "damaged, compressed": encode(
        "DCP_MUTATION", {"by_seqno": 4}, key=PREFIXED, value=snappy(damaged(VALUE)), datatype=6
    ),
    "damaged xattrs of a cached record": cached((damaged(VALUE), 4), (xattrs(b""), 4)),
    "get": encode("GET", key=KEY),
    "set": encode("SET", key=KEY, value=VALUE),
    "response": encode("GET", response=True, value=VALUE),
    "error context": encode("GET", response=True, status=1, value=CONTEXT, datatype=1),
    "error of a stream": encode("DCP_STREAM_REQ", response=True, status=4, value=CONTEXT, datatype=1),
    "error that is no JSON": encode("DCP_MUTATION", response=True, status=1, value=VALUE, datatype=1),
    "bucket": encode("SELECT_BUCKET", key=KEY),
    "left over": encode("DCP_NOOP", value=VALUE),
    "left over, with a key": encode("DCP_CLOSE_STREAM", key=KEY, value=VALUE),
    "xattrs that are none": encode("DCP_MUTATION", {"by_seqno": 4}, key=PREFIXED, value=VALUE, datatype=4),
    "snappy that is none": encode("DCP_MUTATION", {"by_seqno": 4}, key=PREFIXED, value=VALUE, datatype=2),
    "control": encode("DCP_CONTROL", key=b"consumer_name", value=VALUE),
    "unknown control": encode("DCP_CONTROL", key=KEY, value=b"true"),
    "impersonation": encode("GET", key=KEY, framing=bytes((0x40 | len(KEY),)) + KEY),
    "unknown": encode(0x99, key=KEY, value=VALUE),
}


def record(data: bytes, holes: tuple[Span, ...] = (), *, collections: bool = True) -> Record:
    frame = decode(RawFrame(data, unpack_header(data.ljust(24, b"\0")), holes=holes))
    session = Session()
    if collections:
        session.features = frozenset({COLLECTIONS})
    interpretation = session.understand(frame, 1, 0)
    request, vbucket = interpretation.request, interpretation.vbucket
    return Record(1, frame, interpretation.content, vbucket, request, 0, 0, "10.77.3.9:51234", "10.88.4.2:11210")


def shown(one: Record) -> Iterator[str]:
    for output in OUTPUTS.values():
        yield output.write(one, View(None, Palette(False), file=True))


def survivors(data: bytes, redactor: Redactor, holes: tuple[Span, ...] = (), *, collections: bool = True) -> set[str]:
    redacted = redactor.record(record(data, holes, collections=collections))
    return traces("\n".join(shown(redacted)), PRIVATE)


PARTIAL, FULL = Redactor(SALT), Redactor(SALT, full=True)


@pytest.mark.parametrize("collections", [True, False])
@pytest.mark.parametrize("redactor", [PARTIAL, FULL], ids=["partial", "full"])
@pytest.mark.parametrize("name", FRAMES)
def test_nothing_of_a_document_survives(name: str, redactor: Redactor, collections: bool) -> None:
    assert survivors(FRAMES[name], redactor, collections=collections) == set()
    clear = traces("\n".join(shown(record(FRAMES[name]))), PRIVATE)
    assert clear, "the test would not see it"


def test_hosts_and_ports_go_where_full_is_asked_for() -> None:
    row = as_json(FULL.record(record(FRAMES["get"])))
    assert "10.77" not in str(row)
    assert "51234" not in str(row)
    assert as_json(PARTIAL.record(record(FRAMES["get"])))["src"] == "10.77.3.9:51234"


@pytest.mark.parametrize("name", [name for name, data in FRAMES.items() if len(data) > 70])
@pytest.mark.parametrize("hole", [(30, 34), (56, 60), (60, 66), (64, 70)])
def test_nothing_survives_beside_a_hole(name: str, hole: tuple[int, int]) -> None:
    data = FRAMES[name]
    lossy = data[: hole[0]] + bytes(hole[1] - hole[0]) + data[hole[1] :]
    assert survivors(lossy, PARTIAL, (Span(*hole),)) == set()


@pytest.mark.parametrize("name", FRAMES)
@pytest.mark.parametrize("size", [40, 56, 60, 66, 70])
def test_nothing_survives_in_a_frame_cut_short_or_with_more_behind_it(name: str, size: int) -> None:
    assert survivors(FRAMES[name][:size], PARTIAL) == set()
    assert survivors(FRAMES[name] + VALUE, PARTIAL) == set()


#: A message whose names are metadata, and which has no layout of its own to contradict.
METADATA_OPCODES = {0x10, 0x1F, 0x50, 0x5E, 0x5F, 0xB9, 0xBA, 0xBB, 0xBC, 0xB5, 0x3D}


@pytest.mark.parametrize("name", ["mutation", "xattrs", "snappy", "cache transfer"])
@pytest.mark.parametrize("at", [0, 1, 2, 3, 4, 5, 7, 8, 9, 10, 11])
@pytest.mark.parametrize("most", sizes(4, 12))
def test_nothing_survives_whatever_byte_of_the_header_is_damaged(name: str, at: int, most: int) -> None:
    data = FRAMES[name]
    for value in (0, 1, 4, 8, 0x10, 0x1F, 0x21, 0x53, 0x56, 0x62, 0x81, 0xFF)[:: 12 // most]:
        if name == "cache transfer" and at == 1 and value in METADATA_OPCODES:
            continue
        damaged = data[:at] + bytes((value,)) + data[at + 1 :]
        assert survivors(damaged, PARTIAL) == set(), value


def test_equal_texts_stay_equal_and_keep_their_length() -> None:
    one, same = as_json(PARTIAL.record(record(FRAMES["mutation"]))), as_json(PARTIAL.record(record(FRAMES["metadata"])))
    assert one["key"] == same["key"]
    assert (len(one["key"]), len(one["value"]), one["value_length"]) == (len(KEY), len(VALUE), len(VALUE))
    assert one["key_hex"] == (b"\x08" + one["key"].encode()).hex()
    other = as_json(PARTIAL.record(record(encode("DCP_MUTATION", {"by_seqno": 4}, key=PREFIXED[:-1], value=b"v"))))
    assert other["key"] != one["key"][:-1]


def test_a_salt_gives_its_own_hashes() -> None:
    again, other = Redactor(SALT), Redactor(b"pepper")
    assert again.hash(KEY) == PARTIAL.hash(KEY) == FULL.hash(KEY)
    assert other.hash(KEY) != PARTIAL.hash(KEY)
    assert len({PARTIAL.hash(b"k%d" % n * 3) for n in range(1000)}) == 1000


def test_what_is_no_document_keeps_its_numbers() -> None:
    row = as_json(PARTIAL.record(record(FRAMES["mutation"])))
    clear = as_json(record(FRAMES["mutation"]))
    hidden = {"key", "key_hex", "value"}
    assert {k: v for k, v in row.items() if k not in hidden} == {k: v for k, v in clear.items() if k not in hidden}


def test_the_command_line_redacts_with_a_salt_of_its_own_or_from_a_file(tmp_path: Path) -> None:
    command, salt = f"dcpdump read {talk(tmp_path)} -f ndjson --value-bytes all", tmp_path / "salt"
    salt.write_bytes(SALT + b"\n")
    for more in ("--redact", f"--redact --salt-file {salt}", f"--redact-level full --salt-file {salt}"):
        printed = run(f"{command} {more}")
        assert printed.code == 0
        assert traces(printed.out + printed.err, PRIVATE) == set()
    assert run(f"{command} --redact").out != run(f"{command} --redact").out
    fixed = [run(f"{command} --redact --salt-file {salt}") for _ in range(2)]
    assert fixed[0] == fixed[1]
    assert SALT.decode() not in fixed[0].err
    empty = tmp_path / "empty"
    empty.write_bytes(b"")
    assert run(f"{command} --redact --salt-file {empty}").code == 2
    assert run(f"{command} --redact --salt-file {tmp_path}/no/such/folder").code == 2
    alone = run(f"{command} --salt-file {tmp_path}/new")
    assert (alone.code, alone.out, (tmp_path / "new").exists()) == (2, "", False)
    assert "--redact is missing" in alone.err


@pytest.mark.parametrize("command", ["sniff -i lo", "relay --listen 127.0.0.1:0 --to 127.0.0.1:9"])
def test_packets_are_not_written_where_they_are_to_be_hidden(command: str, tmp_path: Path) -> None:
    printed = run(f"dcpdump {command} --redact -w {tmp_path}/out.pcapng")
    assert (printed.code, printed.out, list(tmp_path.iterdir())) == (2, "", [])
    assert "-w writes packets as they are" in printed.err


def talk(folder: Path) -> Path:
    sent = TcpTalk().send(0, encode("DCP_OPEN", {"flags": 1}, key=b"me") + FRAMES["mutation"]).fin()
    return saved(sent, folder / "a.pcap")


CHOOSING = ("conns", "streams", "flow", "rollbacks", "check", "top --once", "key '*'", "read")


@pytest.mark.parametrize("command", CHOOSING)
def test_addresses_choose_the_same_whether_or_not_they_are_shown(command: str, tmp_path: Path) -> None:
    twice = "\n".join(
        f"CONNECT 10.0.0.{client}:40000 10.0.0.1:11210\n{opening()}"
        f"TX stream-request{{vb=5, start-seqno={client + 5}}}\n"
        "RX stream-request-response{rollback, rollback-seqno=3}\n"
        "STREAM vb=6, end-seqno=9\nRX snapshot-marker{start=0, end=9, flags=1}\nRX mutation{seqno:12, key=hello}\n"
        "FIN TX\n"
        for client in (2, 3)
    )
    path = saved(packets(said(twice)), tmp_path / "a.pcap")
    rows = {
        (place, level): len(run(f"dcpdump {command} {path} -f ndjson {place} {level}").out.split('"connection"'))
        for place in ("", "--host 10.0.0.3", "--port 40000")
        for level in ("", "--redact", "--redact-level full")
    }
    every, one = rows["", ""], rows["--host 10.0.0.3", ""]
    assert 1 < one < every
    assert rows == {where: one if "host" in where[0] else every for where in rows}


@pytest.mark.parametrize("level", ["partial", "full"])
def test_what_a_finding_quotes_is_hidden_but_for_words_of_the_protocol(level: str, tmp_path: Path) -> None:
    controls = "enable_nopp=true, max_marker_version=2.7, backfill_order=margarete"
    path = saved(packets(said(opening(controls=controls))), tmp_path / "a.pcap")
    command = f"dcpdump check {path} -q --all"
    clear, hidden = run(command).out, run(f"{command} --redact-level {level}").out
    for sentence in ("control key enable_nopp: no release", "backfill_order=margarete accepted"):
        assert sentence in clear
        assert sentence not in hidden
    assert "max_marker_version=2.7 accepted" in clear
    assert "max_marker_version=2.7 accepted" in hidden
    assert [len(line) for line in clear.splitlines()] == [len(line) for line in hidden.splitlines()]
    assert "enable_nopp" not in hidden
    assert "margarete" not in hidden


def test_a_salt_that_was_not_asked_for_is_said_nowhere(tmp_path: Path) -> None:
    path = talk(tmp_path)
    salts = [secrets.token_bytes(size) for size in range(64)]

    def drawn(size: int) -> bytes:
        return salts[size]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(secrets, "token_bytes", drawn)
        patch.setattr(secrets, "token_hex", lambda size: drawn(size).hex())
        for command in (f"read {path} --redact", f"conns {path} --redact", f"redact {path} -w {tmp_path}/out"):
            printed = run(f"dcpdump {command}")
            assert printed.code == 0
            assert traces(printed.out + printed.err, [salt for salt in salts if len(salt) >= 8], window=8) == set()


def test_a_salt_file_that_is_missing_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    path, salt = talk(tmp_path), tmp_path / "salt"
    first = run(f"dcpdump read {path} --redact -q --salt-file {salt}")
    assert f"{salt} is new" in first.err
    assert salt.stat().st_mode & 0o777 == 0o600
    made = salt.read_bytes().strip()
    assert len(made) == 64
    assert made.decode() not in first.err + first.out
    assert run(f"dcpdump read {path} --redact -q --salt-file {salt}") == (0, first.out, "")
    run(f"dcpdump redact {path} -w {tmp_path}/out -q --salt-file {tmp_path}/other")
    assert (tmp_path / "other").stat().st_mode & 0o777 == 0o600


def test_numbers_of_a_damaged_frame_are_left_out_and_not_made_up() -> None:
    hello = encode("HELLO", {"features": [6, 7, 0x12]}, key=b"agent")
    row = as_json(PARTIAL.record(record(hello + b"\1")))
    assert row["fields"] == {"features": [], "features_names": []}
    assert as_json(PARTIAL.record(record(hello)))["fields"]["features"] == [6, 7, 0x12]


SIGNS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


@pytest.mark.parametrize("salt", [b"one", b"another"])
@pytest.mark.parametrize("size", [1, 2])
def test_no_two_short_texts_share_one(salt: bytes, size: int) -> None:
    words = Pseudonyms(salt)
    texts = [bytes(signs) for signs in product(SIGNS, repeat=size)]
    assert sorted(map(words.text, texts)) == sorted(texts)


def test_it_is_as_long_and_the_same_for_one_salt_alone() -> None:
    for text in (b"", b"k", b"user::1", b"user-00001", b"a key of many bytes"):
        assert len(Pseudonyms(b"one").text(text)) == len(text)
        assert Pseudonyms(b"one").text(text) == Pseudonyms(b"one").text(text)
    assert Pseudonyms(b"one").text(b"user-00001") != Pseudonyms(b"another").text(b"user-00001")


def test_it_holds_only_letters_digits_and_two_signs() -> None:
    assert not Pseudonyms(b"salt").text(bytes(range(256)) + b"plain").translate(None, SIGNS)


def test_neighbours_have_nothing_in_common() -> None:
    words = Pseudonyms(b"salt")
    found = [words.text(b"user-%05d" % number) for number in range(1_000)]
    assert len(set(found)) == 1_000
    assert len({text[:3] for text in found}) > 900
