"""Run rounds of tasks on Spark: each piece of work is done by a task of its own, which returns a result.

A task gets its piece out of a file that all tasks of a round share, writes its rows itself (the JVM never sees them),
and returns one small cell, so nothing is shuffled. Does not know what the work is.
"""

import gc
import pickle
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from dcpdump.errors import OutputError
from dcpdump.spark.filesystem import below, open_binary, place

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Piece = TypeVar("Piece")
Result = TypeVar("Result")
#: Called with a round's name, and how many of how many tasks are done.
Progress = Callable[[str, int, int], None]


class TaskRounds:
    """Rounds of tasks over pieces of work. ``folder`` is where the pieces are written for the tasks."""

    def __init__(self, spark: "SparkSession", folder: str, progress: Progress | None = None) -> None:
        self._spark = spark
        self._folder = folder
        self._progress = progress
        self._count = 0
        self.moved = 0  #: bytes that went to tasks and came from them

    def run(self, name: str, task: Callable[[Piece], Result], works: Sequence[Piece]) -> list[Result]:
        """Run each piece of work in a task of its own, and return their results in order."""
        if not works:
            return []
        self._count += 1
        path, places = self._lay_out(works)

        def do(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    start, size = places[number]
                    with open_binary(path) as file:
                        file.seek(start)
                        work = pickle.loads(file.read(size))
                    # Reference counts free what is made here; looking for cycles would take a tenth of the time.
                    gc.disable()
                    try:
                        done = pickle.dumps(task(work), pickle.HIGHEST_PROTOCOL)
                    finally:
                        gc.enable()
                    yield pa.RecordBatch.from_pydict({"number": [number], "done": pa.array([done], pa.binary())})

        numbers = self._spark.range(0, len(works), 1, numPartitions=len(works))
        with self._watched(name, len(works)):
            try:
                rows = numbers.mapInArrow(do, "number bigint, done binary").collect()
            except Exception as error:
                raise _task_error(error) from error
        self.moved += sum(size for _, size in places) + sum(len(row["done"]) for row in rows)
        found = {row["number"]: pickle.loads(bytes(row["done"])) for row in rows}
        return [found[number] for number in range(len(works))]

    def _lay_out(self, works: Sequence[Any]) -> tuple[str, list[tuple[int, int]]]:
        """Write all pieces of work into one file; return its path, and the offset and size of each."""
        path = below(self._folder, f"works-{self._count}")
        where, places, at = place(path), [], 0
        where.system.create_dir(place(self._folder).path, recursive=True)
        with where.system.open_output_stream(where.path) as file:
            for work in works:
                data = pickle.dumps(work, pickle.HIGHEST_PROTOCOL)
                file.write(data)
                places.append((at, len(data)))
                at += len(data)
        return path, places

    @contextmanager
    def _watched(self, name: str, tasks: int) -> Iterator[None]:
        """Report progress for as long as the tasks run."""
        from py4j.protocol import Py4JError

        if self._progress is None:
            yield
            return
        progress, done = self._progress, threading.Event()
        tracker = self._spark.sparkContext.statusTracker()

        def watch() -> None:
            while not done.wait(0.5):
                try:
                    stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
                except (OSError, Py4JError):  # Java ended, which the other thread reports
                    return
                progress(name, sum(stage.numCompletedTasks for stage in stages if stage is not None), tasks)

        thread = threading.Thread(target=watch, daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()
            progress(name, tasks, tasks)


def _task_error(error: Exception) -> OutputError:
    """Return the error to report for a failed task: the cause in one sentence."""
    from py4j.protocol import Py4JError

    if isinstance(error, (OSError, Py4JError)) and not hasattr(error, "java_exception"):
        return OutputError(
            "the Java that Spark runs on ended", "", "--conf spark.driver.memory=4g gives it more memory"
        )
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    causes = [line for line in lines if ": " in line and not line.startswith(("at ", "File "))]
    return OutputError(f"a task failed: {causes[-1] if causes else type(error).__name__}", "", "--debug shows more")
