"""SnapshotKeys: the keys of a snapshot, for the rules that ask whether one came before."""

from dcpdump.quick_dataclass import dataclass, field


@dataclass(slots=True, eq=False)
class SnapshotKeys:
    """The keys of a snapshot, where its connection is watched closely."""

    documents: dict[bytes, int] = field(default_factory=dict)  #: of documents and commits, and their seqnos
    prepares: dict[bytes, int] = field(default_factory=dict)  #: of prepares and aborts
    out_of_order: set[bytes] = field(default_factory=set)  #: of documents in an out-of-order snapshot

    def __len__(self) -> int:
        return len(self.documents) + len(self.prepares) + len(self.out_of_order)


#: Of nearly all streams at a time no key is kept: these have one in common, to which nothing is added.
NO_KEYS = SnapshotKeys()
