"""dcpdump stats: what is counted, and that a filter chooses what is."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dcpdump.batch.statistics import Distribution, Timeline
from tests.support.check_cases import PLAIN
from tests.support.console import run
from tests.support.conversation import packets, said
from tests.support.diagnoses import objects, written
from tests.support.hostile import short_connections
from tests.support.secret_talk import saved

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
    assert printed[3] == "  DCP_MUTATION request  1 frame   62 bytes 100.0 %"
    assert "vbuckets: 1 with traffic, at most 1 frame" in printed


def test_what_comes_within_a_microsecond_has_no_rate(tmp_path: Path) -> None:
    talk = [packet._replace(ts_ns=1_000 * at) for at, packet in enumerate(packets(said(PLAIN)))]
    assert "/s" not in run(f"dcpdump stats {saved(talk, tmp_path / 'burst.pcap')} -q").out


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


def test_a_capture_without_frames_counts_nothing() -> None:
    assert run("dcpdump stats samples/replica.pcap --connection 9 -q") == (0, "no frame matches\n", "")
    assert run("dcpdump stats samples/replica.pcap --connection 9 -q -f ndjson") == (0, "", "")


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
