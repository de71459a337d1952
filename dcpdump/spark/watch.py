"""Decode captures of folders as they are closed, batch after batch; a crash and a restart lose and repeat nothing.

Which captures a batch has is written down before it is decoded. Once its rows are published a note says where each
chain was left: with that it is done. A batch that was not done is done again, with the same captures from the same
places, and its files take the place of those that it left.
"""

import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

from pyarrow import fs

from dcpdump.errors import CaptureError, unwritable
from dcpdump.spark.chain import chains
from dcpdump.spark.filesystem import Input, RemotePath, below, inputs, is_remote, make_folders, place
from dcpdump.spark.job import Begun, Engine, Job, Outcome, run
from dcpdump.spark.output import CaptureOutput

#: Captures of one batch, at most: so much is decoded before the next rows appear.
MOST = 64
IDLE = 30.0  #: seconds after which a capture that did not grow is closed
_EVERY_S = 2.0


class Arrivals:
    """The batches of captures so far, kept in a folder of notes, and the captures that arrived since.

    A capture that is still being written must not be read: it counts as closed when it has not grown for ``idle``
    seconds.
    """

    def __init__(self, names: Sequence[str], notes: str, idle: float = IDLE, most: int = MOST) -> None:
        self._names, self._notes, self._idle, self._most = names, notes, idle, most
        self._known: dict[str, int] = {}
        self._read = 0  # batches whose captures are in _known

    def batch(self, number: int) -> list[Input]:
        """Return the captures of a batch as they were written down; an empty list if it is not there yet."""
        try:
            return [Input(*each) for each in json.loads(self._note(number).read())]
        except FileNotFoundError:
            return []

    def next(self, number: int) -> list[Input]:
        """Return the captures of a batch; if it is not there yet, write it down with those that arrived since."""
        known = self.batch(number)
        if known:
            return known
        self.count()
        fresh = self._closed()[: self._most]
        if fresh:
            self._note(number).write(json.dumps(fresh).encode())
        return fresh

    def count(self) -> int:
        """Return how many batches were written down, and know their captures."""
        while known := self.batch(self._read):
            self._known.update(known)
            self._read += 1
        return self._read

    def open(self) -> list[str]:
        """Return the paths of the captures that are there and not closed yet."""
        now = time.time()
        return [each.path for changed, each in self._listed() if now - changed < self._idle]

    def grown(self) -> list[str]:
        """Return the paths of captures that grew after they were taken as closed: their remainder was not read."""
        self.count()
        return [each.path for _, each in self._listed() if each.size > self._known.get(each.path, each.size)]

    def _closed(self) -> list[Input]:
        now = time.time()
        fresh = [(changed, each) for changed, each in self._listed() if each.path not in self._known]
        return [each for changed, each in sorted(fresh) if now - changed >= self._idle]

    def _listed(self) -> list[tuple[float, Input]]:
        """Return the captures that are there, and when each was last modified."""
        found: list[tuple[float, Input]] = []
        for name in self._names:
            with suppress(CaptureError):  # nothing is there yet
                for each in inputs([name]):
                    with suppress(FileNotFoundError):  # deleted meanwhile, as by the writer of a ring
                        found.append((_changed(each.path), each))
        return found

    def _note(self, number: int) -> RemotePath:
        return place(self._notes) / f"{number:09d}.json"


def _changed(path: str) -> float:
    """Return the time, in seconds since the epoch, at which a file was last modified. Raises FileNotFoundError."""
    if is_remote(path):
        where = place(path)
        info = where.system.get_file_info(where.path)
        if info.type is fs.FileType.NotFound:
            raise FileNotFoundError(path)
        changed: float = info.mtime_ns / 1e9
        return changed
    return os.stat(path).st_mtime


class BatchOutcome(NamedTuple):
    """The result of a batch."""

    number: int
    captures: int
    outcome: Outcome


class WatchOptions(NamedTuple):
    """What to watch, and what to write where."""

    names: Sequence[str]  #: of folders, as the pipeline takes them
    output: str
    job: Job  #: whose folder and tag are those of each batch
    chain: str = "folder"
    idle: float = IDLE  #: a capture that did not grow for so many seconds is closed


class FolderWatch:
    """A watch over folders that decodes what arrives there. ``report`` is called after each batch."""

    def __init__(self, engine: Engine, options: WatchOptions, report: Callable[[BatchOutcome], None]) -> None:
        self._engine, self._options, self._report = engine, options, report
        self._home = below(options.output, f".watch-{options.job.name}")
        try:
            if place(self._home).local:
                make_folders(place(below(self._home, "arrivals/file")))
        except OSError as error:
            raise unwritable(error, options.output) from error
        self.arrivals = Arrivals(options.names, below(self._home, "arrivals"), options.idle)

    def run(self, seconds: float | None = None, captures: int | None = None) -> None:
        """Run until interrupted; or for ``seconds``, or until ``captures`` were decoded."""
        until = None if seconds is None else time.monotonic() + seconds
        number, left = self._done()
        decoded = 0
        while captures is None or decoded < captures:
            found = self.arrivals.next(number)
            if found:
                left = self._decode(number, found, left)
                number, decoded = number + 1, decoded + len(found)
            elif until is not None and time.monotonic() >= until:
                break
            else:
                time.sleep(_EVERY_S if until is None else max(0.0, min(_EVERY_S, until - time.monotonic())))

    def _decode(self, number: int, found: Sequence[Input], left: dict[str, str]) -> dict[str, str]:
        """Decode a batch, publish its rows, note where each chain was left, and return that."""
        options, tag = self._options, f"b{number:09d}-"
        begun = [
            Begun(each, below(self._home, left[each.name]) if each.name in left else "")
            for each in chains(found, options.chain, options.names)
        ]
        with CaptureOutput(options.output, options.job.name) as output:
            outcome = run(self._engine, replace(options.job, folder=output.folder, tag=tag, end=False), begun)
            output.add(outcome.written, options.job.tables, f"part-{tag}")
            for at, (chain, path) in enumerate(sorted(outcome.left.items())):
                left = {**left, chain: f"left/{number:09d}-{at:06d}"}
                make_folders(place(below(self._home, left[chain])))
                place(path).system.move(place(path).path, place(below(self._home, left[chain])).path)
        # With this the batch is done.
        place(below(self._home, f"done/{number:09d}.json")).write(json.dumps(left).encode())
        self._forget(number, left)
        self._report(BatchOutcome(number, len(found), outcome))
        return left

    def _done(self) -> tuple[int, dict[str, str]]:
        """Return how many batches are done, and by chain the file that says where the last of them left it."""
        notes = sorted(name for name, _ in self._files("done"))
        if not notes:
            return 0, {}
        left: dict[str, str] = json.loads(place(below(self._home, f"done/{notes[-1]}")).read())
        return int(notes[-1].partition(".")[0]) + 1, left

    def _forget(self, number: int, left: dict[str, str]) -> None:
        """Remove where chains were left before, and the notes of it."""
        for name, path in self._files("left"):
            if f"left/{name}" not in left.values():
                place(self._home).system.delete_file(path)
        for name, path in self._files("done"):
            if name < f"{number:09d}":
                place(self._home).system.delete_file(path)

    def _files(self, name: str) -> Iterator[tuple[str, str]]:
        where = place(below(self._home, name))
        for each in where.system.get_file_info(fs.FileSelector(where.path, allow_not_found=True)):
            yield each.base_name, each.path
