"""Keys are remembered as long as their snapshot may repeat them, and no more of them than a bound."""

import pytest

from dcpdump.check.engine import RuleEngine
from dcpdump.check.finding import Finding
from dcpdump.streams.dissection import Watching
from dcpdump.streams.feed import Feed
from dcpdump.streams.ledger import Ledger
from dcpdump.streams.stream import KeyMemory
from tests.support.check_cases import DURABLE, PLAIN, STREAM
from tests.support.conversation import codes, findings, packets, said
from tests.support.pieces import told

MARKER = "RX snapshot-marker{start=0, end=9, flags=0x5}\n"


def keys(names: str) -> str:
    return "".join(f"RX mutation{{seqno={at}, key={name}}}\n" for at, name in enumerate(names, 1))


def judged(text: str, most: int, *, runs: bool) -> tuple[list[Finding], Ledger]:
    """Return the findings on a conversation, and the ledger, which remembers so many keys."""
    dissection, ledger = Watching(), Ledger(with_rules=True)
    ledger.memory.keys = KeyMemory(most)
    found: list[Finding] = []
    engine, feed = RuleEngine(found.append, ledger=ledger), Feed(dissection, ledger, with_rules=True)
    for step in told(feed, dissection, packets(said(text)), runs=runs):
        engine.feed_step(step)
    feed.close()
    return found, ledger


@pytest.mark.parametrize("runs", [False, True], ids=["frame by frame", "in runs"])
def test_a_key_that_was_not_remembered_is_not_compared_and_is_counted(runs: bool) -> None:
    text = PLAIN + STREAM + MARKER + keys("abcd") + "RX mutation{seqno=5, key=d}\nRX mutation{seqno=6, key=a}\n"
    plenty, ledger = judged(text, 100, runs=runs)
    assert [each.rule.code for each in plenty] == ["DCP317", "DCP317"]
    assert ledger.memory.keys == KeyMemory(96)
    few, ledger = judged(text, 2, runs=runs)
    assert [each.message for each in few] == [plenty[1].message]
    assert ledger.memory.keys == KeyMemory(0, missed=3)


@pytest.mark.parametrize(
    "then", ["RX snapshot-marker{start=10, end=12, flags=0x1}\n", "RX stream-end{status=0}\n", "RST RX\n"]
)
@pytest.mark.parametrize("runs", [False, True], ids=["frame by frame", "in runs"])
def test_what_ends_a_snapshot_forgets_its_keys(then: str, runs: bool) -> None:
    assert judged(PLAIN + STREAM + MARKER + keys("abc"), 100, runs=runs)[1].memory.keys == KeyMemory(97)
    assert judged(PLAIN + STREAM + MARKER + keys("abc") + then, 100, runs=runs)[1].memory.keys == KeyMemory(100)


def test_a_stream_of_more_prepares_than_are_kept_ends_with_at_least_those(monkeypatch: pytest.MonkeyPatch) -> None:
    two = "RX prepare{seqno=1, key=a}\nRX prepare{seqno=2, key=b}\n"
    text = DURABLE + STREAM + MARKER + two + "RX stream-end{status=2}\n"
    ending = "(seqno 1) when the stream ended"
    monkeypatch.setattr("dcpdump.streams.stream._MOST_PREPARES", 1)
    assert [each.message for each in findings(text)] == [f"at least 1 open prepare {ending}"]


def test_keys_that_no_server_takes_are_not_remembered() -> None:
    text = PLAIN + STREAM + MARKER + f"RX mutation{{seqno=1, key={'k' * 256}}}\n"
    assert judged(text, 100, runs=False)[1].memory.keys == KeyMemory(100)
    assert judged(text, 100, runs=True)[1].memory.keys == KeyMemory(100)


def test_a_commit_is_no_orphan_where_its_prepare_may_be_one_of_those_that_were_not_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = DURABLE + STREAM + MARKER + "RX prepare{seqno=1, key=a}\nRX prepare{seqno=2, key=b}\n"
    orphan = text + "RX commit{prepared-seqno=2, commit-seqno=3, key=c}\n"
    assert codes(text + "RX commit{prepared-seqno=2, commit-seqno=3, key=b}\n") == []
    assert codes(orphan) == ["D3"]
    monkeypatch.setattr("dcpdump.streams.stream._MOST_PREPARES", 1)
    assert codes(text + "RX commit{prepared-seqno=2, commit-seqno=3, key=b}\n") == []
    assert codes(orphan) == []
