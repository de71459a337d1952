"""Describe what is wrong with a capture, as data.

Bounds how many faults are kept (a hostile file can hold a million). Knows no file format.
"""

from dcpdump.startup import dataclass, field

#: How many faults are kept; further ones are only counted. A file full of damage must not fill the memory.
DAMAGE_KEPT = 1_000
REMARKS_KEPT = 100


@dataclass(frozen=True, slots=True)
class Damage:
    """One fault of a capture: its offset, its text, and the loss that it may mean."""

    file: str
    where: int  #: offset in the capture, after decompression
    record: int  #: number of the record (pcap) or packet (pcapng) it concerns; 0 for none
    what: str
    lost: str = ""
    hint: str = ""  #: which option may help

    def __str__(self) -> str:
        return "; ".join(filter(None, (self.what, self.lost and f"lost: {self.lost}", self.hint)))


@dataclass(slots=True)
class Health:
    """The faults and oddities found while one capture was read."""

    file: str
    packets: int = 0
    damage: list[Damage] = field(default_factory=list)
    damage_count: int = 0
    warnings: list[str] = field(default_factory=list)  #: odd, but nothing is missing
    notes: list[str] = field(default_factory=list)  #: good to know
    carved: str = ""  #: the file's comment that it holds chosen packets only
    drops: int = 0  #: packets that the capturing machine reports as lost

    def hurt(self, where: int, record: int, what: str, lost: str = "", hint: str = "") -> str:
        """Record a fault, and return its text, which becomes the packet's ``damage``."""
        self.damage_count += 1
        if len(self.damage) < DAMAGE_KEPT:
            self.damage.append(Damage(self.file, where, record, what, lost, hint))
        return what

    def warn(self, text: str) -> None:
        """Record an oddity, once."""
        _remember(self.warnings, text)

    def note(self, text: str) -> None:
        """Record a fact, once."""
        _remember(self.notes, text)


def _remember(remarks: list[str], text: str) -> None:
    if text not in remarks and len(remarks) < REMARKS_KEPT:
        remarks.append(text)
