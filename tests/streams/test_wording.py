"""Wording: how clients are called where people read."""

from pathlib import Path

import pytest

from dcpdump.streams.failover_logs import Lag
from dcpdump.streams.wording import lag_text, short_name, span
from dcpdump.wire.encode import encode
from tests.streams.test_tcp_faults import asked, granted, mutations, written
from tests.support.console import run
from tests.support.packets import TcpTalk

KAFKA = '{"i":"67CC1752DE27660B/0000000000000001","a":"kafka-connector/4.1.6 (orders; java-dcp-client)"}'


@pytest.mark.parametrize(
    ("name", "short"),
    [
        (KAFKA, "kafka-connector 67CC1752DE27660B/1"),
        (KAFKA[:70], "kafka-connector 67CC1752DE27660B/1"),
        ('{"i":"ab/00","a":"x"}', "x ab/0"),
        ('{"a":"x","i":"ab/00"}', '{"a":"x","i":"ab/00"}'),
        ('{"i":"ab/00","a":""}', '{"i":"ab/00","a":""}'),
        ("eq_dcpq:secidx:proj", "eq_dcpq:secidx:proj"),
        (None, ""),
    ],
)
def test_names_of_json_are_called_by_product_and_ids(name: str | None, short: str) -> None:
    assert short_name(name) == short


def test_people_read_the_short_name_and_programs_get_all_of_it(tmp_path: Path) -> None:
    talk = asked(TcpTalk(), "DCP_OPEN", 1, key=KAFKA.encode())
    path = written(mutations(granted(talk, 9), 1, 5).send(1, encode("DCP_NOOP", opaque=9)), tmp_path)
    for command in ("streams", "flow", "top", "diagnose"):
        printed = run(f"dcpdump {command} {path} -q").out
        assert ("kafka-connector 67CC1752DE27660B/1 " in printed, '"i"' in printed) == (True, False)
    for command in ("streams -f ndjson", "flow -f ndjson", "conns"):
        assert "67CC1752DE27660B/0000000000000001" in run(f"dcpdump {command} {path} -q").out


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0004, "0.4 ms"),
        (31, "31 s"),
        (179, "179 s"),
        (180, "3 m"),
        (10_799, "180 m"),
        (10_800, "3 h"),
        (259_199, "72 h"),
        (259_200, "3 d"),
        (1_450_800_000, "16,792 d"),
    ],
)
def test_a_time_is_written_in_the_unit_that_suits_it(seconds: float, text: str) -> None:
    assert span(int(seconds * 1_000_000_000)) == text


@pytest.mark.parametrize(
    ("lag", "text"),
    [
        (None, ""),
        (Lag(), "?"),
        (Lag(0, True), "0"),
        (Lag(1200, False, 1300, 10_000_000_000), "≥ 1,200"),
        (Lag(0, True, 9, 32_000_000_000), "0"),
        (Lag(0, True, 9, 10_000_000_000), "0 (31 s ago)"),
    ],
)
def test_a_lag_that_was_exact_long_ago_says_so(lag: Lag | None, text: str) -> None:
    assert lag_text(lag, 41_000_000_000) == text
