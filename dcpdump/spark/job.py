"""Run a pipeline: index all chains, then decode all spans, in tasks that any engine runs."""

import gc
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple, Protocol, TypeVar

from dcpdump.spark.chain import Chain, ChainCheckpoint, ChainSpan, read_state
from dcpdump.spark.decoding import Decoding, Options
from dcpdump.spark.filesystem import below, place
from dcpdump.spark.indexing import DISTANCE, Indexed, Indexing
from dcpdump.spark.output import Parts, Written, capture_id
from dcpdump.startup import dataclass, field
from dcpdump.tls.secrets import Secrets

Item = TypeVar("Item")
Result = TypeVar("Result")


class JobEngine(Protocol):
    """An engine that runs tasks, on this machine or on Spark."""

    def run(self, name: str, task: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[tuple[int, Result]]:
        """Run a task for each item, and yield the items' indexes and results, in any order."""

    def keys(self, key_log: bytes) -> "Callable[[], bytes]":
        """Return a function that returns these secrets in any task. They must not be in logs or plans."""


def result_of(task: Callable[[Item], Result], item: Item) -> Result:
    """Run a task, without collecting cycles: reference counts free its objects, and that takes a tenth of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        return task(item)
    finally:
        if enabled:
            gc.enable()


class IndexResult(NamedTuple):
    """The result of an index task: written files, and the file with the chain's checkpoint if more follow."""

    indexed: Indexed
    written: list[Written]
    left: str


@dataclass(frozen=True, slots=True)
class DecodingJob:
    """The settings of a run, the same for every task."""

    name: str  #: the input's capture_id, with which those of its chains begin
    folder: str  #: to which tasks write
    tables: frozenset[str]
    options: Options = field(default_factory=Options)
    distance: int = DISTANCE  #: bytes of packets between checkpoints
    file_bytes: int = DISTANCE  #: bytes of packets for one file of ``frames``
    tag: str = ""  #: the beginning of file names
    end: bool = True  #: False: more captures will follow
    keys: Callable[[], bytes] | None = None  #: returns a key log; None: TLS is not decrypted

    @property
    def secrets(self) -> Secrets | None:
        """Return the secrets of TLS, for one reading."""
        if self.keys is None:
            return None
        secrets = Secrets()
        secrets.feed(self.keys())
        return secrets

    def index(self, chain: Chain) -> IndexResult:
        """Index a chain, and write the rows of all tables but ``frames``: this runs in a task."""
        begin = ChainCheckpoint.unpacked(place(chain.left).read(), chain.left) if chain.left else None
        found, secrets = Indexing(chain, self.options, self.tables, self.distance), self.secrets
        with Parts(self.folder, capture_id(self.name, chain.name), f"{self.tag}index") as parts:
            for table, batch in found.rows(secrets, begin, end=self.end):
                if table in self.tables or table == "index":
                    parts.feed(table, batch)
            written = parts.close()
        (file,) = (each.path for each in written if each.table == "index")
        found.indexed.spans = [span._replace(file=file) for span in found.indexed.spans]
        left = ""
        if not self.end:
            left = below(self.folder, f"{file.rpartition('/')[2]}.left")
            place(left).write(found.left().packed())
        return IndexResult(found.indexed, written, left)

    def decode(self, spans: Sequence[ChainSpan]) -> tuple[list[Written], int]:
        """Decode spans of one chain, write their frames, return how many values were cut: this runs in a task."""
        cut, secrets = 0, self.secrets
        with Parts(self.folder, capture_id(self.name, spans[0].chain), f"{self.tag}{spans[0].number:06d}") as parts:
            for span in spans:
                with place(below(self.folder, span.file)).open() as file:
                    begin = read_state(file, span)
                decoding = Decoding(span, begin, self.options, None if secrets is None else secrets.renewed())
                for batch in decoding:
                    parts.feed("frames", batch)
                cut += decoding.table.cut
            return parts.close(), cut


@dataclass(slots=True)
class Outcome:
    """The result of a run: the files that count, and the summary of all chains."""

    found: Indexed = field(default_factory=Indexed)
    written: list[Written] = field(default_factory=list)
    cut: int = 0  #: rows in which a value was cut
    left: dict[str, str] = field(default_factory=dict)  #: by chain, the file with its checkpoint


def run(engine: JobEngine, job: DecodingJob, chains: Sequence[Chain], key_log: bytes | None = None) -> Outcome:
    """Index chains and decode their spans; ``key_log``: secrets of TLS, None without any."""
    outcome = Outcome()
    if key_log is not None:
        job = replace(job, keys=engine.keys(key_log))
    largest = sorted(chains, key=lambda each: -each.size)  # the largest first, since it takes longest
    logs = [key_log or b""]
    for at, result in engine.run("indexed", job.index, largest):
        outcome.found.merge(result.indexed)
        outcome.written += result.written
        outcome.left[largest[at].name] = result.left
        logs += [result.indexed.key_log] * bool(result.indexed.key_log)
    outcome.found.spans.sort(key=lambda span: (span.chain, span.number))
    outcome.found.files.sort(key=lambda row: str(row["file"]))
    if len(logs) > 1:  # captures carry secrets
        job = replace(job, keys=engine.keys(b"\n".join(logs)))
    if "frames" in job.tables:
        for _, (written, cut) in engine.run("decoded", job.decode, _grouped(outcome.found.spans, job.file_bytes)):
            outcome.written += written
            outcome.cut += cut
    outcome.written.sort()
    return outcome


def _grouped(spans: Sequence[ChainSpan], size: int) -> list[list[ChainSpan]]:
    """Group consecutive spans of a chain that make one file."""
    groups: list[list[ChainSpan]] = []
    for span in spans:
        if not span.packets and not span.ends:
            continue
        last = groups[-1] if groups else []
        full = sum(each.bytes for each in last) + span.bytes > size
        if last and last[0].chain == span.chain and not full:
            last.append(span)
        else:
            groups.append([span])
    return groups
