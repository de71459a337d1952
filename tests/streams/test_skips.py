"""Skips: a client that resumes beyond what it has received is named; one that may have got it elsewhere is not."""

import pytest

from dcpdump.streams.clients import Clients
from dcpdump.streams.verdict import Judge
from tests.support.check_cases import items
from tests.support.conversation import opening
from tests.support.ledgers import damaged, ledger
from tests.test_bounds import steps

CLIENT, OTHER_HOST, SERVER = "10.0.7.30:40000", "10.0.7.31:40000", "10.0.0.1:11210"
OPEN = f"CONNECT {CLIENT} {SERVER}\n{opening()}"
ASKED = "STREAM vb=5\n"
NINE = "RX snapshot-marker{start=0, end=9, flags=0x5}\n" + items(1, 9)
MOVED, RESET = "RX stream-end{status=2}\n", "RST RX\nWAIT 2\n"
AGAIN = "STREAM vb=5, start=50\nRX snapshot-marker{start=50, end=52, flags=0x5}\n" + items(51, 52)
FIRST = OPEN + ASKED + NINE
TEXT = "resumed from seqno 50, and had received up to 9 on connection 0: 10..50 are not sent to it"
TEXT_1 = TEXT.replace("connection 0", "connection 1")
OF_ONE = 'value={"collections":["8"]}'
COLLECTIONS = f"CONNECT {CLIENT} {SERVER}\n" + opening(collections=True)
IDS = f"CONNECT {CLIENT} {SERVER}\n" + opening(collections=True, controls="enable_stream_id=true")
HIGH = f"TX get-all-vb-seqnos{{opaque=0x77}}\nHEX RX 81480000000000000000000a00000077{0:016x}0005{50:016x}\n"


def connected(name: str = "app", client: str = "10.0.7.30:40100") -> str:
    """Return the beginning of another connection."""
    return f"CONNECT {client} {SERVER}\n{opening(name=name)}"


def identified(name: str) -> str:
    """Return the beginning of a connection whose agent has the client's id."""
    agent = "#" + b'{"a":"gocbcore/v10.2.9","i":"67CC1752DE27660B/0000000000000001"}'.hex()
    return f"CONNECT 10.0.7.30:{40_200 + len(name)} {SERVER}\n{opening(name=name, agent=agent)}"


def granted(start: int, log: str, uuid: str = "0xfeed", extra: str = "") -> str:
    """Return a request that is granted, and the failover log that comes with it."""
    request = f"TX stream-request{{vb=5, start={start}, vbucket-uuid={uuid}{extra}}}\n"
    return f"{request}RX stream-request-response{{success, failover-log={log}}}\n"


def found(text: str) -> list[str]:
    """Return what is skipped in what was captured of a conversation, written as ``captured`` has it."""
    kept = damaged(text)
    return [skip.text for skip in map(Clients(kept).skip, kept.streams) if skip is not None]


NOOPS = "RX noop\nTX noop-response{success}\n"


REFUSED = "TX stream-request{vb=5, start=9}\nRX stream-request-response{notmyvbucket}\n"
#: Conversations, and what the client skips; nothing, where it may have it.
CASES = {
    "on the same connection": (FIRST + MOVED + AGAIN, TEXT),
    "on another one": (FIRST + RESET + connected() + AGAIN, TEXT),
    "after it was refused": (FIRST + MOVED + REFUSED + AGAIN, TEXT),
    "with the uuid of an older branch": (
        OPEN + granted(0, "0xfeed:8|0xbeef:0") + NINE + MOVED + granted(50, "0xfeed:8|0xbeef:0", "0xbeef"), TEXT),
    "after it asked on another connection in vain": (FIRST + connected() + REFUSED + "ON 0\n" + MOVED + AGAIN, TEXT),
    "before it received more": (
        FIRST + MOVED + AGAIN + MOVED + "STREAM vb=5, start=52\nRX snapshot-marker{start=52, end=70, flags=0x1}\n",
        TEXT),
    "while another client has received more": (
        connected("other", OTHER_HOST) + "STREAM vb=5, start=60\n" + FIRST + MOVED + AGAIN, TEXT_1),
    "what it received last": (FIRST + MOVED + "STREAM vb=5, start=9\n", ""),
    "an older seqno": (FIRST + MOVED + "STREAM vb=5, start=4\n", ""),
    "for all": (FIRST + MOVED + ASKED, ""),
    "within a snapshot that was announced": (
        FIRST + "RX snapshot-marker{start=10, end=60, flags=0x1}\n" + MOVED + AGAIN, ""),
    "after SEQNO_ADVANCED": (COLLECTIONS + ASKED + NINE + "RX seqno-advanced{seqno=50}\n" + MOVED + AGAIN, ""),
    "after an out-of-order snapshot": (
        FIRST + "RX oso-snapshot{flags=1}\n" + items(50, 50) + items(20, 20) + "RX oso-snapshot{flags=2}\n" + MOVED
        + AGAIN, ""),
    "what it had at first": (
        OPEN + "STREAM vb=5, start=50\nRX snapshot-marker{start=50, end=51, flags=0x1}\n" + items(51, 51) + MOVED
        + AGAIN, ""),
    "before it was over": (FIRST + AGAIN.replace("vb=5,", "vb=5, opaque=9,"), ""),
    "before it was over, on another connection": (FIRST + connected() + AGAIN + "ON 0\n" + MOVED, ""),
    "after it finished": (FIRST + "RX stream-end{status=0}\n" + AGAIN, ""),
    "after its collections were dropped": (FIRST + "RX stream-end{status=7}\n" + AGAIN, ""),
    "after it closed it": (FIRST + "TX close-stream\nRX close-stream-response{success}\n" + AGAIN, ""),
    "after it closed it, and was disconnected": (
        FIRST + "TX close-stream\nRX close-stream-response{success}\n" + RESET + connected() + AGAIN, ""),
    "after it closed it, with an end": (FIRST + "RX stream-end{status=1}\n" + AGAIN, ""),
    "after a part": (OPEN + "STREAM vb=5, end=20\n" + NINE + MOVED + AGAIN, ""),
    "having received nothing": (OPEN + ASKED + MOVED + AGAIN, ""),
    "not granted": (FIRST + MOVED + "TX stream-request{vb=5, start=50}\nRX stream-request-response{erange}\n", ""),
    "another history": (FIRST + MOVED + granted(50, "0xbeef:20|0xfeed:0", "0xbeef"), ""),
    "from where a branch began": (FIRST + MOVED + granted(50, "0xbeef:50|0xfeed:0"), ""),
    "from the latest": (FIRST + MOVED + granted(50, "0xfeed:0", extra=", flags=0x40"), ""),
    "from the high seqno": (FIRST + MOVED + HIGH + AGAIN, ""),
    "from the high seqno, as another connection has it": (FIRST + MOVED + "CONNECT\n" + HIGH + "ON 0\n" + AGAIN, ""),
    "of some collections": (COLLECTIONS + ASKED + NINE + MOVED + f"STREAM vb=5, start=50, {OF_ONE}\n", ""),
    "that were of some collections": (COLLECTIONS + f"STREAM vb=5, {OF_ONE}\n" + NINE + MOVED + AGAIN, ""),
    "of another stream id": (
        IDS + 'STREAM vb=5, value={"sid":7}\n' + NINE + MOVED + 'STREAM vb=5, start=50, value={"sid":8}\n', ""),
    "of another vbucket": (FIRST + MOVED + AGAIN.replace("vb=5", "vb=6"), ""),
    "of a takeover": (FIRST + MOVED + "STREAM vb=5, start=50, flags=0x1\n", ""),
    "long after": (FIRST + MOVED + "WAIT 11\n" + AGAIN, ""),
    "of another client": (FIRST + RESET + connected("other") + AGAIN, ""),
    "of another worker": (
        FIRST.replace("key=app}\nRX open", "key=app-1}\nRX open") + RESET + connected("app-2") + AGAIN, ""),
    "of what it got under another name": (
        identified("app") + ASKED + NINE + identified("loader")
        + "STREAM vb=5, start=9\nRX snapshot-marker{start=9, end=50, flags=0x1}\n" + "ON 0\n" + MOVED + AGAIN, ""),
    "of a client on another host": (FIRST + RESET + connected(client=OTHER_HOST) + AGAIN, ""),
    "of what another connection brought": (
        FIRST + connected() + "STREAM vb=5, start=9\nRX snapshot-marker{start=9, end=50, flags=0x1}\n" + items(10, 50)
        + MOVED + "ON 0\n" + MOVED + AGAIN, ""),
    "of what another of its group may have": (
        FIRST + connected("app", OTHER_HOST) + "STREAM vb=5, start=9\nRX snapshot-marker{start=9, end=50, flags=0x1}\n"
        + "ON 0\n" + MOVED + AGAIN, ""),
    "begins later": (FIRST.replace(ASKED, f"{ASKED}----\n", 1) + MOVED + AGAIN, ""),
    "lost changes": (FIRST.replace("RX mutation{seqno=9", "-RX mutation{seqno=9") + NOOPS + MOVED + AGAIN, ""),
    "lost something since": (FIRST + MOVED + AGAIN + "-RX noop\nRX noop\n", ""),
    "lost something of another connection of the client": (
        FIRST + connected() + "-RX noop\nRX noop\nON 0\n" + MOVED + AGAIN, ""),
    "begins after another connection, which says no name": (
        "CONNECT 10.0.7.31:40100 10.0.0.1:11210\n" + opening() + ASKED
        + "----\nRX snapshot-marker{start=0, end=9, flags=0x5}\n" + FIRST + MOVED + AGAIN, ""),
}  # fmt: skip


@pytest.mark.parametrize(("text", "skipped"), CASES.values(), ids=CASES)
def test_a_client_that_resumes_beyond_what_it_has_received_skips_changes(text: str, skipped: str) -> None:
    assert "; ".join(found(text)) == skipped


def test_of_several_captures_and_of_streams_that_were_not_kept_nothing_is_said() -> None:
    kept = ledger(FIRST + MOVED + AGAIN)
    of = Clients(kept).skip
    whole, kept.single_capture = of(kept.streams[1]), False
    apart, kept.single_capture, kept.evicted_streams = of(kept.streams[1]), True, 1
    assert (whole is None, apart, of(kept.streams[1])) == (False, None, None)


def test_the_verdict_on_the_stream_that_was_granted_says_what_it_skips() -> None:
    kept = ledger(FIRST + MOVED + AGAIN)
    judge = Judge(kept)
    assert [judge.verdict(each).text for each in kept.streams] == [
        "ended (StateChanged (2) at 12:00:00.023; reopened at 12:00:00.024)",
        f"open and flowing ({TEXT})",
    ]


def skipping(count: int) -> str:
    """Return a client whose stream ends again and again, and which resumes beyond what it has received each time."""
    marker = "RX snapshot-marker{{start={0}, end={1}, flags=0x5}}\nRX mutation{{seqno={1}}}\n"
    one = "STREAM vb=5, start={0}\n" + marker + MOVED.replace("{", "{{").replace("}", "}}")
    return OPEN + "".join(one.format(10 * at, 10 * at + 1) for at in range(count))


def test_of_a_vbucket_with_very_many_streams_nothing_is_said() -> None:
    assert (len(found(skipping(128))), len(found(skipping(129)))) == (127, 0)


def test_however_many_streams_a_vbucket_has_each_takes_a_few_steps() -> None:
    def work(count: int) -> int:
        kept = ledger(skipping(count))
        found = Clients(kept)
        return steps(lambda: [found.skip(stream) for stream in kept.streams])

    once, twice, four = map(work, (200, 400, 800))
    assert four - twice <= 2.2 * (twice - once)
