"""Survey a split: read it without making rows, to learn in what state it leaves its connections."""

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import replace

from dcpdump.batch.block import Block
from dcpdump.batch.resumable import SavedConnection, pair_of
from dcpdump.net.endpoints import reverse_key
from dcpdump.net.limits import DEFAULT, Limits
from dcpdump.spark.guess import Beginning, Guesser, guess
from dcpdump.spark.resume import ResumedDissection
from dcpdump.spark.session_delta import WatchedSession
from dcpdump.spark.split_reading import SplitReading
from dcpdump.spark.splits import Opener, Reads
from dcpdump.spark.tail_state import Tails
from dcpdump.spark.work import Pair, Seam, Surveyed, Work

#: Connections that are not among the work's entries are numbered from here on.
_NEW = 1 << 48


def survey_split(work: Work, open_file: Opener, limits: Limits = DEFAULT, *, salvage: bool = False) -> Surveyed:
    """Survey a work."""
    survey = SplitSurvey(work, limits)
    readings = [SplitReading(split, open_file, salvage=salvage) for split in work.splits]
    survey.feed(block for reading in readings for block in reading.blocks())
    return survey.surveyed(tuple(reading.read for reading in readings))


class SplitSurvey:
    """One survey. ``feed`` it the blocks of the split, then ask for ``surveyed``."""

    def __init__(self, work: Work, limits: Limits = DEFAULT) -> None:
        # Delivered bytes are kept only to classify retransmissions, which decoding counts, not a survey.
        limits = replace(limits, history=0)
        self._work = work
        self._limits = limits
        self._dissection = ResumedDissection(limits)
        self._guesses: dict[Pair, tuple[int, Beginning, Beginning]] = {}
        self._foreign: set[bytes] = set()
        self._tails = Tails()
        self._syns: dict[Pair, tuple[bytes, int]] = {}
        self._dissection.resume(SavedConnection.unpacked(saved) for saved in work.entries.values() if saved is not None)
        self._dissection.balance.connections = _NEW

    def feed(self, blocks: Iterable[Block]) -> None:
        """Read the blocks."""
        dissection = self._dissection
        if self._work.guess:
            blocks = Guesser(self._work.entries, self._guess_past).blocks(blocks)
        for block in blocks:
            for _ in dissection.feed_block(block):
                dissection.gaps.clear()
            if self._foreign:
                self._tails.feed(block, self._foreign)
            dissection.ended.clear()

    def surveyed(self, read: Reads) -> Surveyed:
        """Return what was learnt. ``read``: what the blocks were read from."""
        seams: dict[Pair, bytes] = {}
        born: dict[Pair, int] = {}
        dissection = self._dissection
        guesses = sorted(number for number, _, _ in self._guesses.values())
        for saved in dissection.saved_connections(thin=True):
            begun = self._guesses.get(saved.pair)
            session = dissection.session(saved.number)
            effects = session.effects() if isinstance(session, WatchedSession) else None
            guessed = None if begun is None else begun[1:]
            if saved.number >= _NEW and (begun is None or begun[0] != saved.number):
                born[saved.pair] = saved.number - _NEW - bisect_left(guesses, saved.number)
            first, second = (self._tails.of.get(key) for key in (saved.key, reverse_key(saved.key)))
            seam = Seam(self._syns.get(saved.pair), guessed, effects, (first, second), saved.pair in born, saved)
            seams[saved.pair] = seam.packed()
        opened = dissection.opened - _NEW - len(guesses)
        return Surveyed(
            self._work.ordinal,
            read,
            seams,
            born,
            opened,
            dissection.last,
            dissection.last_ns,
            dissection.fragmented,
            dissection.told,
        )

    def _guess_past(self, here: Beginning, there: Beginning) -> None:
        """Guess the past of a connection that begins in the next block."""
        pair = pair_of(here.key)
        if here.syn:
            self._syns[pair] = here.key, here.seq
            return
        number = self._dissection.opened
        self._dissection.balance.connections += 1
        self._guesses[pair] = number, here, there
        self._foreign |= {end.key for end in (here, there) if end.foreign}
        self._dissection.resume([guess(number, here, there, self._limits)], WatchedSession)
