"""What is forgotten of a connection is forgotten by the others too: an interface may be watched for days."""

import json

import pytest

from dcpdump.spec.statuses import ROLLBACK
from dcpdump.streams import failover_logs, state
from dcpdump.streams import stream as stream_module
from dcpdump.streams.frame_event import Before, Missed
from dcpdump.streams.rollbacks import find_rollbacks
from dcpdump.streams.verdict import Judge
from tests.support.conversation import opening
from tests.support.ledgers import ledger, only

SENT_BACK = "TX stream-request{{vb=5, start-seqno={}}}\nRX stream-request-response{{rollback, rollback-seqno=0}}\n"
_STREAMS = "".join(f"STREAM vb={vbucket}\n" for vbucket in range(9))
SAME_NAME = "".join(f"CONNECT 10.0.0.1:5000{at} 10.0.0.2:11210\n{opening()}FIN TX\nFIN RX\n" for at in range(4))


def test_of_connections_that_have_one_name_the_last_keeps_the_one_before_and_no_more() -> None:
    kept = ledger(SAME_NAME)
    first, second, third, last = kept.connections.values()
    assert [each.setup.previous_with_name for each in (first, second, third, last)] == [None, first, second, third]
    for each in (first, second, third):
        kept.forget(each)
    assert list(kept.connections.values()) == [last]
    assert (last.setup.previous_with_name, third.setup.previous_with_name, second.setup.previous_with_name) == (
        third,
        None,
        None,
    )
    assert list(kept.memory.names.values()) == [last]
    kept.forget(last)
    assert (kept.connections, kept.memory.names) == ({}, {})


def test_a_connection_that_is_evicted_is_counted_with_the_time_of_its_last_loss() -> None:
    kept = ledger(SAME_NAME)
    first, second, *_ = kept.connections.values()
    first.lose(0, Before(10, Missed(10, 1)), 77)
    kept.evict(first)
    kept.evict(second)
    assert (kept.evicted, kept.evicted_lost_ns) == (2, 77)


def test_of_very_many_states_that_a_stream_sets_the_first_and_the_latest_are_kept() -> None:
    kept = ledger(opening() + "STREAM vb=5, flags=0x1\n" + "RX set-vbucket-state{state=3}\n" * 200)
    frames = [each.frame for each in only(kept).states]
    assert [frame - frames[0] for frame in frames] == [0, *range(137, 200)]


def test_of_very_many_equal_requests_the_first_and_the_latest_are_kept_and_all_are_counted() -> None:
    text = opening() + SENT_BACK.format(7) * 300 + SENT_BACK.format(9) * 300
    kept = ledger(text)
    stream = only(kept)
    assert len(stream.requests) < 256
    assert [(each.count, each.requests[0].frame, each.requests[-1].frame) for each in find_rollbacks(kept)] == [
        (300, 11, 609),
        (300, 611, 1209),
    ]
    assert (stream.requests.count(), stream.requests.omitted) == (600, {})
    assert Judge(kept).verdict(stream).text == "rolled back (to 0, 300 times in 599 ms: a loop)"


def test_very_many_requests_that_are_all_different_some_are_only_counted() -> None:
    kept = ledger(opening() + "".join(map(SENT_BACK.format, range(1, 600))))
    stream = only(kept)
    requests = stream.requests
    assert (requests.count(ROLLBACK), requests.omitted) == (599, {(ROLLBACK, 0): 599 - len(requests)})
    assert Judge(kept).verdict(stream).text == "rolled back (to 0, at least 143 times in 1.2 s: a loop)"


@pytest.mark.parametrize(("early", "left"), [(False, [(1, 16), (0, 3), (0, 0)]), (True, [(4, 13), (3, 0), (0, 0)])])
def test_of_very_many_acknowledgements_that_are_missing_or_too_many_the_first_are_kept_and_all_are_counted(
    monkeypatch: pytest.MonkeyPatch, *, early: bool, left: list[tuple[int, int]]
) -> None:
    monkeypatch.setattr(stream_module, "_MOST_ACKS", 4)
    marker, item = "RX snapshot-marker{{start={0}, end={0}, flags=0x9}}\n", "RX mutation{{seqno:{0}}}\n"
    asks, answers = (marker + item).format, ["TX snapshot-marker-response{success}\n"] * 20
    waits, acks = [asks(seqno) for seqno in range(1, 21)], answers
    first, then = (acks, waits) if early else (waits, acks)
    for answered, expected in zip((3, 17, 20), left, strict=True):
        text = opening() + "STREAM vb=5\n" + "".join(first) + "".join(then[:answered])
        found = only(ledger(text))
        assert (len(found.acks.early or found.acks.due or ()), abs(found.acks.omitted)) == expected


def test_of_a_very_long_value_of_a_control_the_beginning_is_kept() -> None:
    (connection,) = ledger(opening(controls=f"key={'x' * 2000}")).connections.values()
    assert connection.setup.controls["key"].value == connection.setup.agreed["key"] == "x" * 1024 + "…"


def test_of_a_very_long_filter_the_beginning_is_kept_and_the_rest_is_counted() -> None:
    ids = ["x" * 2000, *map(str, range(5000))]
    value = json.dumps({"scope": ids[0], "collections": ids}, separators=(",", ":"))
    (request,) = only(ledger(opening() + f"TX stream-request{{vb=5, value={value}}}\n")).requests
    kept = request.collections or ()
    assert (request.scope, kept[0]) == ("x" * 1024 + "…",) * 2
    assert kept[1:] == (*ids[1:4096], "… 905 more")


def test_of_a_failover_log_that_is_longer_than_any_nothing_is_kept() -> None:
    def granted(entries: int) -> str:
        log = "|".join(["0xa:1"] * entries)
        return f"{opening()}TX stream-request{{vb=5}}\nRX stream-request-response{{success, failover-log={log}}}\n"

    assert [len(only(ledger(granted(count))).failover_log or ()) for count in (25, 2000)] == [25, 0]


def test_with_more_opaques_that_streams_shared_than_are_remembered_any_may_be_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(state, "_MOST_SHARED", 2)
    (connection,) = ledger(opening()).connections.values()
    found = []
    for opaque in (1, 2, 3):
        connection.lookup.share(opaque)
        found.append((len(connection.lookup.shared), connection.lookup.shares(9)))
    assert found == [(1, False), (2, True), (2, True)]


def test_of_what_servers_report_no_more_is_kept_than_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failover_logs, "_MOST", 40)
    text = "".join(f"CONNECT 10.0.0.9:50000 10.0.0.{at}:11210\n{opening()}{_STREAMS}" for at in range(4))
    kept = ledger(text)
    known = [bool(kept.logs.logs(each, vbucket)) for each in kept.connections.values() for vbucket in range(9)]
    assert known == [False] * 18 + [True] * 18


def test_states_that_a_takeover_sets_are_one_list_however_many_there_are() -> None:
    kept = ledger(opening() + "STREAM vb=5, flags=0x1\n" + "RX set-vbucket-state{state=3}\n" * 3)
    found = only(kept).states
    assert isinstance(found, list)  # to which each is added without a copy of those before
    assert [each.state for each in found] == [3, 3, 3]
