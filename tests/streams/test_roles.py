"""Roles: which end is the server, and how that is known, whenever the capture began."""

import json

import pytest

from dcpdump.net.packet import Packet
from dcpdump.streams.identity import Basis, Roles
from dcpdump.streams.state import ConnectionState
from tests.support.captures import Record, pcap
from tests.support.console import run
from tests.support.conversation import opening, packets, said
from tests.support.ledgers import ledger_of

CLIENT, NODE = "10.0.0.9:40000", "10.0.0.1:%d"
FLOWING = (
    "STREAM vb=5\nRX snapshot-marker{start=0, end=3, flags=0x5}\nRX mutation{seqno:1}\nRX mutation{seqno:2}\n"
    "TX buffer-acknowledgement{buffer-bytes=100}\nRX noop{}\nTX noop-response{success}\nRX mutation{seqno:3}\n"
    "TX close-stream{vb=5}\nRX close-stream-response{success}\n"
)
#: What ns_server's proxy says to the node that receives: here the server is the consumer, and asks for streams.
RECEIVING = (
    "TX hello{features=6, key=proxy}\nRX hello-response{success, features=6}\n"
    "TX open{flags=0x24, key=replication:a->b:travel}\nRX open-response{success}\n"
    "TX add-stream{vb=5}\nRX stream-request{vb=5}\nTX stream-request-response{success}\n"
    "RX add-stream-response{success}\n"
    "RX control{key=enable_noop, value=true}\nTX control-response{success}\n"
    "TX snapshot-marker{start=0, end=3, flags=0x5}\nTX prepare{seqno:1}\nRX seqno-acknowledged{prepared-seqno=1}\n"
    "TX commit{prepared-seqno=1, commit-seqno=2}\nTX mutation{seqno:3}\nTX noop{}\nRX noop-response{success}\n"
    "RX buffer-acknowledgement{buffer-bytes=100}\nTX commit{prepared-seqno=1, commit-seqno=4}\n"
)
COMMIT = "TX commit{vb=5, prepared-seqno=1, commit-seqno=2}\n"


def connected(*conversations: str) -> list[Packet]:
    """Return the packets of conversations, each of them "client server" and what they say."""
    return packets(said("".join(f"CONNECT {each}\n" for each in conversations)))


def scene(port: int, text: str = "", client: str = CLIENT) -> str:
    return f"{client} {NODE % port}\n{text or opening() + FLOWING}"


SCENES = {
    "11210": [scene(11210)],
    "11207": [scene(11207)],
    "11209": [scene(11209)],
    "a development cluster": [scene(12002)],
    "another port": [scene(31210)],
    "another port, which two clients share": [scene(31210), scene(31210, client="10.0.0.9:40001")],
    "IPv6": [f"[fd00::9]:40000 [fd00::1]:11210\n{opening()}{FLOWING}"],
    "one host": [scene(11210, client="10.0.0.1:40000")],
    "a node receives": [scene(11209, RECEIVING, "127.0.0.1:40000")],
    "a node receives, on another port": [scene(31209, RECEIVING, "127.0.0.1:40000")],
    "both ends have a port of Couchbase's": [scene(11209, RECEIVING, "10.0.0.9:11209")],
    "two nodes": [scene(11210), f"10.0.0.9:40001 10.0.0.2:11210\n{opening()}{FLOWING}"],
    "KV": [scene(31210, "TX get{key=a}\nRX get-response{success, value=1}\nTX get{key=b}\nRX get-response{success}\n")],
}


def roles(captured: list[Packet]) -> list[ConnectionState]:
    return sorted(ledger_of(captured).connections.values(), key=lambda each: each.number)


def servers(captured: list[Packet]) -> set[str | None]:
    return {each.server_address for each in roles(captured)}


@pytest.mark.parametrize("texts", SCENES.values(), ids=SCENES)
def test_a_late_join_never_swaps_the_ends(texts: list[str]) -> None:
    whole = connected(*texts)
    right = servers(whole)
    assert right == {text.split("\n")[0].split(" ")[1] for text in texts}
    for at in range(len(whole)):
        assert servers(whole[at:]) <= right | {None}, f"without the first {at} packets"


@pytest.mark.parametrize("texts", SCENES.values(), ids=SCENES)
@pytest.mark.parametrize("side", [0, 1], ids=["client", "server"])
def test_one_direction_alone_never_swaps_the_ends(texts: list[str], side: int) -> None:
    whole = connected(*texts)
    ends = [text.split("\n")[0].split(" ")[side] for text in texts]
    half = [packet for packet in whole if source(packet) in {end.rpartition(":")[2] for end in ends}]
    for at in range(0, len(half), 2):
        assert servers(half[at:]) <= servers(whole) | {None}, f"without the first {at} packets"


def source(packet: Packet) -> str:
    """Return the port that a packet comes from."""
    at = 14 + (40 if packet.data[12:14] == b"\x86\xdd" else 20)
    return str(int.from_bytes(packet.data[at : at + 2], "big"))


@pytest.mark.parametrize("name", ["11210", "11207", "11209", "a development cluster", "IPv6", "another port"])
def test_who_sends_the_changes_or_has_a_known_port_is_the_server_however_late_it_is(name: str) -> None:
    whole = connected(*SCENES[name])
    last = whole[-1:]
    found = roles(whole[:-1][-4:] + last)[0]
    assert (found.server_address, found.roles.word) == (servers(whole).pop(), "inferred")


EVIDENCE = {
    "from its beginning": (SCENES["another port"], 0, Roles(1, Basis.MESSAGES)),
    "HELLO alone": (["10.0.0.9:40000 10.0.0.1:31210\nTX hello{features=6}\n"], 3, Roles(1, Basis.MESSAGES)),
    "an answer alone": (["10.0.0.9:40000 10.0.0.1:31210\nRX hello-response{success, features=6}\n"], 3,
        Roles(0, Basis.MESSAGES)),
    "SYN": (["10.0.0.9:40000 10.0.0.1:31210\nRX mutation{vb=5, seqno:1}\n"], 0, Roles(1, Basis.SYN)),
    "SYN and ACK": (["10.0.0.9:40000 10.0.0.1:31210\nRX mutation{vb=5, seqno:1}\n"], 1, Roles(1, Basis.SYN)),
    "a port": (["10.0.0.9:40000 10.0.0.1:11210\nRX mutation{vb=5, seqno:1}\n"], 3, Roles(0, Basis.PORT)),
    "a port against who sends": (["127.0.0.1:40000 10.0.0.1:11209\nTX mutation{vb=5, seqno:1}\n"], 3,
        Roles(1, Basis.PORT)),
    "development": (["10.0.0.9:40000 10.0.0.1:12002\nTX mutation{vb=5, seqno:1}\n"], 3, Roles(1, Basis.DEVELOPMENT)),
    "the producer": (["10.0.0.9:40000 10.0.0.1:31210\nRX mutation{vb=5, seqno:1}\n"], 3, Roles(0, Basis.PRODUCER)),
    "the port alone": ([f"10.0.0.9:40000 10.0.0.1:31210\n{COMMIT}"], 3, Roles(1, Basis.EPHEMERAL)),
    "nodes, either of which may be the server": ([f"10.0.0.9:40000 10.0.0.1:41209\n{COMMIT}"], 3, Roles()),
    "what contradicts itself": (["10.0.0.9:40000 10.0.0.1:31210\nTX mutation{vb=5, seqno:1}\n"], 3, Roles()),
}  # fmt: skip


@pytest.mark.parametrize(("texts", "skipped", "wanted"), EVIDENCE.values(), ids=EVIDENCE)
def test_the_strongest_evidence_says(texts: list[str], skipped: int, wanted: Roles) -> None:
    assert [each.roles for each in roles(connected(*texts)[skipped:])] == [wanted]


def test_an_address_that_serves_one_connection_is_the_server_of_another() -> None:
    late = f"10.0.0.9:40000 10.0.0.1:41209\n{COMMIT}"
    begun = f"10.0.0.8:40000 10.0.0.1:41209\n{opening()}"
    found = roles(connected(late, begun)[3:])
    assert [each.roles for each in found] == [Roles(1, Basis.ELSEWHERE), Roles(1, Basis.MESSAGES)]
    assert [each.server_address for each in found] == ["10.0.0.1:41209"] * 2


def test_the_port_that_several_connections_share_is_the_servers() -> None:
    whole = connected(*(f"10.0.0.9:{port} 10.0.0.1:41209\n{COMMIT}" for port in (40000, 40001)))
    late = [packet for packet in whole if len(packet.data) > 60]
    assert [each.roles for each in roles(late)] == [Roles(1, Basis.SHARED)] * 2
    assert Roles(1, Basis.SHARED).word == "inferred"


MUTATION = "TX mutation{vb=5, seqno:1}\n"
INFERRED = f"10.0.0.9:40000 10.0.0.1:11210\n{MUTATION.replace('TX', 'RX')}"
UNKNOWN = f"10.0.0.9:40000 10.0.0.1:41209\n{COMMIT}"


def printed(command: str, text: str) -> str:
    """Return what a command prints of a conversation whose handshake was not captured."""
    data = pcap([Record(packet.ts_ns or 0, packet.data) for packet in connected(text)[3:]])
    return run(f"dcpdump {command} - -q", data).out


def test_conns_writes_inferred_beside_what_is_and_a_question_mark_where_nothing_says() -> None:
    assert "10.0.0.9:40000 → 10.0.0.1:11210 (inferred)" in printed("conns", INFERRED)
    assert "10.0.0.9:40000 ? 10.0.0.1:41209" in printed("conns", UNKNOWN)


@pytest.mark.parametrize("command", ["conns", "streams", "flow", "top --once"])
def test_scripts_are_given_the_evidence(command: str) -> None:
    found = []
    for text in (INFERRED, UNKNOWN):
        (row,) = (json.loads(line) for line in printed(f"{command} -f ndjson", text).splitlines())
        found.append((row["connections"][0] if "connections" in row else row).get("roles"))
    assert found == ["inferred", None]


def test_an_end_that_is_not_known_is_not_named() -> None:
    row = json.loads(printed("conns -f ndjson", UNKNOWN))
    assert ("client" in row, "server" in row, row["src"], row["dst"]) == (
        False,
        False,
        "10.0.0.9:40000",
        "10.0.0.1:41209",
    )


def test_a_line_is_of_the_side_that_its_message_says_however_late_it_is() -> None:
    close = "10.0.0.9:40000 10.0.0.1:11210\nRX mutation{vb=5, seqno:1}\nTX close-stream{vb=5}\n"
    lines = printed("read -f line", close + "RX close-stream-response{success}\n").splitlines()
    assert [line.split()[3:5] for line in lines] == [
        ["RX", "mutation{vb=5,"],
        ["TX", "close-stream{vb=5}"],
        ["RX", "close-stream-response{success,"],
    ]
