"""Choose which pieces of which captures make a task, so that the tasks in order are the whole timeline.

A plan is made from sizes and first times alone, and may be wrong: captures overlap, records begin elsewhere than
guessed, files are damaged. Reading shows that, and a new plan follows.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import BinaryIO, NamedTuple

Opener = Callable[[str], BinaryIO]

#: Bytes of captures that are one task.
TARGET = 64 * 1024 * 1024
_LEAST = 4096  #: bytes of a piece


class Source(NamedTuple):
    """A capture, as it is listed, and what its first records say of it."""

    path: str
    size: int
    first_ns: int | None = None  #: the time of its first packet
    last_ns: int | None = None  #: that of its last, as far as known
    divisible: bool = False  #: it is neither compressed nor damaged
    begins_ns: int | None = None  #: the time of its first packet that has one


class FilePiece(NamedTuple):
    """Records of a file: those that begin from ``start`` on, before ``stop`` (None: to its end).

    ``since`` and ``until`` bound it by time (ns): from the first record on that is not before ``since``, up to the
    first that is not before ``until``.
    """

    path: str
    start: int = 0
    stop: int | None = None
    packets: int = 0  #: how many are in the file before
    exact: bool = False  #: a record does begin at ``start``
    since: int | None = None
    until: int | None = None


class Split(NamedTuple):
    """Pieces that are read by one task: one after the other, or, if ``merged``, in the order of time."""

    pieces: tuple[FilePiece, ...] = ()
    merged: bool = False


class Read(NamedTuple):
    """What was read of a piece."""

    path: str
    start: int  #: where its first record begins
    stop: int  #: where the next record would begin
    packets: int
    first_ns: int | None
    last_ns: int | None  #: the latest time
    plain: bool = True  #: nothing about it needs the file's earlier or later pieces
    problems: tuple[str, ...] = ()


#: What was read: of each split, each piece.
Reads = tuple[tuple[Read, ...], ...]


def planned(sources: Sequence[Source], target: int) -> list[Split]:
    """Pack captures into splits of about ``target`` bytes."""
    splits: list[Split] = []
    held: list[FilePiece] = []
    size = 0
    for cluster in _clusters(sources):
        if len(cluster) > 1:
            splits += [Split(tuple(held))] if held else []
            held, size = [], 0
            splits += _slices(cluster, target)
            continue
        (source,) = cluster
        if source.size > target * 3 // 2 and source.divisible:
            splits += [Split(tuple(held))] if held else []
            held, size = [], 0
            splits += [Split((piece,)) for piece in _pieces(source, target)]
            continue
        if held and size + source.size > target * 5 // 4:
            splits.append(Split(tuple(held)))
            held, size = [], 0
        held.append(FilePiece(source.path))
        size += source.size
    return [*splits, Split(tuple(held))] if held else splits


def _clusters(sources: Sequence[Source]) -> list[list[Source]]:
    """Sort captures by time, and group those that overlap."""
    clusters: list[list[Source]] = []
    latest: tuple[int, str] | None = None
    for source in sorted(sources, key=_begin):
        if latest is None or latest < _begin(source):
            clusters.append([])
        clusters[-1].append(source)
        end = _begin(source) if source.last_ns is None else (source.last_ns, source.path)
        latest = end if latest is None else max(latest, end)
    return clusters


def _begin(source: Source) -> tuple[int, str]:
    return -1 if source.first_ns is None else source.first_ns, source.path


def _pieces(source: Source, target: int) -> list[FilePiece]:
    """Cut a file into pieces of about equal bytes."""
    count = max(1, min(round(source.size / target), source.size // _LEAST))
    edges = [source.size * number // count for number in range(1, count)]
    ends: list[int | None] = [*edges, None]
    return [FilePiece(source.path, start, stop) for start, stop in zip([0, *edges], ends, strict=True)]


def _slices(cluster: Sequence[Source], target: int) -> list[Split]:
    """Cut captures that overlap into splits by time."""
    size = sum(source.size for source in cluster)
    times = _even_times(cluster, max(1, round(size / target)))
    since: int | None = None
    splits: list[Split] = []
    for until in (*times, None):
        pieces = tuple(
            FilePiece(source.path, since=since, until=until) for source in cluster if _is_between(source, since, until)
        )
        if pieces:
            splits.append(Split(pieces, merged=True))
        since = until
    return splits


def _is_between(source: Source, since: int | None, until: int | None) -> bool:
    first = -1 if source.first_ns is None else source.first_ns
    last = first if source.last_ns is None else source.last_ns
    return (until is None or first < until) and (since is None or last >= since)


def _even_times(cluster: Sequence[Source], count: int) -> list[int]:
    """Return times (ns) that divide the cluster into ``count`` parts of about equal bytes."""
    steps: list[tuple[int, float]] = []
    for source in cluster:
        first = source.first_ns or 0
        last = max(first, source.last_ns or 0)
        rate = source.size / (last - first + 1)
        steps += [(first, rate), (last + 1, -rate)]
    steps.sort()
    total = sum(source.size for source in cluster)
    times: list[int] = []
    have, rate, at = 0.0, 0.0, steps[0][0]
    for time, change in steps:
        while len(times) < count - 1 and rate > 0:
            goal = total * (len(times) + 1) / count
            if have + rate * (time - at) < goal:
                break
            times.append(at + round((goal - have) / rate))
            have, at = goal, times[-1]
        have += rate * (time - at)
        rate, at = rate + change, time
    return sorted(set(times) - {steps[0][0]})


# -- what was read, against the plan ------------------------------------------------------------------------


def learnt(sources: Sequence[Source], reads: Iterable[Sequence[Sequence[Read]]]) -> tuple[Source, ...]:
    """Return the captures with what reading them showed: their last times, and which cannot be divided."""
    ends: dict[str, int] = {}
    odd: set[str] = set()
    for read in (read for groups in reads for some in groups for read in some):
        if read.last_ns is not None:
            ends[read.path] = max(ends.get(read.path, read.last_ns), read.last_ns)
        if not read.plain:
            odd.add(read.path)
    return tuple(
        source._replace(
            last_ns=ends.get(source.path, source.last_ns), divisible=source.divisible and source.path not in odd
        )
        for source in sources
    )


def straightened(
    groups: Sequence[tuple[Split, ...]], reads: Sequence[Sequence[Sequence[Read]]]
) -> list[tuple[Split, ...]]:
    """Return the splits with pieces that begin where those before them ended, and count the packets before them."""
    stops: dict[str, int] = {}
    packets: dict[str, int] = defaultdict(int)
    out: list[tuple[Split, ...]] = []
    for group, some in zip(groups, reads, strict=True):
        splits: list[Split] = []
        for split, each in zip(group, some, strict=True):
            pieces: list[FilePiece] = []
            for piece, read in zip(split.pieces, each, strict=True):
                if piece.start:
                    piece = piece._replace(start=stops[piece.path], packets=packets[piece.path], exact=True)
                stops[piece.path] = max(read.stop, piece.start)
                packets[piece.path] += read.packets
                pieces.append(piece)
            splits.append(split._replace(pieces=tuple(pieces)))
        out.append(tuple(splits))
    return out
