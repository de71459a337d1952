"""Redacted captures: the same frames at the same times, and none of their texts."""

import gzip
import random
import struct
import zlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dcpdump.capture.file import Capture
from dcpdump.capture.rewriter import RawRecords
from dcpdump.net.packet import Packet
from dcpdump.redact import Pseudonyms
from dcpdump.rewrite.redaction import Flaw, Redaction
from dcpdump.rewrite.spill import Spill
from dcpdump.spec.names import SNAPPY
from dcpdump.wire.encode import encode
from tests.support.captures import Pcapng, Record, pcap, pcap_header, pcapng
from tests.support.console import Printed, refusal, run
from tests.support.hostile import in_pcap, short_connections
from tests.support.packets import ACK, FLOW, TcpTalk, ethernet, flow, ipv4, renumbered, tcp, udp, vlan
from tests.support.secret_talk import (
    KEYS,
    METADATA,
    OF_BUCKETS,
    PRIVATE,
    TEXT,
    checked,
    checksums_are_right,
    disturbed,
    document,
    rows,
    saved,
    talk,
    words,
)
from tests.support.strategies import Sent, pushed, sent

SAMPLES = sorted(Path("samples").glob("*.pcap"))
modest = settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
#: What a redacted frame no longer has, or has in other words.
OF_FULL = ("src", "dst", "collection_name")  #: which the level full hides too
SAID = ("file", "key", "key_hex", "value", "xattrs", "value_json", "problems", "hints", "framing", "confidence")


def redacted(path: Path, options: str = "") -> Path:
    out = path.with_suffix(".out")
    printed = run(f"dcpdump redact {path} -w {out} --force --salt pepper {options}")
    assert printed.code in (0, 4), printed
    assert "proved: no original key or value of 8 bytes or more is in it, and it decodes" in printed.err
    return out


def without_words(path: Path, *more: str) -> list[dict[str, Any]]:
    out = []
    for row in rows(path):
        damaged = ("fields", "collection") if "problems" in row else ()  # of which only the header stays
        packed = ("value_length",) if row.get("datatype", 0) & SNAPPY else ()  # as long as before where it is packed
        out.append({name: row[name] for name in row if name not in (*SAID, *more, *damaged, *packed)})
    return out


@cache
def pieces(secrets: tuple[bytes, ...], window: int) -> set[bytes]:
    found = {secret[at : at + window] for secret in secrets for at in range(len(secret) - window + 1)}
    return found - {b"customer"}


def survivors(data: bytes, secrets: tuple[bytes, ...], window: int = 8) -> set[bytes]:
    """Return the pieces of secrets that are anywhere in the bytes."""
    return {piece for piece in pieces(secrets, window) if piece in data}


EVERYTHING = (*PRIVATE, *(document(number) for number in range(len(KEYS))))


def files(path: Path) -> list[tuple[int | None, int, int]]:
    return [(packet.ts_ns, len(packet.data), packet.wire_length) for packet in Capture(str(path))]


def hidden(path: Path, options: str = "", secrets: tuple[bytes, ...] = EVERYTHING) -> Path:
    """Redact a capture: nothing of what is said survives, and its packets and frames are the same."""
    out = redacted(path, options)
    gone = OF_FULL if "full" in options else ()
    assert survivors(out.read_bytes(), secrets) == set()
    assert files(out) == files(path)
    assert without_words(out, *gone) == without_words(path, *gone)
    return out


@pytest.mark.parametrize("level", ["partial", "full"])
@pytest.mark.parametrize(("segment", "pcapng"), [(7, False), (300, True), (300, False), (100_000, True)])
def test_nothing_of_a_conversation_survives_and_its_frames_do(
    segment: int, level: str, pcapng: bool, tmp_path: Path
) -> None:
    packets = [checked(packet) for packet in talk(segment).packets]
    path = saved(packets, tmp_path / "a.cap", pcapng=pcapng)
    clear = path.read_bytes()
    if segment > 7:
        assert survivors(clear, PRIVATE), "the test would not see it"
        assert survivors(clear, METADATA)
        assert survivors(clear, OF_BUCKETS)
    out = hidden(path, f"--level {level}")
    data = out.read_bytes()
    assert bool(survivors(data, METADATA)) == (level == "partial" and segment > 7)
    assert survivors(data, OF_BUCKETS) == set()
    assert len(data) == len(clear)
    assert all(checksums_are_right(packet.data) == (True, True) for packet in Capture(str(out)))
    assert not [row for row in rows(out) if row.get("problems")]


@modest
@given(st.integers(0, 10_000), st.sampled_from([20, 90, 700]), st.booleans(), st.booleans())
def test_whatever_tcp_did_to_it(tmp_path: Path, seed: int, segment: int, syn: bool, acks: bool) -> None:
    dice = random.Random(seed)
    packets = renumbered(disturbed(talk(segment, 12, syn=syn, acks=acks).packets, dice))
    hidden(saved(packets, tmp_path / f"{seed}.pcap"))


@modest
@given(st.lists(st.one_of(sent(), pushed()), min_size=1, max_size=8), st.integers(1, 400), st.booleans())
def test_frames_of_every_message_decode_as_before(tmp_path: Path, some: list[Sent], segment: int, full: bool) -> None:
    conversation = TcpTalk(segment=segment).send(0, encode("DCP_OPEN", {"flags": 1}, key=b"me"))
    for number, frame in enumerate(some):
        conversation.send(number % 2, frame.data)
    path = saved(conversation.fin().packets, tmp_path / "any.pcap")
    printed = run(f"dcpdump redact {path} -w {tmp_path}/out --force" + " --level full" * full)
    if printed.code == 5:  # the same text as a key, and as a name that stays
        assert "still stands" in printed.err
        return
    gone = ("src", "dst", "fields") if full else ("fields",)
    assert without_words(tmp_path / "out", *gone) == without_words(path, *gone)


def test_bytes_that_come_again_are_the_same_again(tmp_path: Path) -> None:
    clean = talk(100)
    packets = list(clean.packets)
    carrying = [packet for packet in packets if len(packet.data) > 120]
    packets[60:60] = [packet._replace(ts_ns=0) for packet in carrying[:20]]
    path = saved(renumbered(packets), tmp_path / "again.pcap")
    read: dict[bytes, bytes] = {}
    for before, after in zip(Capture(str(path)), Capture(str(redacted(path))), strict=True):
        assert read.setdefault(before.data[34:], after.data[34:]) == after.data[34:]
    assert len(read) < len(packets)


def test_segments_that_disagree_agree_afterwards(tmp_path: Path) -> None:
    sent = TcpTalk()
    sent.send(0, encode("DCP_OPEN", {"flags": 1}, key=b"me"))
    seq = sent.seq(1)
    frame = encode("DCP_MUTATION", {"by_seqno": 1}, key=KEYS[0], value=b"first-version-of-it")
    sent.send(1, frame).write(1, frame.replace(b"first", b"other"), seq=seq).fin()
    out = redacted(saved(renumbered(sent.packets), tmp_path / "conflict.pcap"))
    assert survivors(out.read_bytes(), (b"first-version-of-it", b"other-version-of-it", *KEYS)) == set()
    assert "disagree" not in run(f"dcpdump read {out}").err


def fragments(packet: Packet, size: int) -> list[bytes]:
    """Cut a packet into IP fragments."""
    segment = packet.data[34:]
    pieces = [(at, segment[at : at + size]) for at in range(0, len(segment), size)]
    way = FLOW if packet.data[26:30] == bytes((10, 0, 0, 1)) else FLOW.reverse
    ident = packet.number
    return [ethernet(ipv4(way, piece, ident=ident, fragment=at, more=at + size < len(segment))) for at, piece in pieces]


@pytest.mark.parametrize(("size", "level"), [(8, "partial"), (96, "full"), (480, "partial")])
def test_fragments_are_redacted_and_their_segments_checksums_mended(size: int, level: str, tmp_path: Path) -> None:
    whole = [checked(packet) for packet in talk(900, 10).packets]
    packets = []
    for packet in whole:
        for data in fragments(packet, size) if len(packet.data) > 34 + size else [packet.data]:
            packets.append(packet._replace(data=data, wire_length=len(data)))
    dice = random.Random(1)
    for at in range(len(packets) - 1):
        if dice.random() < 0.2:
            packets[at], packets[at + 1] = packets[at + 1], packets[at]
    out = hidden(saved(renumbered(packets), tmp_path / "fragments.pcap"), f"--level {level}")
    assert len(rows(out)) > 20
    parts: dict[tuple[bytes, bytes], dict[int, bytes]] = {}
    for packet in Capture(str(out)):
        (place,) = struct.unpack_from(">H", packet.data, 20)
        parts.setdefault((packet.data[18:20], packet.data[26:34]), {})[(place & 0x1FFF) * 8] = packet.data[34:]
    for (_, addresses), pieces in parts.items():
        if len(pieces) > 1:
            segment = b"".join(pieces[at] for at in sorted(pieces))
            assert words(addresses + struct.pack(">II", len(segment), 6) + segment) == 0xFFFF


def test_a_checksum_that_was_wrong_stays_as_it_is(tmp_path: Path) -> None:
    path = saved(talk().packets, tmp_path / "offloaded.pcap")
    for before, after in zip(Capture(str(path)), Capture(str(redacted(path))), strict=True):
        assert after.data[50:52] == before.data[50:52] == b"\0\0"


def test_equal_keys_stay_equal_wherever_they_stand(tmp_path: Path) -> None:
    sent = TcpTalk(segment=50).send(0, encode("DCP_OPEN", {"flags": 1}, key=b"me"))
    for name, fields in (("DCP_MUTATION", {"by_seqno": 1}), ("DCP_DELETION", {"by_seqno": 2}), ("DCP_PREPARE", {})):
        sent.send(1, encode(name, fields, key=KEYS[0]))
    sent.send(0, encode("GET", key=KEYS[0])).send(0, encode("GET", key=KEYS[1])).fin()
    keys = [row["key"] for row in rows(redacted(saved(sent.packets, tmp_path / "keys.pcap")))[1:]]
    assert len(set(keys[:4])) == 1
    assert keys[4] != keys[0]
    assert len(keys[0]) == len(KEYS[0])


def test_a_salt_makes_it_repeatable_and_none_makes_it_fresh(tmp_path: Path) -> None:
    path = saved(talk().packets, tmp_path / "a.pcap")
    (tmp_path / "salt").write_bytes(b"pepper\n")
    results = []
    for number, options in enumerate(("--salt pepper", f"--salt-file {tmp_path}/salt", "--salt mint", "", "")):
        assert run(f"dcpdump redact {path} -w {tmp_path}/{number} -q {options}") == Printed(0, "", "")
        results.append((tmp_path / str(number)).read_bytes())
    assert results[0] == results[1]
    assert len(set(results)) == 4
    read = run(f"dcpdump read {path} -f ndjson --redact --salt-file {tmp_path}/salt").out
    assert rows(tmp_path / "0", "--opcode mutation")[0]["key"] in read


def test_the_names_of_connections_stay_apart_behind_a_word_that_stays(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(in_pcap(short_connections(400)))  # any of 100 places may get the sign that another had
    names = [row["key"] for row in rows(redacted(path)) if row["name"] == "DCP_OPEN" and "key" in row]
    assert len(names) == 400
    assert len(set(names)) == 400
    assert {name[:8] for name in names} == {"eq_dcpq:"}


def test_hosts_have_other_addresses_in_every_header(tmp_path: Path) -> None:
    clear = [checked(packet) for packet in talk().packets]
    path = saved(clear, tmp_path / "a.pcap")
    out = redacted(path, "--level full")
    pairs = {(b.data[26:30], a.data[26:30]) for b, a in zip(clear, Capture(str(out)), strict=True)}
    macs = {(b.data[6:12], a.data[6:12]) for b, a in zip(clear, Capture(str(out)), strict=True)}
    assert (len(pairs), len(macs)) == (2, 1)
    assert all(before != after for before, after in pairs | macs)
    (one, other) = (after for _, after in pairs)
    assert one[:3] == other[:3], "hosts of one network stay neighbours"
    assert {row["src"].rpartition(":")[2] for row in rows(out)} == {"50000", "11210"}
    assert not [each for each in (b"\x0a\0\0\1", b"\x0a\0\0\2") if each in out.read_bytes()]


@pytest.mark.parametrize("way", ["[fd00:77::1]:50000", "10.1.2.3:50000"])
def test_other_headers_are_kept_and_their_addresses_replaced(way: str, tmp_path: Path) -> None:
    there = flow(way, "[fd00:77::2]:11210" if "[" in way else "10.1.2.4:11210")
    plain = [checked(packet) for packet in talk(400, 9, flow=there).packets]
    tagged = [packet._replace(data=vlan(packet.data[14:], 0x88A8, 0x8100)) for packet in plain]
    outer = flow("192.0.2.1:1", "192.0.2.2:2")
    tunnel = bytes((8, 0, 0, 0, 0, 0, 7, 0))
    inside = (udp(4000, 4789, tunnel + packet.data) for packet in plain)
    wrapped = [plain[0]._replace(data=ethernet(ipv4(outer, each, protocol=17))) for each in inside]
    for number, packets in enumerate((plain, tagged, renumbered(wrapped))):
        path = saved([p._replace(wire_length=len(p.data)) for p in packets], tmp_path / f"{number}.pcap")
        data = hidden(path, "--level full").read_bytes()
        addresses = ("fd0000770000", "0a0102", "020000000001", "c00002")
        assert [each for each in addresses if bytes.fromhex(each) in data] == []


def test_what_is_in_no_frame_is_blank(tmp_path: Path) -> None:
    other = TcpTalk(flow("10.9.9.9:4000", "10.9.9.8:80")).send(0, b"GET /customer/margarete HTTP/1.1\r\n\r\n").fin()
    tls = TcpTalk(flow("10.9.9.9:4001", "10.9.9.8:443")).send(0, b"\x16\x03\x01\x02\x00\x01ciphertext-as-it-is").fin()
    loose = [
        ethernet(ipv4(FLOW, udp(53, 53, b"where is margarete.example"), protocol=17)),
        ethernet(b"\0\1\x08\0\6\4\0\1 margarete's own arp", 0x0806),
        ethernet(ipv4(FLOW, b"\x08\0\0\0ping margarete", protocol=1)),
        ethernet(ipv4(FLOW, tcp(FLOW, 1))) + b"margarete in the padding",
        ethernet(ipv4(FLOW, tcp(FLOW, 1, options=b"\x22\x14margarete_cookie__"))),
        ethernet(ipv4(FLOW, tcp(FLOW, 1, flags=4 | ACK, payload=b"margarete was reset"))),
    ]
    late = TcpTalk(flow("10.9.9.9:4002", "10.9.9.8:11210"), syn=False)
    late.send(0, b"rest of a frame: margarete" * 3 + encode("DCP_NOOP") * 5).fin()
    packets = [*talk().packets, *other.packets, *tls.packets, *late.packets]
    packets += [Packet(0, 0, 1, data, len(data)) for data in loose]
    out = hidden(saved(renumbered(packets), tmp_path / "a.pcap"))
    assert survivors(out.read_bytes(), (b"margarete", b"ciphertext-as-it-is"), 6) == set()


def test_a_number_of_a_pcapng_that_is_longer_than_its_number_is_left_out(tmp_path: Path) -> None:
    write, private = Pcapng(), b"margarete's laptop"
    blocks = [write.section(), write.interface(options=[(9, b"\x09"), *((code, private) for code in (8, 10, 13, 14))])]
    for packet in talk(count=3).packets:
        options = [(2, b"\1\0\0\0"), *((code, private) for code in (2, 4, 5, 6))]
        blocks.append(write.packet(packet.ts_ns or 0, packet.data, options=options))
    blocks.append(write.statistics(options=[(code, private) for code in range(2, 9)]))
    path = tmp_path / "a.pcapng"
    path.write_bytes(b"".join(blocks))
    out = redacted(path)
    assert survivors(out.read_bytes(), (private,), 4) == set()
    assert files(out) == files(path)
    assert out.read_bytes().count(b"\2\0\4\0\1\0\0\0") == len(talk(count=3).packets)


def test_what_a_pcapng_says_in_words_is_left_out(tmp_path: Path) -> None:
    write = Pcapng()
    comment = [(1, b"margarete's laptop")]
    blocks = [
        write.section([*comment, (2, b"x86"), (4, b"dumpcap")]),
        write.interface(options=[(2, b"eth0"), *comment, (9, b"\x09"), (4, bytes((10, 0, 0, 1, 255, 0, 0, 0)))]),
        write.interface(options=[(3, b"margarete's cable"), (11, b"\0host margarete"), (15, b"card")]),
        write.block(4, b"\1\0\x0e\0\x0a\0\0\1margarete\0\0\0\0\0\0\0"),
        write.block(10, b"KSLT\x20\0\0\0CLIENT_RANDOM margarete 0123456"),
        write.block(0xBAD, b"\1\2\3\4margarete's block"),
    ]
    for packet in talk().packets:
        blocks.append(write.packet(packet.ts_ns or 0, packet.data, options=[*comment, (2, b"\1\0\0\0")]))
    blocks.append(write.statistics(options=[*comment, (4, struct.pack("<Q", 1000)), (5, struct.pack("<Q", 3))]))
    path = tmp_path / "a.pcapng"
    path.write_bytes(b"".join(blocks))
    printed = run(f"dcpdump redact {path} -w {tmp_path}/out")
    assert printed.code == 0
    assert "1 decryption secrets blocks" in printed.err
    data = (tmp_path / "out").read_bytes()
    assert survivors(data, (b"margarete",), 6) | survivors(data, EVERYTHING) == set()
    assert files(tmp_path / "out") == files(path)
    assert without_words(tmp_path / "out") == without_words(path)
    assert b"eth0" in data
    with Capture(str(tmp_path / "out")) as capture:
        assert len(list(capture)) == len(talk().packets)
        assert (capture.drops, capture.health.damage_count, capture.health.warnings) == (3, 0, [])
    run(f"dcpdump redact {path} -w {tmp_path}/full --level full")
    assert b"eth0" not in (tmp_path / "full").read_bytes()


def test_a_compressed_capture_comes_out_plain(tmp_path: Path) -> None:
    path = saved(talk().packets, tmp_path / "a.pcap")
    packed = tmp_path / "a.pcap.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert redacted(packed).read_bytes() == redacted(path).read_bytes()
    printed = run(f"dcpdump redact {packed} -w {tmp_path}/b.pcap.gz")
    assert (printed.code, (tmp_path / "b.pcap.gz").exists()) == (2, False)


def test_several_captures_become_a_folder_and_a_connection_continues_across_them(tmp_path: Path) -> None:
    packets = talk(200).packets
    half = len(packets) // 2
    whole = saved(packets, tmp_path / "whole.pcap")
    first = saved(packets[:half], tmp_path / "one.pcap")
    second = saved(packets[half:], tmp_path / "two.pcap")
    printed = run(f"dcpdump redact {first} {second} -w {tmp_path}/out --salt pepper")
    assert printed.code == 0, printed
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["one.pcap", "two.pcap"]
    assert (tmp_path / "out" / "one.pcap").stat().st_mode & 0o777 == 0o600
    joined = (tmp_path / "out" / "one.pcap").read_bytes() + (tmp_path / "out" / "two.pcap").read_bytes()[24:]
    assert joined == redacted(whole).read_bytes()
    again = run(f"dcpdump redact {first} {second} -w {tmp_path}/out")
    assert again.code == 5
    assert {path.name for path in tmp_path.iterdir()} == {"one.pcap", "out", "two.pcap", "whole.out", "whole.pcap"}


def test_results_of_inputs_with_one_name_have_their_own(tmp_path: Path) -> None:
    path = saved(talk(count=2).packets, tmp_path / "a.pcap")
    others = tmp_path / "a.pcap.gz", tmp_path / "a-2.pcap.gz"
    for other in others:
        other.write_bytes(gzip.compress(path.read_bytes()))
    printed = run(f"dcpdump redact {path} {others[0]} {others[1]} -w {tmp_path}/out")
    assert sorted(each.name for each in (tmp_path / "out").iterdir()) == ["a-2-2.pcap", "a-2.pcap", "a.pcap"]
    note = "dcpdump: note: {} is written as {}, since another input has its name\n"
    assert printed.err.startswith(note.format(others[0], "a-2.pcap") + note.format(others[1], "a-2-2.pcap"))


@pytest.mark.parametrize("promised", [99, 5], ids=["too-long", "too-short"])
def test_a_cache_transfer_with_a_wrong_length_is_blank_behind_its_header(promised: int, tmp_path: Path) -> None:
    """Blank it is two whole items; and where its length is too short, its text stands where an item's numbers do."""
    text = b"the text of a document that is not to be seen"
    frame = encode("DCP_CACHE_TRANSFER", {"items": [{"key": b"", "value": text[:40], "value_length": promised}]})
    path = saved(TcpTalk().send(1, frame + encode("DCP_NOOP")).packets, tmp_path / "in.pcap")
    out = redacted(path)
    assert survivors(out.read_bytes(), (text,)) == set()
    assert [row["name"] for row in rows(out)] == ["DCP_CACHE_TRANSFER", "DCP_NOOP"]


def test_what_cannot_be_proved_is_not_written(tmp_path: Path) -> None:
    name = b"consumer-of-orders"
    sent = TcpTalk().send(0, encode("DCP_OPEN", {"flags": 1}, key=b"me"))
    sent.send(1, encode("DCP_SYSTEM_EVENT", {"event": 3, "version": 0}, layout="0", key=name))
    sent.send(1, encode("DCP_MUTATION", {"by_seqno": 1}, key=name, value=b"{}")).fin()
    path = saved(sent.packets, tmp_path / "a.pcap")
    printed = run(f"dcpdump redact {path} -w {tmp_path}/out")
    assert printed.code == 5
    assert [text in printed.err for text in ("still stands at byte", "--level full", name.decode())] == [
        True,
        True,
        False,
    ]
    assert [each.name for each in tmp_path.iterdir()] == ["a.pcap"]
    assert run(f"dcpdump redact {path} -w {tmp_path}/out --level full").code == 0


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_a_redacted_sample_has_the_same_findings(path: Path, tmp_path: Path) -> None:
    out = tmp_path / path.name
    assert run(f"dcpdump redact {path} -w {out} -q").code in (0, 4)
    assert without_words(out) == without_words(path)
    one, other = (run(f"dcpdump check {each} -f ndjson") for each in (path, out))
    assert one.code == other.code
    assert len(one.out.splitlines()) == len(other.out.splitlines())


@pytest.mark.parametrize("command", ["carve", "redact"])
def test_errors_say_what_to_do(command: str, tmp_path: Path) -> None:
    path = saved(talk(count=2).packets, tmp_path / "a.pcap")
    http = TcpTalk(flow("10.9.9.9:4000", "10.9.9.8:80")).send(0, b"GET / HTTP/1.1\r\n\r\n").fin()
    foreign = saved(http.packets, tmp_path / "http.pcap")
    out, twice = f"-w {tmp_path}/out", {"carve": "more than once", "redact": "reads its input twice"}
    own = {
        "carve": [
            (f"{path} {out} --opcode mutatoin", 2, "mutation"),
            (f"{path} {out} --opcode stream_end", 3, "no frame of the input matches"),
        ],
        "redact": [
            (f"{path} -w /dev/null", 5, "must be a file"),
            (f"{path} -w {tmp_path}/no/such/folder", 5, "no such folder"),
            (f"{path} {out} --salt ''", 2, "the salt is empty"),
        ],
    }
    for words_, code, text in (
        (f"{path}", 2, "-w"),
        (f"{tmp_path}/none.pcap {out}", 3, "no such file"),
        (f"- {out}", 3, twice[command]),
        (f"{foreign} {out}", 3, "no DCP in the input"),
        (f"{path} -w {path}", 5, "the output is one of the inputs"),
        (f"{path} -w {foreign}", 5, "--force replaces it"),
        *own[command],
    ):
        printed = run(f"dcpdump {command} {words_}", path.read_bytes())
        assert (printed.code, text in printed.err) == (code, True), printed
    assert {each.name for each in tmp_path.iterdir()} == {"a.pcap", "http.pcap"}


def test_a_salt_comes_from_one_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = f"dcpdump redact samples/replica.pcap -w {tmp_path}/out --salt pepper"
    both = refusal(2, "either --salt or --salt-file, not both", "dcpdump redact --help")
    assert run(f"{command} --salt-file {tmp_path}/salt") == both
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setenv("DCPDUMP_SALT_FILE", f"{tmp_path}/salt")  # of which the command line has its choice
    assert run(command).code == 0
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def containers(packets: list[Packet]) -> dict[str, bytes]:
    """Return packets in every form that a capture may have."""
    records = [Record(each.ts_ns or 0, each.data) for each in packets]
    summed = [Record(each.ts_ns, each.data + zlib.crc32(each.data).to_bytes(4, "little")) for each in records]
    wrong = [Record(each.ts_ns, each.data + b"\1\2\3\4") for each in records]
    write, half = Pcapng(big_endian=True), len(records) // 2
    blocks = [write.section(), write.interface()]
    blocks += [write.old_packet(each.ts_ns // 1000, each.data) for each in records[:half]]
    blocks += [write.packet(each.ts_ns // 1000, each.data) for each in records[half:]]
    return {
        "microseconds": pcap(records),
        "nanoseconds, big-endian": pcap(records, nano=True, big_endian=True),
        "with check sequences": pcap(summed, link_type=1 | 0x2400_0000),
        "with wrong check sequences": pcap(wrong, link_type=1 | 0x2400_0000),
        "an unknown version": pcap_header(version=(2, 9)) + pcap(records)[24:],
        "old packet blocks, big-endian": b"".join(blocks),
        "two in one": pcap(records[:half]) + pcapng(records[half:], big_endian=True),
        "two in one, the other way": pcapng(records[:half]) + pcap(records[half:], nano=True),
    }


def torn(packets: list[Packet]) -> dict[str, bytes]:
    """Return captures without times, with uneven ones, with snapped packets, and that are cut short."""
    records = [Record(each.ts_ns or 0, each.data) for each in packets]
    simple = (NG.simple_packet(each.data) for each in records)
    return {
        "without times": NG.section() + NG.interface() + b"".join(simple),
        "to the nanosecond": pcapng([each._replace(ts_ns=each.ts_ns + 2_333_333) for each in records]),
        "snapped": pcap([each._replace(data=each.data[:200], wire=len(each.data)) for each in records]),
        "cut short": pcap(records)[:-300],
        "a pcapng that is cut short": pcapng(records)[:-300],
    }


NG = Pcapng()
TORN_OFF = ("snapped", "cut short", "a pcapng that is cut short")
CHECKED = [checked(packet) for packet in talk().packets]
FORMS, TORN = containers(CHECKED), torn(CHECKED)


@pytest.mark.parametrize("form", FORMS | TORN)
def test_every_container_comes_out_as_it_was(form: str, tmp_path: Path) -> None:
    path = tmp_path / "a.cap"
    path.write_bytes((FORMS | TORN)[form])
    out = hidden(path, "--level full" if "one" in form or "pcapng" in form else "")
    data = out.read_bytes()
    assert len(data) == len(path.read_bytes())
    again = tmp_path / "again"
    printed = run(f"dcpdump redact {path} -w {again} --salt pepper-and-mint")
    assert (printed.code, "cut short" in printed.err) == (4 if form in TORN_OFF else 0, "short" in form)
    assert ("pepper" in printed.err + printed.out, b"pepper" in again.read_bytes()) == (False, False)
    assert again.stat().st_mode & 0o777 == 0o600
    if "check sequences" in form:
        there = [packet.data for packet in Capture(str(out))]
        right = {zlib.crc32(each).to_bytes(4, "little") in data for each in there}
        assert right == {form == "with check sequences"}
        assert b"\1\2\3\4" not in data


@pytest.mark.parametrize(
    ("form", "garbage"),
    [*((form, b"\xff" * 333) for form in FORMS), ("two in one", b"\0" * 700_000), ("microseconds", b"\0" * 700_000)],
    ids=lambda value: value if isinstance(value, str) else f"{len(value)} bytes",
)
def test_what_is_salvaged_is_redacted_as_if_there_were_no_damage(form: str, garbage: bytes, tmp_path: Path) -> None:
    whole, damaged = tmp_path / "whole", tmp_path / "damaged"
    whole.write_bytes(FORMS[form])
    records = RawRecords(str(whole))
    at = sum(len(records.pop_bytes()) for _, _ in zip(range(3), records, strict=False))
    damaged.write_bytes(FORMS[form][:at] + garbage + FORMS[form][at:])
    printed = run(f"dcpdump redact {damaged} -w {tmp_path}/out --salvage --salt pepper -q")
    lost = printed.err.splitlines()[0]
    assert (printed.code, f"byte {at:,}" in lost) == (4, True), printed
    assert lost.endswith(f"; lost: {len(garbage):,} bytes were skipped")
    assert (tmp_path / "out").read_bytes() == redacted(whole).read_bytes()


def proof_of(path: Path, changed: Callable[[bytes], bytes]) -> Flaw | None:
    """Redact a capture, change what was written, and return the result of the proof."""
    inputs = [Capture(str(path))]
    with Spill(str(path.parent)) as spill:
        redaction = Redaction(inputs, Pseudonyms(b"pepper"), spill, full=False)
        redaction.survey()
        out = path.with_suffix(".changed")
        out.write_bytes(changed(b"".join(redaction.write(str(path)))))
        return redaction.prove([str(out)], [Capture(str(out))])


@settings(modest, max_examples=15)
@given(st.integers(0, 1 << 30))
def test_a_result_with_another_byte_in_a_frame_is_refused(tmp_path: Path, seed: int) -> None:
    packets = talk(300, 24).packets
    path = saved(packets, tmp_path / "a.pcap")
    loaded = [at for at, packet in enumerate(packets) if len(packet.data) > 54]
    packet = loaded[seed % len(loaded)]
    place = 24 + sum(16 + len(each.data) for each in packets[:packet]) + 16
    place += 54 + seed % (len(packets[packet].data) - 54)

    def changed(data: bytes) -> bytes:
        return data[:place] + bytes((data[place] ^ 1,)) + data[place + 1 :]

    flaw = proof_of(path, changed)
    assert flaw is not None
    said = "of the result is not what the input's is" in flaw.text or "the result has" in flaw.text
    assert said is not flaw.survivor
    assert proof_of(path, bytes) is None


def test_a_result_with_a_key_or_a_value_in_it_or_without_the_last_frames_is_refused(tmp_path: Path) -> None:
    packets = talk(300, 24).packets
    path = saved(packets, tmp_path / "a.pcap")
    for secret in (KEYS[3], document(0), TEXT):
        flaw = proof_of(path, lambda data, secret=secret: data + secret)  # type: ignore[misc]
        assert flaw is not None
        assert flaw.survivor
    fewer = sum(16 + len(packet.data) for packet in packets[-12:])
    assert proof_of(path, lambda data: data[:-fewer]) is not None
