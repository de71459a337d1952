"""dcpdump sql: the answers are those that DuckDB gives over the tables of an export, whatever is pushed down."""

import csv
import gc
import json
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from select import select
from threading import Thread
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcpdump.arrow.column_builder import Vocabulary
from dcpdump.arrow.frame_table import FrameTable
from dcpdump.arrow.other_tables import OtherTables
from dcpdump.sql.database import Calls, Engine, interrupting
from dcpdump.sql.results import rows_of
from tests.support.captures import Pcapng, pcap
from tests.support.console import refusal, run
from tests.support.conversation import opening, packets, said
from tests.support.diagnoses import objects, written
from tests.support.live import PATIENCE, running, wait_for

REPLICA = "samples/replica.pcap"
DAMAGE = "samples/damage.pcap"
#: Several connections, losses, rollbacks, stream ids.
SAMPLES = f"{REPLICA} {DAMAGE} samples/client-rollback.pcap samples/stopped.pcap samples/order.pcap"
TABLES = "frames,gaps,streams,findings,files"


Rows = list[tuple[Any, ...]]


@pytest.fixture(scope="module")
def wanted(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Rows]:
    """Return what DuckDB answers over the tables that ``export`` writes of the samples."""
    folder = tmp_path_factory.mktemp("exported") / "tables"
    assert run(f"dcpdump export {SAMPLES} -o {folder} -q --tables {TABLES}").code == 4
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    for name in TABLES.split(","):
        connection.register(name, pq.read_table(folder / f"{name}.parquet"))

    def rows(query: str) -> Rows:
        return [row for batch in connection.sql(query).to_arrow_table().to_batches() for row in rows_of(batch)]

    return rows


def answered(query: str, captures: str = SAMPLES, more: str = "") -> Rows:
    """Return the rows that the command answers with."""
    quoted = query.replace('"', '\\"')
    found = run(f'dcpdump sql "{quoted}" {captures} -f ndjson -q {more}')
    assert found.code in (0, 4), found.err
    return [tuple(json.loads(line).values()) for line in found.out.splitlines()]


@pytest.mark.parametrize(
    "query",
    [
        *(f"from {table}" for table in TABLES.split(",")),
        "select count(*) from frames",
        "select name, count(*), min(by_seqno), max(by_seqno) from frames group by name order by name",
        "select * from frames where opcode = 87",
        "select frame, key, value from frames where name in ('DCP_MUTATION', 'DCP_DELETION') and vbucket = 12",
        "select frame, time, time_ns, src from frames where time > '2025-11-20 12:02:11.5' and connection < 3",
        "select frame from frames where frame between 20 and 25",
        "select frame, problems, hints from frames where problems is not null or hints is not null",
        "select frame from frames where opcode = 86 limit 3",
        "select f.frame, s.verdict from frames f join streams s using (connection, vbucket) where f.opcode = 83",
        "select frame from frames f where exists (from findings x where x.connection = f.connection) and opcode = 87",
        "select a.frame, b.frame from frames a, frames b where a.opcode = 83 and b.request_frame = a.frame",
        "with x as (from frames where opcode = 87) select max(a.by_seqno) from x a, x b",
        "select frame, row_number() over (partition by vbucket order by frame) n from frames where opcode = 87",
        "select unnest(framing) from frames where framing is not null",
        "select sum(value_length), avg(length), count(distinct key) from frames",
        "select frame from frames where opcode = 250",
        "summarize streams",
        "select code, f.time from findings f asof join frames using (connection, time)",
    ],
)
def test_the_answer_is_that_of_duckdb_over_the_exported_tables(query: str, wanted: Callable[[str], Rows]) -> None:
    ordered = f"from ({query}) order by all" if re.search("join|exists|frames b|over", query) else query
    assert answered(ordered) == wanted(ordered)


WORDS = ["DCP_MUTATION", "DCP_DELETION", "DCP_STREAM_REQ", "DCP_NOOP", "HELLO", "UNKNOWN"]
TIMES = [f"'2025-11-20 12:02:{second}'" for second in ("00", "11.0085", "11.009", "57.09")]
COMPARED: dict[str, list[Any]] = {
    "opcode": [83, 86, 87, 92, 255],
    "vbucket": [0, 5, 12, 417, 528, 65_535],
    "by_seqno": [0, 1, 90, 110_208, 18_446_744_073_709_551_615],
    "connection": [0, 1, 5],
    "frame": [1, 19, 300],
    "opaque": [0, 4624],
    "time_ns": [0, 1_763_640_131_000_000_000, 1_763_640_131_009_250_000],
    "time": [*TIMES, *(f"timestamp {time}" for time in TIMES)],
    "name": [f"'{word}'" for word in WORDS],
    "kind": ["'request'", "'response'"],
    "status": [0, 2, 35],
}


@st.composite
def comparisons(draw: st.DrawFn) -> str:
    column = draw(st.sampled_from(sorted(COMPARED)))
    values = st.sampled_from(COMPARED[column]).map(str)
    operator = draw(st.sampled_from(["=", "<", "<=", ">", ">=", "<>", "in", "between", "is"]))
    if operator == "in":
        return f"{column} in ({', '.join(draw(st.lists(values, min_size=1, max_size=3)))})"
    if operator == "between":
        return f"{column} between {draw(values)} and {draw(values)}"
    if operator == "is":
        return f"{column} is not null"
    return f"{draw(values)} {operator} {column}" if draw(st.booleans()) else f"{column} {operator} {draw(values)}"


CONDITIONS = st.recursive(
    comparisons(),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["and", "or"]), inner).map(lambda parts: f"({' '.join(parts)})"),
        inner.map(lambda part: f"not {part}"),
    ),
    max_leaves=4,
)
#: Ways to refer to frames, with a condition.
FORMS = [
    "select frame, name, key from frames where {0}",
    "select f.frame from frames f where {0} union all select frame from frames where {1}",
    "select count(*) from (from frames where {0}) where {1}",
    "select vbucket, max(by_seqno) from frames where {0} group by all order by all",
]


@settings(max_examples=15)
@given(form=st.sampled_from(FORMS), one=CONDITIONS, other=CONDITIONS)
def test_what_is_pushed_down_changes_no_answer(form: str, one: str, other: str, wanted: Callable[[str], Rows]) -> None:
    query = form.format(one, other)
    assert answered(query) == wanted(query)


def test_a_frame_of_before_1970_is_found_by_its_time(tmp_path: Path) -> None:
    write, day = Pcapng(), 86_400
    blocks = [write.section(), write.interface(1, 0, [(9, b"\x09"), (14, struct.pack("<q", -day))])]
    blocks += [write.packet((each.ts_ns or 0) % 10**9, each.data) for each in packets(said(opening()))]
    (tmp_path / "old.pcapng").write_bytes(b"".join(blocks))
    everything = answered("select count(*) from frames", str(tmp_path / "old.pcapng"))
    for condition in ("time < '1970-01-01'", "time_ns < 5", "time between '1969-12-31' and '1970-01-01'"):
        query = f"select count(*) from frames where {condition}"
        assert answered(query, str(tmp_path / "old.pcapng")) == everything != [(0,)], condition


def test_a_condition_on_headers_decodes_as_little_as_read_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """Frames that the condition excludes are never rows: neither DuckDB nor Arrow gets them."""
    got, stream = list[int](), Engine.stream

    def counting(self: Engine, name: str, schema: Any, batches: Iterator[Any]) -> None:
        def counted() -> Iterator[Any]:
            for batch in batches:
                got.append(batch.num_rows)
                yield batch

        stream(self, name, schema, counted())

    monkeypatch.setattr(Engine, "stream", counting)
    query = "select count(*) from frames where name = 'DCP_SNAPSHOT_MARKER' and vbucket = 528"
    assert (answered(query, REPLICA), sum(got)) == ([(2,)], 2)


def test_what_only_reading_needed_is_released_before_rows_that_are_stored_are_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answer, kept = Engine.answer, list[int]()

    def makers() -> int:
        gc.collect()
        return sum(isinstance(each, (FrameTable, Vocabulary, OtherTables)) for each in gc.get_objects())

    def noting(engine: Engine, text: str) -> Any:
        kept.append(makers())
        return answer(engine, text)

    monkeypatch.setattr(Engine, "answer", noting)
    before = makers()
    answered("select * from frames order by cas")
    assert kept == [before]


@pytest.mark.parametrize("since", ["--since +0.01s", "--until 12:02:11.008", "--since 12:02:11.005 --until +10ms"])
def test_times_choose_the_frames_as_they_do_for_read(since: str) -> None:
    frames = [(row["frame"],) for row in objects(f"dcpdump read {REPLICA} {since}")]
    assert answered("select frame from frames where time > '2025-11-20'", REPLICA, since) == frames


def test_the_formats() -> None:
    query = "select name, count(*) n, max(by_seqno) top from frames where vbucket = 528 and opcode > 86 group by 1"
    found = {
        form: run(f'dcpdump sql "{query} order by 1" {REPLICA} -q -f {form}') for form in ("table", "csv", "ndjson")
    }
    assert found == {
        "table": (0, "name          n  top\nDCP_DELETION  1    4\nDCP_MUTATION  4    6\n", ""),
        "csv": (0, "name,n,top\r\nDCP_DELETION,1,4\r\nDCP_MUTATION,4,6\r\n", ""),
        "ndjson": (0, '{"name": "DCP_DELETION", "n": 1, "top": 4}\n{"name": "DCP_MUTATION", "n": 4, "top": 6}\n', ""),
    }


def test_what_json_does_not_have_is_spelled() -> None:
    query = """select '\\xff\\x07k'::blob blob, timestamp '2025-11-20 12:00:00.5' moment, sum(1) huge,
        1.5::decimal(9, 2) part, 'inf'::double most, map {'a': 1} pairs, {'d': date '2025-11-20', 't': utc} made,
        [1, null] several, [utc] times, true yes, null nothing from (select timestamptz '2025-11-20 12:00:00Z' utc)
        group by utc"""
    utc = "2025-11-20T12:00:00.000000Z"  # microseconds wherever it stands
    assert json.loads(run(f'dcpdump sql "{query}" {REPLICA} -q -f ndjson').out) == {
        "blob": "\\xff\\x07k",
        "moment": "2025-11-20T12:00:00.500000",
        "huge": 1,
        "part": 1.5,
        "most": "inf",
        "pairs": {"a": 1},
        "made": {"d": "2025-11-20", "t": utc},
        "several": [1, None],
        "times": [utc],
        "yes": True,
        "nothing": None,
    }
    cells = run(f'dcpdump sql "{query}" {REPLICA} -q -f csv').out.splitlines()[1]
    assert next(csv.reader([cells])) == [
        *("\\xff\\x07k", "2025-11-20T12:00:00.500000", "1", "1.5", "inf", '{"a": 1}'),
        *(f'{{"d": "2025-11-20", "t": "{utc}"}}', "[1, null]", f'["{utc}"]', "true", ""),
    ]


INTERVALS = "0 second|90 minute|1500 millisecond|-1 microsecond|100 hour|1 day|-3 day|14 month|-14 month|24 month"


def test_intervals_are_spelled_as_duckdb_spells_them() -> None:
    values = ", ".join(f"(interval ({number}) {unit})" for number, unit in map(str.split, INTERVALS.split("|")))
    values += ", (interval 14 month + interval (-1) day - interval 90 second)"
    query = f"select made, made::varchar as text from (values {values}) as rows(made)"
    rows = [json.loads(line) for line in run(f'dcpdump sql "{query}" {REPLICA} -q -f ndjson').out.splitlines()]
    assert [row["made"] for row in rows] == [row["text"] for row in rows]
    assert rows[-1]["made"] == "1 year 2 months -1 day -00:01:30"


def test_each_column_of_an_answer_has_a_name_of_its_own() -> None:
    found = run(f'dcpdump sql "select 1 a, 2 a, 3 a" {REPLICA} -f ndjson -q').out
    assert found == '{"a": 1, "a_1": 2, "a_2": 3}\n'


def test_columns_without_a_value_are_left_out_of_wide_tables() -> None:
    found = run(f'dcpdump sql "from frames where opcode = 80" {REPLICA} -q').out.splitlines()
    assert found[0].split()[:3] == ["frame", "packet", "file"]
    assert "by_seqno" not in found[0]
    assert found[-1].endswith("columns without a value are not shown")
    assert run(f'dcpdump sql "select null a, 1 b" {REPLICA} -q').out == "a     b\nnull  1\n"


@pytest.mark.parametrize("form", ["table", "csv", "ndjson"])
def test_no_control_character_of_a_capture_reaches_the_output(form: str, tmp_path: Path) -> None:
    name = tmp_path / "evil\x1b[2J.pcap"
    written(opening() + "STREAM vb=5\nRX snapshot-marker{start=0, end=1, flags=0x5}\nRX mutation{seqno=1}", name)
    evil = "'x' || chr(27) || chr(10) || chr(8238)"
    query = rf"select file, {evil} as \"a\x1b\", struct_pack(b := chr(7)), '\xff\x1b'::blob from frames limit 1"
    found = run(f'dcpdump sql "{query}" "{name}" -f {form} -q')
    assert (found.code, found.out.replace("\r\n", "").replace("\n", "").isprintable()) == (0, True)


@pytest.mark.parametrize(
    ("query", "says"),
    [
        (
            "select vbuket from frames",
            'Binder Error: Referenced column "vbuket" not found in FROM clause!\n'
            "hint: did you mean vbucket or vbucket_uuid?\n",
        ),
        ("select name::int from frames", "Conversion Error: Could not convert string 'HELLO' to INT32"),
        ("select frame from frames where collection_id = 9", "did you mean collection or"),
        ("select frame from frames where collection = 0x9", "a number in hexadecimal stands in quotes"),
    ],
)
def test_what_duckdb_cannot_answer_at_all_or_at_a_row_is_a_matter_of_usage(query: str, says: str) -> None:
    wrong = run(f"dcpdump sql '{query}' {REPLICA} -q")
    assert (wrong.code, wrong.out, wrong.err.startswith("dcpdump: error: "), says in wrong.err) == (2, "", True, True)


def test_the_exit_code_says_what_the_input_was(tmp_path: Path) -> None:
    (tmp_path / "none.pcap").write_bytes(pcap([]))
    for query, capture, code in (
        ("select 1 from frames limit 1", DAMAGE, 0),  # it ends before the damage
        ("select count(*) from frames", DAMAGE, 4),
        ("select count(*) from frames", tmp_path / "none.pcap", 3),
        ("select 1", tmp_path / "missing.pcap", 3),
    ):
        assert run(f"dcpdump sql '{query}' {capture} -q").code == code, query


def test_a_file_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    for query, code in (("select nme from frames", 2), ("select name::int from frames", 2)):
        assert run(f"dcpdump sql '{query}' {REPLICA} -o {out} -f csv -q").code == code
    assert os.listdir(tmp_path) == []
    for code in (0, 5):
        assert run(f"dcpdump sql 'select count(*) n from frames' {REPLICA} -o {out} -f csv -q").code == code
        assert out.read_bytes() == b"n\r\n27\r\n"


def test_without_duckdb_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dcpdump.cli.sql.find_spec", lambda name: None)
    wanted = refusal(2, "SQL needs DuckDB and pyarrow", "pip install 'duckdb>=2' 'pyarrow>=15'")
    assert run(f"dcpdump sql 'select 1' {REPLICA}") == wanted


def test_the_process_says_nothing_of_its_own_at_its_end() -> None:
    command = (sys.executable, "-m", "dcpdump", "sql", "select max(frame) m from frames", REPLICA, "-q", "-f", "csv")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "m\n27\n", "")


# -- signals ----------------------------------------------------------------------------------------------------

ENDLESS = "select count(*) from frames a, range(1000000) b, range(1000000) c where b.range + c.range < 0"


def spent(pid: int) -> float:
    """Return the seconds of CPU time that a process has taken."""
    ticks = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")


def test_a_signal_ends_a_query_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    command = [sys.executable, "-m", "dcpdump", "sql", ENDLESS, REPLICA, "-o", str(tmp_path / "out"), "-f", "csv"]
    environment = {**os.environ, "TMPDIR": str(tmp_path / "tmp")}
    with running(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment) as process:
        wait_for(lambda: spent(process.pid) > 1)  # by then it is in the query
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=PATIENCE)
    read = b"interrupted \xc2\xb7 27 frames read \xc2\xb7 60 packets "
    assert (process.returncode, out, err.startswith(read)) == (143, b"", True)
    assert [path.name for path in tmp_path.rglob("*")] == ["tmp"]


def test_a_signal_that_comes_between_two_calls_ends_what_waits_for_their_end() -> None:
    def broken_off() -> None:
        calls = Calls()
        with interrupting(lambda: None, calls):
            calls.__enter__()  # the signal comes before it is left in order
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        broken_off()


def test_no_call_begins_after_a_signal_whose_exception_was_dropped() -> None:
    calls = Calls()
    interrupted = threading.Event()
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        with interrupting(interrupted.set, calls):
            signal.raise_signal(signal.SIGINT)
            assert interrupted.wait(PATIENCE)
            with pytest.raises(KeyboardInterrupt), calls:
                pytest.fail("a call began")
    finally:
        signal.signal(signal.SIGINT, before)


# -- TLS --------------------------------------------------------------------------------------------------------


def test_what_is_inside_tls_is_asked_with_a_key_log() -> None:
    capture = "tests/tls/captures/go-1.3.pcap"
    query = "select connection, count(*) n from frames where name = 'DCP_MUTATION' group by 1 order by 1"
    assert answered(query, f"{capture} --keylog tests/tls/captures/go-1.3.keys") == [(0, 4), (1, 4)]
    closed = run(f'dcpdump sql "{query}" {capture}')
    assert (closed.code, closed.out, "--keylog FILE" in closed.err) == (3, "", True)


# -- the schema -------------------------------------------------------------------------------------------------


def test_the_schema_has_the_columns_that_queries_have_with_their_types() -> None:
    tables = json.loads(run("dcpdump sql --schema").out)["$defs"]
    assert list(tables) == ["frames", "gaps", "streams", "findings", "files"]
    for name, table in tables.items():
        found = answered(f"select column_name, column_type from (describe {name})", REPLICA)
        types = {column: each["sqlType"] for column, each in table["properties"].items()}
        assert types == {column: re.sub(r"\(.*\)", "", kind) for column, kind in found}


def test_rows_of_every_table_fit_the_schema() -> None:
    jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is not installed: no row is held against it")
    schema = json.loads(run("dcpdump sql --schema").out)
    jsonschema.Draft202012Validator.check_schema(schema)
    for name in schema["$defs"]:
        judge = jsonschema.Draft202012Validator({**schema, "oneOf": [{"$ref": f"#/$defs/{name}"}]})
        rows = run(f"dcpdump sql 'from {name}' {SAMPLES} -f ndjson -q").out.splitlines()
        assert [error.message for row in rows for error in judge.iter_errors(json.loads(row))] == []
        assert rows, name


def test_every_column_is_explained() -> None:
    tables = json.loads(run("dcpdump sql --schema").out)["$defs"]
    frames = {name: each["description"] for name, each in tables["frames"]["properties"].items()}
    assert frames["state"] == "the field state (SET_VBUCKET, DCP_SET_VBUCKET_STATE)"
    assert frames["snapshot_type_names"] == "what snapshot_type means (DCP_SNAPSHOT_MARKER)"
    assert frames["name"] == "the name of the message"
    assert tables["gaps"]["properties"]["bytes"]["description"] == "how many bytes; null where it cannot be known"
    assert all(each["description"] for table in tables.values() for each in table["properties"].values())


# -- the prompt -------------------------------------------------------------------------------------------------


class Prompt:
    """``sql -i`` in a terminal. ``says`` waits for a text, and returns all that came before it."""

    def __init__(self, home: Path) -> None:
        ours, theirs = pty.openpty()
        environment = {**os.environ, "TERM": "dumb", "XDG_STATE_HOME": str(home), "COLUMNS": "150"}
        command = (sys.executable, "-m", "dcpdump", "sql", "-i", REPLICA)
        self.process = subprocess.Popen(
            command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, start_new_session=True
        )
        os.close(theirs)
        self._terminal, self._seen = ours, b""

    def types(self, text: str) -> None:
        """Type a text."""
        os.write(self._terminal, text.encode())

    def says(self, text: str) -> str:
        """Wait until a text appears, and return what came up to it."""
        while text.encode() not in self._seen:
            assert select([self._terminal], [], [], PATIENCE)[0], f"{text!r} does not come: {self._seen!r}"
            self._seen += os.read(self._terminal, 4096)
        found, _, self._seen = self._seen.partition(text.encode())
        return found.decode()

    def __enter__(self) -> "Prompt":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._terminal)


def test_the_prompt_answers_until_it_is_left(tmp_path: Path) -> None:
    with Prompt(tmp_path) as prompt:
        prompt.says("sql> ")
        prompt.types("select count(*) as all_of_them\n")
        prompt.says("...> ")
        prompt.types("from frames;\n")
        assert prompt.says("27 frames read").rstrip().endswith("27")
        prompt.says("sql> ")
        prompt.types("select vbuket from frames;\n")
        prompt.says("hint: did you mean vbucket")
        prompt.types("select by_se\t;\n")
        prompt.says('Referenced column "by_seqno"')
        prompt.says("sql> ")
        prompt.types("\x04")
        assert prompt.process.wait(PATIENCE) == 0
    history = tmp_path / "dcpdump" / "sql-history"
    assert "select vbuket from frames;" in history.read_text()
    assert history.stat().st_mode & 0o777 == 0o600


def test_ctrl_c_aborts_the_query_and_not_the_prompt(tmp_path: Path) -> None:
    with Prompt(tmp_path) as prompt:
        prompt.says("sql> ")
        prompt.types("select count(*) from range(1000000) a, range(1000000) b where a.range + b.range < 0;\n")
        prompt.says("< 0;")
        os.killpg(prompt.process.pid, signal.SIGINT)  # in the query, or just before it begins
        prompt.says("sql> ")
        prompt.types("select 6 * 7;\n")
        prompt.says("42")
        prompt.types(".quit\n")
        assert prompt.process.wait(PATIENCE) == 0


def test_queries_may_come_from_a_file() -> None:
    found = run(f"dcpdump sql -i {REPLICA} -f csv -q", "select 1 a;\nfrom x;\n.tables\n.schema nothing\nselect\n2 b")
    assert found[:2] == (0, "a\r\n1\r\nframes\ngaps\nstreams\nfindings\nfiles\nb\r\n2\r\n")
    for error in ("Table with name x does not exist", "no such table: nothing"):
        assert error in found.err


def test_a_query_is_answered_where_no_thread_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_: Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(Thread, "start", refused)
    assert answered("select count(*) from frames", REPLICA) == [(27,)]
