"""Cut packets into splits, survey, stitch and decode them, all in one process."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from dcpdump.arrow.frame_table import FrameTable
from dcpdump.arrow.other_tables import gap_rows
from dcpdump.batch.block import Block, blocks
from dcpdump.batch.dissector import Dissection
from dcpdump.batch.filter import Masks
from dcpdump.batch.part import joined
from dcpdump.filter import FrameFilter
from dcpdump.net.limits import DEFAULT
from dcpdump.net.packet import Packet
from dcpdump.spark.decoding import Decoding, decode_split
from dcpdump.spark.row_options import Options
from dcpdump.spark.seams import Seams, settle, verify
from dcpdump.spark.split_plan import SplitPlan, plan_splits
from dcpdump.spark.split_survey import SplitSurvey, survey_split
from dcpdump.spark.splits import FilePiece, Split
from dcpdump.spark.work import BEGINNING, Exit, Surveyed, Work
from tests.support.batch_rows import present
from tests.support.pieces import fed

Row = dict[str, Any]
_CHOICE = Options()
BLOCK = 1 << 16
#: What only one machine counts.
COUNTED = ("frame", "request_frame")


@dataclass
class Tables:
    """The rows of an input, and what it took to make them."""

    frames: list[Row] = field(default_factory=list)
    gaps: list[Row] = field(default_factory=list)
    events: list[bytes] = field(default_factory=list)
    surveys: list[int] = field(default_factory=list)  #: works in each round
    decodes: list[int] = field(default_factory=list)
    works: list[Work] = field(default_factory=list)

    @property
    def rows(self) -> tuple[list[str], list[str]]:
        """Return all rows without what only one machine counts, in an order of their own."""
        return _sorted(self.frames), _sorted(self.gaps)


def _sorted(rows: Iterable[Row]) -> list[str]:
    """Spell rows without what is null in them."""
    return sorted(
        repr([(name, value) for name, value in row.items() if value is not None and name not in COUNTED])
        for row in rows
    )


def whole(packets: Iterable[Packet], size: int = BLOCK) -> Tables:
    """Return the rows of the whole input, as ``export`` has them."""
    dissection, table, out = Dissection(), FrameTable(Masks(FrameFilter()), None), Tables()

    for parts in fed(dissection, packets, size):
        batch = table.feed(joined(parts)) if parts else None
        out.frames += [] if batch is None else present(batch)
        out.gaps += gap_rows(dissection.gaps).to_pylist()
        dissection.gaps.clear()
    return out


def cut(packets: Sequence[Packet], cuts: Iterable[int], size: int = BLOCK) -> Tables:
    """Return the rows of splits that begin at ``cuts``, joined."""
    bounds = [0, *sorted(set(cuts) - {0, len(packets)}), len(packets)]
    groups = [(Split((FilePiece(str(number)),)),) for number in range(len(bounds) - 1)]
    out = Tables()

    def read(work: Work) -> Iterator[Block]:
        for split in work.splits:
            number = int(split.pieces[0].path)
            yield from blocks(packets[bounds[number] : bounds[number + 1]], size)

    def survey(works: Sequence[Work]) -> Iterator[Surveyed]:
        out.surveys.append(len(works))
        for work in works:
            one = SplitSurvey(work)
            one.feed(read(work))
            yield one.surveyed(())

    seams = Seams(DEFAULT, BEGINNING)
    first = [Work(number, group, {}, guess=number > 0) for number, group in enumerate(groups)]
    seams.begin(groups, list(survey(first)), [{} for _ in groups])
    while works := seams.advance():
        for surveyed in survey(works):
            seams.take(surveyed, {})
    out.works = seams.decoding(end=True)

    def decoded(work: Work) -> tuple[Iterable[tuple[str, Any]], Callable[[], Exit]]:
        decoding = Decoding(work, _CHOICE, events=True)
        return [*decoding.feed(read(work)), *decoding.close()], lambda: decoding.exit(())

    _verified(out, decoded)
    return out


def split(
    paths: Sequence[Path | str], target: int, *, open_file: Callable[[str], BinaryIO] | None = None
) -> tuple[Tables, SplitPlan]:
    """Return the rows of captures in splits of about ``target`` bytes."""
    opener = open_file or opened
    plan = plan_splits([(str(path), Path(path).stat().st_size) for path in paths], opener, target)
    out = Tables()

    def survey(works: Sequence[Work]) -> list[Surveyed]:
        out.surveys.append(len(works))
        return [survey_split(work, opener) for work in works]

    out.works = settle(plan, survey)

    def decoded(work: Work) -> tuple[Iterable[tuple[str, Any]], Callable[[], Exit]]:
        found = decode_split(work, _CHOICE, opener, events=True)
        return found, lambda: found.exit

    _verified(out, decoded)
    return out, plan


def opened(path: str) -> BinaryIO:
    """Open a file of this machine."""
    return open(path, "rb")


def _verified(out: Tables, decoded: Callable[[Work], tuple[Iterable[tuple[str, Any]], Callable[[], Exit]]]) -> None:
    found: dict[int, dict[str, list[Any]]] = {}

    def decode(works: Sequence[Work]) -> Iterator[Exit]:
        out.decodes.append(len(works))
        for work in works:
            rows, left = decoded(work)
            mine: dict[str, list[Any]] = {"frames": [], "gaps": [], "events": []}
            for name, batch in rows:
                mine[name] += batch.column("data").to_pylist() if name == "events" else present(batch)
            found[work.ordinal] = mine
            yield left()

    verify(out.works, decode)
    for _, mine in sorted(found.items()):
        out.frames += mine["frames"]
        out.gaps += mine["gaps"]
        out.events += mine["events"]
