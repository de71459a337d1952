"""Hot keys: what was counted of a key is exact while all fit, and never further off than it says."""

from collections import Counter
from random import Random

import pytest

from dcpdump.batch import statistics
from dcpdump.batch.statistics import Amount, HotKeys
from tests.support.conversation import opening, packets, said
from tests.support.pieces import parts_of

CHANCE = Random(1)
KEYS = [f"k{int(CHANCE.paretovariate(0.7)) % 400}" for _ in range(3_000)]
MANY = f"STREAM vb=5\nRX snapshot-marker{{start=0, end={len(KEYS)}, flags=0x5}}\n" + "".join(
    f"RX mutation{{seqno={at}, key={key}, value={'v' * CHANCE.randrange(80)}}}\n" for at, key in enumerate(KEYS, 1)
)


def counted(text: str, memory: int = 1 << 20) -> HotKeys:
    found = HotKeys(memory)
    for part in parts_of(packets(said(text)), 4_096):
        found.feed(part, range(len(part)))
    return found


def test_the_keys_with_most_frames_and_those_with_most_bytes_are_listed_with_what_they_had() -> None:
    talk = opening(collections=True) + (
        "STREAM vb=5\nRX snapshot-marker{start=0, end=9, flags=0x5}\n"
        "RX mutation{seqno=1, key=#0861}\nRX deletion{seqno=2, key=#0861}\nRX mutation{seqno=3, key=#0061}\n"
        f"RX mutation{{seqno=4, key=#0062, value={'v' * 500}}}\nRX expiration{{seqno=5, key=#0063}}\n"
    )
    rows = [(row.key, row.collection, row.amount.frames, row.amount.bytes, row.error) for row in counted(talk).top(1)]
    assert rows == [(b"a", 8, 2, 101, Amount()), (b"b", 0, 1, 557, Amount())]


def test_where_not_all_keys_are_kept_no_count_is_further_off_than_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics, "_LEAST", 16)
    true = Counter(KEYS)
    found = counted(opening() + MANY, memory=0).top(16)
    assert [row.key.decode() for row in found[:3]] == [key for key, _ in true.most_common(3)]
    assert any(row.error.frames for row in found)
    for row in found:
        frames = true[row.key.decode()]
        assert row.amount.frames <= frames <= row.amount.frames + row.error.frames, row
