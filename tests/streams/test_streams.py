"""What became of streams: conversations, and the verdict on each."""

import json
from pathlib import Path

import pytest

from dcpdump.render.ladder import Arrow, Rung, ladder
from dcpdump.render.streams import STREAMS, StreamRow
from dcpdump.streams.causes import Cause, Verdict, VerdictKind
from dcpdump.streams.verdict import Judge
from tests.support.check_cases import CACHE, cached
from tests.support.console import run
from tests.support.conversation import NOOPS, opening, packets, said
from tests.support.ledgers import judged, ledger, ledger_of, only
from tests.support.secret_talk import saved
from tests.test_bounds import steps

OPEN = opening()
COLLECTIONS = opening(collections=True)
STREAM = "STREAM vb=5\n"
TWO = "RX snapshot-marker{start=0, end=2, flags=0x5}\nRX mutation{seqno:1}\nRX mutation{seqno:2}\n"
HALF = TWO.replace("end=2", "end=3")
MINUTE = "WAIT 60\nRX noop{}\nTX noop-response{success}\n"
ASKED = "TX stream-request{vb=5, start-seqno=4, vbucket-uuid=1}\n"
BACK = "RX stream-request-response{rollback, rollback-seqno=0}\n"
PUSHED = "".join(f"RX mutation{{seqno:{seqno}, value=xxxxxxxxxxxxxxxxxxxxxx}}\n" for seqno in range(1, 5))


ENDED = "RX stream-end{status=2}\n"
AGAIN = "STREAM vb=5, start-seqno=2\nRX snapshot-marker{start=2, end=3, flags=1}\nRX mutation{seqno:3}\n"
NOTIFIER = opening(2, name="xdcr:notifier:n_0@a:travel").replace(NOOPS, "")
UNKNOWN_NODE = "another node may know, and this capture has no connection of its client to one"
OPEN_CLOSED = STREAM + "TX close-stream{vb=5}\nRX close-stream-response{success}\n"
SECOND = "TX stream-request{vb=5, start-seqno=7, opaque=99}\nRX stream-request-response{keyeexists}\n"
ACCESS = "TX stream-request{vb=5, start-seqno=2}\n", "RX stream-request-response{eaccess}\n"
EXISTS = "refused (KeyEexists 0x02: the stream exists already: open on this connection since 12:00:00.012; "
ELSEWHERE = "refused (KeyEexists 0x02: the server says that this connection has a stream of the vbucket open; "
FILTERED, SYNC = 'value={"collections":["8"]}', "CONTROL enable_sync_writes=true\n"
EARLY = """TX stream-request{vb=5, opaque=0x1005}
RX stream-request-response{success, opaque=0x1005}
RX snapshot-marker{start=0, end=7, flags=0x5}
RX mutation{seqno=7}
TX stream-request{vb=5, start=7, opaque=0x1006}
RX stream-end{status=2, opaque=0x1005}
TX stream-request{vb=5, start=7, opaque=0x1007}
RX stream-request-response{notmyvbucket, opaque=0x1006}
RX stream-request-response{success, opaque=0x1007}
RX snapshot-marker{start=7, end=9, flags=0x5, opaque=0x1007}
RX mutation{seqno=9, opaque=0x1007}
"""
BY_SERVER, BY_CLIENT = "FIN RX\nFIN TX\n", "FIN TX\nFIN RX\n"
OTHER = "CONNECT 10.0.0.8:40000 10.0.0.2:11210\nWAIT 60\n" + OPEN
NO_END = "no STREAM_END; abandoned: not requested again in 60 s"
FAILED = "TX mutation-response{%s, opaque=0x1005}\n"
CAUSED = "at 12:00:01.017, no STREAM_END; its consumer answered MUTATION of vb 5 with %s at 12:00:00.016, for which a "
CAUSED += "producer disconnects; not reopened before the capture ends, an unknown time later"
UNCAUSED = "at 12:00:01.017, no STREAM_END; not reopened before the capture ends, an unknown time later"
NAMED = "CONNECT 10.0.7.30:40000 10.0.0.1:11210\n" + OPEN + STREAM + TWO
NAME_TAKEN = "connection 1 took its name at 12:00:02.022, and a server closes the older"
WRONG = {"server": "wrong: ", "client": ""}
LATEST = "the server's high seqno, where a from-latest stream begins, is above "
HIGH = "WAIT 20\nHEX TX 8048000000000000%08x00000007%016x\nHEX RX 81480000000000000000000a00000007%016x0005%016x\n"
NODE = COLLECTIONS.replace("key=app}\nRX open", "key=replication:a->b:travel}\nRX open")
BEHIND = "at seqno 2, the server's high seqno is 9 since 12:00:20.017, for 80 s"
NO_NOOPS = NOOPS + "CONTROL set_noop_interval=20\n"
SILENT = "WAIT 180\nTX buffer-acknowledgement{buffer-bytes=1}\n"
TAKEN_OVER = """STREAM vb=5, flags=1
RX set-vbucket-state{state=3}
TX set-vbucket-state-response{success}
RX set-vbucket-state{state=1}
TX set-vbucket-state-response{success}
RX stream-end{status=0}
"""


def refused(status: str, numbers: str = "") -> str:
    return f"TX stream-request{{vb=5, {numbers}}}\nRX stream-request-response{{{status}}}\n"


def high(seqno: int) -> str:
    """Return a question for the server's high seqnos, and its answer."""
    return HIGH % (0, 0, 0, seqno)


#: What is said of each stream.
VERDICTS = {
    "flowing": (OPEN + STREAM + TWO, "open and flowing"),
    "quiet": (OPEN + STREAM + TWO + MINUTE, "quiet (nothing for 60 s; all of snapshot 0..2 came; NOOPs are answered)"),
    "just granted": (OPEN + STREAM, "quiet (nothing came since it was granted at 12:00:00.012)"),
    "stuck in a snapshot": (
        OPEN + STREAM + HALF + MINUTE, "wrong: stuck (in the middle of snapshot 0..3, at seqno 2, for 60 s)"),
    "stuck at its end": (
        OPEN + "STREAM vb=5, end-seqno=2\n" + TWO + MINUTE,
        "wrong: stuck (end seqno 2 is reached, no STREAM_END, for 60 s)"),
    "stuck before an answer": (OPEN + ASKED + MINUTE, "wrong: stuck (requested at 12:00:00.011, no answer in 60 s)"),
    "stuck out of order": (
        OPEN + STREAM + "RX oso-snapshot{flags=1}\nRX mutation{seqno:7}\n" + MINUTE,
        "wrong: stuck (in the middle of an out-of-order snapshot, for 60 s)"),
    "stuck in a cache transfer": (
        OPEN + CACHE + cached(9) + MINUTE, "wrong: stuck (in the middle of a cache transfer, for 60 s)"),
    "requested": (OPEN + ASKED, "requested (at 12:00:00.011, not answered yet)"),
    "blocked": (
        OPEN + "CONTROL connection_buffer_size=300\n" + STREAM + TWO.splitlines()[0] + "\n" + PUSHED + MINUTE,
        "wrong: blocked by flow control (372 of 300 bytes not acknowledged since 12:00:00.019)"),
    "rolled back": (
        OPEN + ASKED + BACK + MINUTE, f"unknown: rolled back (to 0; not requested again here: {UNKNOWN_NODE})"),
    "rolled back at the end": (
        OPEN + ASKED + BACK, "unknown: rolled back (to 0; not requested again before the capture ends, 0 ms later)"),
    "rolled back and granted": (OPEN + ASKED + BACK + STREAM + TWO, "open and flowing (rolled back to 0 before)"),
    "rolled back in a loop": (
        OPEN + (ASKED + BACK + "WAIT 1.5\n") * 41, "wrong: rolled back (to 0, 41 times in 60.1 s: a loop)"),
    "ended at once": (
        OPEN + "STREAM vb=5, end-seqno=0\nRX stream-end{status=0}\n",
        "ended (Ok (0) at 12:00:00.013 after 0 items: end seqno 0 is not above the start, 0)"),
    "ended as asked": (
        OPEN + "STREAM vb=5, end-seqno=2\n" + TWO + "RX stream-end{status=0}\n",
        "ended (Ok (0) at 12:00:00.016, seqno 2 of 2 reached)"),
    "up to what the server has, on its way": (
        OPEN + "STREAM vb=5, flags=4, end-seqno=0\n" + TWO.replace("end=2", "end=30") + MINUTE,
        "wrong: stuck (in the middle of snapshot 0..30, at seqno 2, for 60 s)"),
    "what the server has on disk, on its way": (
        OPEN + "STREAM vb=5, flags=2, end-seqno=1\n" + TWO + MINUTE,
        "quiet (nothing for 60 s; all of snapshot 0..2 came; NOOPs are answered)"),
    "up to what the server has, and that came": (
        OPEN + "STREAM vb=5, flags=4, end-seqno=0\n" + TWO + "RX stream-end{status=0}\n",
        "ended (Ok (0) at 12:00:00.016, seqno 2 reached)"),
    "up to what the server has, which is nothing": (
        OPEN + "STREAM vb=5, flags=4, end-seqno=0\nRX stream-end{status=0}\n", "ended (Ok (0) at 12:00:00.013)"),
    "abandoned": (
        OPEN + STREAM + TWO + ENDED + MINUTE,
        f"unknown: ended (StateChanged (2) at 12:00:00.016; not requested again here in 60 s: {UNKNOWN_NODE})"),
    "without a collection that is left": (
        OPEN + STREAM + TWO + "RX stream-end{status=7}\n" + MINUTE,
        "ended (FilterEmpty (7) at 12:00:00.016: all collections that it was of were dropped)"),
    "closed": (OPEN + OPEN_CLOSED, "ended (closed by its consumer at 12:00:00.014)"),
    "taken over": (OPEN + TAKEN_OVER, "taken over (vbucket 5 is active there since 12:00:00.015)"),
    "reopened": (
        OPEN + STREAM + TWO + ENDED + "WAIT 6\n" + AGAIN,
        "ended (StateChanged (2) at 12:00:00.016; reopened at 12:00:06.017)", "open and flowing"),
    "of a notifier, that there is more": (
        NOTIFIER + "STREAM vb=5, start=9, end=0\nWAIT 5\nRX stream-end{status=0}\nSTREAM vb=5, start=12, end=0\n",
        "ended (Ok (0) at 12:00:05.011: there is more than seqno 9; reopened at 12:00:05.012)",
        "quiet (nothing came since it was granted at 12:00:05.013)"),
    "refused before it was captured that the one before ended": (
        OPEN + EARLY, "ended (StateChanged (2) at 12:00:00.016; reopened at 12:00:00.015)",
        "open and flowing (refused before: NotMyVbucket 0x07)"),
    # Open already, for the capture or for the server.
    "exists, and continues": (OPEN + STREAM + TWO + SECOND, "open and flowing", f"{EXISTS}it continues)"),
    "exists, and ended": (
        OPEN + STREAM + TWO + SECOND + "RX stream-end{vb=5, opaque=4101, status=2}\n" + MINUTE,
        f"unknown: ended (StateChanged (2) at 12:00:00.018; not requested again here in 60 s: {UNKNOWN_NODE})",
        f"{EXISTS}no close was seen before)"),
    "exists, and reset": (
        OPEN + STREAM + TWO + SECOND + "RST RX\n",
        "wrong: ended (connection reset by its server at 12:00:00.018, no STREAM_END; not reopened before the capture "
        "ends, 0 ms later)", f"{EXISTS}no close was seen before)"),
    "exists, and none was captured": (OPEN + refused("keyeexists"), f"wrong: {ELSEWHERE}none was captured)"),
    "exists, and ended before": (
        OPEN + STREAM + TWO + ENDED + refused("keyeexists", "opaque=99"),
        "ended (StateChanged (2) at 12:00:00.016; requested again at 12:00:00.017)",
        f"wrong: {ELSEWHERE}the previous one that was captured ended at 12:00:00.016)"),
    "exists, and closed before": (
        OPEN + OPEN_CLOSED + refused("keyeexists", "opaque=99"),
        "ended (closed by its consumer at 12:00:00.014; requested again at 12:00:00.015)",
        f"wrong: {ELSEWHERE}the previous one that was captured ended at 12:00:00.014)"),
    "requested just before its end, as captured, and again": (
        OPEN + STREAM + TWO + ACCESS[0] + ENDED + ACCESS[1] + "WAIT 5\n" + "".join(ACCESS),
        "ended (StateChanged (2) at 12:00:00.017; requested again at 12:00:00.016)",
        "wrong: refused (Eaccess 0x24: the user may not stream this)"),
    # Refused.
    "outside its snapshot": (
        OPEN + refused("erange", "start-seqno=9, snap-start-seqno=10, snap-end-seqno=10"),
        "wrong: refused (Erange 0x22: seqno 9 is outside snapshot 10..10 (needs snapshot start <= start <= "
        "snapshot end))"),
    **{
        f"out of range: {numbers}": (OPEN + refused("erange", numbers), f"wrong: refused (Erange 0x22: {why})")
        for numbers, why in (
            ("start=9", "start 9 is above the server's high seqno: the client is ahead of the server"),
            ("start=9, end=8, flags=4", "start 9 is above end 8"),
            ("start=9, flags=2", "start 9 is above the last seqno on disk, where a disk-only stream ends"),
            ("start=9, flags=4",
             "start 9 is above the highest seqno of what it asks for, where a to-latest stream ends"),
            ("end=8, flags=0x40", f"{LATEST}end 8"),
            ("end=8, flags=0x44", f"{LATEST}end 8"),
            ("flags=0x42", f"{LATEST}the last seqno on disk, where a disk-only stream ends"),
        )
    },
    **{
        f"not supported: {why}": (begun + refused("notsupported", asked), f"wrong: refused (NotSupported 0x83: {why})")
        for begun, asked, why in (
            (OPEN, "", "enable_noop was accepted, and no collection filter meets sync writes"),
            (OPEN.replace(NOOPS, ""), "",
             "enable_noop was not accepted before, which xattrs and collections need"),
            (COLLECTIONS + SYNC, FILTERED, "a collection filter and sync writes exclude each other"),
            ("", "", "enable_noop is missing"),
            ("", FILTERED, "enable_noop is missing, or a collection filter meets sync writes"),
        )
    },
    # Ended with its connection.
    **{
        f"ended: {why}": (f"{OPEN}{STREAM}{end}\n{OTHER}", f"{bad}ended (connection {why})")
        for end, bad, why in (
            ("RST RX", "wrong: ", f"reset by its server at 12:00:00.013, {NO_END}"),
            ("RST TX", "note: ", f"reset by its client at 12:00:00.013, {NO_END}"),
            (BY_SERVER, "wrong: ", f"closed by its server at 12:00:00.013, {NO_END}"),
            (BY_CLIENT, "", "closed by its client at 12:00:00.013, no STREAM_END"),
            ("RST RX\nFIN TX", "wrong: ", f"reset by its server at 12:00:00.013, {NO_END}"),
        )
    },
    "ended: while messages were on their way": (
        f"{OPEN}{STREAM}FIN TX\n{TWO}RST TX\n{OTHER}",
        "ended (connection closed by its client at 12:00:00.013, no STREAM_END)"),
    **{
        f"disconnected: {name}": (
            OPEN + STREAM + TWO + said, f"{WRONG[why[:6]]}ended (connection closed by its {why})")
        for name, said, why in (
            ("no memory", FAILED % "enomem" + "WAIT 1\n" + BY_SERVER, f"server {CAUSED % 'Enomem 0x82'}"),
            ("out of range", FAILED % "erange" + "WAIT 1\n" + BY_SERVER, f"server {CAUSED % 'Erange 0x22'}"),
            ("tolerated", FAILED % "notmyvbucket" + "WAIT 1\n" + BY_SERVER, f"server {UNCAUSED}"),
            ("a key that is not there", FAILED % "keyenoent" + "WAIT 1\n" + BY_SERVER, f"server {UNCAUSED}"),
            ("a key that is not there, of servers since 7.0",
             "CONTROL v7_dcp_status_codes=true\n" + FAILED % "keyenoent" + "WAIT 1\n" + BY_SERVER,
             f"server {CAUSED % 'KeyEnoent 0x01'}".replace("017,", "019,").replace("016", "018")),
            ("of a marker", "TX snapshot-marker-response{enomem, opaque=0x1005}\nWAIT 1\n" + BY_SERVER,
             f"server {UNCAUSED}"),
            ("long before", FAILED % "enomem" + "WAIT 91\n" + BY_SERVER,
             f"server {UNCAUSED.replace('00:01', '01:31')}"),
            ("by the client", FAILED % "enomem" + "WAIT 1\n" + BY_CLIENT, "client at 12:00:01.017, no STREAM_END"),
        )
    },
    "disconnected: for an answer on another stream": (
        OPEN + "STREAM vb=6\n" + STREAM + TWO + FAILED % "enomem" + "WAIT 1\n" + BY_SERVER,
        *[f"wrong: ended (connection closed by its server {CAUSED % 'Enomem 0x82'})".replace("017,", "019,").replace(
            "016", "018")] * 2),
    **{
        f"its name is taken: {name}": (
            f"{NAMED}{before}WAIT 2\nCONNECT 10.0.7.31:40000 10.0.0.1:11210\n{opening(name=taken)}ON 0\n{after}WAIT 5\n"
            "ON 1\nRX noop\n", f"{WRONG[why[:6]]}ended (connection closed by its {why})")
        for name, before, taken, after, why in (
            ("closed by its server", "", "app", "FIN RX\n",
             f"server at 12:00:02.026, no STREAM_END; {NAME_TAKEN}; abandoned: not requested again in 5 s"),
            ("another", "", "another", "FIN RX\n",
             "server at 12:00:02.026, no STREAM_END; abandoned: not requested again in 5 s"),
            ("closed before", "FIN RX\n", "app", "",
             "server at 12:00:00.016, no STREAM_END; abandoned: not requested again in 7.01 s"),
            ("closed by its client", "", "app", "FIN TX\n", "client at 12:00:02.026, no STREAM_END"),
            ("closed much later", "", "app", "WAIT 61\nFIN RX\n",
             "server at 12:01:03.026, no STREAM_END; abandoned: not requested again in 5 s"),
        )
    },
    "not answered, and its client opened another connection": (
        NAMED.replace(STREAM + TWO, "TX stream-request{vb=5}\nWAIT 2\n") + NAMED.replace("40000", "40001") + MINUTE,
        f"ended (its connection is silent since 12:00:00.011; {NAME_TAKEN.replace('22', '18')}; reopened on "
        "connection 1 at 12:00:02.022)", "quiet (nothing for 60 s; all of snapshot 0..2 came; NOOPs are answered)"),
    # What the server has.
    "all of what the server has": (
        COLLECTIONS + STREAM + TWO + high(2) + MINUTE,
        "quiet (nothing for 80 s; server's high seqno 2 = ours; NOOPs are answered)"),
    "a node, behind the server": (NODE + STREAM + TWO + high(9) + MINUTE, f"wrong: stuck ({BEHIND})"),
    "a client, behind the server": (
        COLLECTIONS + STREAM + TWO + high(9) + MINUTE,
        f"unknown: unknown ({BEHIND}; what did not come may be of system collections, which not every user gets)"),
    "behind a server that is silent": (
        COLLECTIONS.replace(NOOPS, NO_NOOPS) + STREAM + TWO + high(9) + SILENT,
        "wrong: stuck (nothing for 3.33 m; no NOOP came since 12:00:00.014, for 3.33 m, one is due every 20 s)"),
    "a disk that is read for what a filter leaves out": (
        f"{COLLECTIONS}STREAM vb=5, {FILTERED}\nRX snapshot-marker{{start=0, end=30, flags=0x6}}\n"
        "RX mutation{seqno=3, key=#0861}\n" + MINUTE.replace("60", "59"),
        "quiet (in the middle of snapshot 0..30, at seqno 3: SEQNO_ADVANCED to 30 is missing, or items of what it is "
        "filtered to, for 59 s; the producer may read what is filtered out)"),
    # What was not captured.
    "late": ("RX mutation{vb=5, seqno:7, opaque=9}\nTX noop{}\n", "open and flowing (since before the capture)"),
    "late, and requested, as captured, behind its messages": (
        "RX mutation{vb=5, seqno:7, opaque=9}\nTX stream-request{vb=5, start=6, opaque=9}\n"
        "RX mutation{vb=5, seqno:8, opaque=9}\n" + MINUTE,
        "unknown: unknown (nothing for 60 s; the capture starts after its snapshot marker)",
        "unknown: unknown (the capture starts late: which answer is its own, if one was captured, is unknown)"),
    "late, and quiet": (
        "RX mutation{vb=5, seqno:7, opaque=9}\nTX noop{}\n" + MINUTE,
        "unknown: unknown (nothing for 60 s; the capture starts after its snapshot marker)"),
    "who closed first, though that was not captured": (
        OPEN + STREAM + TWO + "-FIN RX\nFIN TX\n",
        "wrong: ended (connection closed by its server at 12:00:00.017, no STREAM_END; not reopened before the capture "
        "ends, an unknown time later)"),
    "a FIN behind lost bytes": (
        OPEN + STREAM + TWO + "-RX mutation{seqno:3}\n" + BY_SERVER,
        "unknown: ended (connection closed by its server at 12:00:00.017, no STREAM_END was captured; whether it was "
        "reopened is unknown: 60 bytes of the connection were lost)"),
    "late, and its end may be lost": (
        OPEN + STREAM + TWO + "-RX stream-end{status=2}\nRX noop{}\nTX noop-response{success}\n",
        "open and flowing (as far as was captured: 28 bytes of the connection were lost since)"),
}  # fmt: skip


@pytest.mark.parametrize("row", VERDICTS.values(), ids=VERDICTS)
def test_a_stream_has_a_verdict(row: tuple[str, ...]) -> None:
    text, *wanted = row
    assert judged(text) == wanted


def test_a_stream_may_be_closed_by_the_end_that_sends_its_messages() -> None:
    node = opening(0, name="replication:a->b:travel").replace(NOOPS, "")
    fed = "RX stream-request{vb=5, opaque=9}\nTX stream-request-response{success, opaque=9}\n"
    fed += "TX snapshot-marker{vb=5, opaque=9, start=0, end=3, flags=0x5}\n"
    kept = ledger(node + fed + "TX close-stream{vb=5}\nRX close-stream-response{success}\n")
    verdict = Judge(kept).verdict(only(kept))
    assert verdict == Verdict(VerdictKind.ENDED, Cause.CLOSED_BY_PRODUCER, "closed by its producer at 12:00:00.013")
    assert ladder(only(kept), kept.last_ns)[-2] == Rung(Arrow.ANSWERS, "close-stream, answered", only(kept).closed_ns)


def test_streams_that_are_open_for_the_server_alone_are_judged_in_a_few_steps_each() -> None:
    def work(count: int) -> int:
        refused = "TX stream-request{vb=%d, opaque=99}\nRX stream-request-response{keyeexists}\n"
        judge = Judge(ledger(OPEN + "".join(refused % vbucket for vbucket in range(count))))
        return steps(lambda: [judge.verdict(stream) for stream in judge.ledger.streams])

    once, twice, four = map(work, (50, 100, 200))
    assert four - twice <= 2.2 * (twice - once)


def test_a_reason_of_an_end_that_was_not_captured_has_no_name() -> None:
    captured = packets(said(OPEN + STREAM + TWO + "RX stream-end{status=2}\n" + MINUTE))
    cut = [each._replace(data=each.data[:80], wire_length=82) if len(each.data) == 82 else each for each in captured]
    kept = ledger_of(cut)
    verdict = Judge(kept).verdict(only(kept))
    row = STREAMS.object(StreamRow(only(kept), verdict))
    assert (verdict.why, row.get("end_status"), row.get("end_status_name"), row["ended_at"]) == (
        "at 12:00:00.016, its reason was not captured; whether it was reopened is unknown: 2 bytes of the connection "
        "were lost",
        None,
        None,
        "2025-11-20T12:00:00.016000Z",
    )
    assert ladder(only(kept), kept.last_ns)[-2].text == "stream-end{reason not captured}"


def test_the_capture_may_continue_after_its_last_frame() -> None:
    kept = ledger(OPEN + STREAM + TWO.replace("end=2", "end=3"))
    kept.close((kept.last_ns or 0) + 60_000_000_000)
    assert Judge(kept).verdict(only(kept)).text == "stuck (in the middle of snapshot 0..3, at seqno 2, for 60 s)"


STALL = (
    opening(controls="connection_buffer_size=200")
    + "STREAM vb=5\nRX snapshot-marker{start=0, end=60, flags=0x6}\n"
    + "".join(f"RX mutation{{seqno={seqno}}}\n" for seqno in range(1, 5))
    + 30 * "WAIT 19\nRX noop{opaque=0x81969800}\nTX noop-response{success}\n"
)


@pytest.mark.parametrize(
    ("back_s", "verdict"),
    [
        (0, "blocked by flow control (284 of 200 bytes not acknowledged since 12:00:00.019)"),
        (1, "blocked by flow control (284 of 200 bytes not acknowledged since 12:00:00.019)"),
        (
            3600,
            "unknown (how long nothing came is not known: its last message is 50.5 m later than the last packet, as "
            "the clock goes back; its window was full)",
        ),
    ],
)
def test_where_the_clock_goes_back_a_stream_is_not_said_to_be_flowing(
    back_s: int, verdict: str, tmp_path: Path
) -> None:
    captured = packets(said(STALL))
    middle = len(captured) - 57  # the answer to a NOOP
    back = [each._replace(ts_ns=(each.ts_ns or 0) - back_s * 10**9) for each in captured[middle:]]
    path = saved(captured[:middle] + back, tmp_path / "back.pcap")
    (stream,) = map(json.loads, run(f"dcpdump streams {path} -q -f ndjson").out.splitlines())
    assert stream["verdict"] == verdict
    assert " 30 of 30 answered in 1 ms " in run(f"dcpdump conns {path} -q").out
    assert "(-" not in run(f"dcpdump flow {path} -q").out


def test_lost_bytes_leave_no_verdict_but_unknown_or_a_true_one() -> None:
    healthy = (
        opening(controls="connection_buffer_size=100000")
        + ASKED
        + BACK
        + STREAM
        + TWO
        + "TX buffer-acknowledgement{buffer-bytes=160}\nTX close-stream{vb=5}\nRX close-stream-response{success}\n"
        + STREAM
        + TWO
        + "WAIT 60\nRX noop{}\nTX noop-response{success}\nRX noop{}\nTX noop-response{success}\n"
    )
    every = packets(said(healthy))
    bad = {VerdictKind.STUCK, VerdictKind.BLOCKED, VerdictKind.REFUSED}
    for at in range(len(every)):
        parts = {"without it": every[:at] + every[at + 1 :], "up to it": every[:at], "from it on": every[at:]}
        for part, captured in parts.items():
            judge = Judge(ledger_of(captured))
            kinds = {judge.verdict(stream).kind for stream in judge.ledger.streams}
            assert not kinds & (bad | {VerdictKind.UNKNOWN} if part == "up to it" else bad), f"packet {at + 1}, {part}"


def test_requests_whose_stream_ids_were_cut_replace_no_stream() -> None:
    text = opening(0x25, collections=True, controls="enable_stream_id=true")
    for sid in (7, 9):
        text += (
            f'STREAM vb=5, value={{"collections":["8"],"sid":{sid}}}\nRX snapshot-marker{{start=0, end=3, flags=0x6}}\n'
        )
        text += "RX mutation{seqno=2, key=#0861}\nRX seqno-advanced{seqno=3}\n"
    cut = [each._replace(data=each.data[:128], wire_length=len(each.data)) for each in packets(said(text))]
    assert [(each.stream_id, each.alive, each.replaced, each.next) for each in ledger_of(cut).streams] == [
        (7, True, False, None),
        (9, True, False, None),
    ]


def test_system_events_name_collections_and_scopes() -> None:
    text = COLLECTIONS + STREAM + "RX snapshot-marker{start=0, end=3, flags=0x5}\n"
    text += "RX system-event{seqno:1, event=3, version=0, manifest-uid=5, scope-id=8, key=shop}\n"
    text += "RX system-event{seqno:2, event=0, version=0, manifest-uid=5, scope-id=8, collection-id=9, key=carts}\n"
    text += "RX system-event{seqno:3, event=1, version=0, manifest-uid=6, scope-id=8, collection-id=9}\n"
    connection = ledger(text).connections[0]
    names = connection.collection_names
    assert names is not None
    assert (names.known(), names.scope(8), connection.manifest_uid) == ([(9, "shop.carts")], "shop", 6)


def test_a_name_of_which_bytes_were_lost_is_not_known() -> None:
    captured = packets(said(opening(name="a-name-of-some-length") + STREAM + TWO), 36)
    opened = next(at for at, each in enumerate(captured) if each.data[54:56] == bytes.fromhex("8050"))
    kept = ledger_of([*captured[: opened + 1], *captured[opened + 2 :]])
    assert (kept.connections[0].setup.flags, kept.connections[0].setup.name) == (0x05, None)
