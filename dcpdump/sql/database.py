"""Run one query in DuckDB, which may read only the tables offered to it.

SQL may come from anywhere: DuckDB opens no file, loads no extension, reads no variable of Python, and its settings are
locked. Only queries are run. Stored tables, and data that does not fit memory, go to a temporary folder, which is
removed at the end.
"""

import atexit
import gc
import json
import os
import re
import signal
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import duckdb
import pyarrow as pa

from dcpdump.arrow.column_builder import encodable
from dcpdump.errors import DcpdumpError
from dcpdump.net.limits import DEFAULT
from dcpdump.processes import ENDING, started
from dcpdump.sql.query import Query, query_of
from dcpdump.text import nearest
from dcpdump.unfinished import temporary_folder

# -- signals end what runs outside of Python, which would learn of them only when it is done ----------

_ENDING = frozenset(ENDING)
_AGAIN_S = 0.05


class Calls:
    """Whether a call is under way that has to be interrupted. To be entered around each.

    Raises KeyboardInterrupt where a call would begin after the signal: what came before may have dropped its exception.
    """

    def __init__(self) -> None:
        self.over = threading.Event()
        self.over.set()
        self.interrupted = False

    def __enter__(self) -> None:
        self.over.clear()  # set first, so that a thread that sets the other flag sees it
        if self.interrupted:
            self.over.set()
            raise KeyboardInterrupt

    def __exit__(self, *_: object) -> None:
        self.over.set()


@contextmanager
def interrupting(interrupt: Callable[[], None], calls: Calls) -> Iterator[None]:
    """Call ``interrupt``, in a thread of its own, whenever a signal comes that ends things.

    It is called again and again until the call under way is over: what has not quite begun forgets an interrupt.
    Signals are only caught in the main thread: elsewhere nothing is called, nor where no thread can be started.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    reading, writing = os.pipe()
    os.set_blocking(writing, False)

    def watch() -> None:
        while numbers := os.read(reading, 16):
            if not _ENDING.isdisjoint(numbers):
                calls.interrupted = True
                interrupt()
                while not calls.over.wait(_AGAIN_S):
                    interrupt()

    watcher = threading.Thread(target=watch, name="interrupts", daemon=True)
    watched = started(watcher)
    before = signal.set_wakeup_fd(writing, warn_on_full_buffer=False) if watched else -1
    try:
        yield
    finally:
        calls.over.set()  # the signal may have come before a call was entered, or after it was left
        if watched:
            signal.set_wakeup_fd(before)
        os.close(writing)
        if watched:
            watcher.join()
        os.close(reading)


_SETTINGS = {
    "threads": 1,  # frames are read in the thread that catches signals
    "python_enable_replacements": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
}
#: Rows written at a time: a hundred columns of a hundred thousand rows would take most of the memory.
_STORE = "ATTACH '{}' AS stored (ROW_GROUP_SIZE 16384)"
#: Settings for rows with documents of up to 20 MB, of which few fit the memory.
_BOUNDED = (
    "PRAGMA verify_parallelism",  # else rows that were sorted on disk are merged 122,880 at a time
    "SET enable_caching_operators = false",  # else a condition collects 2,048 rows before it passes them on
    "SET streaming_buffer_size = '1MB'",  # bytes of the result that wait
)
_LOCKED = (
    "USE stored",
    "SET TimeZone = 'UTC'",
    "SET enable_external_access = false",
    "SET lock_configuration = true",
)
_ROWS = 250  #: rows of a batch of the result: few, as one may have hundreds of kilobytes
#: The same where each row may have a document of 20 MB; of a batch of many columns, which costs as much for few rows.
_LONG_ROWS, _LONG_WIDE_ROWS, _WIDE = 1, 8, 16
_INCOMING = "dcpdump_incoming"
_UNKNOWN_COLUMN = re.compile(r'column "([^"]+)" not found|does not have a column named "([^"]+)"')
_UNKNOWN_TABLE = re.compile(r"Table with name (\S+) does not exist")
#: Hints, by DuckDB's message.
_HINTS = {
    'syntax error at or near "x': "a number in hexadecimal stands in quotes: vbucket = '0x1f'",
    "(BLOB": "keys and values are bytes: decode(value) is their text, octet_length(value) their length",
    "Failure in decode": "try(decode(value)) is null where bytes are no text",
    "Malformed JSON": "try(decode(value)->>'$.name') is null where a value is not JSON",
}
_COLUMNS_HINT = "dcpdump export --schema lists the columns"


# DuckDB lists its objects that are left when the interpreter ends: none may be frozen by then.
atexit.register(gc.unfreeze)


class QueryError(DcpdumpError):
    """A query cannot be answered as it is written."""


class Engine:
    """A DuckDB for one query over tables of these schemas, with a limit of memory in bytes. Use it in a ``with``."""

    def __init__(self, schemas: Mapping[str, pa.Schema], memory: int = DEFAULT.memory) -> None:
        self._schemas = schemas
        self.long = True  #: rows may have complete documents
        self._folder = temporary_folder("dcpdump-sql")
        self._umask = os.umask(0o077)  # files of DuckDB are for their owner alone
        self._open = ExitStack()
        self._calls = Calls()
        self._failure: BaseException | None = None  # of what DuckDB reads from
        settings = {**_SETTINGS, "temp_directory": str(self._folder.path), "memory_limit": f"{memory}B"}
        try:
            self._connection = duckdb.connect(":memory:", config=settings)
            self._prepare()
        except (duckdb.OutOfMemoryException, MemoryError) as error:
            os.umask(self._umask)
            self._folder.remove()
            raise MemoryError(str(error)) from None

    def __enter__(self) -> "Engine":
        self._open.enter_context(interrupting(self._connection.interrupt, self._calls))
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()
        self._connection.close()
        os.umask(self._umask)
        self._folder.remove()

    def understood(self, text: str) -> Query:
        """Return the needs of a query. Raises QueryError for a text that is no query, or has unknown names."""
        if encodable(text) != text:
            raise QueryError("the query is not UTF-8", "", "write bytes as '\\xff'::BLOB")
        parsed = json.loads(self._execute("SELECT json_serialize_sql(?::VARCHAR)", text)[0][0])
        if parsed["error"]:
            raise self._refused(text, parsed)
        if not parsed["statements"]:
            raise QueryError("the query is empty", "", "SELECT, FROM, WITH, VALUES, DESCRIBE or SUMMARIZE")
        if len(parsed["statements"]) != 1:
            raise QueryError("one query is answered at a time", "", "write one SELECT, without what follows its ';'")
        for name, schema in self._schemas.items():
            self.offer(name, schema.empty_table())
        with self._errors():
            self._connection.sql(text)
        columns = {name: schema.names for name, schema in self._schemas.items()}
        return query_of(parsed["statements"][0], columns, self._moment)

    def offer(self, name: str, rows: Any) -> None:
        """Offer the rows of a table, or a reader of them, which can be read once."""
        with self._errors():
            self._connection.register(name, rows)

    def stream(self, name: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
        """Offer batches as a table that is read once, as they come."""
        self.offer(name, pa.RecordBatchReader.from_batches(schema, self._noting(batches)))

    def store(self, name: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
        """Offer batches as a table that can be read several times."""
        self._connection.unregister(name)
        self.stream(_INCOMING, schema, batches)
        with self._errors():
            self._connection.execute(f"CREATE TABLE {name} AS SELECT * FROM {_INCOMING}")
        self._connection.unregister(_INCOMING)

    def answer(self, text: str) -> tuple[pa.Schema, Generator[pa.RecordBatch, None, None]]:
        """Run a query, and return its columns and its rows. Raises QueryError, here or between rows."""
        with self._errors():
            relation = self._connection.sql(text)
            many = _LONG_WIDE_ROWS if len(relation.columns) > _WIDE else _LONG_ROWS
            reader = relation.to_arrow_reader(many if self.long else _ROWS)
        return reader.schema, self._rows(reader)

    def _prepare(self) -> None:
        """Set what the configuration of a connection cannot, and finally lock the settings."""
        self._attach(str(self._folder.path / "tables"))
        for setting in _BOUNDED:
            with suppress(duckdb.CatalogException):  # of another version
                self._execute(setting)
        for setting in _LOCKED:
            self._execute(setting)

    def _attach(self, path: str) -> None:
        """Open the database for stored tables: a file, or memory if no file can be written."""
        try:
            self._execute(_STORE.format(path.replace("'", "''")))
        except duckdb.IOException:
            self._execute(_STORE.format(":memory:"))

    def _rows(self, reader: pa.RecordBatchReader) -> Generator[pa.RecordBatch, None, None]:
        with self._errors():
            yield from reader

    def _noting(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield batches, and keep the exception that ends them, since DuckDB passes on only its text."""
        try:
            yield from batches
        except BaseException as error:
            self._failure = error
            raise

    def _execute(self, sql: str, *values: str) -> list[tuple[Any, ...]]:
        """Run our own SQL. Raises MemoryError."""
        with self._calls:
            try:
                rows: list[tuple[Any, ...]] = self._connection.execute(sql, list(values)).fetchall()
            except duckdb.OutOfMemoryException as error:
                raise MemoryError(str(error)) from None
            except (duckdb.Error, RuntimeError) as error:
                raise (KeyboardInterrupt if self._is_of_signal(error) else error) from None
        return rows

    def _is_of_signal(self, error: Exception) -> bool:
        """Return whether a signal ended a call: DuckDB may pass on only the text of its exception."""
        words = "interrupted", "KeyboardInterrupt"
        return self._calls.interrupted or any(word in str(error) for word in words)

    def _moment(self, text: str, kind: str) -> int | None:
        """Return the time (µs) that DuckDB reads in a text."""
        try:
            found = self._execute(f"SELECT epoch_us(CAST(CAST(? AS {kind}) AS TIMESTAMPTZ))", text)[0][0]
        except duckdb.Error:
            return None
        return found if isinstance(found, int) else None

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Convert DuckDB's errors to QueryError; raise errors of reading as they were."""
        try:
            with self._calls:
                yield
        except (duckdb.Error, pa.ArrowException, RuntimeError, OSError) as error:
            if self._failure is not None:
                raise self._failure from None
            if error.__context__ is not None and not isinstance(error.__context__, Exception):
                raise error.__context__ from None  # of a signal
            if isinstance(error, duckdb.InterruptException) or self._is_of_signal(error):
                raise KeyboardInterrupt from None
            if isinstance(error, duckdb.OutOfMemoryException) or "Out of Memory Error" in str(error):
                raise QueryError("the query needs more memory", "", "a larger --memory gives it more") from error
            if isinstance(error, duckdb.IOException):
                raise OSError(str(error).partition("\n")[0]) from error
            if isinstance(error, OSError):
                raise
            raise self._explained(str(error)) from error

    def _refused(self, text: str, parsed: Mapping[str, Any]) -> QueryError:
        """Return the error for a text that DuckDB did not parse, or parsed as something other than a query."""
        try:
            duckdb.extract_statements(text)
        except duckdb.Error as error:
            return self._explained(str(error))
        hint = "SELECT, FROM, WITH, VALUES, DESCRIBE or SUMMARIZE"
        return QueryError("only queries are answered, nothing is changed or written", "", hint)

    def _explained(self, message: str) -> QueryError:
        """Return DuckDB's own sentence, with the nearest name for an unknown one."""
        sentence, _, rest = message.partition("\n")
        column, table = _UNKNOWN_COLUMN.search(sentence), _UNKNOWN_TABLE.search(sentence)
        if column is not None:
            return QueryError(sentence, "", self._meant(column[1] or column[2]))
        if table is not None:
            return QueryError(sentence, "", f"the tables are {', '.join(self._schemas)}")
        near = next((line for line in rest.splitlines() if line.startswith("Did you mean")), "")
        known = next((hint for words, hint in _HINTS.items() if words in sentence), "")
        return QueryError(sentence, "", near or known)

    def _meant(self, name: str) -> str:
        """Return a hint: tables that have a missing column, or a similar column."""
        tables = [table for table, schema in self._schemas.items() if name.lower() in schema.names]
        if tables:
            return f"{name} is a column of {' and '.join(tables)}; {_COLUMNS_HINT}"
        names = dict.fromkeys(each for schema in self._schemas.values() for each in schema.names)
        near = nearest(name.lower(), list(names), n=3)
        return f"did you mean {' or '.join(near)}?" if near else _COLUMNS_HINT
