"""What a diagnosis makes of conversations: which troubles, grouped how, in which order, and what is not judged."""

from pathlib import Path

import pytest

from tests.support.captures import Record, pcap
from tests.support.check_cases import CONSUMER
from tests.support.console import run
from tests.support.conversation import LOGIN, OPEN, opening, packets, said
from tests.support.diagnoses import objects, rows, written
from tests.support.packets import ACK, NOON, RST, SYN, TcpTalk, flow

DAY = "WAIT 60\nRX noop{}\nTX noop-response{success}\n"
LIVE = "RX snapshot-marker{start=0, end=2, flags=0x5}\nRX mutation{seqno:1}\nRX mutation{seqno:2}\n"
NEXT = "RX snapshot-marker{start=3, end=4, flags=0x1}\nRX mutation{seqno:3}\nRX mutation{seqno:4}\n"
ENDED = "RX stream-end{status=4}\n"
HALF = "RX snapshot-marker{start=0, end=9, flags=0x5}\nRX mutation{seqno:1}\n"


def streams(vbuckets: range, then: str) -> str:
    return "".join(f"STREAM vb={vbucket}\n{then}" for vbucket in vbuckets)


def connections(count: int, each: str) -> str:
    return "".join(
        f"CONNECT 10.0.0.{9 + at}:50001 10.0.0.1:11210\n" + opening(name=f"app-{at}") + each for at in range(count)
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "talk.pcap"


def texts(text: str, path: Path) -> list[tuple[str, str]]:
    return [(row["code"], row["text"]) for row in rows(text, path, "trouble")]


def test_streams_of_one_connection_and_cause_are_one_trouble(path: Path) -> None:
    text = opening() + streams(range(3, 8), LIVE + ENDED) + "STREAM vb=20\n" + LIVE + ENDED + DAY
    (row,) = rows(text, path, "trouble")
    assert (row["text"], row["count"], [each["vbucket"] for each in row["streams"]]) == (
        "6 streams of app ended (Slow) and were not asked for again: vb 3-7, 20",
        6,
        [3, 4, 5, 6, 7, 20],
    )


def test_what_is_worse_comes_first(path: Path) -> None:
    loop = "TX stream-request{vb=9, start-seqno=4, vbucket-uuid=1, snap-start-seqno=4, snap-end-seqno=4}\n"
    loop += "RX stream-request-response{rollback, rollback-seqno=0}\n"
    text = (
        opening()
        + "STREAM vb=5\nRX snapshot-marker{start=0, end=2, flags=0x5}\nRX mutation{seqno:2}\nRX mutation{seqno:2}\n"
        + streams(range(1, 2), HALF)
        + streams(range(2, 3), LIVE + ENDED)
        + (loop + "WAIT 2\n") * 5
        + DAY
    )
    codes = dict.fromkeys(code for code, _ in texts(text, path))
    assert list(codes) == ["rollback-loop", "ended", "stuck", "violation"]


def test_a_finding_about_the_connection_is_in_no_vbucket(path: Path) -> None:
    text = opening(controls="set_noop_interval=20")
    text += "STREAM vb=5\nRX snapshot-marker{start=0, end=99, flags=0x5}\n"
    text += "".join(f"WAIT 3600\nRX mutation{{seqno:{at}, key=k{at}}}\n" for at in range(1, 100))
    (row,) = rows(text, path, "trouble")
    assert row["text"] == "NOOPs are missing (DCP513, twice)"


def test_the_command_for_many_connections_that_were_not_judged_is_short(path: Path) -> None:
    half = "".join(f"CONNECT 10.0.0.9:{50_100 + at} 10.0.0.1:11210\nTX open{{flags=1, key=x}}\n" for at in range(60))
    (row,) = rows(connections(1, "") + half, path, "unjudged")
    assert (row["count"], row["command"]) == (60, f"dcpdump conns {path} --connection 1-60")


def test_of_equal_troubles_the_larger_comes_first(path: Path) -> None:
    text = connections(2, "") + "ON 0\nSTREAM vb=1\n" + LIVE + ENDED
    text += "ON 1\n" + streams(range(2, 5), LIVE + ENDED) + DAY
    assert texts(text, path) == [
        ("ended", "3 streams of app-1 (c1) ended (Slow) and were not asked for again: vb 2-4"),
        ("ended", "vb 1 of app-0 (c0) ended (Slow) and was not asked for again"),
    ]


def test_the_same_trouble_of_many_connections_is_one(path: Path) -> None:
    text = "".join(
        f"CONNECT 10.0.0.{9 + at}:50001 10.0.0.1:11210\n{opening(name=f'app-{at}')}STREAM vb={at}\n{LIVE}{ENDED}"
        for at in range(5)
    )
    (row,) = rows(text + DAY, path, "trouble")
    assert row["text"] == "5 streams of 5 connections ended (Slow) and were not asked for again: vb 0-4"
    assert row["command"] == f"dcpdump streams {path} --stuck --cause abandoned"


def test_a_stream_that_was_asked_for_again_is_no_trouble(path: Path) -> None:
    assert texts(opening() + "STREAM vb=5\n" + LIVE + ENDED + "WAIT 1\nSTREAM vb=5, start-seqno=2\n" + DAY, path) == []


BACK = "TX stream-request{{vb={0}, start=100, vbucket-uuid=0xa}}\n"
BACK += "RX stream-request-response{{rollback, rollback-seqno={1}}}\n"
FROM_THERE = (
    BACK + "TX stream-request{{vb={0}, start={1}}}\nRX stream-request-response{{success, failover-log=0xfeed:0}}\n"
)
UUID = "the server's history does not have the client's vbucket uuid"


@pytest.mark.parametrize(
    ("conversation", "notes"),
    [
        (
            "".join(FROM_THERE.format(vbucket, 0) for vbucket in range(20)),
            [f"20 streams of app were rolled back to 0: {UUID}"],
        ),
        ("STREAM vb=1\n", []),
        (BACK.format(1, 90), []),
    ],
)
def test_rollbacks_of_streams_that_are_in_no_trouble_are_notes(conversation: str, notes: list[str], path: Path) -> None:
    found = rows(opening() + conversation + DAY, path, "trouble")
    assert [each["text"] for each in found if each["code"] == "rollbacks"] == notes
    assert {each["severity"] for each in found} <= {"note"}


def test_a_capture_with_rollbacks_does_not_begin_with_nothing_is_wrong(path: Path) -> None:
    written(opening() + FROM_THERE.format(1, 0) + DAY, path)
    printed = run(f"dcpdump diagnose {path} -q")
    assert (printed.code, printed.out.splitlines()[-5:-3]) == (
        0,
        [
            "1 stream rolled back, and nothing is wrong since: 1 stream (1 quiet) on 1 connection, 96 rules checked",
            f"note         vb 1 of app was rolled back to 0: {UUID}",
        ],
    )
    assert run(f"dcpdump diagnose {path} -q --fail-on note").code == 1


def test_a_client_that_resumes_beyond_what_it_has_received_is_a_trouble(path: Path) -> None:
    text = opening() + "STREAM vb=5\n" + LIVE + ENDED + "STREAM vb=5, start-seqno=50\n"
    (row,) = rows(text, path, "trouble")
    assert [row[name] for name in ("code", "severity", "cause", "text", "detail", "frames", "command")] == [
        "suspicious",
        "note",
        "DCP242",
        "Resumed beyond what was received (DCP242)",
        "frame 17, c0 vb 5: resumed from seqno 50, and had received up to 2 on connection 0: 3..50 are not sent to it",
        [17],
        f"dcpdump check {path} --connection 0 --select DCP242",
    ]


def test_a_rollback_to_another_seqno_than_was_due_is_a_trouble(path: Path) -> None:
    text = opening() + "TX stream-request{vb=5, start=100, vbucket-uuid=0xa, snap-start-seqno=90, snap-end-seqno=120}\n"
    text += (
        "RX stream-request-response{rollback, rollback-seqno=95}\nTX stream-request{vb=5, start=90, vbucket-uuid=0xa}\n"
    )
    text += "RX stream-request-response{success, failover-log=0xb:95|0xa:0}\n"
    (row,) = rows(text, path, "trouble")
    assert [row[name] for name in ("code", "severity", "cause", "text", "frames")] == [
        "violation",
        "wrong",
        "DCP241",
        "Rollback to another seqno than was due (DCP241)",
        [12],
    ]


def test_a_stream_that_a_client_of_the_same_name_may_continue_is_not_judged(path: Path) -> None:
    old = f"CONNECT 10.0.0.9:50001 10.0.0.1:11210\n{opening()}STREAM vb=7\n{LIVE}RST TX\n"
    new = f"CONNECT 10.0.0.8:50001 10.0.0.1:11210\n{opening()}STREAM vb=7, start-seqno=2\n{NEXT}"
    (row,) = rows(old + new + DAY, path, "unjudged")
    assert (row["code"], row["text"].partition(" (connection")[0], row["command"]) == (
        "streams-unknown",
        "vb 7 of app (c0) stopped, and another client, or the same one restarted, asked for what follows",
        f"dcpdump streams {path} --connection 0 --cause may-be-reopened",
    )


def test_a_stream_of_collections_that_were_dropped_is_no_trouble(path: Path) -> None:
    asked = 'STREAM vb=5, value={"collections":["8"]}\n'
    dropped = "RX snapshot-marker{start=0, end=2, flags=0x5}\n" + (
        "RX system-event{seqno=2, event=1, version=0, manifest-uid=6, scope-id=8, collection-id=8}\n"
    )
    text = opening(0x25, collections=True) + asked + dropped + "RX stream-end{status=7}\n" + DAY
    assert texts(text, path) == []


def test_a_rollback_says_which_clause_explains_it(path: Path) -> None:
    elsewhere = "CONNECT 10.0.0.1:50009 10.0.0.7:11210\n" + opening() + "STREAM vb=9\n"
    text = opening() + (
        "TX stream-request{vb=5, start-seqno=4, vbucket-uuid=1, snap-start-seqno=4, snap-end-seqno=4}\n"
        "RX stream-request-response{rollback, rollback-seqno=0}\n" + elsewhere + DAY
    )
    (row,) = rows(text, path, "trouble")
    assert (row["code"], row["text"], row["detail"]) == (
        "rolled-back",
        "vb 5 of app (c0) was rolled back and not asked for again",
        "the failover log was not captured; the uuid is not in it, or start 4 is below the purge seqno, or the "
        "histories diverge after seqno 0",
    )


def test_a_producer_that_went_silent_is_in_trouble(path: Path) -> None:
    silent = opening(name="dead", controls="set_noop_interval=20") + "STREAM vb=5\n" + LIVE
    assert texts(silent + "CONNECT\n" + opening(name="alive") + DAY, path) == [
        ("stuck", "vb 5 of dead (c0) is stuck: the producer is silent, and sends no NOOP")
    ]


def test_a_takeover_that_does_not_continue_is_in_trouble(path: Path) -> None:
    marker = "RX snapshot-marker{start=0, end=1, flags=0xd}\nRX mutation{seqno=1}\n"
    acknowledged = marker + "TX snapshot-marker-response{success, opaque=0x%x}\n"
    pending = "RX set-vbucket-state{state=3}\nTX set-vbucket-state-response{success}\n"
    text = opening() + "STREAM vb=5, flags=0x1\n" + acknowledged % 0x1005 + pending
    text += "STREAM vb=6, flags=0x1\n" + acknowledged % 0x1006
    text += "STREAM vb=7, flags=0x1\n" + pending + pending.replace("state=3", "state=1")
    found = [(row["cause"], row["text"], row["command"]) for row in rows(text + DAY, path, "trouble")]
    command = f"dcpdump streams {path} --connection 0 --stuck --cause"
    assert found == [
        (
            "active-not-sent",
            "vb 5 of app is stuck in a takeover with no active copy: SET_VBUCKET_STATE(active) does not come",
            f"{command} active-not-sent",
        ),
        (
            "pending-not-sent",
            "vb 6 of app is stuck in a takeover: SET_VBUCKET_STATE(pending) does not come",
            f"{command} pending-not-sent",
        ),
        (
            "takeover-not-ended",
            "vb 7 of app is stuck at the end of a takeover: no STREAM_END came",
            f"{command} takeover-not-ended",
        ),
    ]


def test_a_connection_that_its_client_closed_as_the_producer_was_silent_is_in_trouble(path: Path) -> None:
    silent = opening(controls="set_noop_interval=20") + "STREAM vb=5\n" + LIVE + "WAIT 380\nFIN TX\nFIN RX\n"
    assert texts(silent, path) == [
        ("connection-closed", "the connection of app was closed by the client at 12:06:20.018 with vb 5 open")
    ]


def test_a_noop_without_an_answer_is_said_once(path: Path) -> None:
    found = texts(opening() + "STREAM vb=5\n" + LIVE + "RX noop{}\nWAIT 20\nRX mutation{seqno:3}\n", path)
    assert [code for code, _ in found].count("noop-not-answered") + [text for _, text in found].count(
        "NOOP without an answer (DCP511)"
    ) == 1


def test_being_blocked_for_a_moment_is_no_trouble(path: Path) -> None:
    window = opening(controls="connection_buffer_size=300") + "STREAM vb=5\n"
    full = "RX snapshot-marker{start=0, end=9, flags=0x5}\n" + "".join(
        f"RX mutation{{seqno:{seqno}, value={'x' * 60}}}\n" for seqno in range(1, 4)
    )
    moment = window + full + "TX buffer-acknowledgement{buffer-bytes=300}\n" + DAY
    assert [code for code, _ in texts(moment, path) if code == "blocked"] == []
    lasting = window + full + DAY
    (row,) = (row for row in rows(lasting, path, "trouble") if row["code"] == "blocked")
    assert row["streams"] == [{"connection": 0, "vbucket": 5}]


def test_the_same_trouble_of_flow_control_on_many_connections_is_one(path: Path) -> None:
    full = "STREAM vb=5\nRX snapshot-marker{start=0, end=9, flags=0x5}\n" + "".join(
        f"RX mutation{{seqno:{seqno}, value={'x' * 60}}}\n" for seqno in range(1, 4)
    )
    text = "".join(
        f"CONNECT 10.0.0.{9 + at}:50001 10.0.0.1:11210\n"
        + opening(name=f"app-{at}", controls="connection_buffer_size=300")
        + full
        for at in range(5)
    )
    (row,) = (row for row in rows(text + DAY, path, "trouble") if row["code"] == "blocked")
    assert row["text"].startswith(
        "5 connections, such as: the producer of app-0 (c0) is blocked by flow control since 12:00:00."
    )
    assert (row["count"], row["connections"]) == (5, [0, 1, 2, 3, 4])
    assert row["command"] == f"dcpdump flow {path} --connection 0,1,2,3,4"


def test_the_lost_bytes_of_connections_are_one_trouble_with_its_cause(path: Path) -> None:
    text = opening() + "STREAM vb=5\nRX snapshot-marker{start=0, end=3, flags=0x5}\n-RX mutation{seqno:1}\n"
    text += "RX mutation{seqno:2}\nRX mutation{seqno:3}\n" + DAY
    (row,) = rows(text, path, "trouble")
    assert (row["code"], row["severity"], row["count"]) == ("bytes-lost", "note", 1)


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        (opening() + "STREAM vb=5\n" + LIVE, []),
        (opening() + "STREAM vb=5\n" + LIVE + "----\n" + NEXT + DAY, ["starts-late"]),
    ],
)
def test_a_late_join_is_not_judged_and_raises_no_trouble(text: str, codes: list[str], path: Path) -> None:
    assert texts(text, path) == []
    assert [row["code"] for row in rows(text, path, "unjudged") if row["code"] == "starts-late"] == codes


def test_one_direction_is_not_judged(path: Path) -> None:
    lines = (opening() + "STREAM vb=5\n" + LIVE).strip().splitlines()
    found = rows(
        "\n".join(("-" if line.startswith(("TX", "STREAM", "CONTROL")) else "") + line for line in lines),
        path,
        "unjudged",
    )
    assert [row["code"] for row in found][:1] == ["one-direction"]


def test_key_value_traffic_alone_is_not_called_healthy(path: Path) -> None:
    (row,) = rows("TX hello{features=6, key=app}\nRX hello-response{success, features=6}\n", path, "capture")
    assert (row["outcome"], row["text"]) == ("unknown", "no verdict: no DCP was spoken in 2 frames")


OPENED = OPEN % (0x05, "app")
LOGGED_IN = "TX sasl-auth{key=PLAIN, value=secret}\nRX sasl-auth-response{success}\n"
SETUP = {
    "login": "TX sasl-auth{key=PLAIN, value=secret}\nRX sasl-auth-response{autherror}\n",
    "bucket": LOGGED_IN + "TX select-bucket{key=nope}\nRX select-bucket-response{eaccess}\n",
    "open": LOGIN.strip() + "\nTX open{flags=0x5, key=connector-7}\nRX open-response{eaccess}\n",
}
GREETED = "TX hello{features=6|0xa, key=app}\nRX hello-response{success, features=6|0xa}\n"


@pytest.mark.parametrize(
    ("step", "text"),
    [
        ("login", "10.0.0.1 (app): the login was refused with AuthError, 3 times on 3 connections"),
        ("bucket", "10.0.0.1 (app): the bucket nope was refused with Eaccess, 3 times on 3 connections"),
        ("open", "connector-7: DCP_OPEN was refused with Eaccess, 3 times on 3 connections"),
    ],
)
def test_what_one_client_is_refused_again_and_again_is_one_trouble(step: str, text: str, path: Path) -> None:
    healthy = opening(name="healthy") + "STREAM vb=5\n" + LIVE
    (row,) = rows(healthy + f"CONNECT\n{GREETED}{SETUP[step]}FIN TX\n" * 3, path, "trouble")
    assert (row["code"], row["cause"], row["severity"]) == ("setup-refused", f"{step}-refused", "wrong")
    assert (row["text"], row["count"], row["connections"]) == (text, 3, [1, 2, 3])
    assert row["command"] == f"dcpdump conns {path} --connection 1,2,3"


@pytest.mark.parametrize("step", SETUP)
def test_a_refused_setup_alone_in_a_capture_is_a_trouble(step: str, path: Path) -> None:
    (row,) = rows(GREETED + SETUP[step], path, "capture")
    assert (row["outcome"], row["text"][:9]) == ("wrong", "1 problem")


def test_a_refused_add_stream_is_a_trouble_until_the_stream_is_granted(path: Path) -> None:
    asked = CONSUMER + "TX add-stream{vb=5}\nRX add-stream-response{notmyvbucket}\n"
    asked += "TX add-stream{vb=6}\nRX add-stream-response{notmyvbucket}\n"
    (row,) = rows(asked, path, "trouble")
    assert (row["code"], row["cause"]) == ("setup-refused", "add-stream-refused")
    assert row["text"] == "replication:n1: ADD_STREAM of vb 5, 6 was refused with NotMyVbucket"
    granted = (
        "TX add-stream{vb=5}\nRX add-stream-response{success}\nTX add-stream{vb=6}\nRX add-stream-response{success}\n"
    )
    assert texts(asked + granted, path) == []
    assert texts(CONSUMER + "TX add-stream{vb=5}\nRX add-stream-response{keyeexists}\n", path) == []


@pytest.mark.parametrize(
    "accepted",
    [
        GREETED + "TX sasl-auth{key=SCRAM-SHA512, value=x}\nRX sasl-auth-response{notsupported}\n" + LOGIN + OPENED,
        GREETED + LOGIN + "TX open{flags=5, key=app}\nRX open-response{etmpfail}\n" + OPENED,
        GREETED + LOGIN + "TX open{flags=5, key=app}\nRX open-response{etmpfail}\nCONNECT\n" + GREETED + LOGIN + OPENED,
    ],
    ids=["another mechanism", "again", "on another connection"],
)
def test_what_was_refused_and_then_accepted_is_no_trouble(accepted: str, path: Path) -> None:
    assert texts(accepted + "CONTROL enable_noop=true\nSTREAM vb=5\n" + LIVE, path) == []


def test_what_follows_from_a_refused_login_is_not_said_beside_it(path: Path) -> None:
    text = GREETED + SETUP["login"] + "TX select-bucket{key=travel}\nRX select-bucket-response{eaccess}\n"
    found = texts(text + "TX open{flags=5, key=app}\nRX open-response{eaccess}\n", path)
    assert [text for code, text in found if code == "setup-refused"] == ["app: the login was refused with AuthError"]


def test_a_refusal_is_not_judged_where_a_success_may_have_been_lost(path: Path) -> None:
    retried = (
        "TX sasl-auth{key=PLAIN, value=x}\n-RX sasl-auth-response{success}\nTX noop{}\nRX noop-response{success}\n"
    )
    text = GREETED + SETUP["login"] + retried
    assert [code for code, _ in texts(text, path)] == ["bytes-lost"]
    (row,) = (row for row in rows(text, path, "unjudged") if row["code"] == "setup-unknown")
    assert row["text"] == (
        "10.0.0.1:50000 (app): the login was refused with AuthError, and bytes of the connection were lost since: "
        "it may have been accepted later"
    )


def test_a_refusal_that_was_captured_before_its_request_counts_once_and_has_its_name(path: Path) -> None:
    text = GREETED + LOGGED_IN + "RX select-bucket-response{eaccess, opaque=0x77}\n"
    (row,) = rows(text + "TX select-bucket{key=nope, opaque=0x77}\n", path, "trouble")
    assert row["text"] == "10.0.0.1:50000 (app): the bucket nope was refused with Eaccess"


def test_different_clients_that_are_refused_are_one_trouble_where_there_are_many(path: Path) -> None:
    text = "".join(
        f"CONNECT 10.0.0.{9 + at}:50001 10.0.0.1:11210\n{GREETED}{LOGIN}"
        f"TX open{{flags=0x5, key=app-{at}}}\nRX open-response{{eaccess}}\n"
        for at in range(5)
    )
    (row,) = rows(text, path, "trouble")
    assert row["text"] == "5 connections, such as: app-0 (c0): DCP_OPEN was refused with Eaccess"
    assert (row["count"], row["connections"]) == (5, [0, 1, 2, 3, 4])
    assert row["command"] == f"dcpdump conns {path} --connection 0,1,2,3,4"


def test_a_refused_bucket_is_hidden_and_shown_by_conns(path: Path) -> None:
    written(GREETED + SETUP["bucket"], path)
    (row,) = objects(f"dcpdump conns {path}")
    assert (row.get("bucket"), row["bucket_refused"], row["bucket_status"]) == (None, "nope", 0x24)
    assert "nope (Eaccess 0x24)" in run(f"dcpdump conns {path} -q").out
    for command in ("conns", "diagnose"):
        assert "nope" not in run(f"dcpdump {command} {path} -q --redact").out


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ("--connection 9", "no verdict: no connection matches: there are 2 connections in the capture"),
        ("--vbucket 900", "no verdict: no stream matches: there are 2 streams in the capture"),
        ("--since +100s", "no verdict: no stream matches: there are 2 streams in the capture"),
        ("--connection 1", "nothing is wrong: 1 stream (1 quiet) on 1 connection, 96 rules checked"),
    ],
)
def test_where_filters_leave_no_stream_nothing_is_called_healthy(options: str, text: str, path: Path) -> None:
    talk = connections(2, "STREAM vb=5\n" + LIVE) + "WAIT 100\nRX noop{}\nTX noop-response{success}\n"
    (row,) = rows(talk, path, "capture", options)
    assert row["text"] == text


def test_an_open_connection_that_asked_for_no_stream_is_healthy(path: Path) -> None:
    (row,) = rows(opening(), path, "capture")
    assert row["text"] == "nothing is wrong: 0 streams on 1 connection, 96 rules checked"


def test_what_was_captured_twice_counts_once(path: Path) -> None:
    (once,) = rows(opening() + "STREAM vb=5\n" + LIVE, path, "capture")
    both = path.with_name("both.pcap")
    both.write_bytes(path.read_bytes())
    (twice,) = (row for row in objects(f"dcpdump diagnose {path} {both}") if row["type"] == "capture")
    assert (twice["frames"], twice["bytes"]) == (once["frames"], once["bytes"])
    assert f" · {once['bytes']:,} B · " in run(f"dcpdump diagnose {path} {both} -q").out


def half_open(path: Path, syns: int, *, apart_ns: int = 1_000_000_000, then: int | None = None) -> Path:
    """Write a healthy connection, and one whose SYN is sent again; ``then``: the flags of what answers it."""
    asks = TcpTalk(flow("10.0.0.1:40000", "10.0.0.3:11210"), syn=False, start_ns=NOON)
    for _ in range(syns):
        asks.write(0, seq=1000, flags=SYN, ack=0)
        asks.wait(apart_ns)
    if then is not None:
        asks.write(1, seq=0, flags=then, ack=1001)
    healthy = packets(said(opening() + "STREAM vb=5\n" + LIVE))
    both = sorted([*healthy, *asks.packets], key=lambda each: each.ts_ns or 0)
    path.write_bytes(pcap([Record(each.ts_ns or 0, each.data) for each in both]))
    return path


def test_a_server_that_does_not_answer_is_named(path: Path) -> None:
    half_open(path, 4)
    text = "10.0.0.3:11210: no answer to the SYN of 1 connection of 10.0.0.1, sent again for 3 s"
    (row,) = (row for row in objects(f"dcpdump diagnose {path}") if row["type"] == "unjudged")
    assert (row["code"], row["text"], row["count"]) == ("syn-not-answered", text, 1)
    assert f"dcpdump: note: {text}" in run(f"dcpdump conns {path}").err.splitlines()
    hidden = run(f"dcpdump conns {path} --redact --redact-level full")
    assert "10.0.0." not in hidden.out + hidden.err


@pytest.mark.parametrize(
    ("syns", "apart_ns", "then", "options"),
    [
        (1, 1_000_000_000, None, ""),
        (2, 1_000, None, ""),
        (3, 1_000_000_000, RST | ACK, ""),
        (3, 1_000_000_000, SYN | ACK, ""),
        (4, 1_000_000_000, None, "--host 10.0.0.2"),
        (4, 1_000_000_000, None, "--until +1s"),
    ],
    ids=["once", "captured twice", "refused", "late", "not wanted", "until"],
)
def test_a_syn_that_may_have_been_answered_is_not_said(
    syns: int, apart_ns: int, then: int | None, options: str, path: Path
) -> None:
    half_open(path, syns, apart_ns=apart_ns, then=then)
    found = objects(f"dcpdump diagnose {path} {options}")
    assert [row["code"] for row in found if row["type"] == "unjudged" and row["code"] == "syn-not-answered"] == []
