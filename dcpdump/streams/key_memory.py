"""KeyMemory: how many keys may be remembered, of the snapshots of all streams together."""

from dcpdump.quick_dataclass import dataclass

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
