"""Divide captures into splits, and replan when reading has shown that a plan was wrong."""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from dcpdump.errors import CaptureError
from dcpdump.spark.split_reading import inspect_file
from dcpdump.spark.splits import TARGET, Opener, Source, Split, learnt, planned, straightened
from dcpdump.spark.work import Surveyed, Work

Group = tuple[Split, ...]


class SplitPlan(NamedTuple):
    """Captures, as far as they are known, and how many bytes a task should have."""

    sources: tuple[Source, ...]
    target: int
    unusable: tuple[tuple[str, int, str], ...]  #: path, size, and why

    @property
    def begins_ns(self) -> int | None:
        """Return the time of the very first packet that has one."""
        return min((each.begins_ns for each in self.sources if each.begins_ns is not None), default=None)

    @property
    def splits(self) -> list[Split]:
        """Return the splits for the tasks."""
        return planned(self.sources, self.target)

    def settle(
        self, survey: Callable[[Sequence[Work]], Iterable[Surveyed]], *, guess: bool
    ) -> tuple[list[Group], list[Surveyed], list[dict[str, int]]]:
        """Survey splits until they are known to be the timeline.

        Return the groups of splits, the survey of each, and for each by file how many earlier packets it did not count.
        """
        known: dict[tuple[Group, bool], Surveyed] = {}

        def read(groups: Sequence[Group]) -> list[Surveyed]:
            fresh = [
                Work(number, group, {}, guess=guess or number > 0)
                for number, group in enumerate(groups)
                if (group, guess or number > 0) not in known
            ]
            for each in survey(fresh):
                known[groups[each.ordinal], guess or each.ordinal > 0] = each
            found = [known[group, guess or number > 0] for number, group in enumerate(groups)]
            return [each._replace(ordinal=number) for number, each in enumerate(found)]

        plan, groups = self, _apart(self.splits)
        glued: set[int] = set()
        while True:
            surveyed = read(groups)
            better = plan._replace(sources=learnt(plan.sources, [each.read for each in surveyed]))
            if not glued and better.splits != plan.splits:
                plan, groups = better, _apart(better.splits)
                continue
            plan = better
            straight = straightened(groups, [each.read for each in surveyed])
            if any(_begins(new) != _begun(each) for new, each in zip(straight, surveyed, strict=True)):
                groups = [
                    new if _begins(new) != _begun(each) else old
                    for old, new, each in zip(groups, straight, surveyed, strict=True)
                ]
                continue
            fragmented = {number for number, each in enumerate(surveyed[:-1]) if each.fragmented}
            if not fragmented:
                return straight, surveyed, [_short(old, new) for old, new in zip(groups, straight, strict=True)]
            glued |= fragmented
            groups = _joined(groups, fragmented)


def plan_splits(files: Iterable[tuple[str, int]], open_file: Opener, target: int = TARGET) -> SplitPlan:
    """Plan splits for captures, given their paths and sizes, from a look at their first records."""
    sources: list[Source] = []
    unusable: list[tuple[str, int, str]] = []
    for path, size in files:
        try:
            sources.append(inspect_file(path, size, open_file))
        except (CaptureError, OSError) as error:
            text = error.strerror or str(error) if isinstance(error, OSError) else error.what
            unusable.append((path, size, text))
    return SplitPlan(tuple(sources), target, tuple(unusable))


def _apart(splits: Sequence[Split]) -> list[Group]:
    return [(split,) for split in splits]


def _begins(group: Group) -> list[int]:
    return [piece.start for split in group for piece in split.pieces]


def _begun(surveyed: Surveyed) -> list[int]:
    return [read.start for reads in surveyed.read for read in reads]


def _short(old: Group, new: Group) -> dict[str, int]:
    pieces = zip((p for split in old for p in split.pieces), (p for split in new for p in split.pieces), strict=True)
    return {after.path: after.packets - before.packets for before, after in pieces if after.start}


def _joined(groups: Sequence[Group], open_ones: set[int]) -> list[Group]:
    """Join groups to the ones behind them."""
    out: list[Group] = []
    for number, group in enumerate(groups):
        if number - 1 in open_ones:
            out[-1] += group
        else:
            out.append(group)
    return out
