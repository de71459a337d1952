"""What a diagnosis makes of conversations: which troubles, grouped how, in which order, and what is not judged."""

import re
from pathlib import Path

import pytest

from dcpdump.check.rules import RULES
from tests.support.check_cases import CONSUMER
from tests.support.console import run
from tests.support.conversation import LOGIN, OPEN, opening, packets, said
from tests.support.diagnoses import objects, rows, written
from tests.support.packets import ACK, NOON, RST, SYN, TcpTalk, flow
from tests.support.secret_talk import saved

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


def fails(vbucket: int, status: int, start: int = 2) -> str:
    return f"""STREAM vb={vbucket}, start-seqno={start}
RX snapshot-marker{{start={start}, end=9, flags=0x5}}
RX mutation{{seqno={start + 1}}}
RX stream-end{{status={status}}}
WAIT 5
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "talk.pcap"


def told(text: str, path: Path) -> str:
    """Return the troubles of a conversation: how bad, which, and what is said."""
    each = "{severity} {code} ({cause}): {text}"
    return "; ".join(each.format(**row) for row in rows(text, path, "trouble"))


def outcome(text: str, path: Path, options: str) -> str:
    """Return the outcome of a diagnosis, and what was not judged."""
    (capture,) = rows(text, path, "capture", options)
    said = [f"{capture['outcome']}: {re.sub(', [0-9]+ rules checked', '', capture['text'])}"]
    for row in objects(f"dcpdump diagnose {path} {options}"):
        if row["type"] == "unjudged":
            said.append(f"{row['code']} ({row['count']}): {row['text']}: {row['command'].replace(str(path), 'c')}")
    return "; ".join(said)


def texts(text: str, path: Path) -> list[tuple[str, str]]:
    return [(row["code"], row["text"]) for row in rows(text, path, "trouble")]


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


BACK = "TX stream-request{{vb={0}, start=100, vbucket-uuid=0xa}}\n"
BACK += "RX stream-request-response{{rollback, rollback-seqno={1}}}\n"
FROM_THERE = (
    BACK + "TX stream-request{{vb={0}, start={1}}}\nRX stream-request-response{{success, failover-log=0xfeed:0}}\n"
)
UUID = "the server's history does not have the client's vbucket uuid"


def test_a_capture_with_rollbacks_does_not_begin_with_nothing_is_wrong(path: Path) -> None:
    written(opening() + FROM_THERE.format(1, 0) + DAY, path)
    printed = run(f"dcpdump diagnose {path} -q")
    assert (printed.code, printed.out.splitlines()[-4:-2]) == (
        0,
        [
            "1 stream rolled back, and nothing is wrong since: 1 stream (1 quiet) on 1 connection, "
            f"{len(RULES)} rules checked",
            f"note         vb 1 of app was rolled back to 0: {UUID}",
        ],
    )
    assert run(f"dcpdump diagnose {path} -q --fail-on note").code == 1
    written(opening() + BACK.format(1, 0) + DAY, path)
    conclusion = "1 stream rolled back, and nothing else is wrong, as far as was captured: "
    assert conclusion in run(f"dcpdump diagnose {path} -q").out


def test_how_to_go_on_is_said_of_the_latest_request(path: Path) -> None:
    sent = "TX stream-request{vb=5, start-seqno=%d, vbucket-uuid=%s}\nRX stream-request-response{%s}\n"
    first = sent % (100, "0xfeed", "rollback, rollback-seqno=40")
    other, granted = (
        sent % (80, "0xbeef", "rollback, rollback-seqno=0"),
        sent % (0, "0", "success, failover-log=0xfeed:0"),
    )
    notes = rows(opening() + first + other + first + granted, path, "trouble")
    advice = [[line.partition(" (")[0] for line in each["follows"] if "start 40" in line] for each in notes]
    assert advice == 2 * [["it could have asked: start 40, snapshot 40..40, uuid 0xfeed, flags 0x0"]]
    (loop,) = rows(opening() + 4 * BACK.format(1, 0) + FROM_THERE.format(1, 0), path, "trouble")
    assert (loop["code"], [line for line in loop["follows"] if "start 0" in line]) == ("rollback-loop", [])


def test_what_rules_say_of_what_is_stuck_comes_with_it(path: Path) -> None:
    text = opening() + "TX stream-request{vb=5, opaque=0x77}\nHEX RX 81540000000000000000001000000077"
    (row,) = rows(f"{text}{0:016x}{0xFEED:016x}{0:016x}\n{DAY}", path, "trouble")
    assert (row["cause"], row["follows"]) == (
        "not-answered",
        [
            "STREAM_REQ was not answered in 60.0 s (DCP107)",
            "GET_FAILOVER_LOG response with opaque 0x00000077 has the opaque of STREAM_REQ of frame 11, which waits "
            "for its answer (DCP106)",
        ],
    )


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
    conclusion = "1 suspicious finding, and nothing is certain to be wrong: 2 streams "
    assert f"\n{conclusion}" in run(f"dcpdump diagnose {path} -q").out


def test_a_noop_without_an_answer_is_said_once(path: Path) -> None:
    found = texts(opening() + "STREAM vb=5\n" + LIVE + "RX noop{}\nWAIT 20\nRX mutation{seqno:3}\n", path)
    assert [code for code, _ in found].count("noop-not-answered") + [text for _, text in found].count(
        "NOOP without an answer (DCP511)"
    ) == 1


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


WAIT_HOURS = opening(controls="set_noop_interval=20") + "STREAM vb=5\nRX snapshot-marker{start=0, end=99, flags=0x5}\n"
WAIT_HOURS += "".join(f"WAIT 3600\nRX mutation{{seqno:{at}, key=k{at}}}\n" for at in range(1, 100))
OF_TWO = connections(2, "") + "ON 0\nSTREAM vb=1\n" + LIVE + ENDED + "ON 1\n" + streams(range(2, 5), LIVE + ENDED) + DAY
OF_FIVE = "".join(
    f"CONNECT 10.0.0.{9 + at}:50001 10.0.0.1:11210\n{opening(name=f'app-{at}')}STREAM vb={at}\n{LIVE}{ENDED}"
    for at in range(5)
)
WRONG = "TX stream-request{vb=5, start=100, vbucket-uuid=0xa, snap-start-seqno=90, snap-end-seqno=120}\n"
WRONG += "RX stream-request-response{rollback, rollback-seqno=95}\n"
WRONG += "TX stream-request{vb=5, start=90, vbucket-uuid=0xa}\n"
WRONG += "RX stream-request-response{success, failover-log=0xb:95|0xa:0}\n"
DROPPED = 'STREAM vb=5, value={"collections":["8"]}\nRX snapshot-marker{start=0, end=2, flags=0x5}\n'
DROPPED += "RX system-event{seqno=2, event=1, version=0, manifest-uid=6, scope-id=8, collection-id=8}\n"
DROPPED += "RX stream-end{status=7}\n"
ASKED = "TX stream-request{vb=5, start-seqno=4, vbucket-uuid=1, snap-start-seqno=4, snap-end-seqno=4}\n"
ASKED += "RX stream-request-response{rollback, rollback-seqno=0}\n"
ELSEWHERE = "CONNECT 10.0.0.1:50009 10.0.0.7:11210\n" + opening() + "STREAM vb=9\n"
SILENT = opening(name="dead", controls="set_noop_interval=20") + "STREAM vb=5\n" + LIVE
FULL = "STREAM vb=5\nRX snapshot-marker{start=0, end=9, flags=0x5}\n" + "".join(
    f"RX mutation{{seqno:{seqno}, value={'x' * 60}}}\n" for seqno in range(1, 4)
)
WINDOW = opening(controls="connection_buffer_size=300") + FULL
LOSSY = opening() + "STREAM vb=5\nRX snapshot-marker{start=0, end=3, flags=0x5}\n-RX mutation{seqno:1}\n"
LOSSY += "RX mutation{seqno:2}\nRX mutation{seqno:3}\n" + DAY
ADD, ADDED = ("".join(f"TX add-stream{{vb={vb}}}\nRX add-stream-response{{{answer}}}\n" for vb in (5, 6))
              for answer in ("notmyvbucket", "success"))  # fmt: skip
THEN = "CONTROL enable_noop=true\nSTREAM vb=5\n" + LIVE
SCRAM = "TX sasl-auth{key=SCRAM-SHA512, value=x}\nRX sasl-auth-response{notsupported}\n"
FOLLOWS = "TX select-bucket{key=travel}\nRX select-bucket-response{eaccess}\nTX open{flags=5, key=app}\n"
FOLLOWS += "RX open-response{eaccess}\n"
NOT_YET = "TX open{flags=5, key=app}\nRX open-response{etmpfail}\n"
REPEATED = "TX stream-request{{vb={}}}\nRX stream-request-response{{{}}}\nWAIT 5\n"
#: What are troubles: severity, code and cause, and text.
CASES = {
    "streams of one connection and cause": (
        opening() + streams(range(3, 8), LIVE + ENDED) + "STREAM vb=20\n" + LIVE + ENDED + DAY,
        "wrong ended (abandoned): 6 streams of app ended (Slow) and were not requested again: vb 3-7, 20"),
    "a finding about the connection": (WAIT_HOURS, "note suspicious (DCP513): NOOPs are missing (DCP513, twice)"),
    "equal ones, of which the larger comes first": (OF_TWO,
        "wrong ended (abandoned): 3 streams of app-1 (c1) ended (Slow) and were not requested again: vb 2-4; wrong "
        "ended (abandoned): vb 1 of app-0 (c0) ended (Slow) and was not requested again"),
    "the same of many connections": (OF_FIVE + DAY,
        "wrong ended (abandoned): 5 streams of 5 connections ended (Slow) and were not requested again: vb 0-4"),
    "requested again": (opening() + "STREAM vb=5\n" + LIVE + ENDED + "WAIT 1\nSTREAM vb=5, start-seqno=2\n" + DAY, ""),
    "rollbacks to 0": (opening() + "".join(FROM_THERE.format(vbucket, 0) for vbucket in range(20)) + DAY,
        "note rollbacks (uuid): 20 streams of app were rolled back to 0: the server's history does not have the "
        "client's vbucket uuid"),
    "no rollback": (opening() + "STREAM vb=1\n" + DAY, ""),
    "a rollback": (opening() + BACK.format(1, 90) + DAY, ""),
    "a rollback to another seqno than was due": (opening() + WRONG,
        "wrong violation (DCP241): Rollback to another seqno than was due (DCP241)"),
    "a rollback, and no request since": (opening() + ASKED + ELSEWHERE + DAY,
        "wrong rolled-back (not-asked-again): vb 5 of app (c0) was rolled back and not requested again"),
    "a stream of collections that were dropped": (opening(0x25, collections=True) + DROPPED + DAY, ""),
    "a producer that went silent": (SILENT + "CONNECT\n" + opening(name="alive") + DAY,
        "wrong stuck (noops-missing): vb 5 of dead (c0) is stuck: the producer is silent, and sends no NOOP"),
    "a client that closed as the producer was silent": (SILENT + "WAIT 380\nFIN TX\nFIN RX\n",
        "wrong connection-closed (connection-closed-by-client): the connection of dead was closed by the client at "
        "12:06:20.018 with vb 5 open"),
    "blocked for a moment": (WINDOW + "TX buffer-acknowledgement{buffer-bytes=300}\n" + DAY,
        "wrong stuck (snapshot-incomplete): vb 5 of app is stuck in the middle of a snapshot"),
    "blocked": (WINDOW + DAY,
        "wrong blocked (window-full): the producer of app is blocked by flow control since 12:00:00.018, 60 s up to "
        "the end"),
    "bytes were lost": (LOSSY,
        "note bytes-lost (bytes-lost): 60 bytes of app are not in the capture (1 gap, of what the server sent)"),
    "a stream that is refused again and again, and may be elsewhere": (
        opening() + "STREAM vb=4\n" + LIVE
        + (REPEATED.format(5, "notmyvbucket") + REPEATED.format(6, "notmyvbucket")) * 4,
        "note refusals (not-my-vbucket): 2 streams of app were refused with NotMyVbucket again and again: vb 5, 6"),
    "one whose client goes on asking one node, and is connected to another": (
        ELSEWHERE + "CONNECT\n" + opening() + REPEATED.format(5, "notmyvbucket") * 4 + "ON 0\n" + DAY,
        "wrong refused (not-my-vbucket): vb 5 of app (c1) was refused with NotMyVbucket and not granted since"),
    "a stream that is refused again and again, by a server that rests": (
        opening() + ("TX stream-request{vb=5}\nRX stream-request-response{bucketpaused}\nWAIT 5\n") * 4,
        "note refusals (temporary-failure): vb 5 of app was refused with BucketPaused again and again"),
    "a stream that is requested again and again while it is open": (
        opening() + "STREAM vb=5\n" + LIVE + REPEATED.format(5, "keyeexists") * 4,
        "note refusals (still-open): vb 5 of app was refused with KeyEexists again and again"),
    "one that fails again and again": (opening() + fails(5, 5) * 4 + "STREAM vb=6\n",
        "wrong ended-repeatedly (ended-repeatedly): vb 5 of app ended (BackfillFail) 4 times in 15 s, and got no "
        "further"),
    "some that fail again and again, and then go on": (
        opening() + (fails(5, 4) + fails(6, 4)) * 4
        + "".join(f"STREAM vb={vb}, start-seqno=2\n{NEXT}" for vb in (5, 6)),
        "note ended-repeatedly (ended-repeatedly): 2 streams of app ended (Slow) again and again: vb 5, 6"),
    "one that fails no more than three times": (opening() + fails(5, 5) * 3 + "STREAM vb=5\n", ""),
    "one that gets further each time": (
        opening() + "".join(fails(5, 4, at) for at in range(2, 8)) + "STREAM vb=5, start-seqno=8\n", ""),
    "one that is as it should be each time": (opening() + fails(5, 0) * 9, ""),
    "one whose client goes back by a little each time": (
        opening() + "".join(BACK.format(5, 0).replace("start=100", f"start={at}") for at in range(100, 96, -1)) + DAY,
        "wrong rollback-loop (rollback-loop): vb 5 of app was rolled back to 0, 4 times in 7 ms: a loop"),
    "one whose user lost its access": (
        opening(collections=True) + "STREAM vb=4\n" + LIVE + "STREAM vb=5\nRX stream-end{status=8}\n" + DAY,
        "wrong ended (abandoned): vb 5 of app ended (LostPrivileges) and was not requested again"),
    "one that was refused no more than three times": (
        opening() + "STREAM vb=5\n" + LIVE + REPEATED.format(5, "keyeexists") * 3, ""),
    "one that was refused for less than ten seconds": (
        opening() + "STREAM vb=4\n" + LIVE + REPEATED.format(5, "etmpfail").replace("WAIT 5", "WAIT 1") * 9, ""),
    "one that was granted at last": (opening() + REPEATED.format(5, "etmpfail") * 9 + "STREAM vb=5\n" + LIVE, ""),
    "a refused ADD_STREAM": (CONSUMER + ADD,
        "wrong setup-refused (add-stream-refused): replication:n1: ADD_STREAM of vb 5, 6 was refused with "
        "NotMyVbucket"),
    "a refused ADD_STREAM, granted later": (CONSUMER + ADD + ADDED, ""),
    "an ADD_STREAM of what exists": (CONSUMER + ADD.replace("notmyvbucket", "keyeexists"), ""),
    "a mechanism that was refused, and another": (GREETED + SCRAM + LOGIN + OPENED + THEN, ""),
    "an OPEN that was refused, and again": (GREETED + LOGIN + NOT_YET + OPENED + THEN, ""),
    "an OPEN that was refused for now": (GREETED + LOGIN + NOT_YET,
        "note setup-refused (open-refused): app: DCP_OPEN was refused with Etmpfail"),
    "an OPEN that was refused, and on another connection": (
        GREETED + LOGIN + NOT_YET + "CONNECT\n" + GREETED + LOGIN + OPENED + THEN, ""),
    "a login that was refused, and not on a later connection": (
        GREETED + SETUP["login"] + "CONNECT\n" + GREETED + LOGIN + OPENED + THEN,
        "note setup-refused (login-refused): 10.0.0.1:50000 (c0) (app): the login was refused with AuthError"),
    "one that was captured late, and not on a later connection": (
        GREETED + "----\n" + SETUP["login"] + "CONNECT\n" + GREETED + LOGIN + OPENED + THEN,
        "note setup-refused (login-refused): 10.0.0.1:50000 (c0): the login was refused with AuthError"),
    "a bucket that was refused, and not on a later connection": (
        GREETED + SETUP["bucket"].replace("nope", "travel") + "CONNECT\n" + GREETED + LOGIN + OPENED + THEN,
        "note setup-refused (bucket-refused): 10.0.0.1:50000 (c0) (app): the bucket travel was refused with Eaccess"),
    "a bucket that was refused, and another on a later connection": (
        GREETED + SETUP["bucket"] + "CONNECT\n" + GREETED + LOGIN + OPENED + THEN,
        "wrong setup-refused (bucket-refused): 10.0.0.1:50000 (c0) (app): the bucket nope was refused with Eaccess"),
    "a refused login, and what follows from it": (GREETED + SETUP["login"] + FOLLOWS,
        "wrong setup-refused (login-refused): app: the login was refused with AuthError"),
    "a refusal that was captured before its request": (
        GREETED + LOGGED_IN
        + "RX select-bucket-response{eaccess, opaque=0x77}\nTX select-bucket{key=nope, opaque=0x77}\n",
        "wrong setup-refused (bucket-refused): 10.0.0.1:50000 (app): the bucket nope was refused with Eaccess"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "wanted"), CASES.values(), ids=CASES)
def test_what_is_wrong_is_a_trouble(text: str, wanted: str, path: Path) -> None:
    assert told(text, path) == wanted


OLD = f"CONNECT 10.0.0.9:50001 10.0.0.1:11210\n{opening()}STREAM vb=7\n{LIVE}RST TX\n"
NEW = f"CONNECT 10.0.0.8:50001 10.0.0.1:11210\n{opening()}STREAM vb=7, start-seqno=2\n{NEXT}"
BEGUN = "".join(f"CONNECT 10.0.0.9:{50_100 + at} 10.0.0.1:11210\nTX open{{flags=1, key=x}}\n" for at in range(60))
RX_ONLY = "\n".join(
    ("-" if line.startswith(("TX", "STREAM", "CONTROL")) else "") + line
    for line in (opening() + "STREAM vb=5\n" + LIVE).strip().splitlines()
)
RETRIED = "TX sasl-auth{key=PLAIN, value=x}\n-RX sasl-auth-response{success}\nTX noop{}\nRX noop-response{success}\n"
TALK = connections(2, "STREAM vb=5\n" + LIVE) + "WAIT 100\nRX noop{}\nTX noop-response{success}\n"
#: What is chosen, the outcome, and what is not judged, with the command that shows it.
OUTCOMES = {
    "a capture": (opening() + "STREAM vb=5\n" + LIVE, "",
        "healthy: nothing is wrong: 1 stream (1 open and flowing) on 1 connection"),
    "no stream": (opening(), "", "healthy: nothing is wrong: 0 streams on 1 connection"),
    "an answer that may be lost": (
        opening() + "TX stream-request{vb=5}\n-RX stream-request-response{success}\nRX noop{}\n", "",
        "unknown: no verdict: what became of 1 stream is unknown; streams-unknown (1): vb 5 of app is not judged (no "
        "answer to its request was captured: 40 bytes of the connection were lost): dcpdump streams c --connection 0 "
        "--cause bytes-lost"),
    "key-value traffic alone": ("TX hello{features=6, key=app}\nRX hello-response{success, features=6}\n", "",
        "unknown: no verdict: no DCP was spoken in 2 frames"),
    "a stream's end alone": ("TX close-stream{vb=5}\nRX close-stream-response{success}\n", "",
        "unknown: no verdict: the capture holds too little to judge"),
    "a note that a suspicious finding led to": (
        opening() + "STREAM vb=5\nRX snapshot-marker{start=3, end=4, flags=1}\n"
        "TX snapshot-marker-response{einval, opaque=0x1005}\nRST TX\n", "",
        "note: 1 suspicious finding, and nothing is certain to be wrong: 1 stream (1 ended) on 1 connection"),
    "a refused login": (GREETED + SETUP["login"], "", "wrong: 1 problem: 0 streams on 0 connections"),
    "a refused bucket": (GREETED + SETUP["bucket"], "", "wrong: 1 problem: 0 streams on 0 connections"),
    "a refused OPEN": (GREETED + SETUP["open"], "", "wrong: 1 problem: 0 streams on 1 connection"),
    "a late join": (opening() + "STREAM vb=5\n" + LIVE + "----\n" + NEXT + DAY, "",
        "healthy: nothing is wrong, as far as was captured: 1 stream (1 quiet) on 1 connection; starts-late (1): "
        "10.0.0.1:50000: the capture starts after the connection: what was negotiated and requested before is not "
        "known: dcpdump conns c; flow-control-unknown (1): 10.0.0.1:50000: flow control: the buffer size was not "
        "captured: dcpdump flow c; rules-unknown (1): rule DCP223, once: the start of the connection was not "
        "captured: dcpdump check c --select DCP223"),
    "one direction": (RX_ONLY, "",
        "note: nothing is wrong, as far as was captured: 1 stream (1 open and flowing) on 1 connection; "
        "one-direction (1): 10.0.0.1:50000: messages of only one direction of the connection were captured: "
        "requests, answers, NOOPs and acknowledgements cannot be compared: dcpdump conns c; rules-unknown (1): rule "
        "DCP223, once: the start of the connection was not captured: dcpdump check c --select DCP223"),
    "a client of the same name": (OLD + NEW + DAY, "",
        "healthy: nothing is wrong, as far as was captured: 2 streams (1 ended, 1 quiet) on 2 connections; "
        "streams-unknown (1): vb 7 of app (c0) stopped, and another client, or the same one restarted, requested "
        "what follows (connection reset by its client at 12:00:00.016, no STREAM_END; may have been reopened on "
        "connection 1 at 12:00:00.027 from seqno 2: its name and the seqno agree, but its host is another): dcpdump "
        "streams c --connection 0 --cause may-be-reopened"),
    "many connections": (connections(1, "") + BEGUN, "",
        "healthy: nothing is wrong, as far as was captured: 0 streams on 61 connections; one-direction (60): x "
        "(c1), x (c2), x (c3) and 57 more: messages of only one direction of the connection were captured: "
        "requests, answers, NOOPs and acknowledgements cannot be compared: dcpdump conns c --connection 1-60"),
    "a success may be lost": (GREETED + SETUP["login"] + RETRIED, "",
        "unknown: no verdict: the capture holds too little to judge; setup-unknown (1): 10.0.0.1:50000 (app): the "
        "login was refused with AuthError, and bytes of the connection were lost since: it may have been accepted "
        "later: dcpdump conns c --connection 0; rules-unknown (1): rule DCP202, once: 24 bytes were lost before "
        "frame 7: dcpdump check c --select DCP202"),
    "no connection is chosen": (TALK, "--connection 9",
        "unknown: no verdict: no connection matches: there are 2 connections in the capture"),
    "no vbucket is chosen": (TALK, "--vbucket 900",
        "unknown: no verdict: no stream matches: there are 2 streams in the capture"),
    "no time is chosen": (TALK, "--since +100s",
        "unknown: no verdict: no stream matches: there are 2 streams in the capture"),
    "a connection is chosen": (TALK, "--connection 1", "healthy: nothing is wrong: 1 stream (1 quiet) on 1 connection"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "options", "wanted"), OUTCOMES.values(), ids=OUTCOMES)
def test_nothing_is_called_healthy_that_was_not_judged(text: str, options: str, wanted: str, path: Path) -> None:
    assert outcome(text, path, options) == wanted


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
    return saved(both, path)


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
