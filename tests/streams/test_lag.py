"""Lag: how many seqnos of those that the server had were not sent to a consumer yet, and whether that is known."""

from functools import partial

import pytest

from dcpdump.spec.opcodes import DCP_SNAPSHOT_MARKER, DCP_STREAM_REQ, GET_ALL_VB_SEQNOS, OBSERVE_SEQNO, STAT
from dcpdump.streams.failover_logs import Lag, Lags
from dcpdump.streams.verdict import Judge
from dcpdump.wire.encode import encode
from tests.support.conversation import opening
from tests.support.ledgers import damaged, ledger
from tests.test_bounds import steps

#: Another connection of the client, on which it asks for seqnos.
CLIENT = opening(collections=True).partition("TX open")[0]
POLLS = "CONNECT\n" + CLIENT


def answer(extras: str = "", **seqnos: int) -> str:
    """Return a question for the seqnos of vbuckets and its answer: ``vb5=90``."""
    listed = [{"vbucket": int(name[2:]), "seqno": seqno} for name, seqno in seqnos.items()]
    data = encode("GET_ALL_VB_SEQNOS", {"seqnos": listed}, response=True, opaque=77)
    return f"TX get-all-vb-seqnos{{opaque=77{extras}}}\nHEX RX {data.hex()}\n"


def stream(end: int, *seqnos: int, request: str = "vb=5", flags: int = 1) -> str:
    """Return a stream with one snapshot, and documents of it."""
    marker = f"RX snapshot-marker{{start=0, end={end}, flags={flags}}}\n"
    return f"STREAM {request}\n{marker}" + "".join(f"RX mutation{{seqno:{seqno}}}\n" for seqno in seqnos)


def lags(text: str) -> list[Lag | None]:
    """Return the lags of the streams of a conversation, without the times of what they rest on."""
    found = damaged(text)
    judge = Judge(found)
    return [lag and lag._replace(high_ns=None) for lag in (judge.verdict(each).lag for each in found.streams)]


def exactly(seqnos: int, high: int, opcode: int = GET_ALL_VB_SEQNOS) -> Lag:
    return Lag(seqnos, True, high, None, opcode)


def at_least(seqnos: int, high: int, opcode: int | None = DCP_SNAPSHOT_MARKER) -> Lag:
    return Lag(seqnos, False, high, None, opcode)


def unknown(high: int | None = None, opcode: int | None = None) -> Lag:
    return Lag(None, False, high, None, opcode)


DCP = opening(collections=True)
TO_9 = DCP + stream(9, 1, 9)


LATE = "ON 0\nRX snapshot-marker{start=10, end=12, flags=1}\nRX mutation{seqno:10}\n"
AT_9 = TO_9 + POLLS + answer(vb5=9)
OTHER_SERVER = "CONNECT 10.0.0.1:50001 10.0.0.9:11210\n" + CLIENT
BUCKETLESS = "\n".join(line for line in TO_9.splitlines() if "bucket" not in line) + "\n"
ASKS_OTHERWISE = POLLS.replace("TX select-bucket", "TX noop").partition("RX select")[0]
SEEN = {"format": 0, "observed_vbucket": 5, "vbucket_uuid": 7, "persisted_seqno": 5, "current_seqno": 20}
OBSERVED = "TX observe-seqno{vb=5, vbucket-uuid=7, opaque=78}\nHEX RX "
OBSERVED += encode("OBSERVE_SEQNO", SEEN, response=True, opaque=78).hex() + "\n"
STATS = "TX stat{key=vbucket-seqno, opaque=79}\n" + "".join(
    f"RX stat-response{{success, opaque=79, key={key}, value={seqno}}}\n"
    for key, seqno in {"vb_5:high_seqno": 30, "vb_5:abs_high_seqno": 31, "vb_x:high_seqno": 1, "": ""}.items()
)
PLAIN, ASKS_PLAINLY = opening() + stream(9, 1, 9), POLLS.replace("|0x12", "")
FILTERED = DCP + stream(9, 1, 9, request='vb=5, value={"collections":["a"]}')
OF_IT, OF_OTHER = (f", state-filter=1, collection-id={number}" for number in (10, 11))
ADVANCED = "RX seqno-advanced{vb=5, seqno:15}\n"
BOUNDED = DCP + stream(9, 1, 9, request="vb=5, end-seqno=10")
REFUSED = DCP + "TX stream-request{vb=5}\nRX stream-request-response{status-code=7}\n"
LOG = "TX stream-request{vb=5}\nRX stream-request-response{success, failover-log=0xfeed:60|0xbeef:0}\n"
ASKS = "TX get-failover-log{vb=5, opaque=80}\nRX get-failover-log-response{success, opaque=80, failover-log=%s}\n"
FAILOVER = ASKS % "0xfeed:0" + ASKS % "0xcafe:9|0xfeed:0"
BACK = "TX stream-request{vb=5, start-seqno=7}\nRX stream-request-response{rollback, rollback-seqno=2}\n"
OSO = DCP + "STREAM vb=5\nRX oso-snapshot{flags=1}\nRX mutation{seqno:60}\nRX mutation{seqno:3}\n"
RESET = TO_9 + POLLS + answer(vb5=20) + "ON 0\nRST RX\nWAIT 1\nON 1\n" + answer(vb5=90)
AGAIN = "CONNECT\n" + DCP + stream(20, 12, request="vb=5, start-seqno=9")
LOST = DCP + stream(9, 1) + "- RX mutation{seqno:4}\n- RX mutation{seqno:5}\nRX noop\n%s" + answer(vb5=90)
CASES = {
    "asked on another connection of the client": (TO_9 + POLLS + answer(vb5=90, vb6=7), [exactly(81, 90)]),
    "nothing more": (AT_9, [exactly(0, 9)]),
    "what a marker announces": (DCP + stream(9, 1, 4), [at_least(5, 9)]),
    "no answer": (TO_9, [unknown()]),
    "one that was overtaken": (AT_9 + LATE, [at_least(2, 12)]),
    "one that was overtaken, and all came": (AT_9 + LATE + "RX mutation{seqno:12}\n", [unknown(9, GET_ALL_VB_SEQNOS)]),
    "another server": (TO_9 + OTHER_SERVER + answer(vb5=90), [unknown()]),
    "another bucket": (TO_9 + POLLS.replace("travel", "beer") + answer(vb5=90), [unknown()]),
    "an unknown bucket, elsewhere": (BUCKETLESS + ASKS_OTHERWISE + answer(vb5=90), [unknown()]),
    "an unknown bucket": (BUCKETLESS + answer(vb5=90), [exactly(81, 90)]),
    "observed": (TO_9 + POLLS + OBSERVED, [exactly(11, 20, OBSERVE_SEQNO)]),
    "of STAT": (TO_9 + POLLS + STATS, [exactly(21, 30, STAT)]),
    "of the default collection": (PLAIN + ASKS_PLAINLY + answer(vb5=12), [exactly(3, 12)]),
    "of the default collection, asked for all": (PLAIN + POLLS + answer(vb5=12), [unknown(12, GET_ALL_VB_SEQNOS)]),
    "of the default collection, asked for all that is there": (PLAIN + POLLS + answer(vb5=9), [exactly(0, 9)]),
    "of all, asked for the default": (TO_9 + ASKS_PLAINLY + answer(vb5=12), [at_least(3, 12, GET_ALL_VB_SEQNOS)]),
    "of a collection": (FILTERED + POLLS + answer(OF_IT, vb5=12), [exactly(3, 12)]),
    "of a collection, asked for another": (FILTERED + POLLS + answer(OF_OTHER, vb5=12), [unknown()]),
    "of a collection, asked for all": (FILTERED + POLLS + answer(vb5=12), [unknown(12, GET_ALL_VB_SEQNOS)]),
    "of all, asked for a collection": (TO_9 + POLLS + answer(OF_IT, vb5=12), [unknown()]),
    "of a collection, advanced": (FILTERED + ADVANCED + POLLS + answer(OF_IT, vb5=12), [exactly(0, 12)]),
    "of a collection, advanced later": (
        FILTERED + POLLS + answer(OF_IT, vb5=12) + "ON 0\n" + ADVANCED, [unknown(12, GET_ALL_VB_SEQNOS)]),
    "up to an end": (BOUNDED + POLLS + answer(vb5=90), [exactly(1, 90)]),
    "at an end": (DCP + stream(9, 1, 9, request="vb=5, end-seqno=9"), [Lag(0, True)]),
    "ended at its end": (BOUNDED + "RX mutation{seqno:10}\nRX stream-end{status=0}\n", [None]),
    "refused": (REFUSED + POLLS + answer(vb5=90), [None]),
    "granted": (DCP + "STREAM vb=5, start-seqno=40\n" + POLLS + answer(vb5=90), [exactly(50, 90)]),
    "from the latest": (DCP + "STREAM vb=5, flags=0x40\n" + POLLS + answer(vb5=90), [unknown(90, GET_ALL_VB_SEQNOS)]),
    "the failover log": (DCP + LOG, [at_least(60, 60, DCP_STREAM_REQ)]),
    "what another consumer was sent": (
        TO_9 + "CONNECT\n" + opening(collections=True, name="other") + stream(30, 1, 20),
        [at_least(21, 30), at_least(10, 30)]),
    "a failover since": (TO_9 + POLLS + answer(vb5=90) + FAILOVER, [unknown()]),
    "asked since a failover": (TO_9 + POLLS + answer(vb5=90) + FAILOVER + answer(vb5=12), [exactly(3, 12)]),
    "a rollback since": (DCP + answer(vb5=90) + BACK + stream(9, 1, 9), [unknown()]),
    "out of order": (OSO + answer(vb5=90), [unknown(90, GET_ALL_VB_SEQNOS)]),
    "out of order, and over": (OSO + "RX oso-snapshot{flags=2}\n" + answer(vb5=90), [exactly(30, 90)]),
    "ended before its time": (RESET, [exactly(11, 20)]),
    "ended, and reopened": (RESET + AGAIN, [None, exactly(78, 90)]),
    "documents may be lost": (LOST % "", [unknown(90, GET_ALL_VB_SEQNOS)]),
    "documents were lost before": (LOST % "RX mutation{vb=5, seqno:6}\n", [exactly(84, 90)]),
}  # fmt: skip


@pytest.mark.parametrize(("text", "wanted"), CASES.values(), ids=CASES)
def test_a_lag_is_as_exact_as_what_was_captured(text: str, wanted: list[Lag | None]) -> None:
    assert lags(text) == wanted


def test_a_lag_says_when_it_was_exact() -> None:
    found = ledger(TO_9 + POLLS + answer(vb5=90))
    lag = Judge(found).verdict(found.streams[0]).lag
    assert lag == Lag(81, True, 90, found.last_ns, GET_ALL_VB_SEQNOS)


def test_many_consumers_of_a_vbucket_take_work_in_proportion() -> None:
    counts = []
    for times in (1, 2, 4):
        text = f"CONNECT\n{DCP}{answer(vb5=90)}{stream(9, 1, 9)}RST RX\n" * (20 * times)
        found = ledger(text)
        counts.append(steps(partial(list, map(Lags(found).of, found.streams))))
    once, twice, four = counts
    assert four - twice <= 2.2 * (twice - once), counts
