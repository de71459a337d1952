"""Run the tasks of a pipeline on this machine, in a few processes: the same tasks that Spark runs."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from os import read
from select import select

from dcpdump.errors import DcpdumpError
from dcpdump.processes import ForkedWorker, can_fork, send_object
from dcpdump.spark.job import Item, Result, result_of

#: Called with the name of the tasks, how many are done, and how many there are.
Progress = Callable[[str, int, int], None]

_NUMBER = 4  #: bytes of an order: the index of the next item


class LocalEngine:
    """An engine that runs tasks on this machine, in a number of processes."""

    def __init__(self, jobs: int, progress: Progress | None = None) -> None:
        self._jobs, self._progress = jobs, progress

    def keys(self, key_log: bytes) -> Callable[[], bytes]:
        """Return a function that returns these secrets: forked processes have them."""
        return lambda: key_log

    def run(self, name: str, task: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
        """Run a task for each item, and yield the results as they come.

        An item whose process was killed is repeated in this process. Raises the error of a task.
        """
        workers: list[ForkedWorker] = []
        if self._jobs > 1 and len(items) > 1 and can_fork():
            with suppress(OSError):  # no more processes are allowed: continue with those started
                for _ in range(min(self._jobs, len(items))):
                    workers.append(ForkedWorker(partial(_work, task, items)))
        try:
            for done, found in enumerate(_shared(workers, task, items), 1):
                yield found
                if self._progress is not None:
                    self._progress(name, done, len(items))
        finally:
            for worker in workers:
                worker.kill()


def _shared(workers: Sequence[ForkedWorker], task: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
    waiting = [*range(len(items))][::-1]
    busy: dict[int, tuple[ForkedWorker, int]] = {}  # by file descriptor: the worker and its item
    idle = list(workers)
    while waiting or busy:
        if waiting and not workers:
            yield result_of(task, items[waiting.pop()])
            continue
        while waiting and idle:
            worker = idle.pop()
            busy[worker.results] = worker, waiting.pop()
            worker.send(busy[worker.results][1].to_bytes(_NUMBER, "big"))
        if waiting and not busy:
            workers = ()  # all of them were killed
            continue
        for results in select(list(busy), [], [])[0]:
            worker, number = busy[results]
            arrived = worker.arrived()
            if arrived is None:
                del busy[results]
                yield result_of(task, items[number])
                continue
            for message in arrived:
                del busy[results]
                idle.append(worker)
                if isinstance(message, (DcpdumpError, OSError)):
                    raise message
                yield message


def _work(task: Callable[[Item], Result], items: Sequence[Item], orders: int, results: int) -> None:
    while order := read(orders, _NUMBER):
        try:
            done: Result | DcpdumpError | OSError = result_of(task, items[int.from_bytes(order, "big")])
        except (DcpdumpError, OSError) as error:
            done = error
        send_object(results, done)
