"""Lag: how many seqnos of those that the server had were not sent to a consumer yet, and whether that is known."""

from functools import partial

from dcpdump.spec.opcodes import DCP_SNAPSHOT_MARKER, DCP_STREAM_REQ, GET_ALL_VB_SEQNOS, OBSERVE_SEQNO, STAT
from dcpdump.streams.lag import Lag, Lags
from dcpdump.streams.verdict import Judge
from dcpdump.wire.encode import encode
from tests.support.conversation import opening
from tests.support.ledgers import captured, ledger, ledger_of
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
    found = ledger(text)
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


def test_a_lag_is_exact_where_the_server_was_asked_on_another_connection_of_the_client() -> None:
    found = ledger(TO_9 + POLLS + answer(vb5=90, vb6=7))
    lag = Judge(found).verdict(found.streams[0]).lag
    assert lag == Lag(81, True, 90, found.last_ns, GET_ALL_VB_SEQNOS)
    assert lags(TO_9 + POLLS + answer(vb5=9)) == [exactly(0, 9)]


def test_without_an_answer_a_lag_is_at_least_what_markers_announce_and_else_unknown() -> None:
    assert lags(DCP + stream(9, 1, 4)) == [at_least(5, 9)]
    assert lags(TO_9) == [unknown()]


def test_an_answer_that_was_overtaken_is_no_high_seqno_any_more() -> None:
    late = "RX snapshot-marker{start=10, end=12, flags=1}\nRX mutation{seqno:10}\n"
    assert lags(TO_9 + POLLS + answer(vb5=9) + "ON 0\n" + late) == [at_least(2, 12)]
    assert lags(TO_9 + POLLS + answer(vb5=9) + "ON 0\n" + late + "RX mutation{seqno:12}\n") == [
        unknown(9, GET_ALL_VB_SEQNOS)
    ]


def test_an_answer_is_of_its_server_and_bucket_and_where_the_bucket_is_not_known_of_its_connection() -> None:
    other_server = "CONNECT 10.0.0.1:50001 10.0.0.9:11210\n" + CLIENT
    assert lags(TO_9 + other_server + answer(vb5=90)) == [unknown()]
    assert lags(TO_9 + POLLS.replace("travel", "beer") + answer(vb5=90)) == [unknown()]
    bucketless = "\n".join(line for line in TO_9.splitlines() if "bucket" not in line) + "\n"
    assert lags(
        bucketless + POLLS.replace("TX select-bucket", "TX noop").partition("RX select")[0] + answer(vb5=90)
    ) == [unknown()]
    assert lags(bucketless + answer(vb5=90)) == [exactly(81, 90)]


def test_observe_and_stat_say_the_high_seqno_and_not_what_is_on_disk() -> None:
    observed = {"format": 0, "observed_vbucket": 5, "vbucket_uuid": 7, "persisted_seqno": 5, "current_seqno": 20}
    data = encode("OBSERVE_SEQNO", observed, response=True, opaque=78)
    said = f"TX observe-seqno{{vb=5, vbucket-uuid=7, opaque=78}}\nHEX RX {data.hex()}\n"
    assert lags(TO_9 + POLLS + said) == [exactly(11, 20, OBSERVE_SEQNO)]
    stats = {"vb_5:high_seqno": "30", "vb_5:abs_high_seqno": "31", "vb_x:high_seqno": "1", "": ""}
    asked = "TX stat{key=vbucket-seqno, opaque=79}\n"
    answers = "".join(
        f"RX stat-response{{success, opaque=79, key={key}, value={seqno}}}\n" for key, seqno in stats.items()
    )
    assert lags(TO_9 + POLLS + asked + answers) == [exactly(21, 30, STAT)]


def test_a_client_without_collections_is_told_the_seqno_of_the_default_collection_only() -> None:
    plain = opening() + stream(9, 1, 9)
    asks_plainly = POLLS.replace("|0x12", "")
    assert lags(plain + asks_plainly + answer(vb5=12)) == [exactly(3, 12)]
    assert lags(plain + POLLS + answer(vb5=12)) == [unknown(12, GET_ALL_VB_SEQNOS)]
    assert lags(plain + POLLS + answer(vb5=9)) == [exactly(0, 9)]
    assert lags(TO_9 + asks_plainly + answer(vb5=12)) == [at_least(3, 12, GET_ALL_VB_SEQNOS)]


def test_a_filtered_stream_has_the_lag_of_its_collection_alone() -> None:
    filtered = DCP + stream(9, 1, 9, request='vb=5, value={"collections":["a"]}')
    of_it, of_other = (f", state-filter=1, collection-id={number}" for number in (10, 11))
    assert lags(filtered + POLLS + answer(of_it, vb5=12)) == [exactly(3, 12)]
    assert lags(filtered + POLLS + answer(of_other, vb5=12)) == [unknown()]
    assert lags(filtered + POLLS + answer(vb5=12)) == [unknown(12, GET_ALL_VB_SEQNOS)]
    assert lags(TO_9 + POLLS + answer(of_it, vb5=12)) == [unknown()]
    advanced = "RX seqno-advanced{vb=5, seqno:15}\n"
    assert lags(filtered + advanced + POLLS + answer(of_it, vb5=12)) == [exactly(0, 12)]
    assert lags(filtered + POLLS + answer(of_it, vb5=12) + "ON 0\n" + advanced) == [unknown(12, GET_ALL_VB_SEQNOS)]


def test_a_stream_with_an_end_lags_up_to_it_and_one_that_reached_it_not_at_all() -> None:
    bounded = DCP + stream(9, 1, 9, request="vb=5, end-seqno=10")
    assert lags(bounded + POLLS + answer(vb5=90)) == [exactly(1, 90)]
    assert lags(DCP + stream(9, 1, 9, request="vb=5, end-seqno=9")) == [Lag(0, True)]
    assert lags(bounded + "RX mutation{seqno:10}\nRX stream-end{status=0}\n") == [None]


def test_a_stream_that_was_refused_has_no_lag_and_one_that_was_granted_has_that_of_its_start() -> None:
    refused = DCP + "TX stream-request{vb=5}\nRX stream-request-response{status-code=7}\n"
    assert lags(refused + POLLS + answer(vb5=90)) == [None]
    assert lags(DCP + "STREAM vb=5, start-seqno=40\n" + POLLS + answer(vb5=90)) == [exactly(50, 90)]
    latest = DCP + "STREAM vb=5, flags=0x40\n"
    assert lags(latest + POLLS + answer(vb5=90)) == [unknown(90, GET_ALL_VB_SEQNOS)]


def test_the_failover_log_and_what_other_consumers_were_sent_are_bounds() -> None:
    log = "TX stream-request{vb=5}\nRX stream-request-response{success, failover-log=0xfeed:60|0xbeef:0}\n"
    assert lags(DCP + log) == [at_least(60, 60, DCP_STREAM_REQ)]
    assert lags(TO_9 + "CONNECT\n" + opening(collections=True, name="other") + stream(30, 1, 20)) == [
        at_least(21, 30),
        at_least(10, 30),
    ]


def test_a_failover_and_a_rollback_void_what_was_said_before() -> None:
    asks = "TX get-failover-log{vb=5, opaque=80}\nRX get-failover-log-response{success, opaque=80, failover-log=%s}\n"
    before, after = asks % "0xfeed:0", asks % "0xcafe:9|0xfeed:0"
    assert lags(TO_9 + POLLS + answer(vb5=90) + before + after) == [unknown()]
    assert lags(TO_9 + POLLS + answer(vb5=90) + before + after + answer(vb5=12)) == [exactly(3, 12)]
    rolled_back = "TX stream-request{vb=5, start-seqno=7}\nRX stream-request-response{rollback, rollback-seqno=2}\n"
    assert lags(DCP + answer(vb5=90) + rolled_back + stream(9, 1, 9)) == [unknown()]


def test_where_documents_may_be_lost_a_lag_is_unknown_until_the_next_comes() -> None:
    lost = "".join(f"- RX mutation{{seqno:{seqno}}}\n" for seqno in (4, 5)) + "RX noop\n"
    found = [
        Judge(taken).verdict(taken.streams[0]).lag
        for then in ("", "RX mutation{vb=5, seqno:6}\n")
        for taken in [ledger_of(captured(DCP + stream(9, 1) + lost + then + answer(vb5=90)))]
    ]
    assert [each and (each.seqnos, each.exact) for each in found] == [(None, False), (84, True)]


def test_out_of_order_a_consumer_has_no_seqno_up_to_which_it_has_all() -> None:
    begun = DCP + "STREAM vb=5\nRX oso-snapshot{flags=1}\nRX mutation{seqno:60}\nRX mutation{seqno:3}\n"
    assert lags(begun + answer(vb5=90)) == [unknown(90, GET_ALL_VB_SEQNOS)]
    assert lags(begun + "RX oso-snapshot{flags=2}\n" + answer(vb5=90)) == [exactly(30, 90)]


def test_a_stream_that_ended_before_its_time_has_the_lag_that_it_had_then() -> None:
    reset = TO_9 + POLLS + answer(vb5=20) + "ON 0\nRST RX\nWAIT 1\nON 1\n" + answer(vb5=90)
    assert lags(reset) == [exactly(11, 20)]
    again = "CONNECT\n" + opening(collections=True) + stream(20, 12, request="vb=5, start-seqno=9")
    assert lags(reset + again)[0] is None


def test_many_consumers_of_a_vbucket_take_work_in_proportion() -> None:
    counts = []
    for times in (1, 2, 4):
        text = f"CONNECT\n{DCP}{answer(vb5=90)}{stream(9, 1, 9)}RST RX\n" * (20 * times)
        found = ledger(text)
        counts.append(steps(partial(list, map(Lags(found).of, found.streams))))
    once, twice, four = counts
    assert four - twice <= 2.2 * (twice - once), counts
