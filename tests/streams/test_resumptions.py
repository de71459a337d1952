"""Resumptions: a client that is restarted under other ids continues its streams; another one does not."""

from pathlib import Path

import pytest

from dcpdump.streams.clients import FURTHER
from dcpdump.streams.verdict import Judge
from tests.support.conversation import opening
from tests.support.diagnoses import objects, written
from tests.support.ledgers import judged, ledger, verdicts
from tests.test_bounds import steps

SERVER = "10.0.0.1:11210"
HOST, OTHER_HOST = "10.0.7.30", "10.0.7.31"
CONNECTOR = "kafka-connector/4.1.6 (orders)"
CLOSED = "TX close-stream{vb=7}\nRX close-stream-response{success}\n"
GONE, BACK = "RST TX\nWAIT 5\n", "WAIT 60\nRX noop{}\nTX noop-response{success}\n"
RESET = "ended (connection reset by its client at 12:00:00.016, no STREAM_END; "
AGREE = "its name and the seqno agree, but "


def connector(client: str, agent: str = CONNECTOR, bucket: str = "travel", number: str = "0000000000000001") -> str:
    """Return the beginning of a connection of a client that says by JSON who it is."""
    who = "#" + f'{{"i":"{client}/{number}","a":"{agent}"}}'.encode().hex()
    return opening(name=who, agent=who, bucket=bucket)


def member(client: str, name: str, agent: str = "gocbcore/v10.2.9") -> str:
    """Return the beginning of a connection of which only the agent has the client's id."""
    return opening(name=name, agent="#" + f'{{"a":"{agent}","i":"{client}/0000000000000001"}}'.encode().hex())


def stream(start: int = 0, last: int = 2, vb: int = 7, uuid: int = 0xFEED) -> str:
    """Return a stream from a seqno to another: of a history, unless it is for all."""
    request = f"STREAM vb={vb}, start-seqno={start}, vbucket-uuid={uuid if start else 0}\n"
    marker = f"RX snapshot-marker{{start={start}, end={last}, flags=0x1}}\n" if last > start else ""
    return request + marker + "".join(f"RX mutation{{seqno:{each}}}\n" for each in range(start + 1, last + 1))


def two(first: str, second: str, *, asked: str, host: str = HOST, ends: str = GONE) -> str:
    """Return two connections of one host to one server; the first is over before the second begins."""
    old = f"CONNECT {HOST}:40000 {SERVER}\n{first}{stream()}{ends}"
    return f"{old}CONNECT {host}:40100 {SERVER}\n{second}{asked}{BACK}"


A, B, C = "67CC1752DE27660B", "8A1C09F3D2E47710", "99D20BFA86A41C3E"
GROUP = "go-dcp_7d444840-9dc0-11d1-b245-5ffdce74fad2", "go-dcp_550e8400-e29b-41d4-a716-446655440000"
INDEX, SAME_INDEX, OTHER_INDEX = (
    f"fts:idx_{each}" for each in ("4c1c55-1dfd4ef3", "4c1c55-0a7710ff", "99d20b-0a7710ff")
)
REOPENED = "reopened on connection 1 at 12:00:05.027 from seqno 2 (inferred from host, name and seqno))"
MAY_BE = "may have been reopened on connection 1 at 12:00:05.027 from seqno 2: "
ABANDONED = "note: abandoned: not requested again in 65 s)"


ELSEWHERE_NOW = "TX stream-request{vb=7, start-seqno=2}\nRX stream-request-response{notmyvbucket}\n"
RESTARTED = {
    "another id": (two(connector(A), connector(B), asked=stream(2, 4)), REOPENED),
    "another id, of a connection too": (two(connector(A, number="7"), connector(B, number="12"), asked=stream(2, 4)),
        REOPENED),
    "another id of a client with a name": (two(member(A, INDEX), member(B, SAME_INDEX), asked=stream(2, 4)), REOPENED),
    "another UUID": (two(member(A, GROUP[0]), member(B, GROUP[1]), asked=stream(2, 4)), REOPENED),
    "an older seqno": (two(connector(A), connector(B), asked=stream(1, 4)),
        "reopened on connection 1 at 12:00:05.027 from seqno 1 (inferred from host, name and seqno))"),
    "refused": (two(connector(A), connector(B), asked=ELSEWHERE_NOW), REOPENED.replace("reopened", "requested again")),
    "all again": (two(connector(A), connector(B), asked=stream(0, 4)),
        "unknown: may have been reopened on connection 1 at 12:00:05.027 from seqno 0: its name agrees, but it "
        "asked for all)"),
    "another host": (two(connector(A), connector(B), asked=stream(2, 4), host=OTHER_HOST),
        f"unknown: {MAY_BE}{AGREE}its host is another)"),
    "another host, all": (two(connector(A), connector(B), asked=stream(0, 4), host=OTHER_HOST), ABANDONED),
    "beyond what came": (two(connector(A), connector(B), asked=stream(3, 4)), ABANDONED),
    "another history": (two(connector(A), connector(B), asked=stream(2, 4, uuid=0xBEEF)), ABANDONED),
    "another vbucket": (two(connector(A), connector(B), asked=stream(2, 4, vb=8)), ABANDONED),
    "other collections": (
        two(connector(A), connector(B), asked=stream(2, 4).replace("vb=7,", 'vb=7, value={"collections":["8"]},')),
        ABANDONED),
    "another bucket": (two(connector(A), connector(B, bucket="hotels"), asked=stream(2, 4)), ABANDONED),
    "another agent": (two(connector(A), connector(B, "kafka-connector/4.1.6 (x)"), asked=stream(2, 4)), ABANDONED),
    "another index": (two(member(A, INDEX), member(B, OTHER_INDEX), asked=stream(2, 4)), ABANDONED),
    "another name": (two(member(A, INDEX), member(B, GROUP[0]), asked=stream(2, 4)), ABANDONED),
    "another name, all": (two(member(A, INDEX), member(B, GROUP[0]), asked=stream(0, 4)), ABANDONED),
}  # fmt: skip


@pytest.mark.parametrize(("conversation", "became"), RESTARTED.values(), ids=RESTARTED)
def test_a_client_that_is_restarted_continues_where_its_stream_ended(conversation: str, became: str) -> None:
    assert judged(conversation)[0].replace(RESET, "") == became


def of_group(*, ends: str, asked: str) -> str:
    """Return two members of a group that share vbuckets out; a stream of the first goes to the second."""
    return (
        f"CONNECT {HOST}:40000 {SERVER}\n{member(A, GROUP[0])}{stream()}"
        f"CONNECT {HOST}:40100 {SERVER}\n{member(B, GROUP[1])}{stream(vb=8)}ON 0\n{ends}ON 1\n{asked}{BACK}"
    )


def beside(third: str) -> str:
    """Return two clients of one name that stream one vbucket at the same time, and what comes after both are over."""
    lives = "".join(f"CONNECT {HOST}:4000{at} {SERVER}\n{connector(each)}{stream()}" for at, each in enumerate((A, B)))
    return f"{lives}ON 0\nRST TX\nON 1\n{GONE}CONNECT {HOST}:40100 {SERVER}\n{third}{stream(2, 4)}{BACK}"


EMPTY = stream(0, 0, vb=9)
LIVES = "".join(
    f"CONNECT {HOST}:4000{at} {SERVER}\n{connector(client)}{stream(at, at + 1)}{GONE}"
    for at, client in enumerate((A, B, C))
)
OLD = f"CONNECT {HOST}:40000 {SERVER}\n{connector(A)}"
ELSEWHERE = f"{OLD}{stream()}RX noop{{}}\nWAIT 5\nCONNECT {OTHER_HOST}:40100 {SERVER}\n{connector(B)}{stream(2, 4)}"
ELSEWHERE += "WAIT 5\nON 0\n%sFIN RX\nON 1\n" + BACK
REFUSED = "TX stream-request{vb=7, start-seqno=2}\nRX stream-request-response{etmpfail}\n" + GONE
NEW = f"CONNECT %s:40100 {SERVER}\n{connector(B)}{stream(2, 4)}{BACK}"
#: What became of the first streams.
CASES = {
    "a vbucket without documents, with the others of its connection": (
        two(connector(A), connector(B), asked=stream(2, 4) + EMPTY, ends=EMPTY + GONE), 2,
        "ended (connection reset by its client at 12:00:00.018, no STREAM_END; reopened on connection 1 at "
        "12:00:05.029 from seqno 2 (inferred from host, name and seqno)); and ended (connection reset by its client "
        "at 12:00:00.018, no STREAM_END; reopened on connection 1 at 12:00:05.034 from seqno 0 (inferred from host, "
        "name and seqno))"),
    "restarted again and again": (LIVES, 2,
        "ended (connection reset by its client at 12:00:00.015, no STREAM_END; reopened on connection 1 at "
        "12:00:05.026 from seqno 1 (inferred from host, name and seqno)); and ended (connection reset by its client "
        "at 12:00:05.030, no STREAM_END; reopened on connection 2 at 12:00:10.041 from seqno 2 (inferred from host, "
        "name and seqno))"),
    "lost by a member of a group, and taken by another": (of_group(ends=GONE, asked=stream(2, 4)), 1,
        "unknown: ended (connection reset by its client at 12:00:00.031, no STREAM_END; may have been reopened on "
        "connection 1 at 12:00:05.032 from seqno 2: its name and the seqno agree, but both connections were open at "
        "one time)"),
    "closed by a member of a group, and taken by another": (of_group(ends=CLOSED, asked=stream(2, 4)), 1,
        "ended (closed by its consumer at 12:00:00.032; may have been reopened on connection 1 at 12:00:00.033 from "
        "seqno 2: its name and the seqno agree, but both connections were open at one time)"),
    "restarted elsewhere before the server closed the connection": (ELSEWHERE % "", 1,
        "unknown: ended (connection closed by its server at 12:00:10.032, no STREAM_END; may have been reopened on "
        "connection 1 at 12:00:05.027 from seqno 2: its name and the seqno agree, but its host is another)"),
    "restarted elsewhere, and there meanwhile": (ELSEWHERE % "TX noop-response{success}\n", 1,
        "wrong: ended (connection closed by its server at 12:00:10.033, no STREAM_END; abandoned: not requested "
        "again in 60 s)"),
    "two of one name, either of which may be restarted": (beside(connector(C)), 2,
        "unknown: ended (connection reset by its client at 12:00:00.031, no STREAM_END; may have been reopened on "
        "connection 2 at 12:00:05.043 from seqno 2: connection 1, of the same name, had the vbucket open "
        "meanwhile); and unknown: ended (connection reset by its client at 12:00:00.032, no STREAM_END; may have "
        "been reopened on connection 2 at 12:00:05.043 from seqno 2: connection 0, of the same name, had the "
        "vbucket open meanwhile)"),
    "two of one name, one of which continues its own": (beside(connector(B)), 2,
        "note: ended (connection reset by its client at 12:00:00.031, no STREAM_END; abandoned: not requested again "
        "in 65 s); and ended (connection reset by its client at 12:00:00.032, no STREAM_END; reopened on connection "
        "2 at 12:00:05.043)"),
    "asked again for what was refused": (OLD + REFUSED + NEW % HOST, 1,
        "refused (Etmpfail 0x86: the vbucket is still receiving its first disk snapshot; requested again on "
        "connection 1 from seqno 2 (inferred from host, name and seqno))"),
    "asked again on another host for what was refused": (OLD + REFUSED + NEW % OTHER_HOST, 1,
        "unknown: refused (Etmpfail 0x86: the vbucket is still receiving its first disk snapshot; may have been "
        "reopened on connection 1 at 12:00:05.024 from seqno 2: its name and the seqno agree, but its host is "
        "another)"),
    "finished": (f"{OLD}{stream()}RX stream-end{{vb=7, status=0}}\n{GONE}{NEW % HOST}", 1,
        "ended (Ok (0) at 12:00:00.016)"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "count", "said"), CASES.values(), ids=CASES)
def test_a_stream_is_continued_by_its_own_client(text: str, count: int, said: str) -> None:
    assert "; and ".join(judged(text)[:count]) == said


@pytest.mark.parametrize("host", [HOST, OTHER_HOST])
def test_of_names_that_are_hidden_the_same_is_said(host: str, tmp_path: Path) -> None:
    path = written(two(connector(A), connector(B), asked=stream(2, 4), host=host), tmp_path / "c.pcap")
    shown, hidden = (objects(f"dcpdump streams {path}{level}") for level in ("", " --redact-level full"))
    assert [(row["cause"], row["why"]) for row in hidden] == [(row["cause"], row["why"]) for row in shown]


def among(behind: int, start: int, beside: int = 0) -> str:
    """Return a client that is lost and returns, and others of its name: ``beside`` it, and that ask before it does."""
    lost = f"CONNECT {HOST}:40000 {SERVER}\n{connector(A)}{stream()}"
    others = [(at, 0) for at in range(beside)], [(at, start) for at in range(behind)]
    opened, asked = (
        "".join(
            f"CONNECT {HOST}:{41_000 + begins * 1000 + at} {SERVER}\n{connector(f'{at:016X}')}{stream(begins, 10)}"
            for at, begins in some
        )
        for some in others
    )
    return f"{lost}{opened}ON 0\n{GONE}{asked}CONNECT {HOST}:40100 {SERVER}\n{connector(B)}{stream(2, 4)}{BACK}"


@pytest.mark.parametrize(
    ("others", "became"),
    [
        (FURTHER - 2, "reopened on connection 99 at 12:00:06.399 from seqno 2 (inferred from host, name and seqno))"),
        (
            FURTHER,
            "whether it was reopened is unknown: over 100 streams of vbucket 7 may be its consumer's, not all were "
            "compared)",
        ),
    ],
)
def test_a_client_that_returns_behind_too_many_others_is_not_said_to_have_left(others: int, became: str) -> None:
    assert verdicts(among(others, 9))[0] == RESET + became


def test_of_a_client_whose_request_was_not_answered_it_is_unknown_whether_it_returns_behind_too_many_others() -> None:
    unanswered = among(FURTHER, 9).replace(stream(), "TX stream-request{vb=7}\n", 1)
    assert verdicts(unanswered)[0] == (
        "ended (connection reset by its client at 12:00:00.012 before it was answered; whether it was requested again "
        "is unknown: over 100 streams of vbucket 7 may be its consumer's, not all were compared)"
    )


def test_however_many_of_one_name_had_a_vbucket_open_each_that_asks_takes_a_few_steps() -> None:
    def work(count: int) -> int:
        kept = ledger(among(count, 2, beside=count))
        return steps(lambda: Judge(kept).verdict(kept.streams[0]))

    once, twice, four = map(work, (15, 30, 60))
    assert four - twice <= 2.2 * (twice - once)
