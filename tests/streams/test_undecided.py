"""Durable writes that are neither committed nor aborted for longer than a client waits, and what may explain them."""

from pathlib import Path

import pytest

from dcpdump.net.event import ZERO_WINDOW
from dcpdump.redact import Redactor
from dcpdump.streams import window as flow_window
from dcpdump.streams.redacted import hide
from dcpdump.streams.silence import undecided
from dcpdump.streams.verdict import Judge
from tests.support.conversation import opening, packets, said
from tests.support.diagnoses import objects, written
from tests.support.findings import found
from tests.support.ledgers import captured, judged, ledger, ledger_of, only
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


def begun(window: int) -> str:
    """Return the beginning of a connection with flow control."""
    controls = f"{CONTROLS}, connection_buffer_size={window}"
    return opening(0x25, collections=True, name="replication:a->b", controls=controls)


THREE = ONE.replace("end=1", "end=3") + "RX prepare{seqno=2, key=#0062}\nRX prepare{seqno=3, key=#0063}\n"
RESET = "RST RX\nCONNECT\n" + opening() + LONG
DROPPED = "RX system-event{seqno=2, event=1, version=0, manifest-uid=6, scope-id=8, collection-id=8}\n"
HELD, FREED = begun(100) + STREAM + ONE + LONG, "TX buffer-acknowledgement{buffer-bytes=120}\n"
REPORTED = f"HEX TX 8048000000000000{0:08x}{7:08x}{0:016x}\n"
REPORTED += f"HEX RX 8148000000000000{10:08x}{7:08x}{0:016x}0005{2:016x}\n"
#: What is said of the stream, and what the rule on durable writes finds.
CASES = {
    "not acknowledged": (OPEN + STREAM + ONE + LONG, f"wrong: stuck ({NOT_ACKED})", NOT_ACKED),
    "acknowledged": (OPEN + STREAM + ONE + ACKED + LONG,
        "wrong: stuck (no COMMIT or ABORT of PREPARE seqno 1, which its consumer acknowledged, since 12:00:00.018, "
        "for 95 s)", NOT_ACKED.replace("did not acknowledge", "acknowledged")),
    "three of them": (OPEN + STREAM + THREE + LONG,
        "wrong: stuck (no COMMIT or ABORT of PREPARE seqno 1 and of 2 later ones, which its consumer did not "
        "acknowledge, since 12:00:00.018, for 95 s)", NOT_ACKED.replace("seqno 1", "seqno 1 and of 2 later ones")),
    "of a client": (opening(collections=True, controls="enable_sync_writes=true") + STREAM + ONE + LONG,
        "wrong: stuck (no COMMIT or ABORT of PREPARE seqno 1 since 12:00:00.016, for 95 s)",
        "no COMMIT or ABORT of PREPARE seqno 1 since 12:00:00.016, for 95 s"),
    "on a stream that flows": (OPEN + STREAM + ONE + LONG + NEXT + "RX mutation{seqno=2, key=#0062}\n",
        f"open and flowing ({NOT_ACKED})", NOT_ACKED),
    "as long as a client may wait": (OPEN + STREAM + ONE + "WAIT 75\n" + NOOP,
        "quiet (nothing for 75 s; all of snapshot 0..1 came; NOOPs are answered)", ""),
    "a little longer": (OPEN + STREAM + ONE + "WAIT 76\n" + NOOP,
        "wrong: stuck (no COMMIT or ABORT of PREPARE seqno 1, which its consumer did not acknowledge, since "
        "12:00:00.018, for 76 s)", NOT_ACKED.replace("95", "76")),
    "on a connection that ended in time": (OPEN + STREAM + ONE + "WAIT 70\n" + RESET,
        "wrong: ended (connection reset by its server at 12:01:10.019, no STREAM_END; abandoned: not requested again "
        "in 95 s)", ""),
    "on a connection that ended later": (OPEN + STREAM + ONE + "WAIT 80\n" + RESET,
        "wrong: ended (connection reset by its server at 12:01:20.019, no STREAM_END; abandoned: not requested again "
        "in 95 s)", NOT_ACKED.replace("95", "80")),
    "committed": (OPEN + STREAM + ONE + COMMIT + LONG,
        "quiet (nothing for 95 s; all of snapshot 2..2 came; NOOPs are answered)", ""),
    "aborted": (OPEN + STREAM + ONE + ABORT + LONG,
        "quiet (nothing for 95 s; all of snapshot 2..2 came; NOOPs are answered)", ""),
    "the capture ends": (OPEN + STREAM + ONE + "WAIT 65\n" + NOOP,
        "quiet (nothing for 65 s; all of snapshot 0..1 came; NOOPs are answered)", ""),
    "decided, of a disk": (OPEN + STREAM + DISK % ", high-completed-seqno=1, layout=2.0" + LONG,
        "quiet (nothing for 95 s; all of snapshot 0..1 came; NOOPs are answered)", ""),
    "of a disk": (OPEN + STREAM + DISK % ", high-completed-seqno=0, layout=2.0" + LONG,
        "quiet (nothing for 95 s; all of snapshot 0..1 came; NOOPs are answered)", ""),
    "of a disk that does not tell": (OPEN + STREAM + DISK % "" + LONG,
        "quiet (nothing for 95 s; all of snapshot 0..1 came; NOOPs are answered)", ""),
    "before a disk that does not tell": (
        OPEN + STREAM + ONE + "RX snapshot-marker{start=2, end=9, flags=0x6}\nRX mutation{seqno=9, key=#0062}\n" + LONG,
        "quiet (nothing for 95 s; all of snapshot 2..9 came; NOOPs are answered)", ""),
    "of a collection that was dropped": (
        OPEN + STREAM + ONE.replace("#0061", "#880161") + NEXT
        + "RX system-event{seqno=2, event=1, version=0, manifest-uid=6, scope-id=8, collection-id=136}\n" + LONG,
        "quiet (nothing for 95 s; all of snapshot 2..2 came; NOOPs are answered)", ""),
    "of a takeover": (
        OPEN + "STREAM vb=5, flags=1\n" + ONE
        + "RX set-vbucket-state{state=3}\nTX set-vbucket-state-response{success}\n" + LONG,
        "wrong: stuck (SET_VBUCKET_STATE(pending) was answered at 12:00:00.020, active did not come: the vbucket has "
        "no active copy, for 95 s)", ""),
    "of a filtered stream": (OPEN + 'STREAM vb=5, value={"collections":["8"]}\n' + ONE.replace("#00", "#08") + LONG,
        "quiet (nothing for 95 s; all of snapshot 0..1 came; NOOPs are answered)", ""),
    "of a stream that ended": (OPEN + STREAM + ONE + "RX stream-end{status=2}\n" + LONG,
        "unknown: ended (StateChanged (2) at 12:00:00.019; not requested again here in 95 s: another node may know, "
        "and this capture has no connection of its client to one)", "1 open prepare (seqno 1) when the stream ended"),
    "of a stream that is closed": (OPEN + STREAM + ONE + "TX close-stream{vb=5}\n" + LONG,
        "quiet (nothing for 95 s; all of snapshot 0..1 came; NOOPs are answered)", ""),
    "of a stream that was closed": (
        OPEN + STREAM + ONE + "TX close-stream{vb=5}\nRX close-stream-response{success}\n" + LONG,
        "ended (closed by its consumer at 12:00:00.020)", ""),
    "bytes were lost since": (OPEN + STREAM + ONE + "-" + NEXT + NOOP + NOOP + LONG,
        "unknown: unknown (nothing for 95 s, but 61 bytes of the connection were lost)", ""),
    "an acknowledgement was lost since": (OPEN + STREAM + ONE + "-" + ACKED + NOOP + NOOP + LONG,
        "unknown: unknown (nothing for 95 s, but 32 bytes of the connection were lost)", ""),
    "joined late": (OPEN + "----\n" + ONE.replace("prepare{", "prepare{opaque=0x1005, ") + LONG,
        "quiet (nothing for 95 s; all of snapshot 0..1 came; NOOPs are answered)", ""),
    "another collection was dropped": (OPEN + STREAM + ONE + NEXT + DROPPED + LONG, f"wrong: stuck ({NOT_ACKED})",
        NOT_ACKED),
    "flow control holds it up": (HELD,
        "wrong: blocked by flow control (120 of 100 bytes not acknowledged since 12:00:00.020)", ""),
    "flow control held it up lately": (HELD + FREED + "WAIT 19\n" + NOOP,
        "quiet (nothing for 114 s; all of snapshot 0..1 came; NOOPs are answered; flow control is not blocked)", ""),
    "flow control held it up long ago": (HELD + FREED + LONG,
        "wrong: stuck (no COMMIT or ABORT of PREPARE seqno 1, which its consumer did not acknowledge, since "
        "12:00:00.020, for 3.17 m)",
        "no COMMIT or ABORT of PREPARE seqno 1, which its consumer did not acknowledge, since 12:00:00.020, for "
        "3.17 m"),
    "flow control was not captured": (f"{begun(900)}----\n{STREAM}{ONE}{ACKED}{LONG}",
        "unknown: unknown (no COMMIT or ABORT of PREPARE seqno 1 since 12:00:00.020, for 95 s; it may be blocked by "
        "flow control: the buffer size was not captured)", ""),
    "another stream replaced its own": (OPEN + STREAM + ONE + NOOP + STREAM + LONG,
        "ended (another was granted in its place; no STREAM_END was captured; reopened)", ""),
    "the server has more": (OPEN + STREAM + ONE + REPORTED + LONG,
        "wrong: stuck (at seqno 1, the server's high seqno is 2 since 12:00:00.020, for 95 s)", NOT_ACKED),
}  # fmt: skip


@pytest.mark.parametrize(("text", "said", "rule"), CASES.values(), ids=CASES)
def test_a_durable_write_without_an_outcome_is_stuck(text: str, said: str, rule: str) -> None:
    assert (judged(text)[0], "; ".join(each.message for each in found(captured(text), "DCP414"))) == (said, rule)


def test_of_more_times_than_are_kept_it_is_unknown_when_flow_control_held_the_producer_up_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    again = "RX snapshot-marker{start=2, end=2, flags=0x5, layout=2.0}\nRX mutation{seqno=2, key=#0062}\n"
    acked = "TX buffer-acknowledgement{buffer-bytes=%d}\n"
    held = begun(100) + STREAM + ONE + acked % 120 + again + acked % 100 + LONG
    assert judged(held)[0].startswith("wrong: stuck (no COMMIT")
    monkeypatch.setattr(flow_window, "MOST", 1)
    assert judged(held)[0].startswith("quiet ")


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


def test_keys_of_durable_writes_are_hidden() -> None:
    kept = ledger(OPEN + STREAM + ONE + LONG)
    hide(kept, Redactor(b"salt"))
    stream = only(kept)
    assert ([*stream.prepares.open], Judge(kept).verdict(stream).why) == ([b"1"], NOT_ACKED)


def test_a_durable_write_without_an_outcome_is_in_trouble_with_keys_and_without(tmp_path: Path) -> None:
    path = written(OPEN + STREAM + ONE + LONG, tmp_path / "talk.pcap")
    for redact in ("", " --redact"):
        troubles = [row for row in objects(f"dcpdump diagnose {path}{redact}") if row["type"] == "trouble"]
        assert [(row["code"], row["cause"], row["detail"].rpartition(": ")[2]) for row in troubles] == [
            ("stuck", "prepare-undecided", NOT_ACKED),
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
