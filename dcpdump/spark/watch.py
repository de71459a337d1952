"""Decode closed captures of a folder as they arrive, in a query that keeps running and survives a crash.

Spark numbers the batches and remembers which of them are done. Which captures a batch has is written down before it is
decoded, the state of the connections after it; a batch that was not done is done again, with the same captures and the
same state, and replaces what it left.
"""

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple

from pyarrow import fs
from pyspark.errors import StreamingQueryException
from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader

from dcpdump.errors import DcpdumpError, unwritable
from dcpdump.spark.arrivals import Arrival, Arrivals
from dcpdump.spark.filesystem import below, for_hadoop, make_folders, place
from dcpdump.spark.input import Input
from dcpdump.spark.job import InputPart, TaskOptions, run
from dcpdump.spark.outcome import Outcome
from dcpdump.spark.output import CaptureOutput
from dcpdump.spark.row_options import Options
from dcpdump.spark.work import BEGINNING, InputState

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_EVERY = "2 seconds"
_START_S = 30.0  #: seconds that a process may take to start


class Closed(DataSource):
    """A stream of captures that were closed."""

    @classmethod
    def name(cls) -> str:
        """Return the name that stands in ``format(…)``."""
        return "dcp-arrivals"

    def schema(self) -> str:
        """Return the columns."""
        return "batch bigint, path string, size bigint"

    def simpleStreamReader(self, schema: Any) -> "ArrivalReader":
        """Return a reader of arrivals."""
        sys.excepthook = _end_quietly  # of the process that Spark asks, which does nothing else
        return ArrivalReader(self.options)


def _end_quietly(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Report what ended the process, unless it is that Spark has closed the connection: the watch has ended."""
    if not issubclass(kind, ConnectionError):
        sys.__excepthook__(kind, error, trace)


class ArrivalReader(SimpleDataSourceStreamReader):
    """A reader of captures as they are closed. An offset is a number of batches."""

    def __init__(self, options: Mapping[str, str]) -> None:
        names = options["names"].split("\n")
        self._arrivals = Arrivals(names, options["notes"], float(options["idle"]))

    def initialOffset(self) -> dict[str, int]:
        """Return the offset before the first batch."""
        return {"batch": 0}

    def read(self, start: dict[str, int]) -> tuple[Iterator[tuple[Any, ...]], dict[str, int]]:
        """Return the rows of the next batch, if there is one, and the offset behind it."""
        number = int(start["batch"])
        found = self._arrivals.next(number)
        return _rows(number, found), {"batch": number + 1} if found else start

    def readBetweenOffsets(self, start: dict[str, int], end: dict[str, int]) -> Iterator[tuple[Any, ...]]:
        """Return the rows of earlier batches again."""
        numbers = range(int(start["batch"]), int(end["batch"]))
        return iter([row for number in numbers for row in _rows(number, self._arrivals.batch(number))])


def _rows(number: int, arrivals: Sequence[Arrival]) -> Iterator[tuple[Any, ...]]:
    """Return arrivals as rows, in an iterator that can be copied, as Spark does."""
    return iter([(number, each.path, each.size) for each in arrivals])


def _await_sources(query: "StreamingQuery") -> None:
    """Wait until the process that lists the captures has started: stopped before, it would complain."""
    until = time.monotonic() + _START_S
    while query.status["message"] == "Initializing sources" and time.monotonic() < until:
        time.sleep(0.05)


class BatchOutcome(NamedTuple):
    """The result of a batch."""

    number: int
    captures: int
    outcome: Outcome


class WatchOptions(NamedTuple):
    """What to watch, and what to write where."""

    names: Sequence[str]  #: of folders, as the pipeline takes them
    output: str
    capture_id: str
    choice: Options
    tables: Sequence[str]
    idle: float  #: a capture that did not grow for so many seconds is closed
    split_bytes: int


class FolderWatch:
    """A watch over folders that decodes what arrives there. ``report`` is called after each batch."""

    def __init__(self, spark: "SparkSession", options: WatchOptions, report: Callable[[BatchOutcome], None]) -> None:
        self._spark = spark
        self._options = options
        self._report = report
        self._captures = 0  # captures decoded since the start
        self._failure: DcpdumpError | None = None
        self._home = below(options.output, f".watch-{options.capture_id}")
        notes = below(self._home, "arrivals")
        try:
            if place(notes).local:
                make_folders(place(notes))  # before Spark does, which makes them readable for everybody
        except OSError as error:
            raise unwritable(error, options.output) from error
        self.arrivals = Arrivals(options.names, notes, options.idle)
        spark.dataSource.register(Closed)
        given = {"names": "\n".join(options.names), "notes": notes, "idle": str(options.idle)}
        self._stream = spark.readStream.format(Closed.name()).options(**given).load()

    def run(self, seconds: float | None = None, captures: int | None = None) -> None:
        """Run until interrupted; or for ``seconds``, or until ``captures`` were decoded. Raises what a batch raised."""
        writing = self._stream.writeStream.foreachBatch(self._do).trigger(processingTime=_EVERY)
        query = writing.option("checkpointLocation", for_hadoop(below(self._home, "checkpoint"))).start()
        until = None if seconds is None else time.monotonic() + seconds
        try:
            while not (
                (until is not None and time.monotonic() >= until)
                or (captures is not None and self._captures >= captures)
            ):
                if query.awaitTermination(1):
                    break
            _await_sources(query)
        except StreamingQueryException as error:
            raise self._failure or DcpdumpError(f"Spark gave up: {str(error).strip().splitlines()[0]}") from error
        finally:
            query.stop()

    def _do(self, batch: "DataFrame", number: int) -> None:
        try:
            self._decode(batch)
        except DcpdumpError as error:
            self._failure = error  # Spark turns it into text
            raise

    def _decode(self, batch: "DataFrame") -> None:
        arrived = batch.collect()
        if not arrived:
            return
        number, last = min(row["batch"] for row in arrived), max(row["batch"] for row in arrived)
        found = [Input(row["path"], row["size"]) for row in arrived]
        begin, since_ns = self._stand(number)
        options = self._options
        with CaptureOutput(options.output, options.capture_id) as output:
            job = TaskOptions(options.choice, output.folder, frozenset(options.tables), f"b{number:09d}-")
            part = InputPart(begin, since_ns, end=False)
            outcome = run(self._spark, found, job, split_bytes=options.split_bytes, part=part)
            output.add(outcome.written, options.tables, f"part-{job.tag}")
        lasts = [row["last_ns"] for row in outcome.files if row.get("last_ns") is not None]
        until_ns = max([*lasts, *([] if since_ns is None else [since_ns])], default=None)
        # The batch before the next may be done again: its state stays.
        place(self._path(last + 1)).write((outcome.after or BEGINNING).packed(until_ns))
        self._forget(number)
        self._report(BatchOutcome(number, len(found), outcome))
        self._captures += len(found)

    def _stand(self, number: int) -> tuple[InputState | None, int | None]:
        """Return the state of the connections before a batch, and the latest time (ns) before it."""
        if not number:
            return None, None
        path = self._path(number)
        return InputState.unpacked(place(path).read(), path)

    def _forget(self, number: int) -> None:
        """Remove the states before earlier batches, which are done."""
        system, folder = place(below(self._home, "lives"))
        for each in system.get_file_info(fs.FileSelector(folder)):
            if each.base_name.isdigit() and int(each.base_name) < number:
                system.delete_file(each.path)

    def _path(self, number: int) -> str:
        """Return where the state before a batch is kept."""
        return below(self._home, f"lives/{number:09d}")
