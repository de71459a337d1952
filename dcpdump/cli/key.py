"""Provide ``dcpdump key``: the history of a document, and whether what was captured of it is all."""

from collections.abc import Hashable, Iterable, Sequence

import click

from dcpdump.batch.frame_batch import FrameBatch
from dcpdump.cli.analysis import AnalysisResult, LedgerConsumer, analysis
from dcpdump.cli.frame_output import collection_notes
from dcpdump.cli.options import Invocation
from dcpdump.dissect import Dissector
from dcpdump.escape import bytes_of
from dcpdump.filter import Clause, clauses
from dcpdump.record import Record, blank_record, own_seqno
from dcpdump.render.history import HISTORY, Change, Coverage, coverage, lines, objects, vbucket_of
from dcpdump.render.style import Line
from dcpdump.render.text_columns import Fitting
from dcpdump.spec import find
from dcpdump.spec.opcodes import DCP_CACHE_TRANSFER
from dcpdump.streams.frame_event import Step, one_by_one
from dcpdump.streams.rollbacks import Revocations
from dcpdump.streams.stream import Stream

_DOCUMENT = [find(opcode).collection_key or opcode == DCP_CACHE_TRANSFER for opcode in range(256)]


class Tracing(LedgerConsumer):
    """A ledger that also keeps the frames of some keys."""

    evicted_are = "shown by their changes alone"

    def __init__(self, asked: Invocation) -> None:
        super().__init__(asked, self._collect)
        collection = asked.options["collection"]
        self._matches = clauses.by_key(asked.options["pattern"], asked="PATTERN")
        self._of_collection = None if collection is None else clauses.by_collection(collection)
        self._found: dict[int, Record] = {}  # by the number of the frame
        self._numbers: dict[Stream, list[int]] = {}  # of the frames that were found in each stream
        self._early: list[int] = []  # of those in streams to show that were evicted
        self._vbuckets: set[int | None] = set()  # of all frames that were found
        #: by vbucket of the streams to show that were evicted: whether one of them is incomplete
        self.gone: dict[int | None, bool] = {}

    def _collect(self, batch: FrameBatch) -> None:
        matches = self._matches
        keys = batch.keys
        for group in (each for each in batch.groups if each.plan.keyed):
            columns = (each[group.rows].tolist() for each in (keys.logical, keys.end, keys.sound))
            for row, begin, end, sound in zip(group.rows.tolist(), *columns, strict=True):
                alone = blank_record(batch.data[begin:end]) if sound else batch.record(row)
                if matches(alone):
                    self._keep(batch.record(row))
        for row in batch.records:
            record = batch.record(row) if _DOCUMENT[int(batch.header.opcode[row])] else None
            if record is not None and not record.frame.magic.response and matches(record):
                self._keep(record)

    def _keep(self, record: Record) -> None:
        if self._of_collection is None or self._of_collection(record):
            self._found[record.number] = record

    def remarks(self, dissection: Dissector) -> Iterable[str]:
        """Return what else is to be known, and which names of collections are not known."""
        return [*super().remarks(dissection), *collection_notes(self._asked.frames.texts, dissection)]

    def _learn(self, step: Step) -> None:
        for frame in one_by_one(step):
            stream = self.ledger.feed(frame)
            if stream is not None and frame.number in self._found:
                self._numbers.setdefault(stream, []).append(frame.number)
                self._vbuckets.add(stream.vbucket)

    def _judged_early(self, streams: Sequence[Stream]) -> None:
        for stream in streams:
            numbers = self._numbers.pop(stream, [])
            if self._wanted.stream(stream, self.begins_ns):
                self._early += numbers
                incomplete = stream.is_sending and not coverage(stream).complete
                self.gone[stream.vbucket] = self.gone.get(stream.vbucket, False) or incomplete

    def changes(self) -> list[Change]:
        """Return the changes that were found in the streams to show, redacted if that was requested."""
        of = {number: stream for stream in self.streams for number in self._numbers.get(stream, ())}
        revocations = Revocations(self.ledger)
        found: list[Change] = []
        sent: dict[Hashable, int] = {}  # the frame that brought a change last
        for number in sorted([*self._early, *of]):
            plain, stream = self._found[number], of.get(number)
            for each in _changes(plain, self._asked.shown(plain), self._matches):
                sent[each.identity] = number
                revoked = None
                if stream is not None and each.seqno is not None:
                    revoked = revocations.of(stream, number, each.seqno)
                found.append(each._replace(revoked=revoked))
        return [_as_it_stands(each, sent[each.identity]) for each in found]

    def covered(self, vbucket: int | None) -> list[Coverage]:
        """Return the coverage of the vbuckets of these keys; without any key found, of ``vbucket``."""
        vbuckets = self._vbuckets or {vbucket}
        return [coverage(stream) for stream in self.streams if stream.vbucket in vbuckets]

    def is_incomplete(self, vbucket: int | None) -> bool:
        """Return whether a message of a vbucket, or of any, may be missing in the streams to show."""
        mine = (stream for stream in self.streams if vbucket in (None, stream.vbucket) and stream.is_sending)
        gone = any(self.gone.values()) if vbucket is None else self.gone.get(vbucket, False)
        return gone or not all(coverage(stream).complete for stream in mine)


@analysis(
    HISTORY,
    "dcpdump key user::1001 node1.pcap",
    "dcpdump key 'order::*' captures/ --vbucket 12",
    "dcpdump key '/^user::[0-9]+$/' node1.pcap -f ndjson",
    params=[click.Argument(["pattern"]), "collection"],
    reader=Tracing,
)
def key(reading: Tracing, asked: Invocation, pattern: str, collection: str | None) -> AnalysisResult:
    """Show the history of documents whose key matches PATTERN: a glob, or a /regular expression/.

    For their vbuckets: which seqnos the capture has, and whether any of their bytes can have been lost. What is not in
    a complete range was not sent. A server sends only the latest version of a document in a snapshot. A change that the
    client had to take back is marked as revoked, with the rollback that did it.
    """
    changes = reading.changes()
    vbucket = None if any(sign in pattern for sign in "*?[/!") else vbucket_of(bytes_of(pattern))
    covered = reading.covered(vbucket)

    def text() -> list[Line | Fitting]:
        if not reading.streams and not reading.evicted.streams:
            return [reading.nothing()]
        incomplete, evicted = reading.is_incomplete(vbucket), vbucket in reading.gone
        return lines(changes, covered, vbucket, incomplete=incomplete, evicted=evicted)

    return AnalysisResult(text, lambda: objects(changes, covered, asked.value_bytes))


def _as_it_stands(change: Change, last: int) -> Change:
    """Return a change that is not revoked where it was sent again after the rollback. ``last``: the frame that did."""
    again = change.revoked is not None and last > (change.revoked.answer_frame or 0)
    return change._replace(revoked=None) if again else change


def _changes(plain: Record, shown: Record, matches: Clause) -> list[Change]:
    """Return the changes of a frame: one, or one for each document of a cache transfer that matches."""
    frame = shown.frame  # without the numbers of one that is damaged
    if not plain.content.items:
        seqno = own_seqno(frame)
        content, header = shown.content, frame.header
        rev = frame.get("rev_seqno")
        key = content.key or b"", content.collection
        return [Change(shown, seqno, *key, rev, header.cas, header.datatype)]
    fields: dict[int, dict[str, int]] = {}
    for field in frame.fields:
        if field.group == "items" and isinstance(field.value, int):
            fields.setdefault(field.item, {})[field.field.name] = field.value
    out: list[Change] = []
    for at, (item, hidden) in enumerate(zip(plain.content.items, shown.content.items, strict=False)):
        if matches(blank_record(item.key)):
            get = fields.get(at, {}).get
            numbers = get("rev_seqno"), get("cas", 0), get("datatype", 0)
            out.append(Change(shown, get("by_seqno"), hidden.key, item.collection, *numbers, at))
    return out
