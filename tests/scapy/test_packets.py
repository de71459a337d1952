"""DCP in scapy: classes of the protocol table, frames built and read back, sessions, packets in and out."""

import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from scapy.layers.inet import IP, TCP
from scapy.layers.l2 import Ether
from scapy.packet import Raw
from scapy.plist import PacketList
from scapy.sendrecv import sniff
from scapy.utils import rdpcap, wrpcap

import dcpdump
from dcpdump import scapy as dcp
from dcpdump.record import Record, as_json
from dcpdump.scapy import DCP, DCPResponse, DCPSession, class_of_layout
from dcpdump.scapy.classes import CLASSES
from dcpdump.spec.field import Field, FlatTable, Repeat
from dcpdump.wire.encode import Values, encode
from dcpdump.wire.frame import unpack_header
from tests.support.strategies import PUSHED, SHAPES, Sent, Shape, damaged, pushed, sent

SAMPLES = Path(__file__).parents[2] / "samples"
CAPTURES = sorted(SAMPLES.glob("*.pcap"))
WHOLE = [path for path in CAPTURES if path.stem != "damage"]  # no frame lacks bytes


def class_for(shape: Shape) -> Any:
    """Return the class of a shape."""
    return class_of_layout(shape.message, shape.layout, response=shape.response)


def arguments(one: Sent) -> dict[str, Any]:
    """Return what a frame was made from, as arguments of its class."""
    header = unpack_header(one.data)
    given: dict[str, Any] = {name: value for name, value in one.values.items() if not isinstance(value, list)}
    at = 24 + header.framing_length
    given |= {"opaque": header.opaque, "cas": header.cas, "datatype": header.datatype, "framing": one.data[24:at]}
    given["status" if one.shape.response else "vbucket"] = header.vbucket_or_status
    given |= {"key": one.key} if header.key_length else {}
    for part in one.shape.layout.parts:
        if isinstance(part, FlatTable):  # a table stays bytes
            for field in part.fields:
                given.pop(field.name, None)
            given["value"] = one.data[24 + header.body_length - header.value_length :]
        elif isinstance(part, Repeat):
            single = len(part.fields) == 1 and isinstance(part.fields[0], Field)
            item = None if single else getattr(class_for(one.shape)().get_field(part.name), "cls", None)
            values = one.values.get(part.name, [])
            assert isinstance(values, list)
            given[part.name] = values if item is None else [item(**each) for each in values]
    if not one.shape.layout.parts:
        given["value"] = one.value
    return given | ({"metadata": one.metadata} if one.metadata else {})


def test_every_shape_has_a_class_and_no_name_stands_for_two() -> None:
    classes = [class_for(shape) for shape in (*SHAPES, *PUSHED)]
    assert len({each.__name__ for each in classes}) == len(set(classes)) == len(CLASSES)
    assert all(getattr(dcp, each.__name__) is each for each in classes)


@given(sent() | pushed())
def test_a_frame_has_the_class_of_its_layout_and_the_fields_of_explain_and_gives_its_bytes_back(one: Sent) -> None:
    packet = DCP(one.data)
    shown = {field.name for field in packet.fields_desc}
    for name, value in one.values.items():
        if name in shown and not isinstance(value, list):
            assert packet.getfieldval(name) == value, name
    assert type(packet) is class_for(one.shape)
    assert bytes(packet) == one.data
    packet.raw_packet_cache = None
    assert packet.self_build() == one.data


@given(sent() | pushed())
def test_a_frame_is_built_from_its_values_alone(one: Sent) -> None:
    assert bytes(class_for(one.shape)(**arguments(one))) == one.data


@given(damaged())
@example(bytes.fromhex("80650000 04000000 00000004 00000000 00000000 00000000"))
def test_any_bytes_are_a_packet_that_gives_them_back(data: bytes) -> None:
    assert not data or bytes(DCP(data)) == data
    assert DCP(data).show(dump=True)


def test_what_was_built_reads_back_by_explain_and_framing_extras_choose_the_flexible_magic() -> None:
    built = dcp.DCP_DELETION(key=b"key", framing=b"\x22\x00\x05", by_seqno=1)
    (record,) = dcpdump.explain(bytes(built))
    assert (record.frame.header.magic, record.frame.stream_id, record.frame.key) == (0x08, 5, b"key")
    assert (record.frame.message.name, record.frame.get("by_seqno"), record.problems) == ("DCP_DELETION", 1, ())


def test_layers_are_found_by_the_class_of_the_message_and_of_any_frame() -> None:
    packet = Ether() / IP() / TCP(dport=11210) / dcp.DCP_SNAPSHOT_MARKER_2_2(end_seqno=9)
    again = Ether(bytes(packet))
    assert (again[DCP].opcode, again[dcp.DCP_SNAPSHOT_MARKER].end_seqno) == (0x56, 9)
    assert not again.haslayer(dcp.DCP_MUTATION)


def test_frames_in_one_segment_follow_one_another() -> None:
    packet = TCP(bytes(TCP(sport=11210) / (bytes(dcp.DCP_NOOP(opaque=7)) + bytes(dcp.DCP_NOOP(opaque=8)))))
    assert [packet[dcp.DCP_NOOP].opaque, packet[dcp.DCP_NOOP : 2].opaque] == [7, 8]


def test_a_response_answers_its_request() -> None:
    request, response = dcp.DCP_NOOP(opaque=7), dcp.DCP_NOOP_RESPONSE(opaque=7)
    assert (response.answers(request), request.answers(response)) == (1, 0)
    assert not dcp.DCP_NOOP_RESPONSE(opaque=8).answers(request)
    assert not dcp.DCP_NOOP_RESPONSE(opaque=7).answers(response)


def test_unknown_opcodes_and_messages_without_layouts_are_frames_in_sections() -> None:
    packet = DCPResponse(bytes(DCPResponse(opcode=0xE7, extras=b"ab", key=b"k", value=b"v")))
    assert (packet.extras, packet.key, packet.value, packet.extras_length) == (b"ab", b"k", b"v", 2)
    assert type(DCP(bytes(packet))) is DCPResponse
    named = DCP(bytes(dcp.GET(key=b"k")))
    assert (type(named).__name__, named.key) == ("GET", b"k")


@cache
def session_of(capture: Path) -> list[Any]:
    """Return the packets of a session with frames, which no test changes."""
    return [packet for packet in sniff(offline=str(capture), session=DCPSession) if packet.haslayer(DCP)]


@pytest.mark.parametrize("capture", CAPTURES, ids=lambda path: path.stem)
def test_a_session_gives_the_frames_of_read(capture: Path) -> None:
    frames = session_of(capture)
    records = list(dcpdump.read(str(capture)))
    assert [bytes(frame[DCP]) for frame in frames] == [record.frame.raw.data for record in records]
    ports = [(frame[TCP].sport, frame[TCP].dport) for frame in frames]
    assert ports == [tuple(int(end.rpartition(":")[2]) for end in (one.src, one.dst)) for one in records]


@pytest.mark.parametrize("capture", CAPTURES, ids=lambda path: path.stem)
def test_packets_of_scapy_are_read_as_the_file_is(capture: Path) -> None:
    packets = rdpcap(str(capture))
    records = list(dcpdump.read(packets))
    assert [shown(each) for each in records] == [shown(each) for each in dcpdump.read(capture)]
    for record in records:
        assert packets[record.frame.raw.where.packet - 1].haslayer(TCP)


def shown(record: Record) -> dict[str, Any]:
    """Return a record as JSON without the name of its file."""
    return {name: value for name, value in as_json(record).items() if name != "file"}


@pytest.mark.parametrize("capture", WHOLE, ids=lambda path: path.stem)
def test_frames_of_a_session_can_be_written_and_read_again(capture: Path, tmp_path: Path) -> None:
    """Several that were in one segment, and those of several segments: each with its own sequence number."""
    frames = session_of(capture)
    wrpcap(str(tmp_path / "frames.pcap"), frames)
    whole = [bytes(frame[DCP]) for frame in frames]
    assert whole
    for again in (dcpdump.read(frames), dcpdump.read(tmp_path / "frames.pcap")):
        assert sorted(record.frame.raw.data for record in again) == sorted(whole)


@pytest.mark.parametrize("count", [100, 101, 1024])
def test_a_group_has_as_many_items_as_its_bytes_hold(count: int) -> None:
    seqnos = [{"vbucket": number, "seqno": 3 * number} for number in range(count)]
    data = bytes(dcp.GET_ALL_VB_SEQNOS_RESPONSE(seqnos=seqnos))
    assert [{"vbucket": item.vbucket, "seqno": item.seqno} for item in DCP(data).seqnos] == seqnos
    assert DCP(bytes(dcp.HELLO(key=b"x", features=list(range(count))))).features == list(range(count))


@given(sent())
def test_the_fields_of_a_flatbuffers_table_are_those_of_explain(one: Sent) -> None:
    packet, (record,) = DCP(one.data), dcpdump.explain(one.data)
    flat = {field.field.name: field.value for field in record.frame.fields if field.group == "flat"}
    table = packet.flat()
    assert {name: value for name, value in flat.items() if name in table} == table
    assert bool(table) == bool(flat)


def test_a_flatbuffers_table_is_shown_with_its_fields() -> None:
    values: Values = {"by_seqno": 3, "event": 3, "version": 2, "manifest_uid": 5, "scope_id": 8, "scope_name": b"shop"}
    packet = DCP(encode("DCP_SYSTEM_EVENT", values, layout="2"))
    assert packet.flat() == {"manifest_uid": 5, "scope_id": 8, "scope_name": b"shop"}
    assert re.search(r"value *= .*\(.*scope_id=8.*\)", packet.show(dump=True))
    packet.value = b"no table"
    assert (packet.flat(), packet.sprintf("%value%")) == ({}, "b'no table'")


NAMED = r"str is no packet of scapy's; paths of captures are given one by one"


def test_single_packets_and_lists_may_be_mixed_but_not_with_paths_nor_paths_in_a_list() -> None:
    packets = rdpcap(str(CAPTURES[0]))
    mixed = list(dcpdump.read(packets[0], PacketList(packets[1:])))
    assert len(mixed) == len(list(dcpdump.read(packets)))
    for paths, error in (((packets, str(CAPTURES[0])), "not both"), (([str(CAPTURES[0])],), NAMED)):
        with pytest.raises(TypeError, match=error):
            next(dcpdump.read(*paths))


def test_a_record_becomes_a_packet_with_its_time() -> None:
    record = next(dcpdump.read(CAPTURES[0]))
    packet = dcp.to_scapy(record)
    ts_ns = record.frame.raw.where.ts_ns
    assert ts_ns is not None
    assert (bytes(packet), round(packet.time * 10**6)) == (record.frame.raw.data, ts_ns // 1000)


def test_other_packets_pass_a_session_as_they_are() -> None:
    packets = [Ether() / IP() / TCP(sport=80, dport=1) / Raw(b"HTTP/1.1 200 OK\r\n\r\n")]
    assert [bytes(each) for each in sniff(offline=packets, session=DCPSession)] == [bytes(packets[0])]


def test_a_frame_that_another_packet_released_has_the_headers_of_its_own(tmp_path: Path) -> None:
    """The client's packet acknowledges bytes that were not captured, so the server's frame behind them is known."""
    noop, ends = bytes(dcp.DCP_NOOP(opaque=7)), {"sport": 11210, "dport": 50000}
    server = Ether(src="02:00:00:00:00:02") / IP(src="10.0.0.2", dst="10.0.0.1", ttl=9)
    client = Ether(src="02:00:00:00:00:01") / IP(src="10.0.0.1", dst="10.0.0.2")
    packets = [
        server / TCP(**ends, flags="A", seq=100) / noop,
        server / TCP(**ends, flags="A", seq=148) / noop,
        client / TCP(sport=50000, dport=11210, flags="A", seq=1, ack=172),
    ]
    for number, packet in enumerate(packets):
        packet.time = 1_763_640_000 + 60 * number
    wrpcap(str(tmp_path / "a.pcap"), packets)
    first, second, acknowledgement = sniff(offline=str(tmp_path / "a.pcap"), session=DCPSession)
    got = [(each.src, each[IP].ttl, each[TCP].seq, each.time - packets[0].time) for each in (first, second)]
    assert got == [("02:00:00:00:00:02", 9, 100, 0), ("02:00:00:00:00:02", 9, 148, 60)]
    assert bytes(acknowledgement) == bytes(packets[2])
