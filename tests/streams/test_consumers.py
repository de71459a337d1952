"""Consumers: whether a stream that ended was requested again, by whom, and whose streams are none of its consumer's."""

import pytest

from dcpdump.streams.causes import Reason
from dcpdump.streams.clients import Clients
from dcpdump.streams.ledger import Ledger
from dcpdump.streams.state import ConnectionState
from dcpdump.streams.stream import Stream, StreamEnd
from dcpdump.streams.verdict import Judge
from tests.support import life
from tests.support.conversation import opening, packets, said
from tests.support.ledgers import judged, ledger, ledger_of

HOST, OTHER_HOST = "10.0.7.30", "10.0.7.31"
NODE, OTHER_NODE = "10.0.0.1:11210", "10.0.0.2:11210"
STREAM = "STREAM vb=7\nRX snapshot-marker{start=0, end=2, flags=0x5}\nRX mutation{seqno:1}\nRX mutation{seqno:2}\n"
AT_16 = "ended (StateChanged (2) at 12:00:00.016; "
ON = f"{AT_16}reopened on connection 1 at 12:00:00.027)"
OFF = f"unknown: {AT_16}not requested again here in 60 s: another node may know, and this capture has no connection of "
OFF += "its client to one)"
MAY_BE = "may have been reopened on connection 1 at 12:00:00.027 from seqno 2: its name and the seqno agree, but "
ENDED = "RX stream-end{vb=7, status=2}\n"
AGAIN = "STREAM vb=7, start-seqno=2\nRX snapshot-marker{start=2, end=3, flags=1}\nRX mutation{seqno:3}\n"
LATER = "WAIT 60\nRX noop{}\nTX noop-response{success}\n"
UUID = "550e8400-e29b-41d4-a716-446655440000"


def begun(name: str = "app", bucket: str = "travel", agent: str = "app") -> str:
    return opening(name=name, bucket=bucket, agent=agent)


def two(first: str, second: str, host: str = HOST, *, between: str = "") -> str:
    """Return two connections, to two nodes; a stream of the first ends before the second begins."""
    return (
        f"CONNECT {HOST}:40000 {NODE}\n{first}{STREAM}{ENDED}{between}CONNECT {host}:40001 {OTHER_NODE}\n"
        f"{second}{AGAIN}{LATER}"
    )


def agent(client: str, connection: str) -> str:
    return "#" + f'{{"a":"java-dcp-client/0.55","i":"{client}/{connection}"}}'.encode().hex()


XDCR = "xdcr:dcp_%s/travel/B2_10.0.0.%d:11210_%d:%s"
ONE, OTHER = "65713400edc789b05d26283428a2af88", "0f3b1c77edc789b05d26283428a2af88"
PROJECTOR = "secidx:proj-travel-%s_STREAM_TOPIC_f2fe64fe6e3e4bd0-%s/0"
REPLICA = "replication:ns_1@10.0.0.%d->ns_1@10.0.0.%d:travel"


def named(name: str, agent: str = "app") -> str:
    """Return the beginning of a connection with a name that has commas, which in the notation end a key."""
    return begun("#" + name.encode().hex(), agent=agent)


KEYS = "qKnxnVtOZ3YOrmGcYpU0jA==", "hCJuwWqB/EcDHeM/drTFRA=="
REFUSED = "TX stream-request{vb=7}\nRX stream-request-response{notmyvbucket}\n"
ALONE = f"CONNECT {HOST}:40000 {NODE}\n{begun()}{STREAM}"
BESIDE = f"{ALONE}CONNECT {HOST}:40001 {OTHER_NODE}\n{begun()}"
NAME = "replication:ns_1@10.0.0.1->ns_1@10.0.0.3:travel"
GIVING = opening(0x125, name=NAME)
LEG = f"CONNECT 10.0.0.3:%d 10.0.0.1:11209\n{GIVING}"


def asked(text: str) -> str:
    return text.replace("STREAM vb=7", "TX stream-request{vb=7}\nRX stream-request-response{success}")


#: What became of the first stream.
CASES = {
    "one name": (two(begun(), begun()), ON),
    "a name for each connection": (two(begun("kafka/A1B2/0001"), begun("kafka/A1B2/0002")), ON),
    "a name of JSON for each connection": (
        two(named('{"i":"00A1/77","a":"sdk"}', agent="sdk"), named('{"i":"00A1/78","a":"sdk"}', agent="sdk")), ON),
    "a UUID for each connection": (two(begun(f"orders-{UUID}"), begun("orders-7d444840-9dc0-11d1-b245-5ffdce74fad2")),
        ON),
    "a UUID of the client": (two(begun(f"orders-{UUID}-0001"), begun(f"orders-{UUID}-0002")), ON),
    "two UUIDs, and other counters": (
        two(begun(f"orders-{UUID}-0001"), begun("orders-7d444840-9dc0-11d1-b245-5ffdce74fad2-0002")), OFF),
    "a number for each connection": (two(begun("orders:1"), begun("orders:2")), ON),
    "a number for each connection of two agents": (two(begun("orders:1", agent="one"), begun("orders:2", agent="two")),
        OFF),
    "a number for each connection of two buckets": (two(begun("orders:1"), begun("orders:2", "hotels")), OFF),
    "a number for each connection on two hosts": (two(begun("orders:1"), begun("orders:2"), OTHER_HOST),
        f"unknown: {AT_16}{MAY_BE}its host is another)"),
    "again on another node, and later back": (
        two(begun(), begun()) + f"{ENDED}ON 0\nSTREAM vb=7, start-seqno=3\n{LATER}", ON),
    "two numbers that differ": (two(begun("orders-1-7"), begun("orders-2-8")), OFF),
    "a number and a counter that differ": (two(begun("orders-1-A1B2"), begun("orders-2-A1B3")), OFF),
    "a number of two names": (two(begun("orders:1"), begun("search:2")), OFF),
    "a number that only one name has": (two(begun("orders"), begun("orders:2")), OFF),
    "one client id on two hosts": (
        two(begun("a", agent=agent("1A", "01")), begun("b", agent=agent("1A", "02")), OTHER_HOST), ON),
    "two client ids": (two(begun("a", agent=agent("1A", "01")), begun("a", agent=agent("1B", "02"))),
        f"unknown: {AT_16}{MAY_BE}both connections were open at one time)"),
    "two names": (two(begun("indexer"), begun("search")), OFF),
    "two agents": (two(begun(agent="one"), begun(agent="two")), OFF),
    "two hosts": (two(begun(), begun(), OTHER_HOST), f"unknown: {AT_16}{MAY_BE}its host is another)"),
    "two buckets": (two(begun(), begun(bucket="hotels")), OFF),
    "two buckets of one client": (two(begun(agent=agent("1A", "01")), begun(bucket="hotels", agent=agent("1A", "02"))),
        OFF),
    "another vbucket": (two(begun(), begun()).replace(AGAIN, AGAIN.replace("vb=7", "vb=8")),
        f"wrong: {AT_16}abandoned: not requested again in 60 s)"),
    "again on another node, a little later": (
        two(begun("eq_dcp:kafka/A1B2/0001"), begun("eq_dcp:kafka/A1B2/0002"), between="WAIT 0.05\n"),
        f"{AT_16}reopened on connection 1 at 12:00:00.077)"),
    "one XDCR": (two(named(XDCR % (ONE, 1, 0, KEYS[0])), named(XDCR % (ONE, 2, 1, KEYS[1]))), ON),
    "two XDCRs": (two(named(XDCR % (ONE, 1, 0, KEYS[0])), named(XDCR % (OTHER, 2, 0, KEYS[1]))), OFF),
    "one sink": (two(named("sink-67CC1752DE27660B-ad301c08520b"), named("sink-67CC1752DE27660B-9c7e1d7c5801")), ON),
    "two sinks": (two(named("sink-67CC1752DE27660B-ad301c08520b"), named("sink-0FCC1752DE27660B-9c7e1d7c5801")), OFF),
    "one topic": (
        two(named(PROJECTOR % ("MAINT", "11520462614413985450")), named(PROJECTOR % ("MAINT", "2352046261441398111"))),
        ON),
    "two topics": (
        two(named(PROJECTOR % ("MAINT", "11520462614413985450")), named(PROJECTOR % ("INIT", "2352046261441398111"))),
        OFF),
    "one replica": (two(named(REPLICA % (1, 3)), named(REPLICA % (2, 3))), ON),
    "two replicas": (two(named(REPLICA % (1, 3)), named(REPLICA % (2, 4))), OFF),
    "on a connection that refused before the end": (f"{BESIDE}{REFUSED}ON 0\n{ENDED}ON 1\n{AGAIN}{LATER}",
        "ended (StateChanged (2) at 12:00:00.028; reopened on connection 1 at 12:00:00.029)"),
    "refused before the end alone": (f"{BESIDE}{REFUSED}ON 0\n{ENDED}{LATER}",
        "wrong: ended (StateChanged (2) at 12:00:00.028; abandoned: not requested again in 60 s)"),
    "granted after it was refused": (two(begun(), begun(), between=REFUSED),
        f"{AT_16}reopened on connection 1 at 12:00:00.029)"),
    "open elsewhere already": (f"{BESIDE}{AGAIN}ON 0\n{ENDED}{LATER}",
        "ended (StateChanged (2) at 12:00:00.030; its consumer has it open on connection 1 since 12:00:00.027)"),
    "asked for, and refused": (f"{ALONE}{ENDED}CONNECT {HOST}:40001 {OTHER_NODE}\n{begun()}{REFUSED}",
        f"{AT_16}requested again on connection 1 at 12:00:00.027)"),
    "a leg of a replication that is opened anew": (
        f"{LEG % 40001}{asked(STREAM)}FIN RX\nFIN TX\n{LEG % 40005}{asked(STREAM)}",
        "ended (connection closed by its server at 12:00:00.016, no STREAM_END; reopened on connection 1 at "
        "12:00:00.028)"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "said"), CASES.values(), ids=CASES)
def test_a_stream_is_reopened_by_its_own_consumer_only(text: str, said: str) -> None:
    assert judged(text)[0] == said


def late(text: str) -> list[str]:
    """Return the verdicts of a conversation of which no handshake was captured."""
    kept = ledger_of([packet for packet in packets(said(text)) if len(packet.data) > 54])
    judge = Judge(kept)
    found = sorted(kept.streams, key=lambda stream: (stream.connection.number, stream.number))
    return [judge.verdict(stream).text for stream in found]


TAIL = "RX mutation{vb=7, seqno:41}\nRX mutation{seqno:42}\n"


def test_of_two_applications_that_had_a_stream_open_all_along_each_asks_for_itself() -> None:
    text = (
        f"CONNECT {HOST}:40000 {NODE}\n{TAIL}{ENDED}CONNECT {HOST}:40001 {NODE}\n{TAIL}{ENDED}WAIT 1\n{AGAIN}{LATER}"
        f"ON 0\nRX noop{{}}\nTX noop-response{{success}}\n"
    )
    one, two, three = late(text)
    assert one == (
        "ended (StateChanged (2) at 12:00:00.003; not requested again here in 61 s: another node may know, and this "
        "capture has no connection of its client to one)"
    )
    assert two == "ended (StateChanged (2) at 12:00:00.006; reopened at 12:00:01.007)"
    assert three.startswith("quiet (nothing for 60 s")


def test_a_client_of_which_no_name_was_captured_reopens_its_stream_on_another_node() -> None:
    text = (
        f"CONNECT {HOST}:40000 {NODE}\n{TAIL}CONNECT {HOST}:40001 {OTHER_NODE}\nRX mutation{{vb=9, seqno:1}}\n"
        f"ON 0\n{ENDED}ON 1\nWAIT 1\n{AGAIN}"
    )
    inferred = "reopened on connection 1 at 12:00:01.005 (inferred from the host alone)"
    assert late(text)[0] == f"ended (StateChanged (2) at 12:00:00.004; {inferred})"
    text = (
        f"{life.connection()}STREAM vb=1\n{life.connection(node=life.OTHER_NODE, port=50_002)}----\nON 0\n{life.NOOP}"
    )
    text += f"{life.live(1, 1, 2)}ON 1\nSTREAM vb=1, start=2\nON 0\nRX stream-end{{vb=1, status=2}}\n"  # captured late
    (first,) = (each for each in judged(f"{text}ON 1\n" + f"WAIT 19\n{life.NOOP}" * 3) if "StateChanged" in each)
    assert first.endswith("; its consumer has it open on connection 1 since 12:00:00.029)")


def test_what_a_client_of_which_no_name_was_captured_may_have_left_is_not_called_stuck() -> None:
    """Another of its host asks for the same, after a silence: it is the same one, or that one is stuck."""
    text = f"{life.connection()}----\nSTREAM vb=1\n{life.marker(1, 1, 9)}{life.items(1, (1,))}WAIT 30\n"
    text += f"{life.connection('other', port=50_002)}STREAM vb=1\n{life.live(1, 1, 3)}WAIT 30\n{life.NOOP}"
    assert judged(text)[0] == (
        "unknown: ended (in the middle of snapshot 1..9, at seqno 1, for 60 s; reopened on connection 1 at "
        "12:00:30.025 (inferred from the host alone))"
    )


TAKING = opening(0x24, name=NAME)


def turned(text: str) -> str:
    """Return a conversation with its sides exchanged."""
    return text.replace("TX", "--").replace("RX", "TX").replace("--", "RX")


def test_the_two_legs_of_a_replication_do_not_reopen_each_other() -> None:
    text = (
        f"CONNECT 10.0.0.3:40001 10.0.0.1:11209\n{GIVING}{asked(STREAM)}"
        f"CONNECT 127.0.0.1:40002 10.0.0.3:11209\n{TAKING}{turned(asked(STREAM))}"
        f"ON 0\n{ENDED}ON 1\n{turned(ENDED)}WAIT 100\n{turned('RX noop{}')}"
    )
    for order in (text, text.replace(f"ON 0\n{ENDED}ON 1\n{turned(ENDED)}", f"{turned(ENDED)}ON 0\n{ENDED}ON 1\n")):
        kept = ledger(order)
        judge = Judge(kept)
        assert [connection.role for connection in kept.connections.values()] == ["producer", "consumer"]
        assert [judge.verdict(stream).cause for stream in kept.streams] == [Reason.OTHER_NODES] * 2


def connection(**known: object) -> ConnectionState:
    made = ConnectionState(len(known), src="10.0.0.9:40000", dst=NODE, producer_direction=1, server=1)
    for name, value in known.items():
        setattr(made, name, value)
    return made


def test_many_streams_that_ended_are_judged_in_few_steps() -> None:
    """Each asks about its consumer: were that a walk over all streams, this test would take minutes."""
    connections = [connection(number=number, src=f"10.0.0.9:{number}") for number in range(40)]
    streams = [Stream(each, vbucket) for each in connections for vbucket in range(1024)]
    for at, stream in enumerate(streams):
        stream.traffic.first_ns = at
        stream.end, stream.number = StreamEnd(None, at, at), 2
    kept = Ledger()
    kept.streams, kept.connections = streams, {each.number: each for each in connections}
    clients = Clients(kept)
    found = [clients.again(each, each.ended_ns) for each in streams[:1024]]
    assert [each and each.stream for each in found] == streams[1024:2048]
    assert clients.again(streams[-1], streams[-1].ended_ns) is None
