"""Work in proportion to the input, memory within bounds, whatever the input is; of each command where it is hostile."""

import os
import shlex
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any
from weakref import ref

import pytest

from dcpdump.annotate import annotate
from dcpdump.batch.block import blocks
from dcpdump.batch.dissector import Dissection
from dcpdump.capture.file import Capture
from dcpdump.check.evidence import PendingEvidence
from dcpdump.dissect import Dissector
from dcpdump.index.building import Checkpoint, packed
from dcpdump.net.connections import Connections
from dcpdump.net.event import Seen
from dcpdump.net.layers import ExportedPdus
from dcpdump.net.limits import Limits
from dcpdump.net.packet import Packet
from dcpdump.net.tcp import Segment
from dcpdump.paste import read_paste
from dcpdump.record import Record, as_json
from dcpdump.render import OUTPUTS, View
from dcpdump.render.style import Palette
from dcpdump.spec import opcodes
from dcpdump.spec.header import HEADER_LENGTH
from dcpdump.streams.exchanges import UnansweredRequest
from dcpdump.streams.frame_event import NO_FRAME
from dcpdump.streams.state import ConnectionState
from dcpdump.streams.stream import Prepares
from dcpdump.tls.records import RecordCutter
from dcpdump.wire.decode import decode
from dcpdump.wire.encode import encode
from dcpdump.wire.frame import RawFrame, Span, Where
from dcpdump.wire.session import Session
from dcpdump.wire.split import FrameSplitter
from tests.support import captures
from tests.support.console import run
from tests.support.conversation import opening
from tests.support.hostile import (
    SHAPES,
    cache_transfers,
    calm_then_lists,
    compressed_xattrs,
    documents,
    escapes,
    half_of_the_segments,
    in_pcap,
    in_small_blocks,
    large_documents,
    large_manifest,
    names_of_collections,
    noops_behind_a_hole,
    noops_without_answers,
    short_connections,
    stray_segments,
    streams_in_turn,
    tiny_frames,
)
from tests.support.ledgers import ledger
from tests.support.live import running
from tests.support.packets import ACK, FIN, FLOW, NOON, SYN, ethernet, flow, ipv4, ipv4_tcp, packet, packets, tcp

MIB = 1 << 20

# -- I7: twice the input, at most 2.3 times the steps --------------------------------------------------------


def steps(work: Callable[[], object]) -> int:
    """Count the lines and calls of Python that some work takes."""
    count = 0

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal count
        count += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def mutation(seqno: int, size: int = 10) -> bytes:
    return encode("DCP_MUTATION", {"by_seqno": seqno}, key=b"k", value=b"v" * size, vbucket=1, opaque=1)


def promise(size: int) -> bytes:
    """Return the header of a mutation of so many bytes, and nothing more."""
    head = bytearray(mutation(1, 0))
    head[8:12] = (size - 24).to_bytes(4, "big")
    return bytes(head)


def dissect(some: list[Packet]) -> int:
    machine = Dissector()
    return sum(len(machine.feed(each)) for each in some) + len(machine.close())


def segments(pieces: list[tuple[int, bytes]], *, syn: bool = True) -> list[Packet]:
    frames = [ethernet(ipv4_tcp(FLOW, 999, flags=SYN))] if syn else []
    frames += [ethernet(ipv4_tcp(FLOW, 1000 + at, data)) for at, data in pieces]
    return packets(frames, step_ns=1000)


def tiny_segments_backwards(count: int) -> Callable[[], object]:
    data = (encode("DCP_OPEN", key=b"x") + mutation(1) * (count // 60 + 1))[:count]
    some = segments([(at, data[at : at + 1]) for at in range(count - 1, -1, -1)])
    return lambda: dissect(some)


def tiny_segments_behind_a_hole(count: int) -> Callable[[], object]:
    data = mutation(1) * (count // 30 + 2)
    some = segments([(at, data[at : at + 1]) for at in range(10, 10 + count)])
    return lambda: dissect(some)


def many_connections(count: int) -> Callable[[], object]:
    frames = []
    for number in range(count):
        where = flow(f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}:40000")
        frames += [ethernet(ipv4_tcp(where, 999, flags=SYN)), ethernet(ipv4_tcp(where, 1000, promise(500)))]
    some = packets(frames)
    return lambda: dissect(some)


def split(pieces: list[bytes | int]) -> int:
    session = Session()
    session.streams[1] = 1
    splitter, count = FrameSplitter(lambda: session), 0
    for piece in pieces:
        count += len(splitter.gap(piece) if isinstance(piece, int) else splitter.feed(piece))
    return count + len(splitter.close())


STRANGER = encode("DCP_MUTATION", {"by_seqno": 9}, key=b"k", vbucket=7, opaque=77)
LEAD = encode("DCP_MUTATION", {"by_seqno": 9}, key=b"k", value=bytes(900_000), vbucket=7, opaque=77)[:60]


def frames_and_garbage_in_turns(count: int) -> list[bytes | int]:
    return [mutation(1) + b"".join(b"".join(mutation(3 * n + at) for at in range(3)) + b"?" for n in range(count))]


def a_search_in_tiny_segments(count: int) -> list[bytes | int]:
    data = (STRANGER * 3 + LEAD + STRANGER * count)[: 20 * count]
    return [mutation(1), 5, *(data[at : at + 4] for at in range(0, len(data), 4))]


#: What is cut into frames: pieces, and how many bytes were lost between them.
SPLIT: dict[str, Callable[[int], list[bytes | int]]] = {
    "many_frames_in_one_segment": lambda count: [mutation(1) * count],
    "frames_and_garbage_in_turns": frames_and_garbage_in_turns,
    "headers_that_lead_nowhere": lambda count: [mutation(1), 5, (STRANGER * 3 + b"?") * count],
    "a_search_in_tiny_segments": a_search_in_tiny_segments,
    "holes_in_one_frame": lambda count: [promise(100 * count), *(b"x" * 40, 3) * count],
}


def cut(name: str) -> Callable[[int], Callable[[], object]]:
    def make(count: int) -> Callable[[], object]:
        pieces = SPLIT[name](count)
        return lambda: split(pieces)

    make.__name__ = name
    return make


def damaged_frames_in_one_block(count: int) -> Callable[[], object]:
    damaged = bytearray(encode("DCP_NOOP"))
    damaged[4] = 9  # bytes of extras, in a body of none
    data = (mutation(1) * 3 + damaged) * (count // 4)
    (block,) = blocks(segments([(at, data[at : at + 20]) for at in range(0, 20 * count, 20)]), 1 << 20)
    return lambda: deque(Dissection().feed_block(block), 0)


def a_failover_log_full_of_holes(count: int) -> Callable[[], object]:
    entry = {"vbucket_uuid": 1, "seqno": 2}
    log = {"failover_log": [entry] * count}
    data = encode("DCP_STREAM_REQ", log, response=True, layout="1")
    holes = tuple(Span(len(data) - 3 * n - 2, len(data) - 3 * n - 1) for n in range(count, 0, -1))
    raw = RawFrame(data, RawFrame.of(data).header, holes=holes)
    return lambda: decode(raw)


def many_items(form: str) -> Callable[[int], Callable[[], object]]:
    def make(count: int) -> Callable[[], object]:
        item = {"key": b"\x08key", "value": b"v"}
        frame = decode(RawFrame.of(encode("DCP_CACHE_TRANSFER", {"items": [item] * count})))
        interpretation = Session().understand(frame)
        record = Record(1, frame, interpretation.content, interpretation.vbucket)
        return lambda: (OUTPUTS[form].write(record, View(None, Palette(False))), as_json(record))

    make.__name__ = f"many_items_as_{form}"
    return make


def tiny_fragments(count: int) -> Callable[[], object]:
    whole = tcp(FLOW, 1000, bytes(8 * count - 20))
    frames = [
        ethernet(ipv4(FLOW, whole[at : at + 8], fragment=at, more=at + 8 < len(whole))) for at in range(0, 8 * count, 8)
    ]
    some = packets(frames[::-1], step_ns=1000)

    def work() -> None:
        machine = Connections()
        for each in some:
            machine.feed(each)

    return work


def a_large_paste(count: int) -> Callable[[], object]:
    text = (mutation(1, 300) * count).hex(" ")
    return lambda: annotate(read_paste(text).parts)


def a_paste_of_garbage(count: int) -> Callable[[], object]:
    data = (mutation(1)[:-3] + b"??") * count
    return lambda: annotate((data,))


def prepares_that_are_decided_one_by_one(count: int) -> Callable[[], object]:
    prepares = Prepares()
    for seqno in range(count):
        prepares.add(b"%d" % seqno, seqno, NO_FRAME, due=True, with_rules=True)

    def work() -> None:
        for seqno in range(count):
            prepares.complete(seqno)
            prepares.acknowledge(seqno)

    return work


def looks_for_the_answers_of_many_requests(count: int) -> Callable[[], object]:
    connection = ConnectionState(1, with_rules=True)
    connection.sides[0].latest_ns = connection.last_ns = NOON + 60_000_000_000
    for number in range(1, count + 1):
        request = NO_FRAME._replace(number=number, opcode=opcodes.DCP_CONTROL, opaque=number, ts_ns=NOON)
        connection.exchanges.ask(UnansweredRequest(request, 0), 0)
    evidence = PendingEvidence(connection)
    return lambda: [list(evidence.look(NO_FRAME)) for _ in range(count)]


def seqnos_that_no_server_reported(count: int) -> Callable[[], object]:
    asked = f"TX get-all-vb-seqnos{{opaque=0x77}}\nHEX RX 81480000000000000000000a00000077{0:016x}0005{50:016x}\n"
    logs = ledger("".join(f"CONNECT 10.0.0.9:{at} 10.0.0.1:11210\n{opening()}{asked}" for at in range(count))).logs
    return lambda: [logs.reports(5, at) for at in range(count)]


CASES: dict[Callable[[int], Callable[[], object]], int] = {
    tiny_segments_backwards: 5_000,
    tiny_segments_behind_a_hole: 5_000,
    many_connections: 350,
    **{cut(name): size for name, size in zip(SPLIT, (10_000, 700, 400, 1_600, 5_000), strict=True)},
    damaged_frames_in_one_block: 1_000,
    a_failover_log_full_of_holes: 2_000,
    **{many_items(form): 300 for form in ("table", "grid", "line", "csv")},
    tiny_fragments: 2_000,
    a_large_paste: 120,
    a_paste_of_garbage: 300,
    prepares_that_are_decided_one_by_one: 500,
    looks_for_the_answers_of_many_requests: 200,
    seqnos_that_no_server_reported: 60,
}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_twice_the_input_takes_twice_the_steps(case: Callable[[int], Callable[[], object]]) -> None:
    size = CASES[case]
    case(8)()  # what is made once is made now
    once, twice = steps(case(size)), steps(case(2 * size))
    assert twice <= 2.3 * once, (once, twice)


def test_salvage_takes_steps_in_proportion_to_the_garbage(tmp_path: Path) -> None:
    record = captures.pcap_record(captures.Record(1_763_640_000 * 10**9, captures.ethernet(b"x" * 40)))
    lying = record[:8] + (200_000).to_bytes(4, "little") + record[12:]

    def read(count: int) -> Callable[[], object]:
        path = tmp_path / f"{count}.pcap"
        path.write_bytes(captures.pcap_header() + record + lying * count + record)
        return lambda: sum(1 for _ in Capture(str(path), salvage=True))

    read(8)()
    once, twice = steps(read(500)), steps(read(1000))
    assert twice <= 2.3 * once, (once, twice)


def test_a_thousand_changes_between_frames_and_garbage_in_one_segment_are_no_recursion() -> None:
    assert split(frames_and_garbage_in_turns(3000)) == 4 * 3000 + 1


# -- I8: memory ----------------------------------------------------------------------------------------------


def many_giants() -> Iterator[bytes]:
    """Yield eight connections, each with 24 MiB of a frame that is never completed."""
    chunk = b"v" * 60_000
    for number in range(8):
        where = flow(f"10.0.1.{number}:40000")
        yield ipv4_tcp(where, 999, flags=SYN)
        yield ipv4_tcp(where, 1000, promise(28 * MIB))
        for at in range(400):
            yield ipv4_tcp(where, 1000 + 57 + at * len(chunk), chunk)


def forged_holes() -> Iterator[bytes]:
    """Yield connections with a frame of 24 MiB, of which only the two ends were captured."""
    for number in range(1500):
        where = flow(f"10.0.{number >> 8}.{number & 255}:40000")
        yield ipv4_tcp(where, 999, flags=SYN)
        yield ipv4_tcp(where, 1000, promise(24 * MIB))
        yield ipv4_tcp(where.reverse, 1, ack=1000 + 57 + (900 << 10))
        yield ipv4_tcp(where, 1000 + 57 + (899 << 10), b"x", flags=ACK | FIN)


def everything_out_of_order() -> Iterator[bytes]:
    """Yield one connection, 200 MB backwards."""
    yield ipv4_tcp(FLOW, 999, flags=SYN)
    for at in range(3400, 0, -1):
        yield ipv4_tcp(FLOW, 1000 + at * 60_000, b"v" * 60_000)


def connections_without_end() -> Iterator[bytes]:
    """Yield connections with one open frame each."""
    for number in range(9_000):
        where = flow(f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}:40000")
        yield ipv4_tcp(where, 999, flags=SYN)
        yield ipv4_tcp(where, 1000, promise(500) + b"x" * 60)


def peak(stdin: Iterator[bytes], memory: str) -> tuple[int, int]:
    """Return the exit code of reading packets from standard input, and the peak memory in MiB."""
    command = [sys.executable, "-m", "dcpdump", "read", "-", "-f", "line", "--opcode", "noop", "--memory", memory]
    with running(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        assert process.stdin is not None
        process.stdin.write(captures.pcap_header())
        for number, data in enumerate(stdin):
            ts_ns = 1_763_640_000 * 10**9 + number * 10_000
            process.stdin.write(captures.pcap_record(captures.Record(ts_ns, ethernet(data))))
        process.stdin.close()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, usage.ru_maxrss // (1024 if sys.platform == "linux" else MIB)


@pytest.fixture(scope="module")
def baseline() -> int:
    return peak(iter([ipv4_tcp(FLOW, 999, flags=SYN)]), "32M")[1]


@pytest.mark.skipif(not hasattr(os, "wait4"), reason="the system does not tell what a process took")
@pytest.mark.parametrize(
    "make",
    [many_giants, forged_holes, everything_out_of_order, connections_without_end],
    ids=lambda make: make.__name__,
)
def test_memory_stays_under_its_cap_and_64_mib(make: Callable[[], Iterator[bytes]], baseline: int) -> None:
    code, most = peak(make(), "32M")
    assert code in (0, 3, 4)
    assert most <= baseline + 32 + 64


def test_of_the_packets_of_an_open_frame_the_last_alone_is_remembered() -> None:
    splitter, data = FrameSplitter(Session), mutation(1, 2000)
    weights = []
    for at in range(len(data)):
        cuts = splitter.feed(data[at : at + 1], Where(at))
        weights.append(splitter.weight)
    assert max(weights[HEADER_LENGTH:]) < 2 * len(data)
    assert [cut.where.packet for cut in cuts] == [len(data) - 1]


def test_each_hole_of_an_open_frame_counts() -> None:
    splitter = FrameSplitter(Session)
    splitter.feed(promise(100_000))
    weights = []
    for _ in range(4):
        splitter.gap(3)
        splitter.feed(b"x" * 40)
        weights.append(splitter.weight)
    assert [after - before for before, after in pairwise(weights)] == [128 + 3 + 40] * 3


def test_the_packets_of_an_open_tls_record_count_until_it_is_whole() -> None:
    cutter, record, weights = RecordCutter(), b"\x17\x03\x03\x00\x20" + bytes(32), []
    for byte in record * 2:
        cutter.feed(bytes((byte,)), Seen(1, NOON))
        cutter.next()
        weights.append(cutter.weight)
    assert weights == 2 * [*((256 + 1) * bytes_there for bytes_there in range(1, len(record))), 0]


def test_the_packets_of_what_is_searched_for_a_frame_count() -> None:
    machine, data = Dissector(Limits(memory=4 * MIB)), promise(900_000) + bytes(12_000)
    first, *some = segments([(100 + at, data[at : at + 1]) for at in range(len(data))], syn=False)
    lost = [*segments([(0, mutation(1))]), first, packet(ethernet(ipv4_tcp(FLOW.reverse, 1, ack=1101)))]
    later = [each._replace(ts_ns=NOON + 3_000_000_000) for each in some]
    most = 0
    for each in [*lost, *later]:
        machine.feed(each)
        most = max(most, sum(each.held for each in machine.conversations.values()))
    assert MIB < most < 3 * MIB
    assert machine.balance.evictions > 0


def exported_record(src: int, dst: int, payload: bytes) -> bytes:
    tags = ((24, (2).to_bytes(4, "big")), (20, bytes((10, 0, 0, src))), (21, bytes((10, 0, 0, dst))))
    ports = ((25, (11210).to_bytes(4, "big")), (26, (40_000).to_bytes(4, "big")))
    return b"".join(tag.to_bytes(2, "big") + b"\0\4" + value for tag, value in (*tags, *ports)) + bytes(4) + payload


def test_of_exported_records_the_connection_that_was_used_longest_ago_alone_begins_anew() -> None:
    machine = ExportedPdus(2)
    pairs = [(1, 9), (2, 9), (1, 9), (3, 9), (1, 9), (2, 9)]
    found = [machine.feed(exported_record(src, dst, b"12345"), 0) for src, dst in pairs]
    assert [each.seq for each in found if isinstance(each, Segment)] == [1, 1, 6, 1, 11, 6]
    found = [machine.feed(exported_record(src, 9, b"12345"), 0) for src in (4, 5, 6, 1, 6)]
    assert [each.seq for each in found if isinstance(each, Segment)] == [1, 1, 1, 1, 6]


def test_names_of_collections_that_change_for_ever_are_forgotten_but_for_the_last() -> None:
    machine, some = Dissector(Limits(memory=MIB)), names_of_collections(6_000)
    records = [record for each in some for record in machine.feed(each)]
    named = [record for record in records if record.frame.get("collection_id") == 8]
    assert [record.collection_path(8) for record in (named[0], named[-1])] == [None, "name-5999"]
    assert machine.names.forgotten


def test_names_that_a_dissection_continues_with_count_as_those_that_it_is_told() -> None:
    some, known = names_of_collections(6_000), []
    for stops in ((len(some),), (len(some) // 2, len(some))):
        begin, state = 0, None
        for end in stops:
            dissection = Dissection(Limits(memory=MIB))
            if state is not None:
                dissection.restore(Checkpoint(1, 0, packed(state)).unpacked())
            for block in blocks(some[begin:end]):
                deque(dissection.feed_block(block), 0)
            begin, state = end, dissection.state()
        known.append((dissection.names.forgotten, dissection.names.known()))
    assert known[0][0]
    assert known[0] == known[1]


def test_names_of_connections_that_are_over_are_known_though_their_tables_are_gone() -> None:
    machine = Dissector()
    for each in names_of_collections(3):
        machine.feed(each)
    table = ref(next(iter(machine.conversations.values())).names.tables[0])
    machine.close()
    assert table() is None
    assert machine.names.known() == [(8, "name-1"), (100, "name-0"), (102, "name-2")]


@pytest.mark.parametrize(("opcode", "extras"), [(0x57, bytes(29)), (0x56, b"\x07")])
def test_frames_that_fit_no_layout_have_one_in_common(opcode: int, extras: bytes) -> None:
    header = bytes((0x80, opcode, 0, 0, len(extras), 0, 0, 1, 0, 0, 0, len(extras))) + bytes(12)
    frames = [decode(RawFrame.of(header + extras)) for _ in range(2)]
    assert frames[0].problems
    assert frames[0].layout is frames[1].layout  # of each layout something is remembered for good


def test_streams_and_open_frames_together_stay_within_their_half() -> None:
    limits = Limits(memory=MIB)
    machine, frames, most = Dissector(limits), 0, 0
    for number in range(12):
        where, seq = flow(f"10.0.2.{number}:40000"), 1000
        machine.feed(packet(ethernet(ipv4_tcp(where, 999, flags=SYN))))
        for start in range(0, 1000, 100):
            data = b"".join(encode("DCP_STREAM_END", opaque=at * 7919, vbucket=9) for at in range(start, start + 100))
            frames += len(machine.feed(packet(ethernet(ipv4_tcp(where, seq, data)))))
            seq += len(data)
            most = max(most, sum(each.held for each in machine.conversations.values()))
        machine.feed(packet(ethernet(ipv4_tcp(where, seq, promise(60_000) + bytes(50_000)))))
        most = max(most, sum(each.held for each in machine.conversations.values()))
    assert most <= limits.memory // 2 + 100_000
    assert machine.balance.evictions > 0
    assert frames + len(machine.close()) == 12_012
    assert machine.balance.payload_bytes == machine.tally.frame_bytes + machine.tally.skipped_bytes


COMMANDS = {
    "read": "read CAPTURE -f ndjson -q",
    "check": "check CAPTURE",
    "redact": "redact CAPTURE -w OUT.pcap",
}
#: The smallest of three captures, as a share of a megabyte; and of those of which much is remembered.
_SHARE, _LARGER = 128, 48
_REMEMBERED = (noops_without_answers, half_of_the_segments, stray_segments, cache_transfers)

Shape = Callable[[int], list[Packet]]


def _done(command: str, path: Path, out: Path) -> None:
    """Run a command."""
    words = COMMANDS[command].replace("CAPTURE", str(path)).replace("OUT", str(out))
    printed = run(f"dcpdump {words} --force" if command == "redact" else f"dcpdump {words}")
    assert printed.code in (0, 1, 4), printed.err


@lru_cache(maxsize=4)
def _capture(shape: Shape, count: int) -> bytes:
    """Return a capture, which several commands read."""
    return in_pcap(shape(count))


def assert_grows_in_proportion(counts: list[int]) -> None:
    """Have the work for once, twice and four times as much in proportion, what is the same for all left out."""
    once, twice, four = counts
    assert four <= 2.2 * twice, counts
    assert four - twice <= 2.6 * (twice - once), counts  # of what grows with the square it would be four times


#: Of these ``redact`` keeps what nothing else does; what ``read`` does is done by ``check``, too.
_REDACTED = (half_of_the_segments, cache_transfers, stray_segments, documents)
_GROWING = [
    pytest.param(shape, command, marks=[pytest.mark.nightly] * nightly, id=f"{shape.__name__}-{command}")
    for shape in SHAPES
    for command, nightly in (("check", False), ("redact", shape not in _REDACTED), ("read", True))
]


@pytest.mark.parametrize(("shape", "command"), _GROWING)
def test_twice_a_hostile_capture_adds_twice_the_work(shape: Shape, command: str, tmp_path: Path) -> None:
    counts = []
    size = SHAPES[shape] // (_LARGER if shape in _REMEMBERED else _SHARE)
    for times in (1, 2, 4):
        path = tmp_path / f"{times}.pcap"
        path.write_bytes(_capture(shape, size * times))
        if times == 1:
            _done(command, path, tmp_path / "first")  # what is made once, modules loaded too, is made now
        counts.append(steps(partial(_done, command, path, tmp_path / f"out{times}")))
    assert_grows_in_proportion(counts)


def test_many_small_blocks_of_a_pcapng_take_work_in_proportion(tmp_path: Path) -> None:
    counts = []
    for times in (1, 2, 4):
        path = tmp_path / f"{times}.pcapng"
        path.write_bytes(in_small_blocks(next(iter(SHAPES))(100 * times)))
        if times == 1:
            _done("read", path, tmp_path / "out")
        counts.append(steps(partial(_done, "read", path, tmp_path / "out")))
    assert_grows_in_proportion(counts)


#: Run a command, and print its exit code and its largest memory. It is started by a process that is small itself: what
#: a child took includes what it had of its parent before it became another program.
_MEASURING = """
import resource, subprocess, sys
code = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode
print(code, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


def assert_takes_no_more_than(mb: int, command: str, capture: bytes, tmp_path: Path) -> None:
    """Have a command read a capture in no more memory."""
    path = tmp_path / "large.pcap"
    path.write_bytes(capture)
    words = shlex.split(command.replace("CAPTURE", str(path)).replace("OUT", str(tmp_path / "out")))
    measuring = [sys.executable, "-I", "-S", "-c", _MEASURING, sys.executable, "-m", "dcpdump", *words]
    code, most = map(int, subprocess.run(measuring, capture_output=True, check=True, text=True).stdout.split())
    assert code in (0, 4)
    assert most // (1024 if sys.platform == "linux" else MIB) <= mb


def _rows(*rows: tuple[Shape, int, str, int] | None) -> list[object]:
    """Return a shape, its size, a command and the memory that it may take; behind None the rows of the nightly leg."""
    daily = rows.index(None)
    marks = dict.fromkeys(rows[daily + 1 :], pytest.mark.nightly)
    return [
        pytest.param(*each, marks=marks.get(each, ()), id=f"{each[0].__name__}-{each[2].replace(' CAPTURE', '')}")
        for each in rows
        if each
    ]


#: What the modules of a command take, and what of the capture it may hold at a time: if it held all, it would be 20 to
#: 150 MB more. Of the commands that share what bounds them one is in the daily leg; what is evicted is in
#: tests/cli/test_evicted.py, too.
@pytest.mark.parametrize(
    ("shape", "count", "command", "mb"),
    _rows(
        (cache_transfers, 100_000, "report CAPTURE -o OUT", 300),
        (large_manifest, 4_000_000, "read CAPTURE -f table -q", 300),
        (escapes, 6_000_000, "export CAPTURE -o OUT", 300),
        (calm_then_lists, 250, "streams CAPTURE", 115),
        (large_documents, 24, "sql 'select max(octet_length(value)) from frames where opcode = 87' CAPTURE", 250),
        (noops_behind_a_hole, 35_000, "redact CAPTURE -w OUT", 115),
        (compressed_xattrs, 75, "export CAPTURE -o OUT", 167),
        None,
        (tiny_frames, 14_000, "redact CAPTURE -w OUT", 107),
        (calm_then_lists, 150, "read CAPTURE -q", 95),
        (short_connections, 10_000, "check CAPTURE --memory 16M", 102),
        (streams_in_turn, 16_000, "streams CAPTURE --memory 16M", 65),
        (calm_then_lists, 350, "report CAPTURE -o OUT", 180),
        (tiny_frames, 14_000, "streams CAPTURE", 80),
        (tiny_frames, 14_000, "export CAPTURE -o OUT", 170),
        (cache_transfers, 100_000, "read CAPTURE -f table -q", 300),
        (cache_transfers, 100_000, "export CAPTURE -o OUT", 300),
        (large_manifest, 4_000_000, "export CAPTURE -o OUT", 300),
        (large_manifest, 4_000_000, "report CAPTURE -o OUT", 300),
        (escapes, 6_000_000, "read CAPTURE -f table -q", 300),
        (escapes, 6_000_000, "report CAPTURE -o OUT", 300),
        (calm_then_lists, 150, "export CAPTURE -o OUT", 200),
        (calm_then_lists, 150, "sql 'select * from frames' CAPTURE", 237),
        (calm_then_lists, 150, "sql 'select * from frames' CAPTURE -f ndjson", 237),
        (calm_then_lists, 150, "pipeline CAPTURE -o OUT --engine local", 195),
        (documents, 150_000, "sql 'select * from frames order by value offset 149_900' CAPTURE", 260),
        (noops_behind_a_hole, 50_000, "streams CAPTURE", 135),
        (compressed_xattrs, 75, "pipeline CAPTURE -o OUT --engine local", 165),
        (short_connections, 10_000, "report CAPTURE -o OUT --memory 16M", 197),
        (short_connections, 10_000, "pipeline CAPTURE -o OUT --engine local --memory 16M", 192),
        (streams_in_turn, 16_000, "check CAPTURE --memory 16M", 77),
        (streams_in_turn, 16_000, "export CAPTURE -o OUT --tables streams --memory 16M", 134),
    ),
)
def test_a_hostile_capture_takes_a_memory_that_is_bounded(
    shape: Shape, count: int, command: str, mb: int, tmp_path: Path
) -> None:
    assert_takes_no_more_than(mb, command, _capture(shape, count), tmp_path)
