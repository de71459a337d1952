"""dcpdump streams, conns, rollbacks, flow, key, stats: what they print, which of it, in which order, and the lag."""

import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dcpdump.batch.statistics import Distribution, Timeline
from dcpdump.net.packet import Packet
from dcpdump.streams.causes import Cause, Reason, Situation, Verdict, VerdictKind
from dcpdump.wire.encode import encode
from tests.support.check_cases import PLAIN
from tests.support.console import run
from tests.support.conversation import opening, packets, said
from tests.support.diagnoses import objects, written
from tests.support.hostile import short_connections
from tests.support.packets import TcpTalk
from tests.support.secret_talk import saved

STOPPED = "samples/stopped.pcap"


@pytest.mark.parametrize(
    ("options", "vbuckets"),
    [
        *(
            (every, [417, 12, 13])
            for every in ("", "--connection 0", "--host 10.0.5.9", "--port 11210", "--until +30s")
        ),
        *((one, [417]) for one in ("--stuck", "--ended", "--cause abandoned")),
        *((two, [12, 13]) for two in ("--cause idle,flowing", "--vbucket 0-20")),
        *(("--vbucket '!12'", [417, 13]), ("--since +70s", [13])),
        *(
            (none, [])
            for none in ("--rolled-back", "--cause idle --stuck", "--connection 1", "--host 10.0.0.8", "--stream-id 1")
        ),
    ],
)
def test_filters_choose_streams(options: str, vbuckets: list[int]) -> None:
    assert [row["vbucket"] for row in objects(f"dcpdump streams samples/stopped.pcap {options}")] == vbuckets


@pytest.mark.parametrize(
    "options", ["--until +30s --idle 40", "--vbucket 12,13 --idle 3600", "--vbucket 12 --idle inf"]
)
def test_until_and_idle_say_how_long_silence_lasts_and_has_to_last(options: str) -> None:
    found = objects(f"dcpdump streams samples/stopped.pcap {options}")
    assert {row["state"] for row in found} == {"open and flowing"}


@pytest.mark.parametrize("command", ["conns", "streams", "flow", "read", "stats", "check", "top --once"])
def test_the_name_of_a_bucket_is_hidden_wherever_it_stands(command: str) -> None:
    """A replica's connection is named after it."""
    for form in ("table" if command == "read" else "text", "ndjson"):
        words = f"dcpdump {command} samples/replica.pcap -q -f {form}"
        assert "travel" not in run(f"{words} --redact").out
        assert "travel" in run(words).out or command in ("check", "stats"), "the test would not see it"


@pytest.mark.parametrize("depth", [98, 900, 990, 30_000])
def test_json_that_nests_deep_ends_no_command(tmp_path: Path, depth: int) -> None:
    nested = b"[" * depth + b"]" * depth
    sent = TcpTalk().send(0, encode("HELLO", {"features": [0x0A]}, key=b'{"a":' + nested + b"}"))
    sent.send(0, encode("DCP_OPEN", {"flags": 1}, key=b"me"))
    sent.send(0, encode("DCP_STREAM_REQ", {"end_seqno": 9}, value=b'{"x":' + nested + b"}")).fin()
    file = saved(sent, tmp_path / "deep.pcap")
    for command in ("conns", "streams", "rollbacks", "flow", "check", "read", "key '*'", "stats"):
        for form in ("", "-f ndjson"):
            assert run(f"dcpdump {command} {file} -q {form}").code in (0, 1), command


def test_keys_are_patterns_as_in_read() -> None:
    counts = [len(objects(f"dcpdump key {key} samples/durable.pcap")) for key in ("'/account::[12]$/'", "account::1")]
    assert counts == [6, 4]


@pytest.mark.parametrize(
    ("command", "frames"),
    [
        *((each, "44 frames read") for each in ("streams", "conns", "rollbacks", "flow", "key '*'", "check", "stats")),
        *(
            ("top --once", "44 frames read"),
            ("read", "44 of 44 frames shown"),
            ("streams --until +5s", "27 frames read"),
        ),
        *(("stats --vbucket 999", "0 of 44 frames counted"), ("stats --kind request", "31 of 44 frames counted")),
    ],
)
def test_the_closing_line_says_how_many_frames(command: str, frames: str) -> None:
    found, _, rest = run(f"dcpdump {command} {STOPPED}").err.splitlines()[-1].partition(" · ")
    assert found == frames
    assert "--until" in command or rest == "71 packets · 1 connection · 1,925 B of payload, all decoded"


def vbuckets(options: str) -> list[int]:
    """Return the vbuckets of streams in the order of the table, which objects have too."""
    printed = run(f"dcpdump streams {STOPPED} -q {options}").out.splitlines()[1:-1]
    found = [int(line.split()[2]) for line in printed]
    if "--sort" in options:
        assert [row["vbucket"] for row in objects(f"dcpdump streams {STOPPED} {options}")] == found
    return found


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        *((f"--sort {each}", [12, 13, 417]) for each in ("vb", "vbucket")),
        *((f"--sort {each}", [417, 12, 13]) for each in ("last-seqno", "asked", "sid")),
        *(("--sort VB --reverse", [417, 13, 12]), ("--sort last_seqno --reverse", [13, 417, 12])),
        *(("--sort bytes", [12, 417, 13]), ("--sort verdict", [417, 13, 12])),
        *(("", [417, 12, 13]), ("--reverse", [13, 12, 417])),
    ],
)
def test_streams_are_sorted_by_a_column(options: str, expected: list[int]) -> None:
    assert vbuckets(options) == expected


def test_streams_in_trouble_come_first_in_text_and_as_ever_for_programs() -> None:
    printed = run("dcpdump streams samples/refused.pcap -q").out.splitlines()[1:-1]
    rows = objects("dcpdump streams samples/refused.pcap")
    troubled = sorted((row["trouble"] for row in rows), reverse=True)
    assert [bool(re.search(r"refused \(Erange", line)) for line in printed] == troubled
    asked = [row["requests"][0]["frame"] for row in rows]
    assert asked == sorted(asked)


def test_the_worst_verdict_comes_first() -> None:
    loop = Verdict(VerdictKind.ROLLED_BACK, Cause.LOOP, "", Situation.LOOP, certain=True)
    ended = Verdict(VerdictKind.ENDED, Cause.ABANDONED, "", Situation.ENDED, certain=True)
    refused = Verdict(VerdictKind.REFUSED, Cause.NO_ACCESS, "", Situation.REFUSED, certain=True)
    blocked = Verdict(VerdictKind.BLOCKED, Cause.WINDOW_FULL, "", Situation.BLOCKED, certain=True)
    reset = Verdict(VerdictKind.ENDED, Cause.RESET_BY_CLIENT, "", Situation.CLOSED)
    fine = Verdict(VerdictKind.ENDED, Cause.FINISHED)
    unknown = Verdict(VerdictKind.UNKNOWN, Reason.STARTS_LATE)
    troubled = [loop, ended, refused, blocked, reset]
    found = sorted([unknown, *troubled[::-1], fine], key=lambda each: each.rank)
    assert found == [*troubled, unknown, fine]


@pytest.mark.parametrize(
    ("command", "columns", "keys"),
    [
        ("conns", "conn frames bytes streams end", ["connection"]),
        ("flow", "conn client sent blocked", ["connection"]),
        ("rollbacks", "vb time start to count", ["frame"]),
        ("stats", "name frames bytes frames/s bytes/s bucket client", ["name", "connection", "type"]),
    ],
)
def test_every_table_is_sorted_by_its_columns(command: str, columns: str, keys: list[str]) -> None:
    def values(options: str) -> list[str]:
        rows = objects(f"dcpdump {command} samples/rollback-loop.pcap samples/stopped.pcap {options}")
        return sorted(str([row.get(key) for key in keys]) for row in rows)

    for column in columns.split():
        for more in ("", " --reverse"):
            assert values(f"--sort {column}{more}") == values("")


def test_statistics_are_sorted_within_their_tables() -> None:
    found = objects(f"dcpdump stats {STOPPED} --sort bytes")
    for kind in ("message", "connection", "vbucket"):
        sizes = [row["bytes"] for row in found if row["type"] == kind]
        assert sizes == sorted(sizes)
        assert sizes
    names = [
        row["name"] for row in objects(f"dcpdump stats {STOPPED} --sort name --reverse") if row["type"] == "message"
    ]
    assert names == sorted(names, reverse=True)


_SEQNOS = [{"vbucket": 1, "seqno": 9}, {"vbucket": 2, "seqno": 1600}]
_ANSWER = encode("GET_ALL_VB_SEQNOS", {"seqnos": _SEQNOS}, response=True, opaque=77).hex()
#: Of vbucket 1 the client has all, of 2 some, of 3 the server says nothing, and of 4 not either, but a marker does.
TEXT = (
    opening(collections=True)
    + "".join(
        f"STREAM vb={vbucket}\nRX snapshot-marker{{start=0, end={end}, flags=1}}\nRX mutation{{seqno:9}}\n"
        for vbucket, end in ((1, 9), (2, 9), (3, 9), (4, 30))
    )
    + f"CONNECT\n{opening(collections=True)}TX get-all-vb-seqnos{{opaque=77}}\nHEX RX {_ANSWER}\n"
    + "ON 0\nWAIT 2\nRX noop\n"
)
AT = "2025-11-20T12:00:00."


@pytest.fixture(name="path")
def _path(tmp_path: Path) -> Path:
    return written(TEXT, tmp_path / "lag.pcap")


def lag(row: dict[str, Any]) -> tuple[Any, ...]:
    keys = ("vbucket", "lag", "lag_exact", "high_seqno", "high_seqno_from")
    return *(row.get(key) for key in keys), (row.get("high_seqno_at") or "")[:20]


BEHIND = [(2, 1591, True, 1600, "GET_ALL_VB_SEQNOS", AT), (4, 21, False, 30, "DCP_SNAPSHOT_MARKER", AT)]
LAGS = [*BEHIND, (1, 0, True, 9, "GET_ALL_VB_SEQNOS", AT), (3, None, None, None, None, "")]


def test_objects_have_the_lag_and_what_it_rests_on(path: Path) -> None:
    assert [lag(row) for row in objects(f"dcpdump streams {path} --sort lag")] == LAGS
    assert sorted(map(lag, objects(f"dcpdump top {path}")[0]["streams"])) == sorted(LAGS)
    assert [lag(row) for row in objects(f"dcpdump diagnose {path}") if row["type"] == "lag"] == BEHIND
    table = objects(f"dcpdump sql 'select vbucket, lag, lag_exact, high_seqno from streams order by lag desc' {path}")
    assert sorted(str(tuple(row.values())) for row in table) == sorted(str(each[:4]) for each in LAGS)


def test_people_see_what_is_not_exact_and_what_is_unknown(path: Path) -> None:
    shown = run(f"dcpdump streams {path} -q --vbucket 1-4").out.splitlines()
    column = shown[0].index("lag") + 3
    assert [row[:column].split("  ")[-1].strip() for row in shown[1:5]] == ["0", "1,591", "?", "≥ 21"]


def test_a_diagnosis_names_the_worst_and_finds_nothing_wrong_with_a_lag(path: Path) -> None:
    found = run(f"dcpdump diagnose {path} -q")
    assert found.code == 0
    said_of = "is behind by ≥ 1,612 seqnos in 2 streams: vb 2: 1,591, vb 4: ≥ 21"
    assert f"lag          app (c0) {said_of}" in found.out.splitlines()


TABLES = ("total", "message", "connection", "interval")


def counted(arguments: str) -> dict[str, list[dict[str, Any]]]:
    """Return the objects that a ``stats`` prints, by their kind."""
    found: dict[str, list[dict[str, Any]]] = {}
    for row in objects(f"dcpdump stats {arguments}"):
        found.setdefault(row.pop("type"), []).append(row)
    return found


def test_connections_beyond_those_that_fit_the_memory_have_no_row(tmp_path: Path) -> None:
    path = saved(short_connections(2_050), tmp_path / "many.pcap")
    printed = run(f"dcpdump stats {path} --memory 16M -f ndjson")
    assert printed.out.count('"type": "connection"') == 4_096
    assert "note: to stay within --memory, 4 frames and " in printed.err


def test_everything_is_counted_once() -> None:
    found = counted("samples/replica.pcap")
    sums = [
        [sum(row[name] for row in rows) for name in ("frames", "bytes")] for kind in TABLES for rows in [found[kind]]
    ]
    assert sums == [[27, 5188]] * len(TABLES)
    assert found["vbucket"] == [{"vbucket": 528, "frames": 8, "bytes": 4454}]
    lengths = sorted(row["length"] for row in objects("dcpdump read samples/replica.pcap"))
    most = lengths[26]
    assert found["sizes"] == [{"count": 27, "p50": lengths[13], "p90": lengths[24], "p99": most, "max": most}]


def test_one_frame_is_counted_as_one_and_has_no_rate() -> None:
    printed = run("dcpdump stats samples/takeover.pcap -q --opcode mutation -c 1").out.splitlines()
    assert printed[0] == "1 frame, 62 bytes, from 2025-11-20T12:04:11.004250Z for 0.000 s"
    assert [line.split() for line in printed[3:5]] == [
        ["message", "frames", "bytes", "share"],
        ["DCP_MUTATION", "request", "1", "62", "100.0", "%"],
    ]
    assert "vbuckets: 1 with traffic, at most 1 frame" in printed


def test_what_comes_within_a_microsecond_has_no_rate(tmp_path: Path) -> None:
    talk = [packet._replace(ts_ns=1_000 * at) for at, packet in enumerate(packets(said(PLAIN)))]
    assert not re.search(r"\d[^/\n]*/s", run(f"dcpdump stats {saved(talk, tmp_path / 'burst.pcap')} -q").out)


#: Three connections: of a connector, of a client that only says HELLO, and one whose beginning was not captured.
CLIENTS = f"""{opening()}STREAM vb=5
RX noop
WAIT 2
TX noop-response{{success}}
CONNECT
TX hello{{features=6, key=java}}
CONNECT
RX noop
"""


def test_connections_say_who_the_client_is_and_how_fast_it_went(tmp_path: Path) -> None:
    path = written(CLIENTS, tmp_path / "clients.pcap")
    printed = run(f"dcpdump stats {path} -q --sort bytes/s --reverse").out
    assert printed.partition("\nconnections\n")[2].partition("\n\n")[0].splitlines() == [
        "  conn  src → dst                        frames  bytes  frames/s  bytes/s  bucket  client",
        "  0     10.0.0.1:50000 → 10.0.0.2:11210       7    268       3.5      133  travel  app",
        "  0     10.0.0.2:11210 → 10.0.0.1:50000       7    190       3.5       94  travel  app",
        "  1     10.0.0.1:50001 → 10.0.0.2:11210       1     30         ?        ?  ?       java",
        "  2     10.0.0.2:11210 → 10.0.0.1:50002       1     24         ?        ?  ?       ?",
    ]


@pytest.mark.parametrize("chosen", ["", "--opcode noop", "--since +1s", "--status success"])
def test_the_names_of_clients_are_those_of_conns_whatever_is_counted(chosen: str, tmp_path: Path) -> None:
    path = written(CLIENTS, tmp_path / "clients.pcap")

    def names(row: dict[str, Any]) -> tuple[Any, ...]:
        return row["connection"], *(row.get(key) for key in ("name", "agent", "bucket"))

    for each in (path, *sorted(Path("samples").glob("*.pcap"))):
        known = set(map(names, objects(f"dcpdump conns {each}")))
        assert set(map(names, counted(f"{each} {chosen}").get("connection", []))) <= known, each


def test_names_of_clients_are_remembered_up_to_a_share_of_the_memory(tmp_path: Path) -> None:
    path = written(f"CONNECT\nTX open{{flags=1, key={'n' * 1000}}}\n" * 100, tmp_path / "names.pcap")
    rows = counted(f"{path} --memory 1M")["connection"]
    assert [row.get("name") is not None for row in rows] == [True] * 66 + [False] * 34


def test_people_see_a_map_of_the_vbuckets() -> None:
    printed = run("dcpdump stats samples/takeover.pcap -q").out
    assert "vbuckets: 1 with traffic, at most 5 frames\n     64 |" + " " * 13 + "█" in printed


def test_vbuckets_are_counted_up_to_the_last_of_16_bits(tmp_path: Path) -> None:
    streams = "".join(f"STREAM vb={vb}\nRX snapshot-marker{{start=0, end=1, flags=1}}\n" for vb in (1023, 1024, 65535))
    path = written(PLAIN + streams, tmp_path / "vbuckets.pcap")
    found = [row for row in counted(str(path))["vbucket"] if row["vbucket"] > 1000]
    assert found == [{"vbucket": vb, "frames": 1, "bytes": 44} for vb in (1023, 1024, 65535)]
    rows = [line for line in run(f"dcpdump stats {path} -q").out.splitlines() if line.endswith("|")]
    assert [row.partition("|")[0] for row in rows][-3:] == ["    960 ", "   1024 ", "  65472 "]


def test_percentiles_are_exact_where_values_are_small_and_of_three_digits_else() -> None:
    found, large = Distribution(), Distribution()
    found.add(np.arange(1, 101))
    assert [found.percentile(percent) for percent in (1, 50, 90, 99, 100)] == [1, 50, 90, 99, 100]
    large.add(np.array([1_234_567]))
    assert (large.percentile(50), large.most) == (1_234_567, 1_234_567)
    large.add(np.array([9_999_999] * 9))
    assert (large.percentile(10), large.percentile(99)) == (1_240_000, 9_999_999)


def test_time_is_kept_in_few_steps_however_long_it_is() -> None:
    line = Timeline()
    for hour in range(48):
        line.add(np.array([hour * 3600 * 10**9]), np.array([100]))
    steps = list(line.steps(64))
    assert len(steps) <= 64
    assert sum(amount.frames for _, amount in steps) == 48


@pytest.mark.parametrize("form", ["text", "ndjson"])
def test_rows_stand_in_one_order_however_the_input_is_cut_into_files(form: str, tmp_path: Path) -> None:
    talk = packets(said(PLAIN + "STREAM vb=5\nRX noop\nTX noop-response{success}\nRX mutation{seqno=1, key=k1}\n"))
    shown = set()
    for cut in (0, len(talk) // 3, len(talk) // 2, len(talk) - 2):
        one, two = saved(talk[:cut], tmp_path / "1.pcap"), saved(talk[cut:], tmp_path / "2.pcap")
        shown |= {run(f"dcpdump stats {files} -q -f {form}").out for files in (f"{one} {two}", f"{two} {one}")}
    assert len(shown) == 1


WHOLE = (
    opening()
    + "STREAM vb=526\nRX snapshot-marker{start=0, end=2, flags=0x5}\n"
    + "RX mutation{seqno:1, key=k1, value=v}\nRX mutation{seqno:2, key=k2, value=v}\n"
    + "RX snapshot-marker{start=3, end=3, flags=0x1}\n"
)
#: Bytes of a packet before the key of a mutation: Ethernet, IPv4, TCP, the header, its extras.
BEFORE_KEY = 14 + 20 + 20 + 24 + 31


def capture(folder: Path, captured: Iterable[Packet], snaplen: int = 1 << 16) -> Path:
    return saved([each._replace(data=each.data[:snaplen]) for each in captured], folder / "talk.pcap")


def coverage(path: Path) -> list[tuple[bool, str]]:
    rows = [row for row in objects(f"dcpdump key '*' {path}") if row["type"] == "coverage"]
    return [(row["complete"], row["why"]) for row in rows]


def printed(path: Path) -> list[str]:
    return run(f"dcpdump key k1 {path} -q").out.splitlines()


def test_keys_that_were_cut_are_not_complete(tmp_path: Path) -> None:
    path = capture(tmp_path, packets(said(WHOLE)), BEFORE_KEY)
    assert printed(path) == [
        "no message about such a key in what was captured, which is incomplete: it belongs to vb 526 (of 1,024)",
        "capture complete for vb 526 conn 0 app, 1..2: no (2 messages whose key was not captured whole)",
    ]
    assert run(f"dcpdump key '*' {path} -q").out.splitlines() == [
        "no message about such a key in what was captured, which is incomplete"
    ]


def test_values_that_were_cut_leave_a_history_complete(tmp_path: Path) -> None:
    for snaplen in (BEFORE_KEY + 2, BEFORE_KEY + 3):
        assert [complete for complete, _ in coverage(capture(tmp_path, packets(said(WHOLE)), snaplen))] == [True]


def test_a_segment_that_is_missing_inside_a_key_is_not_complete(tmp_path: Path) -> None:
    segments = packets(said(WHOLE), 55)  # the second of a mutation holds its key
    tail = next(at for at, each in enumerate(segments) if each.data.endswith(b"k1v"))
    ((complete, why),) = coverage(capture(tmp_path, segments[:tail] + segments[tail + 1 :]))
    assert (complete, why) == (False, "1 message whose key was not captured whole")


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ("RX stream-request-response{notmyvbucket}\n", "it was not granted: NotMyVbucket 0x07"),
        ("", "no answer to its request was captured"),
    ],
)
def test_a_stream_that_was_not_granted_is_not_complete(tmp_path: Path, answer: str, why: str) -> None:
    path = capture(tmp_path, packets(said(opening() + "TX stream-request{vb=526}\n" + answer)))
    assert printed(path) == [
        "no message about such a key: it belongs to vb 526 (of 1,024)",
        f"capture complete for vb 526 conn 0 app, no seqno: no ({why})",
    ]


def test_an_out_of_order_snapshot_is_complete_once_it_ended(tmp_path: Path) -> None:
    text = opening(controls="enable_out_of_order_snapshots=true") + "STREAM vb=526\nRX oso-snapshot{flags=1}\n"
    text += "RX mutation{seqno=9, key=k9}\nRX mutation{seqno=4, key=k4}\n"
    for more, found in (
        ("", (False, "an out-of-order snapshot is open: lower seqnos may follow")),
        ("RX oso-snapshot{flags=2}\n", (True, "0 bytes lost")),
    ):
        assert coverage(written(text + more, tmp_path / "talk.pcap")) == [found]


def test_a_change_of_a_cache_transfer_has_its_own_item_of_the_frame(tmp_path: Path) -> None:
    keys = enumerate((b"a1", b"b1", b"a2"), 1)
    items: list[dict[str, int | bytes]] = [{"key": b"\0" + key, "value": b"v", "by_seqno": at} for at, key in keys]
    transfer = encode("DCP_CACHE_TRANSFER", {"items": items}, vbucket=526, opaque=9)
    talk = said(WHOLE)
    path = capture(tmp_path, packets([*talk, replace(talk[-1], data=transfer)]))
    (whole,) = [row for row in objects(f"dcpdump read {path}") if row["name"] == "DCP_CACHE_TRANSFER"]
    assert [row for row in objects(f"dcpdump key 'a*' {path}") if row["type"] == "change"] == [
        {"type": "change", "seqno": seqno, "rev_seqno": 0, **whole, "fields": {"items": [whole["fields"]["items"][at]]}}
        for at, seqno in ((0, 1), (2, 3))
    ]


# -- changes that a rollback revoked --------------------------------------------------------------------------


def sent(first: int, last: int, *but: int) -> str:
    """Return a snapshot, and its documents but for some."""
    documents = (f"RX mutation{{seqno={at}, key=k{at}, cas={at}}}\n" for at in range(first, last + 1) if at not in but)
    return f"RX snapshot-marker{{start={first - 1}, end={last}, flags=0x6}}\n" + "".join(documents)


def back(start: int, to: int, extra: str = "") -> str:
    """Return a request that is rolled back."""
    request = f"TX stream-request{{vb=5, start={start}{extra}}}\n"
    return f"{request}RX stream-request-response{{rollback, rollback-seqno={to}}}\n"


def granted(start: int, log: str, extra: str = "") -> str:
    """Return a request that is granted, with its failover log."""
    request = f"TX stream-request{{vb=5, start={start}{extra}}}\n"
    return f"{request}RX stream-request-response{{success, failover-log={log}}}\n"


NINE = opening() + "STREAM vb=5\n" + sent(1, 9) + "RX stream-end{status=2}\n"
BRANCH = "0xbbbb:5|0xfeed:0"
SECOND = "CONNECT 10.0.0.1:50200 10.0.0.2:11210\n"


def revoked(text: str, path: Path) -> dict[int, int]:
    """Return to where the rollbacks went that revoked changes, by their seqnos."""
    rows = objects(f"dcpdump key 'k*' {capture(path, packets(said(text)))}")
    return {row["seqno"]: row["revoked"]["rollback_seqno"] for row in rows if "revoked" in row}


@pytest.mark.parametrize(
    ("then", "wanted"),
    [
        (back(9, 5) + granted(5, BRANCH) + sent(6, 12, 7), {7: 5}),
        (back(9, 5) + granted(5, BRANCH), {6: 5, 7: 5, 8: 5, 9: 5}),
        (back(9, 5), {6: 5, 7: 5, 8: 5, 9: 5}),
        (back(9, 5) * 3 + granted(5, BRANCH) + sent(6, 12, 7), {7: 5}),
        (back(9, 5) + back(5, 3) + granted(3, "0xbbbb:3|0xfeed:0") + sent(4, 12, 5, 7), {5: 3, 7: 5}),
        (back(9, 5) + back(9, 3) + granted(3, "0xbbbb:3|0xfeed:0") + sent(4, 12, 7), {7: 5}),
        (back(7, 5) + granted(5, BRANCH), {6: 5, 7: 5}),
        (back(9, 0) + granted(0, "0xbbbb:0") + sent(1, 9, 7), {7: 0}),
        ("RST RX\n" + SECOND + opening() + back(9, 5) + granted(5, BRANCH) + sent(6, 12, 7), {7: 5}),
        # purges send a client back too, and take nothing back
        (back(9, 0) + granted(0, "0xfeed:0") + sent(1, 12, 7), {}),
        (back(9, 0, ", snap-start-seqno=0, snap-end-seqno=12"), {}),
        # by an older uuid it was granted from there
        (back(9, 0, ", vbucket-uuid=0xdead") + granted(9, "0xfeed:0"), {}),
        (back(9, 0, ", vbucket-uuid=0xdead") + granted(0, "0xfeed:0"), dict.fromkeys(range(1, 10), 0)),
        # of others
        (back(9, 5, ", vb=6, opaque=9").replace("vb=5, ", ""), {}),
        ("RST RX\n" + SECOND + opening(name="other") + back(9, 5) + granted(5, BRANCH) + sent(6, 12, 7), {}),
    ],
)
def test_a_change_that_a_rollback_revoked_says_so(then: str, wanted: dict[int, int], tmp_path: Path) -> None:
    assert revoked(NINE + then, tmp_path) == wanted


def test_a_rollback_before_a_change_does_not_revoke_it(tmp_path: Path) -> None:
    text = opening() + back(20, 5) + granted(5, BRANCH) + sent(6, 12) + "RX stream-end{status=2}\n"
    assert revoked(text, tmp_path) == {}
    assert revoked(text + back(12, 10), tmp_path) == {11: 10, 12: 10}


def test_a_rollback_of_another_stream_id_does_not_revoke_a_change(tmp_path: Path) -> None:
    text = opening(collections=True, controls="enable_stream_id=true") + 'STREAM vb=5, value={"sid":7}\n'
    text += sent(1, 9).replace("key=k", "key=#006b3") + "RX stream-end{status=2}\n"
    assert revoked(text + back(9, 5, ', value={"sid":8}'), tmp_path) == {}
    assert revoked(text + back(9, 5, ', value={"sid":7}'), tmp_path) == {6: 5, 7: 5, 8: 5, 9: 5}


def test_a_rollback_whose_request_is_not_certain_revokes_nothing(tmp_path: Path) -> None:
    """An answer was lost, and with it maybe the next request, which had the same opaque."""
    captured = packets(said(NINE + back(9, 5) * 2 + "RX noop\nTX noop-response{success}\n"))
    rows = objects(f"dcpdump key 'k*' {capture(tmp_path, captured[:-5] + captured[-3:])}")
    assert [row["seqno"] for row in rows if "revoked" in row] == []


def test_the_row_of_a_change_that_was_revoked_says_when_and_by_which_frames(tmp_path: Path) -> None:
    path = capture(tmp_path, packets(said(NINE + back(9, 5) * 2 + granted(5, BRANCH) + sent(6, 12, 7))))
    (row, *_) = objects(f"dcpdump key k7 {path}")
    frames = {"request_frame": 24, "response_frame": 25, "time": "2025-11-20T12:00:00.025000Z"}
    assert row["revoked"] == {"rollback_seqno": 5, "start_seqno": 9, **frames}
    head, line, *_ = run(f"dcpdump key k7 {path} -q").out.splitlines()
    assert ("revoked" in head.split(), "by the rollback to 5 at 12:00:00.025, frame 25" in line) == (True, True)
    assert "revoked" not in run(f"dcpdump key k3 {path} -q").out
