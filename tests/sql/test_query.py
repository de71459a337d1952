"""What a query needs is found in its tree: tables, columns of frames, the frames themselves. The rest is everything."""

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from dcpdump.arrow.folder import SCHEMAS
from dcpdump.sql.database import Engine, QueryError
from dcpdump.sql.predicates import options_of, window_of
from dcpdump.sql.query import Query

NOON = 1_763_640_000
FIRST = {name: make().names[0] for name, make in SCHEMAS.items()}


Understood = Callable[[str], Query]


@pytest.fixture(name="understood", scope="module")
def _understood() -> Iterator[Understood]:
    """Yield what an engine, which understanding does not change, makes of a query."""
    with Engine({name: make() for name, make in SCHEMAS.items()}) as engine:
        yield engine.understood


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("select 1", {}),
        ("select count(*) from frames", {"frames": ""}),
        ("select Name, count(*) from Frames group by 1 order by 2, max(length) desc", {"frames": "name length"}),
        ("select f.key from frames f where f.opcode = 87", {"frames": "key opcode"}),
        ("select * from (select vbucket, count(*) from frames group by all)", {"frames": "vbucket"}),
        ("select s.* from streams s join frames using (connection)", {"frames": "connection", "streams": "*"}),
        ("select frame from frames qualify row_number() over (partition by vbucket) = 1", {"frames": "vbucket"}),
        ("from findings where time > (select min(time) from frames)", {"findings": "*", "frames": "time"}),
        ("with few as (select name from frames) select * from few a, few b", {"frames": "name"}),
        ("select why, count(*) from streams where state = 'open' group by 1", {"streams": "why state"}),
        ("select count(*) from gaps, files", {"gaps": "", "files": ""}),
        ("describe frames", {}),
    ],
)
def test_what_a_query_names_is_all_it_needs(text: str, columns: dict[str, str], understood: Understood) -> None:
    assert understood(text).columns == {
        table: frozenset(SCHEMAS[table]().names if names == "*" else {FIRST[table], *names.split()})
        for table, names in columns.items()
    }


@pytest.mark.parametrize(
    "text",
    [
        "from {table}",
        "select {table}.* exclude (connection) from {table}",
        "select f from {table} f",
        "select columns('.*seqno') from {table}",
        "select #3 from {table}",
        "select * from {table} natural join gaps",
        "select a from {table} as f(a, b)",
        "summarize {table}",
        "select * from query('select * from {table}')",
        "with x as (from {table}) select name from x",
    ],
)
@pytest.mark.parametrize("table", ["frames", "streams"])
def test_a_query_that_may_take_any_column_gets_all(text: str, table: str, understood: Understood) -> None:
    assert understood(text.format(table=table)).columns[table] == frozenset(SCHEMAS[table]().names)


@pytest.mark.parametrize(
    ("condition", "options"),
    [
        ("opcode = 87", {"opcode": "87"}),
        ("87 = opcode", {"opcode": "87"}),
        ("name = 'DCP_MUTATION'", {"opcode": "87"}),
        ("name in ('DCP_MUTATION', 'DCP_NOOP') and opcode > 87", {"opcode": "92"}),
        ("opcode = 87 or name = 'DCP_NOOP'", {"opcode": "87,92"}),
        ("opcode = 87 or key is not null", {}),
        ("opcode = 87 and key is not null", {"opcode": "87"}),
        ("not opcode = 87", {}),
        ("opcode + 0 = 87", {}),
        ("opcode = 87.5", {}),
        ("vbucket in (1, 2, 3, 700) and vbucket < 700", {"vbucket": "1-3"}),
        ("vbucket between 5 and 9 or vbucket = 10", {"vbucket": "5-10"}),
        ("vbucket >= 65530", {"vbucket": "65530-65535"}),
        ("by_seqno between 10 and 18446744073709551615", {"seqno": "10-18446744073709551615"}),
        ("kind = 'response' and connection = 0", {"kind": "response", "connection": "0-0"}),
        ("frame <= 7 and opaque > 5", {"frame": "0-7", "opaque": "6-4294967295"}),
        ("frames.frame <= 7", {"frame": "0-7"}),
        ("vbucket > 70000", {"frame": "!0-"}),
        ("opcode = 1 and opcode = 2", {"frame": "!0-"}),
        ("status = 0 and key = 'k'", {}),
    ],
)
def test_simple_conditions_choose_frames_before_they_are_rows(
    condition: str, options: dict[str, str], understood: Understood
) -> None:
    assert options_of(understood(f"select count(*) from frames where {condition}").hint) == options


@pytest.mark.parametrize(
    ("condition", "first", "last"),
    [
        ("time >= timestamp '2025-11-20 12:00' and time < '2025-11-20 13:00'", NOON, NOON + 3600),
        ("time between '2025-11-20T13:00:00+01:00' and timestamptz '2025-11-20 12:59:59.999999'", NOON, NOON + 3600),
        ("time_ns >= 1763640000000000000 and time_ns <= 1763643599999999999", NOON, NOON + 3600),
        ("time >= date '2025-11-20'", NOON - 12 * 3600, None),
    ],
)
def test_conditions_on_times_are_a_window(condition: str, first: int, last: int | None, understood: Understood) -> None:
    window = window_of(understood(f"select count(*) from frames where {condition}").hint)
    assert window is not None
    assert window.since is not None
    assert window.since.ns == first * 10**9
    assert (None if window.until is None else window.until.ns) == (None if last is None else last * 10**9 - 1)


@pytest.mark.parametrize(
    "text",
    [
        "select (select max(vbucket) from frames) from frames where opcode = 1",
        "select * from streams left join frames on true where opcode = 1",
        "select * from frames tablesample 10% where opcode = 1",
        "select * from frames where opcode = 1 using sample 3",
        "select * from frames union all select * from frames where opcode = 1",
        "select opcode from (select opcode + 1 as opcode from frames) where opcode = 1",
        "select * from frames f positional join streams s where f.opcode = 1",
        "select * from frames where time > now() - interval 3 days or time = 'infinity'",
        "select * from query('from frames') where opcode = 1",
        "select * from frames as f(opcode) where opcode = 1",
    ],
)
def test_a_condition_that_not_all_references_share_chooses_nothing(text: str, understood: Understood) -> None:
    assert understood(text).hint == {}


def test_several_references_get_what_any_of_them_wants(understood: Understood) -> None:
    text = "from frames where opcode = 87 and vbucket = 5 union all from frames where opcode = 86"
    assert options_of(understood(text).hint) == {"opcode": "86,87"}


@pytest.mark.parametrize(
    ("text", "streamed"),
    [
        ("select max(frame) from frames order by 1 limit 5", True),
        ("select * from (from frames limit 5)", True),
        ("from frames a, frames b", False),
        ("with x as (from frames) from x a, x b", False),
        ("select exists(from streams) from frames", False),
        ("from streams", True),
        ("select count(*) from streams, gaps", False),
        ("select name, count(*) from frames group by name", True),
        ("select name from frames order by key", True),
        ("from frames order by key limit 5", True),
        ("from frames order by key limit 3000 offset 7000", True),
        ("from frames order by key limit 3001 offset 7000", False),
        ("from frames order by key limit 1 offset (select 1)", False),
        ("from frames order by key limit 5%", False),
        ("from frames order by key", False),
        ("from frames order by key offset 5", False),
        ("select distinct * from frames", False),
        ("select *, lag(frame) over (order by key) from frames", False),
        ("select * exclude(frame), count(*) from frames group by all", False),
        ("select state, count(*) from streams group by state", False),
        ("with recursive x as (select 1 n union all select n + 1 from x, frames where n < 3) from x", False),
    ],
)
def test_rows_are_only_streamed_to_a_query_that_reads_one_table_once_and_holds_little(
    text: str, streamed: bool, understood: Understood
) -> None:
    assert understood(text).streamed is streamed


@pytest.mark.parametrize(
    ("text", "what", "hint"),
    [
        ("select vbuket from frames", 'Referenced column "vbuket" not found', "did you mean vbucket"),
        ("select message from frames", '"message" not found', "message is a column of findings; dcpdump export"),
        ("select f.verdikt from streams f", '"verdikt"', "did you mean verdict"),
        ("select zzzzz from frames", 'Referenced column "zzzzz" not found', "dcpdump export --schema"),
        ("from frame", "Table with name frame does not exist", "the tables are frames, gaps, streams, findings, files"),
        ("select coutn(*) from frames", "Scalar Function with name coutn does not exist", "Did you mean"),
        ("select length(value) from frames", "'length(BLOB)'", "octet_length(value)"),
        ("from frames where key like 'a%'", "(BLOB, ", "decode(value)"),
        ("selec 1", 'syntax error at or near "selec"', ""),
        ("", "the query is empty", "SELECT"),
        ("select 1; select 2", "one query is answered at a time", "write one SELECT"),
        ("create table x (i int)", "only queries are answered", "SELECT, FROM"),
        ("set threads = 4", "only queries are answered", "SELECT, FROM"),
        ("pragma database_list", "only queries are answered", "SELECT, FROM"),
        ("copy frames to '/tmp/frames.csv'", "only queries are answered", "SELECT, FROM"),
        ("attach '/tmp/some.db'", "only queries are answered", "SELECT, FROM"),
        ("from read_text('/etc/passwd')", "file system operations are disabled", ""),
        ("from glob('/*')", "file system operations are disabled", ""),
        ("from '/etc/passwd'", "Table with name /etc/passwd does not exist", "the tables are"),
        ("from ALL_OF", "Table with name", "the tables are"),
    ],
)
def test_what_cannot_be_answered_is_said_in_the_words_of_duckdb(
    text: str, what: str, hint: str, understood: Understood
) -> None:
    with pytest.raises(QueryError) as raised:
        understood(text)
    assert what in raised.value.what
    assert hint in raised.value.hint
    assert "\n" not in raised.value.what


def test_a_value_that_is_not_what_a_query_takes_it_for_is_explained_and_can_be_passed_over() -> None:
    for text, hint in (
        ("decode('\\xff'::blob)", "try(decode(value)) is null where bytes are no text"),
        ("decode('n_2'::blob)->>'$.a'", "try(decode(value)->>'$.name') is null where a value is not JSON"),
    ):
        with Engine({}) as engine:
            with pytest.raises(QueryError) as caught:
                list(engine.answer(f"select {text}")[1])
            assert caught.value.hint == hint
            assert [batch.to_pylist() for batch in engine.answer(f"select try({text}) a")[1]] == [[{"a": None}]]


def test_a_query_that_needs_more_memory_says_so() -> None:
    with Engine({}, memory=1 << 20) as engine, pytest.raises(QueryError) as caught:
        list(engine.answer("select range, repeat('x', 1000) from range(100_000) order by 2")[1])
    assert (caught.value.what, caught.value.hint) == ("the query needs more memory", "a larger --memory gives it more")


def test_wide_rows_are_sorted_in_less_memory_than_they_take() -> None:
    columns = ", ".join(f"hash(range + {n}) c{n}" for n in range(130))
    with Engine({}, memory=64 << 20) as engine:
        _, rows = engine.answer(f"select {columns} from range(90_000) order by 1")
        assert sum(batch.num_rows for batch in rows) == 90_000


@pytest.mark.parametrize("room", [True, False])
def test_tables_are_stored_in_a_file_for_their_owner_alone_or_in_memory_where_there_is_no_room(
    room: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    resource = pytest.importorskip("resource")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    rows = pa.table({"n": [1, 2]})
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, before if room else (0, before[1]))
    try:
        engine = Engine({"t": rows.schema})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    with engine:
        (folder,) = tmp_path.iterdir()
        assert folder.stat().st_mode & 0o777 == 0o700
        engine.store("t", rows.schema, rows.to_batches())
        file = (folder / "tables").stat()
        assert (file.st_mode & 0o777, bool(file.st_size)) == (0o600, room)
        _, found = engine.answer("select a.n from t a, t b where a.n > b.n")
        assert [batch.to_pylist() for batch in found] == [[{"n": 2}]]
    assert not list(tmp_path.iterdir())


def test_what_cannot_be_written_to_disk_is_no_matter_of_the_query(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    resource = pytest.importorskip("resource")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    with Engine({}, memory=16 << 20) as engine:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, before[1]))
        try:
            with pytest.raises(OSError, match="Could not write file"):
                list(engine.answer("select hash(range) n, hash(range + 1) from range(1_000_000) order by 1")[1])
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
