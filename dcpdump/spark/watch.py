"""Decode captures in folders as they are closed, batch by batch; a crash and a restart lose and repeat nothing.

The captures of a batch are written down before it is decoded. After its rows are published, files record the checkpoint
of each chain and how many batches are done. An unfinished batch is repeated with the same captures from the same
checkpoints, and its files replace those of the first attempt.
"""

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

from dcpdump.errors import CaptureError, writing
from dcpdump.spark.chain import chains
from dcpdump.spark.filesystem import Input, RemotePath, below, inputs, make_folders, resolve_uri
from dcpdump.spark.indexing import Outcome
from dcpdump.spark.job import DecodingJob, JobEngine, run
from dcpdump.spark.output import CaptureOutput

#: The most captures of a batch, since rows appear after each batch.
MOST = 64
IDLE = 30.0  #: seconds after which a capture that did not grow is closed
_EVERY_S = 2.0


class Arrivals:
    """The batches of captures so far, kept in a folder of files, and the captures that arrived since.

    A capture that is still being written must not be read: it counts as closed when it has not grown for ``idle``
    seconds.
    """

    def __init__(self, names: Sequence[str], notes: str, idle: float = IDLE, most: int = MOST) -> None:
        self._names, self._notes, self._idle, self._most = names, notes, idle, most
        self._known: dict[str, int] = {}
        self._read = 0  # how many batches have their captures in _known

    def batch(self, number: int) -> list[Input]:
        """Return the captures of a batch as written down; an empty list if it is not there yet."""
        try:
            return [Input(*each) for each in json.loads(self._note(number).read())]
        except FileNotFoundError:
            return []

    def next(self, number: int) -> list[Input]:
        """Return the captures of a batch; a new batch is written down with the captures that arrived since."""
        known = self.batch(number)
        if known:
            return known
        self.count()
        fresh = self._closed()[: self._most]
        if fresh:
            self._note(number).write(json.dumps([each[:2] for each in fresh]).encode())
        return fresh

    def open(self) -> list[str]:
        """Return the paths of the captures that are not closed yet."""
        now = time.time()
        return [each.path for each in self._listed() if now - each.changed < self._idle]

    def count(self) -> int:
        """Read the batches written down, and return how many there are."""
        while known := self.batch(self._read):
            self._known.update((each.path, each.size) for each in known)
            self._read += 1
        return self._read

    def grown(self) -> list[str]:
        """Return the paths of captures that grew after they counted as closed, so that a part was not read."""
        self.count()
        return [each.path for each in self._listed() if each.size > self._known.get(each.path, each.size)]

    def _closed(self) -> list[Input]:
        now = time.time()
        fresh = [each for each in self._listed() if each.path not in self._known and now - each.changed >= self._idle]
        return [each._replace(changed=0.0) for each in sorted(fresh, key=lambda each: (each.changed, each.path))]

    def _listed(self) -> list[Input]:
        """Return the captures in the folders."""
        found: list[Input] = []
        for name in self._names:
            with suppress(CaptureError):  # there is no file yet
                found += inputs([name])
        return found

    def _note(self, number: int) -> RemotePath:
        return resolve_uri(self._notes) / f"{number:09d}.json"


class LeftChains:
    """The checkpoints of chains after each batch: a file for each, below a folder."""

    def __init__(self, home: str) -> None:
        self._home = below(home, "left")

    def path(self, chain: str, done: int) -> str:
        """Return the name of the file for a chain after ``done`` batches."""
        return below(self._home, f"{done:09d}@{chain}")

    def at(self, done: int) -> dict[str, str]:
        """Return, by chain, the file with its checkpoint after ``done`` batches."""
        return {chain: self.path(chain, number) for number, chain in self._files() if number <= done}

    def forget(self, done: int) -> None:
        """Remove the checkpoints of chains from before ``done`` batches: no batch begins there again."""
        kept = self.at(done).values()
        for number, chain in self._files():
            where = resolve_uri(self.path(chain, number))
            if number < done and self.path(chain, number) not in kept:
                where.system.delete_file(where.path)

    def _files(self) -> list[tuple[int, str]]:
        found = (each.base_name for each in resolve_uri(self._home).files())
        parts = [name.partition("@") for name in found if not name.endswith(".part")]
        return sorted((int(number), chain) for number, _, chain in parts)


class FolderWatch:
    """A watch over folders that decodes what arrives there. Folder and tag of ``job`` are set for each batch."""

    def __init__(
        self, names: Sequence[str], output: str, job: DecodingJob, chain: str = "folder", idle: float = IDLE
    ) -> None:
        self._names, self._output, self._job, self._chain = names, output, job, chain
        self._home = below(output, f".watch-{job.name}")
        self._left = LeftChains(self._home)
        self._done = resolve_uri(below(self._home, "done"))  # the file with the number of batches done
        if self._done.local:
            with writing(output):
                make_folders(resolve_uri(below(self._home, "arrivals/file")))
        self.arrivals = Arrivals(names, below(self._home, "arrivals"), idle)

    def batches(self, engine: JobEngine, seconds: float | None = None) -> Iterator[tuple[int, int, Outcome]]:
        """Yield the number, the count of captures and the outcome of each batch, without end or for ``seconds``."""
        until = None if seconds is None else time.monotonic() + seconds
        number = int(self._done.read()) if self._done.exists else 0
        while True:
            found = self.arrivals.next(number)
            if found:
                yield number, len(found), self._decode(engine, number, found)
                number += 1
            elif until is not None and time.monotonic() >= until:
                break
            else:
                time.sleep(_EVERY_S if until is None else max(0.0, min(_EVERY_S, until - time.monotonic())))

    def _decode(self, engine: JobEngine, number: int, found: Sequence[Input]) -> Outcome:
        """Decode a batch, publish its rows, and write the checkpoints of its chains."""
        tag, left = f"b{number:09d}-", self._left.at(number)
        begun = [each._replace(left=left.get(each.name, "")) for each in chains(found, self._chain, self._names)]
        with CaptureOutput(self._output, self._job.name) as output:
            outcome = run(engine, replace(self._job, folder=output.folder, tag=tag, end=False), begun)
            output.add(outcome.written, self._job.tables, f"part-{tag}")
            for chain, path in outcome.left.items():
                target = resolve_uri(self._left.path(chain, number + 1))
                make_folders(target)
                target.system.move(resolve_uri(path).path, target.path)
        self._done.write(str(number + 1).encode())  # this completes the batch
        self._left.forget(number + 1)
        return outcome
