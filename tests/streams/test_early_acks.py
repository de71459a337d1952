"""Acknowledgements that were captured before the messages that they acknowledge, and such of what was never sent."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dcpdump.check.rules import RULES
from dcpdump.net.packet import Packet
from dcpdump.streams.flow import leak
from dcpdump.streams.window import GRACE, OUT_OF_ORDER_NS, Window
from tests.streams.test_document_runs import assert_ledgers_are_equal
from tests.streams.test_flow_state import acknowledged, mutations
from tests.support.console import run
from tests.support.conversation import Said, findings_of, opening, packets, said
from tests.support.diagnoses import written
from tests.support.ledgers import ledger_of
from tests.support.secret_talk import saved

SIZE, MARKER, MESSAGE = 2000, 44, 58
MICROSECOND = 1_000
BEGUN = opening(controls=f"connection_buffer_size={SIZE}")
BEGUN += "STREAM vb=5\nRX snapshot-marker{start=0, end=51, flags=5}\n"
QUIET = "WAIT 19\nRX noop{}\nTX noop-response{success}\n" * 5


def early(text: str, messages: int, by_ns: int) -> list[Packet]:
    """Return a capture in which the first acknowledgement comes so many messages early, which follow so much later."""
    frames = said(text)
    at = next(at for at, frame in enumerate(frames) if frame.data[:2] == b"\x80\x5d")
    late, ack = frames[at - messages : at], frames[at]
    begin_ns = late[0].ts_ns
    step_ns = min(MICROSECOND, by_ns)
    moved: list[Said] = [replace(ack, ts_ns=begin_ns)]
    moved += [replace(frame, ts_ns=begin_ns + by_ns - step_ns * n) for n, frame in enumerate(reversed(late))][::-1]
    return packets([*frames[: at - messages], *moved, *frames[at + 1 :]])


def window_of(captured: list[Packet], *, runs: bool = False) -> Window:
    """Return the window of a capture's only connection."""
    (connection,) = ledger_of(captured, runs=runs).connections.values()
    return connection.window


def account(window: Window) -> Any:
    """Return what is said of a window."""
    counters = window.counted.sent, window.acked, window.outstanding, window.peak, window.overacked
    return counters, window.full is not None, window.blocked.kept, window.excesses, leak(window)


def judged(captured: list[Packet]) -> list[tuple[str, int, str]]:
    """Return what rules find of flow control: rule, frame and message."""
    found = [each for each in findings_of(captured) if each.rule.id.startswith("B")]
    return [(each.rule.code, each.frame, each.message) for each in found]


HEALTHY = BEGUN + mutations(1, 18) + acknowledged(MARKER + 18 * MESSAGE) + "WAIT 1\n" + mutations(19, 51) + QUIET
#: What is acknowledged is more than was sent, and the next messages come an hour later.
TOO_MUCH = BEGUN + mutations(1, 10) + acknowledged(MARKER + 10 * MESSAGE + 56) + "WAIT 3600\n" + mutations(11, 12)


# -- what comes a little later ------------------------------------------------------------------------------


@pytest.mark.parametrize("runs", [False, True], ids=["frame by frame", "in runs"])
@pytest.mark.parametrize("messages", [1, 7, 18, 19])
@pytest.mark.parametrize("by_ns", [0, 50 * MICROSECOND, OUT_OF_ORDER_NS])
def test_an_acknowledgement_captured_before_its_messages_counts_as_behind_them(
    by_ns: int, messages: int, runs: bool
) -> None:
    expected = account(window_of(packets(said(HEALTHY))))
    assert expected == ((3002, 1088, 1914, 1914, 0), False, [], [], None)
    assert account(window_of(early(HEALTHY, messages, by_ns), runs=runs)) == expected


def test_no_command_takes_its_connection_for_blocked(tmp_path: Path) -> None:
    path = saved(early(HEALTHY, 18, 50 * MICROSECOND), tmp_path / "early.pcap")
    streams = json.loads(run(f"dcpdump streams {path} -q -f ndjson").out.splitlines()[0])
    flow = json.loads(run(f"dcpdump flow {path} -q -f ndjson").out)
    names = ("state", "sent", "acked", "outstanding", "peak", "overacked", "blocked", "blocked_ms", "intervals")
    assert streams["verdict"].startswith("quiet (nothing for 95 s; all of snapshot 0..51 came;")
    assert [flow[name] for name in names] == ["open", 3002, 1088, 1914, 1914, 0, False, 0, []]
    assert "mismatch" not in flow
    assert "nothing is wrong: 1 stream (1 quiet) on 1 connection" in run(f"dcpdump diagnose {path} -q").out
    assert run(f"dcpdump check {path} -q --all").out == (
        f"1 stream checked by {len(RULES)} rules: 0 violations, 0 suspicious, 0 info, 0 unknown\n"
    )


def test_acknowledgements_that_are_early_throughout_add_up_to_nothing() -> None:
    """Each message is acknowledged at once, and the port of acknowledgements is always 5 ms ahead."""
    text = BEGUN + acknowledged(MARKER) + "".join(mutations(n, n) + acknowledged(MESSAGE) for n in range(1, 200))
    frames = said(text)
    ahead = [frame if frame.direction else replace(frame, ts_ns=frame.ts_ns - 5_000_000) for frame in frames]
    captured = packets(sorted(ahead, key=lambda frame: frame.ts_ns))
    assert account(window_of(captured)) == ((11586, 11586, 0, 58, 0), False, [], [], None)
    assert judged(captured) == []
    assert_ledgers_are_equal(captured)


# -- what does not come -------------------------------------------------------------------------------------


def test_rules_diagnose_and_flow_say_the_same_of_what_was_acknowledged_too_much(tmp_path: Path) -> None:
    path = written(TOO_MUCH, tmp_path / "much.pcap")
    flow = json.loads(run(f"dcpdump flow {path} -q -f ndjson").out)
    names = ("sent", "acked", "outstanding", "overacked", "mismatch")
    unexplained = {"bytes": -56, "text": "no kind of message explains it", "explained": False}
    assert [flow[name] for name in names] == [740, 680, 116, 56, unexplained]
    assert "acknowledged 56 B more than was sent by then" in run(f"dcpdump diagnose {path} -q").out
    assert "680 bytes acknowledged, 624 were sent\n" in run(f"dcpdump check {path} -q").out


LATER, HOUR = OUT_OF_ORDER_NS, 3600 * 1_000_000_000
Step = tuple[str, int | None, int | None]  #: what happens, of how many bytes, and when
#: What is outstanding, acknowledged too much, the peak, and how much more may be outstanding.
CASES: dict[str, tuple[list[Step], Any]] = {
    "in time up to the last moment": (
        [("sent", 100, 7), ("acked", 160, 10), ("sent", 40, 20), ("sent", 50, 10 + LATER)], (30, 0, 160, None)),
    "and no longer": (
        [("sent", 100, 7), ("acked", 160, 10), ("sent", 40, 20), ("sent", 50, 11 + LATER)], (50, 20, 100, None)),
    "a clock that was set back": ([("acked", 60, HOUR), ("sent", 60, 10)], (60, 60, 60, None)),
    "as many as are in time without times": (
        [("acked", 10 * GRACE, None), *[("sent", 10, None)] * GRACE], (0, 0, 640, None)),
    "one more": ([("acked", 10 * GRACE + 10, None), *[("sent", 10, None)] * (GRACE + 1)], (10, 10, 10, None)),
    "each has a time of its own": (
        [("acked", 100, 0), ("acked", 100, LATER), ("sent", 30, LATER), ("sent", 100, LATER + 1)], (0, 70, 100, None)),
    "and is over then": (
        [("acked", 100, 0), ("acked", 100, LATER), ("sent", 30, LATER), ("sent", 100, LATER + 1),
         ("sent", 5, 2 * LATER + 1)], (5, 70, 100, None)),
    "the peak of one that was early, though the next is too much": (
        [("acked", 100, 0), ("acked", 70, 1), ("sent", 100, 2), ("sent", 10, 2 * LATER)], (10, 70, 100, None)),
    "what may have come before is acknowledged first": (
        [("sent", 100, 0), ("acks lost", None, 0), ("acked", 130, 10)], (0, 30, 0, 0)),
    "and then what comes later": (
        [("sent", 100, 0), ("acks lost", None, 0), ("acked", 130, 10), ("sent", 40, 20)], (10, 0, 130, 0)),
    "messages that are lost may be those": ([("acked", 160, 10), ("lost", 100, 20)], (0, 56, 0, 0)),
    "and the rest comes later": ([("acked", 160, 10), ("lost", 100, 20), ("sent", 60, 30)], (4, 0, 160, 0)),
    "so may any number that is lost": ([("acked", 10, 40), ("lost", None, 50), ("sent", 60, 60)], (60, 0, 60, None)),
    "where acknowledgements are lost, early ones wait": (
        [("acked", 50, 10), ("acks lost", 100, 20), ("sent", 60, 30)], (10, 0, 50, 0)),
}  # fmt: skip


@pytest.mark.parametrize(("steps", "wanted"), CASES.values(), ids=CASES)
def test_an_early_acknowledgement_waits_for_its_messages_for_a_time(steps: list[Step], wanted: Any) -> None:
    window = Window(complete=True, size=100_000)
    for what, size, ts_ns in steps:
        if what == "sent":
            window.sends(0x57, size or 0, 0, ts_ns)
        elif what == "acked":
            window.acknowledges(size or 0, ts_ns)
        else:
            window.lose(size, ts_ns, acks=what == "acks lost")
    assert (window.outstanding, window.overacked, window.peak, window.max_unknown) == wanted


def test_of_many_that_wait_the_last_wait_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dcpdump.streams.window._MOST", 3)
    window = Window(complete=True, size=1000)
    for now in range(10):
        window.acknowledges(10 + now, now)
    assert [(ack.ts_ns, ack.size, ack.missing) for ack in window._early] == [(0, 10, 10), (1, 11, 11), (9, 19, 124)]
    window.sends(0x57, 20, 0, OUT_OF_ORDER_NS + 2)
    assert (window.outstanding, window._overacked, window.overacked) == (0, 21, 145 - 20)
