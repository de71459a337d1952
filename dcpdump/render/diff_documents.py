"""Write which documents differ between two captures: their last changes, for people and for programs."""

from collections.abc import Iterator
from itertools import islice

from dcpdump.compare.comparison import Absence
from dcpdump.compare.documents import Document, DocumentDifferences, Documents, judged
from dcpdump.escape import safe
from dcpdump.plural import counted
from dcpdump.record import Json
from dcpdump.redact import Redactor
from dcpdump.render.lines import Line, LineKind
from dcpdump.render.text_columns import Fitting, Table

_HEADS = ("vb", "collection", "key", "A's seqno", "B's seqno", "A's CAS", "B's CAS", "differs")
_RIGHT = ("vb", "collection", "A's seqno", "B's seqno")
_NAMES = "AB"


class DocumentRows:
    """The documents that differ between two captures, and those of which losses forbid to say so."""

    def __init__(self, a: Documents, b: Documents, redactor: Redactor | None, most: int) -> None:
        self._a, self._b, self._redactor, self._most = a, b, redactor, most
        only_a, only_b, differ, self._equal = a.against(b)
        self._known, self._unknown = judged(a, b, DocumentDifferences(differ, only_a, only_b))

    @property
    def differs(self) -> bool:
        """Return whether any document is known to differ."""
        return bool(len(self._known))

    @property
    def remark(self) -> tuple[str, str] | None:
        """Return what to say of captures that have no document in common, and what to try."""
        known = self._known
        if self._equal or len(self._unknown) or len(known.differ) or not (len(known.only_a) and len(known.only_b)):
            return None
        return "no document is in both captures", "dcpdump stats shows the vbuckets and messages of a capture"

    def lines(self) -> "Iterator[Line | Fitting]":
        """Yield the documents that differ, those in both captures first, then what cannot be known, and the total."""
        rows = [self._cells(a, b, known) for a, b, known in self._pairs(self._most)]
        if rows:
            yield Table(_HEADS, rows, _RIGHT, ("A's CAS", "B's CAS", "collection"))
        count = len(self._known) + len(self._unknown)
        if count > self._most:
            yield Line(LineKind.PLAIN, f"{count - self._most:,} more: --frames N, or -f ndjson for all")
        both = counted(self._equal, "document")
        if not count:
            yield Line(LineKind.GOOD, f"no difference: the last change of {both} is the same in both")
            return
        parts = [f"{both} equal", f"{len(self._known.differ):,} changed"]
        only = zip(_NAMES, (self._known.only_a, self._known.only_b), strict=True)
        parts += [f"{len(rows):,} only in {name}" for name, rows in only]
        parts += [f"{len(self._unknown):,} not known, as bytes were not captured"] * bool(len(self._unknown))
        yield Line(LineKind.PROBLEM, "documents by their last change: " + ", ".join(parts))

    def objects(self) -> Iterator[Json]:
        """Yield the documents that differ as objects, and the total."""
        for a, b, is_known in self._pairs(None):
            yield self._object(a, b, is_known)
        known = self._known
        counts = {"both": self._equal, "only_a": len(known.only_a), "only_b": len(known.only_b)}
        counts |= {"changed": len(known.differ)} | ({"unknown": len(self._unknown)} if len(self._unknown) else {})
        yield {"type": "documents", "equal": not (len(known) or len(self._unknown)), **counts}

    def _pairs(self, most: int | None) -> Iterator[tuple[Document | None, Document | None, bool]]:
        """Yield documents as A and B have them, and whether it is known that they differ."""
        return islice(self._all_pairs(), most)

    def _all_pairs(self) -> Iterator[tuple[Document | None, Document | None, bool]]:
        for rows, known in ((self._known, True), (self._unknown, False)):
            for a, b in rows.differ:
                yield self._a.document(int(a)), self._b.document(int(b)), known
            for row in rows.only_a:
                yield self._a.document(int(row)), None, known
            for row in rows.only_b:
                yield None, self._b.document(int(row)), known

    def _key(self, key: bytes) -> str:
        return safe(key if self._redactor is None else self._redactor.hash(key))

    def _why(self, a: Document | None, b: Document | None) -> str:
        """Return why it cannot be known whether a document differs."""
        one = _one(a, b)
        name, side = ("A", self._a) if a is None or (b is not None and a.seqno < b.seqno) else ("B", self._b)
        return f"cannot be known: {name}'s capture {side.losses.text(one.vbucket)}"

    def _cells(self, a: Document | None, b: Document | None, known: bool) -> tuple[str, ...]:
        one = _one(a, b)
        numbers = ("" if each is None else str(each.seqno) for each in (a, b))
        cas = ("" if each is None else f"0x{each.cas:016x}" for each in (a, b))
        text = f"only in {'A' if b is None else 'B'}" if a is None or b is None else ", ".join(_differing(a, b))
        text = text if known else self._why(a, b)
        return (str(one.vbucket), f"0x{one.collection:x}", self._key(one.key), *numbers, *cas, text)

    def _object(self, a: Document | None, b: Document | None, known: bool) -> Json:
        one = _one(a, b)
        out: Json = {"type": "document", "vbucket": one.vbucket, "collection": one.collection}
        out["key"] = self._key(one.key)
        if a is None or b is None:
            out["only_in"] = "A" if b is None else "B"
        else:
            out["differs"] = list(_differing(a, b))
        if not known:
            out |= {"cause": Absence.LOST.value, "why": self._why(a, b)}
        for name, each in (("a", a), ("b", b)):
            if each is not None:
                out |= {f"last_seqno_{name}": each.seqno, f"cas_{name}": f"0x{each.cas:016x}"}
                out |= {f"name_{name}": each.message, "frame" if each is a else "other_frame": each.frame}
        return out


def _one(a: Document | None, b: Document | None) -> Document:
    found = a or b
    assert found is not None
    return found


def _differing(a: Document, b: Document) -> Iterator[str]:
    """Yield what differs between the last changes of a document."""
    for name in ("message", "seqno", "cas", "value"):
        if getattr(a, name) != getattr(b, name):
            yield name
