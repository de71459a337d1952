"""KeyMemory: the keys of snapshots, and how many may be remembered, of those of all streams together."""

from dcpdump.quick_dataclass import dataclass, field

#: Keys that are remembered at most: some 80 MB.
_MOST = 400_000
#: A server takes no longer keys than 250 bytes, with up to 5 of a collection; longer ones are not remembered.
LONGEST = 255


@dataclass(slots=True)
class KeyMemory:
    """A count of the keys that are remembered, which goes down when they are forgotten."""

    left: int = _MOST  #: keys that may still be remembered
    missed: int = 0  #: keys that were not

    def takes(self, keys: int) -> bool:
        """Return whether so many more keys may be remembered, and count them."""
        if keys > self.left:
            self.missed += keys
            return False
        self.left -= keys
        return True

    def give_back(self, keys: int) -> None:
        """Count so many keys as forgotten."""
        self.left += keys


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
