"""Run the tasks of a pipeline on Spark: each item is a partition of an RDD, and so a task.

Tasks return a few numbers, since they write the rows themselves; a DataFrame would first load all of Spark's SQL.
"""

import os
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import cache, partial
from typing import TYPE_CHECKING

from dcpdump.errors import OutputError
from dcpdump.spark.filesystem import working_in
from dcpdump.spark.job import Item, Result, result_of
from dcpdump.unfinished import UnfinishedFolder, temporary_folder

if TYPE_CHECKING:
    from pyspark import SparkContext


class SparkEngine(AbstractContextManager["SparkEngine"]):
    """An engine that runs tasks on Spark, each in its own partition; Spark retries failed ones."""

    def __init__(self, context: "SparkContext") -> None:
        self._context = context
        self._keys: UnfinishedFolder | None = None

    def __exit__(self, *_: object) -> None:
        if self._keys is not None:
            self._keys.remove()

    def keys(self, key_log: bytes) -> Callable[[], bytes]:
        """Return a function that returns these secrets in any task: Spark distributes them as a file, and only so.

        A machine fetches the file when it first needs it, so it is kept until the engine is left.
        """
        self._keys = self._keys or temporary_folder("dcpdump-keys")
        path = self._keys.path / f"dcpdump-{uuid.uuid4().hex}.keys"
        with open(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600), "wb") as file:
            file.write(key_log)
        self._context.addFile(str(path))
        return partial(_keys_of, path.name)

    def run(self, name: str, task: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
        """Run a task for each item, and yield the results. Raises OutputError where one fails."""
        home = os.getcwd()

        def do(item: Item) -> Result:
            _files()
            with working_in(home):
                return result_of(task, item)

        self._context.setJobDescription(f"dcpdump: {name}")
        try:
            yield from self._context.parallelize(items, len(items)).map(do).collect() if items else ()
        except Exception as error:
            raise task_error(error) from error


@cache
def _files() -> str:
    """Return the folder of the files that Spark distributes: an executor of its own has it below its folder."""
    from pyspark import SparkFiles

    return os.path.abspath(SparkFiles.getRootDirectory())


def _keys_of(name: str) -> bytes:
    """Return the secrets in the file that Spark distributes: this runs in a task."""
    with open(os.path.join(_files(), name), "rb") as file:
        return file.read()


def task_error(error: Exception) -> OutputError:
    """Return the error to report for a failed task: the cause in one sentence."""
    from py4j.protocol import Py4JError

    if isinstance(error, (OSError, Py4JError)) and not hasattr(error, "java_exception"):
        return OutputError(
            "the Java that Spark runs on ended", "", "--conf spark.driver.memory=4g gives it more memory"
        )
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    causes = [line for line in lines if ": " in line and not line.startswith(("at ", "File "))]
    return OutputError(f"a task failed: {causes[-1] if causes else type(error).__name__}", "", "--debug shows more")
