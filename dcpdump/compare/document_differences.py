"""Which differences between documents are known: not where the capture with less can have lost what the other has."""

from typing import NamedTuple

import numpy as np

from dcpdump.batch.gather import Array
from dcpdump.compare.documents import Documents


class DocumentDifferences(NamedTuple):
    """Rows of documents: of pairs that differ, and of those that are in A or B only."""

    differ: Array
    only_a: Array
    only_b: Array

    def __len__(self) -> int:
        return len(self.differ) + len(self.only_a) + len(self.only_b)


def judged(a: Documents, b: Documents, rows: DocumentDifferences) -> tuple[DocumentDifferences, DocumentDifferences]:
    """Return the rows that are known to differ, and those where the side with less may lack bytes."""
    doubtful = a.losses.doubtful, b.losses.doubtful
    if not any(each.any() for each in doubtful):
        return rows, DocumentDifferences(*(each[:0] for each in rows))
    mine, theirs = a.places(rows.differ[:, 0]), b.places(rows.differ[:, 1])
    unknown = (
        np.where(mine["seqno"] < theirs["seqno"], doubtful[0][mine["word"]], doubtful[1][mine["word"]])
        & (mine["seqno"] != theirs["seqno"]),
        doubtful[1][a.places(rows.only_a)["word"]],
        doubtful[0][b.places(rows.only_b)["word"]],
    )
    parts = list(zip(rows, unknown, strict=True))
    known = DocumentDifferences(*(each[~lost] for each, lost in parts))
    return known, DocumentDifferences(*(each[lost] for each, lost in parts))
