"""What became of streams: conversations, and the verdict on each."""

import json
from pathlib import Path

import pytest

from dcpdump.render import streams as rows
from dcpdump.streams.causes import Cause, Verdict, VerdictKind
from dcpdump.streams.facts import Entry
from dcpdump.streams.ladder import Arrow, Rung, ladder
from dcpdump.streams.request import Request
from dcpdump.streams.stream import Stream
from dcpdump.streams.verdict import Judge
from tests.support.captures import Record, pcap
from tests.support.console import run
from tests.support.conversation import NOOPS, opening, packets, said
from tests.support.ledgers import ledger, ledger_of, only, verdicts
from tests.test_bounds import steps

OPEN = opening()
COLLECTIONS = opening(collections=True)
STREAM = "STREAM vb=5\n"
TWO = "RX snapshot-marker{start=0, end=2, flags=0x5}\nRX mutation{seqno:1}\nRX mutation{seqno:2}\n"
MINUTE = "WAIT 60\nRX noop{}\nTX noop-response{success}\n"
ASKED = "TX stream-request{vb=5, start-seqno=4, vbucket-uuid=1}\n"
BACK = "RX stream-request-response{rollback, rollback-seqno=0}\n"
PUSHED = "".join(f"RX mutation{{seqno:{seqno}, value=xxxxxxxxxxxxxxxxxxxxxx}}\n" for seqno in range(1, 5))


@pytest.mark.parametrize(
    ("conversation", "verdict"),
    {
        "flowing": (STREAM + TWO, "open and flowing"),
        "quiet": (STREAM + TWO + MINUTE, "quiet (nothing for 60 s; all of snapshot 0..2 came; NOOPs are answered)"),
        "just granted": (STREAM, "quiet (nothing came since it was granted at 12:00:00.012)"),
        "stuck in a snapshot": (
            STREAM + TWO.replace("end=2", "end=3") + MINUTE,
            "stuck (in the middle of snapshot 0..3, at seqno 2, for 60 s)",
        ),
        "stuck at its end": (
            "STREAM vb=5, end-seqno=2\n" + TWO + MINUTE,
            "stuck (end seqno 2 is reached, no STREAM_END, for 60 s)",
        ),
        "stuck before an answer": (ASKED + MINUTE, "stuck (asked for at 12:00:00.011, no answer in 60 s)"),
        "stuck out of order": (
            STREAM + "RX oso-snapshot{flags=1}\nRX mutation{seqno:7}\n" + MINUTE,
            "stuck (in the middle of an out-of-order snapshot, for 60 s)",
        ),
        "asked for": (ASKED, "asked for (at 12:00:00.011, not answered yet)"),
        "blocked": (
            "CONTROL connection_buffer_size=300\n" + STREAM + TWO.splitlines()[0] + "\n" + PUSHED + MINUTE,
            "blocked by flow control (372 of 300 bytes not acknowledged since 12:00:00.019)",
        ),
        "rolled back": (
            ASKED + BACK + MINUTE,
            "rolled back (to 0; not asked for again here: another node may know, and this capture has no connection of "
            "its client to one)",
        ),
        "rolled back at the end": (
            ASKED + BACK,
            "rolled back (to 0; not asked for again before the capture ends, 0 ms later)",
        ),
        "rolled back and granted": (ASKED + BACK + STREAM + TWO, "open and flowing (rolled back to 0 before)"),
        "rolled back in a loop": ((ASKED + BACK + "WAIT 1.5\n") * 41, "rolled back (to 0, 41 times in 60.1 s: a loop)"),
        "refused": (
            "TX stream-request{vb=723, start-seqno=9, snap-start-seqno=10, snap-end-seqno=10}\n"
            "RX stream-request-response{erange}\n",
            "refused (Erange 0x22: seqno 9 is outside snapshot 10..10 (needs snapshot start <= start <= snapshot end))",
        ),
        "ended at once": (
            "STREAM vb=5, end-seqno=0\nRX stream-end{status=0}\n",
            "ended (Ok (0) at 12:00:00.013 after 0 items: end seqno 0 is not above the start, 0)",
        ),
        "ended as asked": (
            "STREAM vb=5, end-seqno=2\n" + TWO + "RX stream-end{status=0}\n",
            "ended (Ok (0) at 12:00:00.016, seqno 2 of 2 reached)",
        ),
        "up to what the server has, on its way": (
            "STREAM vb=5, flags=4, end-seqno=0\n" + TWO.replace("end=2", "end=30") + MINUTE,
            "stuck (in the middle of snapshot 0..30, at seqno 2, for 60 s)",
        ),
        "what the server has on disk, on its way": (
            "STREAM vb=5, flags=2, end-seqno=1\n" + TWO + MINUTE,
            "quiet (nothing for 60 s; all of snapshot 0..2 came; NOOPs are answered)",
        ),
        "up to what the server has, and that came": (
            "STREAM vb=5, flags=4, end-seqno=0\n" + TWO + "RX stream-end{status=0}\n",
            "ended (Ok (0) at 12:00:00.016, seqno 2 reached)",
        ),
        "up to what the server has, which is nothing": (
            "STREAM vb=5, flags=4, end-seqno=0\nRX stream-end{status=0}\n",
            "ended (Ok (0) at 12:00:00.013)",
        ),
        "abandoned": (
            STREAM + TWO + "RX stream-end{status=2}\n" + MINUTE,
            "ended (StateChanged (2) at 12:00:00.016; not asked for again here in 60 s: another node may know, and "
            "this capture has no connection of its client to one)",
        ),
        "without a collection that is left": (
            STREAM + TWO + "RX stream-end{status=7}\n" + MINUTE,
            "ended (FilterEmpty (7) at 12:00:00.016: all collections that it was of were dropped)",
        ),
        "closed": (
            STREAM + "TX close-stream{vb=5}\nRX close-stream-response{success}\n",
            "ended (closed by its consumer at 12:00:00.014)",
        ),
        "taken over": (
            "STREAM vb=5, flags=1\nRX set-vbucket-state{state=3}\nTX set-vbucket-state-response{success}\n"
            "RX set-vbucket-state{state=1}\nTX set-vbucket-state-response{success}\nRX stream-end{status=0}\n",
            "taken over (vbucket 5 is active there since 12:00:00.015)",
        ),
    }.values(),
)
def test_a_stream_has_a_verdict(conversation: str, verdict: str) -> None:
    assert verdicts(OPEN + conversation) == [verdict]


@pytest.mark.parametrize(
    ("numbers", "why"),
    [
        ("start=9", "start 9 is above the server's high seqno: the client is ahead of the server"),
        ("start=9, end=8, flags=4", "start 9 is above end 8"),
        ("start=9, flags=2", "start 9 is above the last seqno on disk, where a disk-only stream ends"),
        ("start=9, flags=4", "start 9 is above the highest seqno of what it asks for, where a to-latest stream ends"),
        ("end=8, flags=0x40", "the server's high seqno, where a from-latest stream begins, is above end 8"),
        ("end=8, flags=0x44", "the server's high seqno, where a from-latest stream begins, is above end 8"),
        (
            "flags=0x42",
            "the server's high seqno, where a from-latest stream begins, is above the last seqno on disk, where a "
            "disk-only stream ends",
        ),
    ],
)
def test_a_request_is_out_of_the_range_that_its_flags_give_it(numbers: str, why: str) -> None:
    refused = f"TX stream-request{{vb=5, {numbers}}}\nRX stream-request-response{{erange}}\n"
    assert verdicts(OPEN + refused) == [f"refused (Erange 0x22: {why})"]


def test_a_stream_may_be_closed_by_the_end_that_sends_its_messages() -> None:
    node = opening(0, name="replication:a->b:travel").replace(NOOPS, "")
    fed = "RX stream-request{vb=5, opaque=9}\nTX stream-request-response{success, opaque=9}\n"
    fed += "TX snapshot-marker{vb=5, opaque=9, start=0, end=3, flags=0x5}\n"
    kept = ledger(node + fed + "TX close-stream{vb=5}\nRX close-stream-response{success}\n")
    verdict = Judge(kept).verdict(only(kept))
    assert verdict == Verdict(VerdictKind.ENDED, Cause.CLOSED_BY_PRODUCER, "closed by its producer at 12:00:00.013")
    assert ladder(only(kept), kept.last_ns)[-2] == Rung(Arrow.ANSWERS, "close-stream, answered", only(kept).closed_ns)


def test_the_streams_of_a_notifier_end_as_soon_as_there_is_more() -> None:
    notified = "STREAM vb=5, start=9, end=0\nWAIT 5\nRX stream-end{status=0}\nSTREAM vb=5, start=12, end=0\n"
    kept = ledger(opening(2, name="xdcr:notifier:n_0@a:travel").replace(NOOPS, "") + notified)
    assert [connection.role for connection in kept.connections.values()] == ["producer"]
    assert [Judge(kept).verdict(stream).text for stream in kept.streams] == [
        "ended (Ok (0) at 12:00:05.011: there is more than seqno 9; reopened at 12:00:05.012)",
        "quiet (nothing came since it was granted at 12:00:05.013)",
    ]


def test_a_stream_that_ended_and_was_asked_for_again_is_reopened() -> None:
    again = "WAIT 6\nSTREAM vb=5, start-seqno=2\nRX snapshot-marker{start=2, end=3, flags=1}\nRX mutation{seqno:3}\n"
    assert verdicts(OPEN + STREAM + TWO + "RX stream-end{status=2}\n" + again) == [
        "ended (StateChanged (2) at 12:00:00.016; reopened at 12:00:06.017)",
        "open and flowing",
    ]


def test_a_stream_may_be_reopened_on_another_connection_of_the_same_client() -> None:
    elsewhere = "CONNECT\n" + OPEN + "STREAM vb=5, start-seqno=2\n"
    found = verdicts(OPEN + STREAM + TWO + "RX stream-end{status=2}\n" + elsewhere)
    assert found[0] == "ended (StateChanged (2) at 12:00:00.016; reopened on connection 1 at 12:00:00.027)"


SECOND = "TX stream-request{vb=5, start-seqno=7, opaque=99}\nRX stream-request-response{keyeexists}\n"
EXISTS = "refused (KeyEexists 0x02: the stream exists already: open on this connection since 12:00:00.012; "


def test_a_request_for_a_stream_that_is_open_is_a_row_of_its_own() -> None:
    assert verdicts(OPEN + STREAM + TWO + SECOND) == ["open and flowing", f"{EXISTS}it continues)"]


@pytest.mark.parametrize(
    ("after", "troubles", "exists"),
    [
        ("WAIT 60\nRX noop{}\nTX noop-response{success}\n", [False, False], "it continues)"),
        (
            "RX stream-end{vb=5, opaque=4101, status=2}\nWAIT 60\nRX noop{}\n",
            [False, False],
            "no close was seen before)",
        ),
        ("RST RX\n", [True, False], "no close was seen before)"),
    ],
    ids=["continues", "ended", "reset"],
)
def test_a_request_for_a_stream_that_exists_is_no_trouble_of_its_own(
    after: str, troubles: list[bool], exists: str
) -> None:
    kept = ledger(OPEN + STREAM + TWO + SECOND + after)
    judge = Judge(kept)
    assert [judge.verdict(each).trouble for each in kept.streams] == troubles
    assert judge.verdict(kept.streams[1]).text == EXISTS + exists


@pytest.mark.parametrize(
    ("before", "known"),
    [
        ("", "none was captured"),
        (STREAM + TWO + "RX stream-end{status=2}\n", "the previous one that was captured ended at 12:00:00.016"),
        (
            STREAM + "TX close-stream{vb=5}\nRX close-stream-response{success}\n",
            "the previous one that was captured ended at 12:00:00.014",
        ),
    ],
    ids=["none", "ended", "closed"],
)
def test_of_a_stream_that_is_open_for_the_server_alone_it_is_said_what_was_captured(before: str, known: str) -> None:
    refused = "TX stream-request{vb=5, opaque=99}\nRX stream-request-response{keyeexists}\n"
    assert verdicts(OPEN + before + refused)[-1] == (
        "refused (KeyEexists 0x02: the server says that this connection has a stream of the vbucket open; "
        + known
        + ")"
    )


def test_streams_that_are_open_for_the_server_alone_are_judged_in_a_few_steps_each() -> None:
    def work(count: int) -> int:
        refused = "TX stream-request{vb=%d, opaque=99}\nRX stream-request-response{keyeexists}\n"
        judge = Judge(ledger(OPEN + "".join(refused % vbucket for vbucket in range(count))))
        return steps(lambda: [judge.verdict(stream) for stream in judge.ledger.streams])

    once, twice, four = map(work, (50, 100, 200))
    assert four - twice <= 2.2 * (twice - once)


FILTERED = 'value={"collections":["8"]}'
SYNC = "CONTROL enable_sync_writes=true\n"


@pytest.mark.parametrize(
    ("begun", "asked", "why"),
    [
        (OPEN, "", "enable_noop was accepted, and no collection filter meets sync writes"),
        (OPEN.replace(NOOPS, ""), "", "enable_noop was not accepted before, which xattrs and collections need"),
        (COLLECTIONS, FILTERED, "enable_noop was accepted, and no collection filter meets sync writes"),
        (COLLECTIONS + SYNC, FILTERED, "a collection filter and sync writes exclude each other"),
        ("", "", "enable_noop is missing"),
        ("", FILTERED, "enable_noop is missing, or a collection filter meets sync writes"),
    ],
    ids=["accepted", "not accepted", "a filter alone", "a filter and sync writes", "late", "late, with a filter"],
)
def test_a_stream_that_is_not_supported_has_the_reasons_that_are_left(begun: str, asked: str, why: str) -> None:
    refused = f"TX stream-request{{vb=5, {asked}}}\nRX stream-request-response{{notsupported}}\n"
    assert verdicts(begun + refused) == [f"refused (NotSupported 0x83: {why})"]


def test_requests_for_an_open_stream_that_are_all_refused_are_one_row() -> None:
    second = "TX stream-request{vb=5, start-seqno=7, opaque=99}\nRX stream-request-response{keyeexists}\n"
    kept = ledger(OPEN + STREAM + TWO + second * 5 + "RX mutation{seqno:3, opaque=4101}\n")
    assert [(len(stream.requests), stream.granted, stream.count(0x57)) for stream in kept.streams] == [
        (1, True, 3),
        (5, False, 0),
    ]


def test_a_request_that_was_captured_before_the_end_of_its_stream_and_refused_goes_on_with_the_next() -> None:
    text = opening() + (
        "TX stream-request{vb=5, opaque=0x1005}\nRX stream-request-response{success, opaque=0x1005}\n"
        "RX snapshot-marker{start=0, end=7, flags=0x5}\nRX mutation{seqno=7}\n"
        "TX stream-request{vb=5, start=7, opaque=0x1006}\nRX stream-end{status=2, opaque=0x1005}\n"
        "TX stream-request{vb=5, start=7, opaque=0x1007}\n"
        "RX stream-request-response{notmyvbucket, opaque=0x1006}\n"
        "RX stream-request-response{success, opaque=0x1007}\n"
        "RX snapshot-marker{start=7, end=9, flags=0x5, opaque=0x1007}\nRX mutation{seqno=9, opaque=0x1007}\n"
    )
    assert verdicts(text) == [
        "ended (StateChanged (2) at 12:00:00.016; reopened at 12:00:00.015)",
        "open and flowing (refused before: NotMyVbucket 0x07)",
    ]


def test_a_reason_of_an_end_that_was_not_captured_has_no_name() -> None:
    captured = packets(said(OPEN + STREAM + TWO + "RX stream-end{status=2}\n" + MINUTE))
    cut = [each._replace(data=each.data[:80], wire_length=82) if len(each.data) == 82 else each for each in captured]
    kept = ledger_of(cut)
    verdict = Judge(kept).verdict(only(kept))
    row = rows.as_object(only(kept), verdict)
    assert (verdict.why, row.get("end_status"), row.get("end_status_name"), row["ended_at"]) == (
        "at 12:00:00.016, its reason was not captured; whether it was reopened is unknown: 2 bytes of the connection "
        "were lost",
        None,
        None,
        "2025-11-20T12:00:00.016000Z",
    )
    assert ladder(only(kept), kept.last_ns)[-2].text == "stream-end{reason not captured}"


ENDED_BY_SERVER = "WAIT 1\nFIN RX\nFIN TX\n"
BECAUSE = "; its consumer answered %s of vb 5 with %s at 12:00:00.016, for which a producer disconnects"


@pytest.mark.parametrize(
    ("said", "because"),
    [
        ("TX mutation-response{enomem, opaque=0x1005}\n" + ENDED_BY_SERVER, BECAUSE % ("MUTATION", "Enomem 0x82")),
        ("TX mutation-response{erange, opaque=0x1005}\n" + ENDED_BY_SERVER, BECAUSE % ("MUTATION", "Erange 0x22")),
        ("TX mutation-response{notmyvbucket, opaque=0x1005}\n" + ENDED_BY_SERVER, ""),
        ("TX mutation-response{keyenoent, opaque=0x1005}\n" + ENDED_BY_SERVER, ""),
        (
            "CONTROL v7_dcp_status_codes=true\nTX mutation-response{keyenoent, opaque=0x1005}\n" + ENDED_BY_SERVER,
            BECAUSE.replace("016", "018") % ("MUTATION", "KeyEnoent 0x01"),
        ),
        ("TX snapshot-marker-response{enomem, opaque=0x1005}\n" + ENDED_BY_SERVER, ""),
        ("TX mutation-response{enomem, opaque=0x1005}\nWAIT 90\n" + ENDED_BY_SERVER, ""),
        ("TX mutation-response{enomem, opaque=0x1005}\nWAIT 1\nFIN TX\nFIN RX\n", ""),
    ],
    ids="no-memory out-of-range tolerated without-v7 with-v7 acknowledged long-before by-client".split(),
)
def test_a_producer_that_disconnects_for_an_error_of_its_consumer_has_a_cause(said: str, because: str) -> None:
    opened = OPEN + "STREAM vb=5, opaque=0x1005\n" + TWO + said
    (verdict,) = verdicts(opened)
    at = verdict.index("no STREAM_END") + len("no STREAM_END")
    assert verdict[at:].partition("; not reopened")[0].removesuffix(")") == because


def test_all_streams_of_a_connection_have_the_cause_of_its_disconnect() -> None:
    opened = OPEN + "STREAM vb=6\nSTREAM vb=5, opaque=0x1005\n" + TWO
    found = verdicts(opened + "TX mutation-response{enomem, opaque=0x1005}\n" + ENDED_BY_SERVER)
    assert [BECAUSE.replace("016", "018") % ("MUTATION", "Enomem 0x82") in each for each in found] == [True, True]


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
    back_ns = [back_s * 10**9 * (at >= middle) for at in range(len(captured))]
    records = [Record((each.ts_ns or 0) - back, each.data) for each, back in zip(captured, back_ns, strict=True)]
    path = tmp_path / "back.pcap"
    path.write_bytes(pcap(records))
    (stream,) = map(json.loads, run(f"dcpdump streams {path} -q -f ndjson").out.splitlines())
    assert stream["verdict"] == verdict
    assert " 30 of 30 answered in 1 ms " in run(f"dcpdump conns {path} -q").out
    assert "(-" not in run(f"dcpdump flow {path} -q").out


def test_the_servers_high_seqno_distinguishes_quiet_from_stuck() -> None:
    def reported(seqno: int) -> str:
        raw = f"0005{seqno:016x}"
        answer = f"8148000000000000{10:08x}{7:08x}{0:016x}{raw}"
        asked = f"8048000000000000{0:08x}{7:08x}{0:016x}"
        return f"WAIT 20\nHEX TX {asked}\nHEX RX {answer}\n" + MINUTE

    begun = COLLECTIONS + STREAM + TWO
    behind = "at seqno 2, the server's high seqno is 9 since 12:00:20.017, for 80 s"
    assert verdicts(begun + reported(2)) == [
        "quiet (nothing for 80 s; server's high seqno 2 = ours; NOOPs are answered)"
    ]
    assert verdicts(begun.replace("key=app}\nRX open", "key=replication:a->b:travel}\nRX open") + reported(9)) == [
        f"stuck ({behind})"
    ]
    left_out = "what did not come may be of system collections, which not every user gets"
    assert verdicts(begun + reported(9)) == [f"unknown ({behind}; {left_out})"]
    silent = reported(9).replace(MINUTE, "WAIT 180\nTX buffer-acknowledgement{buffer-bytes=1}\n")
    assert verdicts(begun.replace(NOOPS, NOOPS + "CONTROL set_noop_interval=20\n") + silent) == [
        "stuck (nothing for 3.33 m; no NOOP came since 12:00:00.010, for 3.33 m, one is due every 20 s)"
    ]


def test_a_late_capture_knows_that_it_does_not_know() -> None:
    late = "RX mutation{vb=5, seqno:7, opaque=9}\nTX noop{}\n"
    assert verdicts(late) == ["open and flowing (since before the capture)"]
    assert verdicts(late + MINUTE) == ["unknown (nothing for 60 s; the capture starts after its snapshot marker)"]


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
    captured = packets(said(healthy))
    for lost in range(len(captured)):
        kept = ledger_of([packet for at, packet in enumerate(captured) if at != lost])
        judge = Judge(kept)
        kinds = {judge.verdict(stream).kind for stream in kept.streams}
        assert not kinds & {VerdictKind.STUCK, VerdictKind.BLOCKED, VerdictKind.REFUSED}, f"packet {lost + 1}"
    for end in range(len(captured)):
        kept = ledger_of(captured[:end])
        judge = Judge(kept)
        kinds = {judge.verdict(stream).kind for stream in kept.streams}
        assert not kinds & {VerdictKind.STUCK, VerdictKind.BLOCKED, VerdictKind.REFUSED, VerdictKind.UNKNOWN}, (
            f"the first {end} packets"
        )
        judge = Judge(ledger_of(captured[end:]))
        kinds = {judge.verdict(stream).kind for stream in judge.ledger.streams}
        assert not kinds & {VerdictKind.STUCK, VerdictKind.BLOCKED, VerdictKind.REFUSED}, (
            f"without the first {end} packets"
        )


def test_a_loss_begins_a_new_epoch_of_what_is_known() -> None:
    captured = packets(said(OPEN + STREAM + TWO + "RX mutation{seqno:3}\n"))
    del captured[-2]
    stream = only(ledger_of(captured))
    assert (stream.epoch, stream.snapshot, stream.ordered, stream.missed.lost) == (1, None, False, 60)


def test_the_ledger_keeps_what_a_connection_agreed_on() -> None:
    controls = "set_noop_interval=120, connection_buffer_size=16777216"
    text = opening(0x25, collections=True, name="kafka-7f", controls=controls)
    text += "TX control{key=max_marker_version, value=2.2}\nRX control-response{einval}\nRX noop{}\n"
    connection = ledger(text).connections[0]
    assert (connection.name, connection.bucket, connection.mechanism, connection.role, connection.open_flags) == (
        "kafka-7f",
        "travel",
        "PLAIN",
        "producer",
        0x25,
    )
    assert connection.features == frozenset({0x06, 0x0A, 0x0B, 0x12})
    assert {key: (control.value, control.status) for key, control in connection.controls.items()} == {
        "enable_noop": ("true", 0),
        "set_noop_interval": ("120", 0),
        "connection_buffer_size": ("16777216", 0),
        "max_marker_version": ("2.2", 4),
    }
    assert (connection.window.size, connection.noops.sent, connection.noops.answered) == (16777216, 1, 0)


def test_a_request_keeps_its_numbers_its_filter_and_its_answer() -> None:
    value = '{"collections":["8","9"],"sid":3}'
    asked = f"TX stream-request{{vb=7, start-seqno=5, end-seqno=9, vbucket-uuid=0xfeed, value={value}}}\n"
    text = COLLECTIONS + "CONTROL enable_stream_id=true\n" + asked.replace('"8","9"', '"8"')
    stream = only(ledger(text + "RX stream-request-response{success, failover-log=0xfeed:3|0xcafe:0}\n"))
    log = (Entry(0xFEED, 3), Entry(0xCAFE, 0))
    (request,) = stream.requests
    assert request == Request(
        frame=request.frame,
        ts_ns=request.ts_ns,
        opaque=0x1000 + 7 + (3 << 16),
        flags=0,
        start_seqno=5,
        end_seqno=9,
        vbucket_uuid=0xFEED,
        snap_start_seqno=5,
        snap_end_seqno=5,
        stream_id=3,
        collections=("8",),
        has_json=True,
        status=0,
        answer_frame=request.frame + 1,
        answered_ns=request.answered_ns,
        failover_log=log,
    )
    assert (stream.vbucket, stream.stream_id, stream.granted, stream.failover_log) == (7, 3, True, log)


def test_streams_of_one_vbucket_are_distinguished_by_their_ids() -> None:
    begin = COLLECTIONS + "CONTROL enable_stream_id=true\n"
    one, two = 'STREAM vb=5, value={"sid":1}\n', 'STREAM vb=5, value={"sid":2}\n'
    kept = ledger(begin + one + two + "RX mutation{vb=5, sid=2, seqno:1}\nRX mutation{vb=5, sid=1, seqno:1}\n" * 2)
    assert [(stream.stream_id, stream.count(0x57)) for stream in kept.streams] == [(1, 2), (2, 2)]


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


def test_durable_writes_are_open_until_they_are_resolved() -> None:
    text = opening(controls="enable_sync_writes=true, consumer_name=n_1") + STREAM
    text += "RX snapshot-marker{start=0, end=4, flags=0x5}\nRX prepare{seqno:1, key=a}\nRX prepare{seqno:2, key=b}\n"
    text += "RX commit{prepared-seqno=1, commit-seqno=3, key=a}\nTX seqno-acknowledged{prepared-seqno=2}\n"
    stream = only(ledger(text))
    open_ones = {key: prepare.seqno for key, prepare in stream.prepares.open.items()}
    assert (open_ones, stream.acked_seqno, stream.last_seqno) == ({b"b": 2}, 2, 3)


def test_what_a_consumer_refuses_is_kept() -> None:
    stream: Stream = only(ledger(OPEN + STREAM + TWO + "TX mutation-response{erange}\n"))
    assert [(each.opcode, each.status) for each in stream.complaints] == [(0x57, 0x22)]


@pytest.mark.parametrize(
    ("end", "why"),
    {
        "RST RX": "reset by its server at 12:00:00.013, no STREAM_END; abandoned: not asked for again in 60 s",
        "RST TX": "reset by its client at 12:00:00.013, no STREAM_END; abandoned: not asked for again in 60 s",
        "FIN RX\nFIN TX": "closed by its server at 12:00:00.013, no STREAM_END; abandoned: not asked for again in 60 s",
        "FIN TX\nFIN RX": "closed by its client at 12:00:00.013, no STREAM_END",
        "RST RX\nFIN TX": "reset by its server at 12:00:00.013, no STREAM_END; abandoned: not asked for again in 60 s",
    }.items(),
)
def test_a_connection_was_ended_by_the_sender_of_the_first_fin_or_reset(end: str, why: str) -> None:
    other = "CONNECT 10.0.0.8:40000 10.0.0.2:11210\nWAIT 60\n" + OPEN
    assert verdicts(f"{OPEN}{STREAM}{end}\n{other}") == [f"ended (connection {why})"]


def without(text: str, *lost: int) -> list[Stream]:
    """Return the streams of a conversation of which some packets were not captured."""
    captured = [each for at, each in enumerate(packets(said(text))) if at not in lost]
    return ledger_of(captured).streams


def test_who_closed_first_is_known_though_its_fin_was_not_captured() -> None:
    text = OPEN + STREAM + TWO + "FIN RX\nFIN TX\n"
    last = len(packets(said(text))) - 1
    for lost in ((), (last - 1,)):
        (stream,) = without(text, *lost)
        assert (stream.connection.ended_by, stream.connection.ended_surely) == (1, True)


def test_a_fin_behind_lost_bytes_has_its_own_time() -> None:
    text = OPEN + STREAM + TWO + "RX mutation{seqno:3}\nFIN RX\nFIN TX\nWAIT 60\nCONNECT\n" + OPEN
    fin = next(at for at, each in enumerate(packets(said(text))) if each.data[47] & 0x01)
    (stream,) = without(text, fin - 1)
    connection = stream.connection
    assert (connection.ended_by, connection.ended_ns) == (1, packets(said(text))[fin].ts_ns)


def test_of_one_direction_alone_it_is_unknown_who_closed_first() -> None:
    text = OPEN + STREAM + TWO + "FIN TX\nFIN RX\n"
    captured = [each for each in packets(said(text)) if each.data[34:36] == (11210).to_bytes(2, "big")]
    kept = ledger_of(captured)
    assert "connection closed by one side" in Judge(kept).verdict(kept.streams[0]).why


def test_a_name_of_which_bytes_were_lost_is_not_known() -> None:
    captured = packets(said(opening(name="a-name-of-some-length") + STREAM + TWO), 36)
    opened = next(at for at, each in enumerate(captured) if each.data[54:56] == bytes.fromhex("8050"))
    kept = ledger_of([*captured[: opened + 1], *captured[opened + 2 :]])
    assert (kept.connections[0].open_flags, kept.connections[0].name) == (0x05, None)


def test_what_was_lost_since_its_last_message_may_have_ended_a_stream() -> None:
    text = OPEN + STREAM + TWO + "RX stream-end{status=2}\nRX noop{}\nTX noop-response{success}\n"
    end = len(packets(said(text))) - 3
    (stream,) = without(text, end)
    verdict = Judge(ledger_of([each for at, each in enumerate(packets(said(text))) if at != end])).verdict(stream)
    assert verdict.text == "open and flowing (as far as was captured: 28 bytes of the connection were lost since)"


def test_of_requests_with_one_opaque_in_a_late_capture_none_is_said_to_wait() -> None:
    asked = "".join(f"TX stream-request{{vb={vb}, opaque=7}}\n" for vb in (1, 2))
    text = OPEN + asked + "RX stream-request-response{success, opaque=7}\n" * 2
    talk = packets(said(text))
    kept = ledger_of(talk[-4:])
    judge = Judge(kept)
    assert {judge.verdict(each).kind for each in kept.streams} == {VerdictKind.UNKNOWN}
