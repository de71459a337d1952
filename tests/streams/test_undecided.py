"""Durable writes that are neither committed nor aborted for longer than a client waits, and what may explain them."""

from pathlib import Path

import pytest

from dcpdump.check.rule import Severity
from dcpdump.net.sender_state import ZERO_WINDOW
from dcpdump.redact import Redactor
from dcpdump.streams import intervals
from dcpdump.streams.causes import Cause, VerdictKind
from dcpdump.streams.redacted import hide
from dcpdump.streams.undecided import undecided
from dcpdump.streams.verdict import Judge
from tests.support.captures import Record, pcap
from tests.support.conversation import findings, findings_of, opening, packets, said
from tests.support.diagnoses import objects
from tests.support.ledgers import captured, ledger, ledger_of, only
from tests.test_bounds import steps

CONTROLS = "enable_sync_writes=true, consumer_name=b"
OPEN = opening(0x25, collections=True, name="replication:a->b", controls=CONTROLS)
STREAM = "STREAM vb=5\n"
ONE = "RX snapshot-marker{start=0, end=1, flags=0x5, layout=2.0}\nRX prepare{seqno=1, key=#0061}\n"
NOOP = "RX noop{}\nTX noop-response{success}\n"
LONG = ("WAIT 19\n" + NOOP) * 5
ACKED = "TX seqno-acknowledged{prepared-seqno=1}\n"
NEXT = "RX snapshot-marker{start=2, end=2, flags=0x5, layout=2.0}\n"
COMMIT = NEXT + "RX commit{prepared-seqno=1, commit-seqno=2, key=#0061}\n"
ABORT = NEXT + "RX abort{prepared-seqno=1, abort-seqno=2, key=#0061}\n"
DISK = "RX snapshot-marker{start=0, end=1, flags=0x6%s}\nRX prepare{seqno=1, key=#0061}\n"
SEEN = "no COMMIT or ABORT of PREPARE seqno 1"
NOT_ACKED = f"{SEEN}, which its consumer did not acknowledge, since 12:00:00.018, for 95 s"


def found(text: str) -> tuple[str, list[str]]:
    """Return the verdict on the only stream of a conversation, and what the rule on undecided prepares says."""
    kept = ledger_of(captured(text))
    said_of = [each.message for each in findings_of(captured(text)) if each.rule.id == "D4"]
    return Judge(kept).verdict(only(kept)).text, said_of


@pytest.mark.parametrize(
    ("conversation", "text"),
    [
        (OPEN + STREAM + ONE, NOT_ACKED),
        (OPEN + STREAM + ONE + ACKED, NOT_ACKED.replace("did not acknowledge", "acknowledged")),
        (
            OPEN
            + STREAM
            + ONE.replace("end=1", "end=3")
            + "RX prepare{seqno=2, key=#0062}\nRX prepare{seqno=3, key=#0063}\n",
            NOT_ACKED.replace("seqno 1", "seqno 1 and of 2 later ones"),
        ),
        (
            opening(collections=True, controls="enable_sync_writes=true") + STREAM + ONE,
            f"{SEEN} since 12:00:00.016, for 95 s",
        ),
    ],
)
def test_a_durable_write_without_an_outcome_is_stuck(conversation: str, text: str) -> None:
    kept = ledger(conversation + LONG)
    verdict = Judge(kept).verdict(only(kept))
    assert (verdict.kind, verdict.cause, verdict.trouble, verdict.why) == (
        VerdictKind.STUCK,
        Cause.PREPARE_UNDECIDED,
        True,
        text,
    )
    (prepare,) = (each for each in findings(conversation + LONG) if each.rule.id == "D4")
    frame = next(at for at, each in enumerate(said(conversation), 1) if each.data[1] == 0x60)
    assert (prepare.severity, prepare.frame, prepare.vbucket, prepare.message) == (Severity.SUSPICIOUS, frame, 5, text)


def test_a_stream_that_flows_says_which_durable_write_has_no_outcome() -> None:
    busy = OPEN + STREAM + ONE + LONG + NEXT + "RX mutation{seqno=2, key=#0062}\n"
    assert found(busy) == (f"open and flowing ({NOT_ACKED})", [NOT_ACKED])


@pytest.mark.parametrize(("seconds", "late"), [(75, False), (76, True)])
def test_a_durable_write_has_as_long_as_its_client_may_wait(seconds: int, late: bool) -> None:
    verdict, rule = found(OPEN + STREAM + ONE + f"WAIT {seconds}\n" + NOOP)
    assert (verdict.startswith("stuck (no COMMIT"), len(rule)) == (late, late)


@pytest.mark.parametrize(("seconds", "rules"), [(70, []), (80, ["D4"])])
def test_a_connection_that_ends_was_watched_until_then(seconds: int, rules: list[str]) -> None:
    ended = OPEN + STREAM + ONE + f"WAIT {seconds}\nRST RX\nCONNECT\n" + opening() + LONG
    assert sorted(each.rule.id for each in findings(ended)) == rules


@pytest.mark.parametrize(
    "conversation",
    {
        "committed": STREAM + ONE + COMMIT + LONG,
        "aborted": STREAM + ONE + ABORT + LONG,
        "the capture ends": STREAM + ONE + "WAIT 65\n" + NOOP,
        "decided, of a disk": STREAM + DISK % ", high-completed-seqno=1, layout=2.0" + LONG,
        "of a disk": STREAM + DISK % ", high-completed-seqno=0, layout=2.0" + LONG,
        "of a disk that does not tell": STREAM + DISK % "" + LONG,
        "before a disk that does not tell": STREAM
        + ONE
        + "RX snapshot-marker{start=2, end=9, flags=0x6}\nRX mutation{seqno=9, key=#0062}\n"
        + LONG,
        "of a collection that was dropped": STREAM
        + ONE.replace("#0061", "#880161")
        + NEXT
        + "RX system-event{seqno=2, event=1, version=0, manifest-uid=6, scope-id=8, collection-id=136}\n"
        + LONG,
        "of a takeover": "STREAM vb=5, flags=1\n"
        + ONE
        + "RX set-vbucket-state{state=3}\nTX set-vbucket-state-response{success}\n"
        + LONG,
        "of a filtered stream": 'STREAM vb=5, value={"collections":["8"]}\n' + ONE.replace("#00", "#08") + LONG,
        "of a stream that ended": STREAM + ONE + "RX stream-end{status=2}\n" + LONG,
        "of a stream that is closed": STREAM + ONE + "TX close-stream{vb=5}\n" + LONG,
        "of a stream that was closed": STREAM
        + ONE
        + "TX close-stream{vb=5}\nRX close-stream-response{success}\n"
        + LONG,
        "bytes were lost since": STREAM + ONE + "-" + NEXT + NOOP + NOOP + LONG,
        "an acknowledgement was lost since": STREAM + ONE + "-" + ACKED + NOOP + NOOP + LONG,
        "joined late": "----\n" + ONE.replace("prepare{", "prepare{opaque=0x1005, ") + LONG,
    }.values(),
)
def test_a_durable_write_whose_outcome_came_or_need_not_come_is_no_trouble(conversation: str) -> None:
    verdict, rule = found(OPEN + conversation)
    assert (SEEN in verdict, [each for each in rule if SEEN in each]) == (False, [])


def test_another_collection_that_was_dropped_excuses_nothing() -> None:
    dropped = "RX system-event{seqno=2, event=1, version=0, manifest-uid=6, scope-id=8, collection-id=8}\n"
    verdict, rule = found(OPEN + STREAM + ONE + NEXT + dropped + LONG)
    assert (verdict, rule) == (f"stuck ({NOT_ACKED})", [NOT_ACKED])


def test_a_producer_that_flow_control_held_up_lately_may_have_the_outcome_still_to_send() -> None:
    window = opening(
        0x25, collections=True, name="replication:a->b", controls=f"{CONTROLS}, connection_buffer_size=100"
    )
    held = window + STREAM + ONE + LONG
    assert found(held) == ("blocked by flow control (120 of 100 bytes not acknowledged since 12:00:00.020)", [])
    verdict, rule = found(held + "TX buffer-acknowledgement{buffer-bytes=120}\nWAIT 19\n" + NOOP)
    assert (verdict.startswith("quiet "), rule) == (True, [])
    verdict, rule = found(held + "TX buffer-acknowledgement{buffer-bytes=120}\n" + LONG)
    assert (verdict.startswith("stuck (no COMMIT"), len(rule)) == (True, 1)


def test_of_more_times_than_are_kept_it_is_unknown_when_flow_control_held_the_producer_up_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    window = opening(
        0x25, collections=True, name="replication:a->b", controls=f"{CONTROLS}, connection_buffer_size=100"
    )
    again = "RX snapshot-marker{start=2, end=2, flags=0x5, layout=2.0}\nRX mutation{seqno=2, key=#0062}\n"
    acked = "TX buffer-acknowledgement{buffer-bytes=%d}\n"
    held = window + STREAM + ONE + acked % 120 + again + acked % 100 + LONG
    assert found(held)[0].startswith("stuck (no COMMIT")
    monkeypatch.setattr(intervals, "MOST", 1)
    assert found(held)[0].startswith("quiet ")


def test_a_consumer_that_did_not_read_lately_may_have_the_outcome_still_to_come() -> None:
    kept = ledger(OPEN + STREAM + ONE + LONG)
    stream, now_ns = only(kept), kept.last_ns or 0
    begun_ns = now_ns - 90 * 10**9
    stream.connection.hold_up(0, ZERO_WINDOW, begins=True, ts_ns=begun_ns)
    stream.connection.hold_up(0, ZERO_WINDOW, begins=False, ts_ns=begun_ns + 10**9)
    assert undecided(stream, now_ns) is not None
    stream.connection.hold_up(0, ZERO_WINDOW, begins=True, ts_ns=now_ns - 30 * 10**9)
    stream.connection.hold_up(0, ZERO_WINDOW, begins=False, ts_ns=now_ns - 20 * 10**9)
    assert undecided(stream, now_ns) is None


def test_a_producer_may_be_held_up_by_flow_control_that_was_not_captured() -> None:
    begun = opening(0x25, collections=True, name="replication:a->b", controls=f"{CONTROLS}, connection_buffer_size=900")
    verdict, rule = found(f"{begun}----\n{STREAM}{ONE}{ACKED}{LONG}")
    assert verdict.startswith("unknown (no COMMIT or ABORT of PREPARE seqno 1 since 12:00:00.")
    assert (verdict.count("it may be blocked by flow control"), rule) == (1, [])


def test_a_stream_that_another_replaced_is_not_open_any_more() -> None:
    replaced = OPEN + STREAM + ONE + NOOP + STREAM + LONG
    assert [each for each in findings(replaced) if each.rule.id == "D4"] == []


def test_keys_of_durable_writes_are_hidden() -> None:
    kept = ledger(OPEN + STREAM + ONE + LONG)
    hide(kept, Redactor(b"salt"))
    stream = only(kept)
    assert ([*stream.prepares.open], Judge(kept).verdict(stream).why) == ([b"1"], NOT_ACKED)


def test_what_the_server_has_and_does_not_send_may_be_the_outcome() -> None:
    raw = f"0005{2:016x}"
    reported = f"HEX TX 8048000000000000{0:08x}{7:08x}{0:016x}\nHEX RX 8148000000000000{10:08x}{7:08x}{0:016x}{raw}\n"
    verdict, _ = found(OPEN + STREAM + ONE + reported + LONG)
    assert verdict.startswith("stuck (at seqno 1, the server's high seqno is 2 since ")


def test_a_durable_write_without_an_outcome_is_in_trouble_with_keys_and_without(tmp_path: Path) -> None:
    path = tmp_path / "talk.pcap"
    every = packets(said(OPEN + STREAM + ONE + LONG))
    path.write_bytes(pcap([Record(packet.ts_ns or 0, packet.data) for packet in every]))
    for redact in ("", " --redact"):
        troubles = [row for row in objects(f"dcpdump diagnose {path}{redact}") if row["type"] == "trouble"]
        assert [(row["code"], row["cause"], row["detail"].rpartition(": ")[2]) for row in troubles] == [
            ("stuck", "prepare-undecided", NOT_ACKED),
            ("suspicious", "DCP414", NOT_ACKED),
        ]
        assert troubles[0]["text"].endswith("is stuck with a durable write that is neither committed nor aborted")
        (stream,) = objects(f"dcpdump streams {path}{redact}")
        assert (stream["cause"], stream["trouble"], stream["why"]) == ("prepare-undecided", True, NOT_ACKED)


@pytest.mark.parametrize(
    "excusing",
    [
        "RX snapshot-marker{start=1, end=9, flags=0x6}\n",
        "RX system-event{seqno=2, event=1, version=0, manifest-uid=6, scope-id=8, collection-id=%d}\n",
    ],
)
def test_what_excuses_many_takes_a_few_steps(excusing: str) -> None:
    def work(count: int) -> int:
        sent = "".join(f"RX prepare{{seqno={seqno}, key=#00{seqno:04x}}}\n" for seqno in range(1, count + 1))
        marker = f"RX snapshot-marker{{start=0, end={count}, flags=0x5, layout=2.0}}\n"
        each = "".join(excusing % number if "%" in excusing else excusing for number in range(8, 8 + count))
        text = packets(said(OPEN + STREAM + marker + sent + each))
        return steps(lambda: ledger_of(text))

    once, twice, four = map(work, (150, 300, 600))
    assert four - twice <= 2.2 * (twice - once)
