"""Run a pipeline: index all chains, then decode all spans, in tasks that any engine runs."""

import gc
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Protocol, TypeVar

from dcpdump.spark.chain import Chain, ChainCheckpoint, ChainSpan, read_state
from dcpdump.spark.decoding import Decoding, Options
from dcpdump.spark.filesystem import below, resolve_uri
from dcpdump.spark.indexing import DISTANCE, Indexing, Outcome
from dcpdump.spark.output import Parts, capture_id
from dcpdump.startup import dataclass, field
from dcpdump.tls.secrets import Secrets

Item = TypeVar("Item")
Result = TypeVar("Result")


class JobEngine(Protocol):
    """An engine that runs tasks, on this machine or on Spark."""

    def run(self, name: str, task: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
        """Run a task for each item, and yield the results in any order."""

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

    def index(self, chain: Chain) -> Outcome:
        """Index a chain, and write the rows of all tables but ``frames``: this runs in a task."""
        begin = ChainCheckpoint.unpacked(resolve_uri(chain.left).read(), chain.left) if chain.left else None
        indexing = Indexing(chain, self.options, self.tables, self.distance)
        with Parts(self.folder, capture_id(self.name, chain.name), f"{self.tag}index") as parts:
            for table, batch in indexing.rows(self.secrets, begin, end=self.end):
                if table in self.tables or table == "index":
                    parts.feed(table, batch)
            outcome = replace(indexing.indexed, written=parts.close())
        (file,) = (each.path for each in outcome.written if each.table == "index")
        outcome.spans = [span._replace(file=file) for span in outcome.spans]
        if not self.end:
            outcome.left[chain.name] = below(self.folder, f"{file.rpartition('/')[2]}.left")
            resolve_uri(outcome.left[chain.name]).write(indexing.left().packed())
        return outcome

    def decode(self, spans: Sequence[ChainSpan]) -> Outcome:
        """Decode spans of one chain, and write their frames: this runs in a task."""
        outcome, secrets = Outcome(), self.secrets
        with Parts(self.folder, capture_id(self.name, spans[0].chain), f"{self.tag}{spans[0].number:06d}") as parts:
            for span in spans:
                with resolve_uri(below(self.folder, span.file)).open() as file:
                    begin = read_state(file, span)
                decoding = Decoding(span, begin, self.options, None if secrets is None else secrets.renewed())
                for batch in decoding:
                    parts.feed("frames", batch)
                outcome.cut += decoding.table.cut
            outcome.written = parts.close()
        return outcome


def run(engine: JobEngine, job: DecodingJob, chains: Sequence[Chain], key_log: bytes | None = None) -> Outcome:
    """Index chains and decode their spans; ``key_log``: secrets of TLS, None without any."""
    outcome = Outcome()
    if key_log is not None:
        job = replace(job, keys=engine.keys(key_log))
    largest = sorted(chains, key=lambda each: -each.size)  # the largest first, since it takes longest
    for result in engine.run("indexed", job.index, largest):
        outcome.merge(result)
    outcome.spans.sort(key=lambda span: (span.chain, span.number))
    outcome.files.sort(key=lambda row: str(row["file"]))
    if outcome.key_log:  # captures carry secrets
        job = replace(job, keys=engine.keys(b"\n".join((key_log or b"", outcome.key_log))))
    if "frames" in job.tables:
        for result in engine.run("decoded", job.decode, _grouped(outcome.spans, job.file_bytes)):
            outcome.merge(result)
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
