"""Write which documents differ between two captures: their last changes, for people and for programs."""

from collections.abc import Iterator

from dcpdump.compare.documents import Document, Documents
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
    """The documents that differ between two captures."""

    def __init__(self, a: Documents, b: Documents, redactor: Redactor | None, most: int) -> None:
        self._a, self._b, self._redactor, self._most = a, b, redactor, most
        self._only_a, self._only_b, self._differ, self._equal = a.against(b)

    @property
    def differs(self) -> bool:
        """Return whether any document differs."""
        return bool(len(self._only_a) or len(self._only_b) or len(self._differ))

    @property
    def remark(self) -> tuple[str, str] | None:
        """Return what to say of captures that have no document in common, and what to try."""
        if self._equal or len(self._differ) or not (len(self._only_a) and len(self._only_b)):
            return None
        return "no document is in both captures", "dcpdump stats shows the vbuckets and messages of a capture"

    def lines(self) -> "Iterator[Line | Fitting]":
        """Yield the documents that differ, those in both captures first, and the total."""
        rows = [self._cells(a, b) for a, b in self._pairs(self._most)]
        if rows:
            yield Table(_HEADS, rows, _RIGHT, ("A's CAS", "B's CAS", "collection"))
        count = len(self._differ) + len(self._only_a) + len(self._only_b)
        if count > self._most:
            yield Line(LineKind.PLAIN, f"{count - self._most:,} more: --frames N, or -f ndjson for all")
        both = counted(self._equal, "document")
        if not self.differs:
            yield Line(LineKind.GOOD, f"no difference: the last change of {both} is the same in both")
            return
        parts = [f"{both} equal", f"{len(self._differ):,} changed"]
        only = zip(_NAMES, (self._only_a, self._only_b), strict=True)
        parts += [f"{len(rows):,} only in {name}" for name, rows in only]
        yield Line(LineKind.PROBLEM, "documents by their last change: " + ", ".join(parts))

    def objects(self) -> Iterator[Json]:
        """Yield the documents that differ as objects, and the total."""
        for a, b in self._pairs(None):
            yield self._object(a, b)
        only = {"only_a": len(self._only_a), "only_b": len(self._only_b)}
        counts = {"both": self._equal, **only, "changed": len(self._differ)}
        yield {"type": "documents", "equal": not self.differs, **counts}

    def _pairs(self, most: int | None) -> Iterator[tuple[Document | None, Document | None]]:
        left = len(self._differ) + len(self._only_a) + len(self._only_b) if most is None else most
        for a, b in self._differ[:left]:
            yield self._a.document(int(a)), self._b.document(int(b))
        left = max(0, left - len(self._differ))
        for row in self._only_a[:left]:
            yield self._a.document(int(row)), None
        left = max(0, left - len(self._only_a))
        for row in self._only_b[:left]:
            yield None, self._b.document(int(row))

    def _key(self, key: bytes) -> str:
        return safe(key if self._redactor is None else self._redactor.hash(key))

    def _cells(self, a: Document | None, b: Document | None) -> tuple[str, ...]:
        one = _one(a, b)
        numbers = ("" if each is None else str(each.seqno) for each in (a, b))
        cas = ("" if each is None else f"0x{each.cas:016x}" for each in (a, b))
        text = f"only in {'A' if b is None else 'B'}" if a is None or b is None else ", ".join(_differing(a, b))
        return (str(one.vbucket), f"0x{one.collection:x}", self._key(one.key), *numbers, *cas, text)

    def _object(self, a: Document | None, b: Document | None) -> Json:
        one = _one(a, b)
        out: Json = {"type": "document", "vbucket": one.vbucket, "collection": one.collection}
        out["key"] = self._key(one.key)
        if a is None or b is None:
            out["only_in"] = "A" if b is None else "B"
        else:
            out["differs"] = list(_differing(a, b))
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
