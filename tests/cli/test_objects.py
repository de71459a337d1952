"""What programs get with ``-f ndjson``: whole objects, with all keys in order, and as --schema says.

In the transcript, lines that are indented go on with the object above them.
"""

import csv
import io
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dcpdump.arrow.other_tables import FILES, GAPS
from dcpdump.check.rules import RULES
from dcpdump.render.column import KEYS, ColumnSet
from dcpdump.render.conns import CLOSED, CONNECTIONS
from dcpdump.render.diagnosis import DIAGNOSIS
from dcpdump.render.diff import DIFF, WAYS
from dcpdump.render.findings import FINDINGS
from dcpdump.render.flow import FLOW
from dcpdump.render.history import COVERAGE
from dcpdump.render.objects import OTHERWISE, ROWS
from dcpdump.render.rollbacks import ROLLBACKS
from dcpdump.render.statistics import STATISTICS
from dcpdump.render.streams import STREAMS
from dcpdump.render.top import TOP, TOP_CONNECTIONS, TOP_STREAMS
from tests.support.check_cases import CASES
from tests.support.console import run
from tests.support.conversation import packets, said
from tests.support.schemas import validator, wrong
from tests.support.secret_talk import saved

OBJECTS = r"""
$ read samples/client-rollback.pcap --status rollback
{"frame": 16, "packet": 34, "file": "samples/client-rollback.pcap", "time": "2025-11-20T12:02:11.008250Z",
  "connection": 0, "src": "10.0.0.1:11210", "dst": "10.0.0.9:50312", "offset": 191, "length": 32, "gap_before": 0,
  "magic": 129, "kind": "response", "opcode": 83, "name": "DCP_STREAM_REQ", "layout": "1-rollback", "vbucket": 12,
  "status": 35, "status_name": "Rollback", "request_frame": 15, "latency_us": 500, "opaque": 12,
  "cas": "0x0000000000000000", "datatype": 0, "fields": {"rollback_seqno": 90}, "value_length": 8}
$ explain 805c00000000000000000000819698000000000000000000
{"length": 24, "magic": 128, "kind": "request", "opcode": 92, "name": "DCP_NOOP", "layout": "1", "vbucket": 0,
  "opaque": 2174130176, "cas": "0x0000000000000000", "datatype": 0}
$ streams samples/client-rollback.pcap
{"connection": 0, "src": "10.0.0.9:50312", "dst": "10.0.0.1:11210", "vbucket": 12, "stream_id": 3,
  "name": "kafka:7f", "roles": "seen", "opaque": 12,
  "verdict": "ended (closed by its consumer at 12:02:11.010; rolled back to 90 before)", "state": "ended",
  "cause": "closed-by-consumer", "why": "closed by its consumer at 12:02:11.010; rolled back to 90 before",
  "trouble": false, "requests": [{"frame": 15, "time": "2025-11-20T12:02:11.007750Z", "opaque": 12, "flags": 0,
  "start_seqno": 110208, "end_seqno": 18446744073709551615, "vbucket_uuid": "0x0000a1f35c2d9e47",
  "snap_start_seqno": 110208, "snap_end_seqno": 110208, "response_frame": 16, "status": 35, "status_name": "Rollback",
  "rollback_seqno": 90, "latency_us": 500}, {"frame": 17, "time": "2025-11-20T12:02:11.008750Z", "opaque": 12,
  "flags": 0, "start_seqno": 90, "end_seqno": 18446744073709551615, "vbucket_uuid": "0x0000a1f35c2d9e47",
  "snap_start_seqno": 90, "snap_end_seqno": 90, "collections": ["8"], "collection_names": {"8": "carts"},
  "response_frame": 18, "status": 0, "status_name": "Success", "latency_us": 500}],
  "opened_at": "2025-11-20T12:02:11.009250Z", "start_seqno": 90, "end_seqno": 18446744073709551615, "snapshots": 1,
  "mutations": 1, "deletions": 0, "expirations": 1, "prepares": 0, "commits": 0, "aborts": 0, "system_events": 1,
  "seqno_advanced": 1, "cache_transfers": 0, "first_seqno": 91, "last_seqno": 95, "snapshot": {"start_seqno": 90,
  "end_seqno": 95}, "rollback_seqno": 90, "rollbacks": 1, "failover_log": [{"vbucket_uuid": "0x0000a1f35c2d9e47",
  "seqno": 90}, {"vbucket_uuid": "0x000077aa00112233", "seqno": 0}], "ended_at": "2025-11-20T12:02:11.010750Z",
  "last_at": "2025-11-20T12:02:11.010750Z", "bytes": 275, "lost_bytes": 0}
$ conns samples/client-rollback.pcap
{"connection": 0, "src": "10.0.0.9:50312", "dst": "10.0.0.1:11210", "client": "10.0.0.9:50312",
  "server": "10.0.0.1:11210", "roles": "seen", "role": "producer", "name": "kafka:7f",
  "agent": "{\"a\":\"kafka-connector\",\"i\":\"7f\"}", "bucket": "shop", "mechanism": "PLAIN", "authenticated": true,
  "features_asked": ["XATTR", "XERROR", "SNAPPY", "JSON", "Tracing", "Collections"], "features": ["XATTR", "XERROR",
  "SNAPPY", "JSON", "Collections"], "open_flags": 37, "open_flags_names": ["producer", "include-xattrs",
  "include-delete-times"], "open_status": 0, "controls": [{"key": "enable_noop", "value": "true", "frame": 9,
  "status": 0, "status_name": "Success"}, {"key": "enable_stream_id", "value": "true", "frame": 11, "status": 0,
  "status_name": "Success"}, {"key": "enable_expiry_opcode", "value": "true", "frame": 13, "status": 0,
  "status_name": "Success"}], "streams": 1, "stream_requests": 2, "noops": {"sent": 0, "answered": 0},
  "unanswered": 0, "frames": 25, "bytes": 1121, "losses": 0, "lost_bytes": 0, "skipped_bytes": 0,
  "manifest_uid": "0x0000000000000006", "collection_names": {"8": "carts"}, "first": "2025-11-20T12:02:11.000750Z",
  "last": "2025-11-20T12:02:11.010750Z", "end": "fin", "ended_at": "2025-11-20T12:02:11.011250Z"}
$ rollbacks samples/rollback-loop.pcap
{"connection": 0, "name": "kafka-7f", "vbucket": 762, "frame": 15, "response_frame": 16,
  "time": "2025-11-20T12:08:11.007750Z", "start_seqno": 4, "end_seqno": 18446744073709551615,
  "vbucket_uuid": "0x0000000000000001", "snap_start_seqno": 4, "snap_end_seqno": 18446744073709551615,
  "rollback_seqno": 0, "count": 12, "loop": true, "frames": [15, 17, 19, 21, 23, 25, 27, 29, 31, 33, 35, 37],
  "clause": "uuid",
  "why": "uuid 0x1 is not in the failover log [0xa1f35c2d9e47@7, 0x77aa00112233@0]; also its snapshot end is 2^64-1",
  "expected_seqno": 0, "failover_log": [{"vbucket_uuid": "0x0000a1f35c2d9e47", "seqno": 7},
  {"vbucket_uuid": "0x000077aa00112233", "seqno": 0}], "failover_log_frame": 14, "resume": {"start_seqno": 0,
  "snap_start_seqno": 0, "snap_end_seqno": 0, "vbucket_uuid": "0x0000000000000000", "flags": 0,
  "why": "the server shares nothing of its history: all is sent again"}}
$ key user::1001 samples/history.pcap
{"type": "change", "seqno": 5512, "rev_seqno": 1, "frame": 16, "packet": 32, "file": "samples/history.pcap",
  "time": "2025-11-20T12:10:11.007750Z", "connection": 0, "src": "10.0.8.1:11210", "dst": "10.0.8.9:50320",
  "offset": 263, "length": 79, "gap_before": 0, "magic": 128, "kind": "request", "opcode": 87, "name": "DCP_MUTATION",
  "layout": "1", "vbucket": 300, "opaque": 300, "cas": "0x1763000000001588", "datatype": 1,
  "datatype_names": ["JSON"], "fields": {"by_seqno": 5512, "rev_seqno": 1, "flags": 0, "expiration": 0,
  "lock_time": 0, "nmeta": 0, "nru": 0}, "key": "user::1001", "key_hex": "757365723a3a31303031", "value_length": 14,
  "value": "{\"name\":\"Zoe\"}"}
{"type": "change", "seqno": 5530, "rev_seqno": 3, "frame": 20, "packet": 36, "file": "samples/history.pcap",
  "time": "2025-11-20T12:10:31.008750Z", "connection": 0, "src": "10.0.8.1:11210", "dst": "10.0.8.9:50320",
  "offset": 520, "length": 52, "gap_before": 0, "magic": 128, "kind": "request", "opcode": 88, "name": "DCP_DELETION",
  "layout": "1", "vbucket": 300, "opaque": 300, "cas": "0x176300000000159a", "datatype": 0,
  "fields": {"by_seqno": 5530, "rev_seqno": 3, "nmeta": 0}, "key": "user::1001", "key_hex": "757365723a3a31303031"}
{"type": "coverage", "connection": 0, "name": "kafka-7f", "vbucket": 300, "first_seqno": 5511, "last_seqno": 5530,
  "complete": true, "why": "0 bytes lost"}
$ check samples/order.pcap
{"code": "DCP402", "rule": "S12", "severity": "violation", "title": "Seqno does not rise", "connection": 0,
  "vbucket": 5, "frame": 16, "time": "2025-11-20T12:15:11.007250Z", "message": "MUTATION seqno 17 after 17",
  "status": "Erange", "spec": "dcp/passive_stream.cc"}
$ stats samples/takeover.pcap --opcode set_vbucket_state
{"type": "total", "frames": 4, "bytes": 98, "seconds": 0.0015, "after_gaps": 0,
  "first": "2025-11-20T12:04:11.005250Z", "last": "2025-11-20T12:04:11.006750Z"}
{"type": "message", "name": "DCP_SET_VBUCKET_STATE", "opcode": 91, "kind": "request", "frames": 2, "bytes": 50}
{"type": "message", "name": "DCP_SET_VBUCKET_STATE", "opcode": 91, "kind": "response", "frames": 2, "bytes": 48}
{"type": "connection", "connection": 0, "src": "10.0.2.9:50314", "dst": "10.0.2.1:11209",
  "name": "rebalance:77", "agent": "rebalance", "frames": 2, "bytes": 48, "seconds": 0.0015,
  "frames_per_second": 1333.3, "bytes_per_second": 32000}
{"type": "connection", "connection": 0, "src": "10.0.2.1:11209", "dst": "10.0.2.9:50314",
  "name": "rebalance:77", "agent": "rebalance", "frames": 2, "bytes": 50, "seconds": 0.0015,
  "frames_per_second": 1333.3, "bytes_per_second": 33333}
{"type": "vbucket", "vbucket": 77, "frames": 2, "bytes": 50}
{"type": "sizes", "count": 4, "p50": 24, "p90": 25, "p99": 25, "max": 25}
{"type": "latency", "name": "DCP_SET_VBUCKET_STATE", "opcode": 91, "count": 2, "p50": 500, "p90": 500, "p99": 500,
  "max": 500}
{"type": "interval", "time": "2025-11-20T12:04:11.005000Z", "seconds": 0.001, "frames": 2, "bytes": 49}
{"type": "interval", "time": "2025-11-20T12:04:11.006000Z", "seconds": 0.001, "frames": 2, "bytes": 49}
$ top samples/slow-consumer.pcap
{"time": "2025-11-20T12:12:57.099000Z", "frames": 258, "rate_seconds": 5.0, "connections": [{"connection": 0,
  "src": "10.0.10.9:50322", "dst": "10.0.10.1:11210", "name": "kafka-7f", "roles": "seen", "streams": 1,
  "frames_per_second": 0.4, "bytes_per_second": 10, "buffer": 1900, "outstanding": 1920, "blocked": true,
  "lost_bytes": 0}], "streams": [{"connection": 0, "vbucket": 9, "frames_per_second": 0.0, "bytes_per_second": 0,
  "last_seqno": 120, "lost_bytes": 0, "state": "blocked by flow control", "cause": "window-full",
  "why": "1,920 of 1,900 bytes not acknowledged since 12:12:16.997", "trouble": true}]}
$ diagnose samples/stopped.pcap
{"type": "capture", "captures": ["samples/stopped.pcap"], "first": "2025-11-20T12:07:11.000000Z",
  "last": "2025-11-20T12:10:11.017500Z", "packets": 71, "frames": 44, "bytes": 1925, "payload_bytes": 1925,
  "lost_bytes": 0, "skipped_bytes": 0, "connections": 1, "streams": 3, "states": {"ended": 1, "quiet": 1,
  "open and flowing": 1}, "outcome": "wrong",
  "text": "1 problem: 3 streams (1 ended, 1 quiet, 1 open and flowing) on 1 connection, ALL rules checked",
  "troubles": 1, "notes": 0}
{"type": "connection", "connection": 0, "src": "10.0.5.9:50317", "dst": "10.0.5.1:11210",
  "client": "10.0.5.9:50317", "server": "10.0.5.1:11210", "roles": "seen", "name": "kafka-7f",
  "agent": "{\"a\":\"kafka-connector\",\"i\":\"7f\"}", "bucket": "shop", "dcp": true, "streams": 3,
  "states": {"ended": 1, "quiet": 1, "open and flowing": 1}, "frames": 44, "bytes": 1925, "lost_bytes": 0}
{"type": "trouble", "rank": 1, "code": "ended", "cause": "abandoned", "severity": "wrong",
  "text": "vb 417 of kafka-7f ended (Slow) and was not requested again",
  "detail": "Slow (4) at 12:08:11.011; abandoned: not requested again in 120 s", "count": 1, "connections": [0],
  "streams": [{"connection": 0, "vbucket": 417}], "frames": [28], "time": "2025-11-20T12:08:11.011250Z",
  "command": "dcpdump streams samples/stopped.pcap --connection 0 --stuck --cause abandoned"}
"""
WHOLE = OBJECTS.replace("\n  ", " ").replace("ALL", str(len(RULES)))
WANTED = dict(re.findall(r"(?m)^\$ (.*)\n((?:[^$].*\n)*)", WHOLE))


@pytest.mark.parametrize("command", WANTED)
def test_programs_get_these_objects(command: str) -> None:
    assert run(f"dcpdump {command} -f ndjson -q") == (command.startswith(("check", "diagnose")), WANTED[command], "")


CAPTURES = [str(path) for path in sorted(Path("samples").glob("*.pcap"))]
OPTIONS = {"key": "'*'", "top": "--once", "check": "--all", "diagnose": "--all", "diff": "samples/stopped.pcap"}
#: Without a capture of their own kind: an interface, and bytes that are pasted.
OF_CAPTURES = "read stats streams conns rollbacks flow key top check diff diagnose".split()
#: Declared columns of commands.
COLUMNS: tuple[ColumnSet[Any], ...] = (
    *(STREAMS, CONNECTIONS, CLOSED, FLOW, ROLLBACKS, FINDINGS, COVERAGE, GAPS, FILES),
    *(*STATISTICS, *DIAGNOSIS, *DIFF, WAYS, TOP, TOP_CONNECTIONS, TOP_STREAMS),
)


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a capture of conversations each of which breaks a rule."""
    frames = []
    for place, case in enumerate(CASES.values()):
        frames += [replace(each, connection=10 * place + each.connection, ends="") for each in said(case.trips)]
    frames.sort(key=lambda each: each.ts_ns)
    return saved(packets(frames), tmp_path_factory.mktemp("broken") / "broken.pcap")


@pytest.mark.parametrize("command", OF_CAPTURES)
def test_rows_of_captures_fit_their_schema(command: str, broken: Path) -> None:
    judge, rows = validator(command), 0
    for capture in (*CAPTURES, broken):
        printed = run(f"dcpdump {command} {OPTIONS.get(command, '')} {capture} -f ndjson -q")
        assert wrong(f"{command} {capture}", printed.out, judge) == []
        rows += len(printed.out.splitlines())
    assert rows > 5


@pytest.mark.parametrize("command", ["conns", "streams", "flow", "diagnose", "top"])
def test_rows_of_tls_fit_their_schema(command: str) -> None:
    judge, capture = validator(command), "tests/tls/captures/java-1.3.pcap"
    for keys in ("--keylog tests/tls/captures/java-1.3.keys", "")[: 2 if command == "conns" else 1]:
        printed = run(f"dcpdump {command} {capture} {keys} -f ndjson -q").out
        assert (bool(printed), wrong(command, printed, judge)) == (True, [])


@pytest.mark.parametrize("command", [name for name in OF_CAPTURES if name not in ("read", "top")])
def test_csv_has_the_columns_of_the_objects(command: str) -> None:
    options = f"{command} {OPTIONS.get(command, '')} samples/client-rollback.pcap -q"
    objects = [json.loads(line) for line in run(f"dcpdump {options} -f ndjson").out.splitlines()]
    names, *rows = csv.reader(io.StringIO(run(f"dcpdump {options} -f csv").out))
    assert len(rows) == len(objects)
    for row, wanted in zip(rows, objects, strict=True):
        found = dict(zip(names, row, strict=True))
        assert {name: text for name, text in found.items() if text} == {
            name: text for name, value in wanted.items() if (text := cell(value))
        }


def cell(value: Any) -> str:
    """Return a value as csv has it."""
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return "|".join(value)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def test_what_is_pasted_fits_its_schema() -> None:
    judge = validator("explain")
    for text in ("80570006 1f000210", "805c0000000000000000000081969800000000000000000000", "8050 ffff"):
        assert wrong("explain", run(f"dcpdump explain {text} -f ndjson -q").out, judge) == []


def test_context_fits_the_schema_and_what_does_not_fit_is_refused() -> None:
    printed, judge = (
        run("dcpdump read samples/stopped.pcap --opcode stream_end --context 2 -f ndjson -q").out,
        validator("read"),
    )
    assert (printed.count('"context": true'), wrong("read", printed, judge)) == (4, [])
    assert list(judge.iter_errors({"frame": "1"}))


def test_every_key_is_explained_and_every_explanation_is_of_a_key() -> None:
    used = {key for keys in ROWS.values() for key in keys.replace("|", " ").split()}
    declared = [each for columns in COLUMNS for each in columns]
    used |= {each.key.rstrip("?") for each in declared if each.key and not (each.type and each.meaning)}
    assert used == set(KEYS)
    assert [place for place in OTHERWISE if place[1] not in ROWS[place[0]].split()] == []
