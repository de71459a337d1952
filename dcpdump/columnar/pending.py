"""Pending: frames as they complete, in runs or one by one, until they are made a Part."""

from typing import NamedTuple

import numpy as np

from dcpdump.columnar.block import NO_TIME, Origins
from dcpdump.columnar.part import UNKNOWN, Ends, Numbers, Part
from dcpdump.columnar.plan import HEADER, Array, Headers, overlapping, place
from dcpdump.columnar.region import Region
from dcpdump.wire.frame import RawFrame


class Cutting(NamedTuple):
    """A region of a run, where its first byte stands in its direction, and what was lost before it."""

    region: Region
    ends: Ends
    offset: int
    gap_before: int


class Pending:
    """The frames from number ``first`` on. ``part`` makes columns of them."""

    def __init__(self, first: int) -> None:
        self._first = first
        self._pieces: list[bytes] = []
        self._size = 0
        self._columns: list[tuple[Array, ...]] = []
        self._single: list[tuple[int, ...]] = []
        self._odd: dict[int, RawFrame] = {}  # by row: frames that are not whole
        self._files = Numbers[str]()
        self._places = Numbers[Ends]()
        self._count = 0

    def __bool__(self) -> bool:
        return self._count > 0

    def add(self, ends: Ends, raw: RawFrame) -> None:
        """It takes one frame."""
        if raw.holes or len(raw.data) < raw.length:
            self._odd[self._count] = raw
        ts = raw.where.ts_ns
        self._single.append(
            (
                self._size,
                raw.length,
                raw.offset,
                raw.gap_before,
                raw.confidence == "low",
                raw.where.packet,
                NO_TIME if ts is None else ts,
                self._files.number(raw.where.file),
                self._places.number(ends),
            )
        )
        self._pieces.append(raw.data)
        self._size += len(raw.data)
        self._count += 1

    def add_run(self, origins: Origins, cuttings: list[Cutting]) -> None:
        """It takes the frames of a run, in the order in which its packets completed them."""
        self._settle()
        files = self._files.of(origins.files)
        columns: list[tuple[Array, ...]] = []
        for region, ends, offset, gap_before in cuttings:
            if not region.frames:
                continue
            starts = region.starts[:-1]
            gaps = np.zeros(len(starts), np.int64)
            gaps[0] = gap_before
            rows = region.completed
            columns.append(
                (
                    self._size + starts,
                    np.diff(region.starts),
                    offset + starts - region.start,
                    gaps,
                    np.zeros(len(starts), np.int64),
                    origins.numbers[rows],
                    origins.ts_ns[rows],
                    files[origins.file[rows]],
                    np.full(len(starts), self._places.number(ends)),
                    rows,
                )
            )
            self._count += len(starts)
        if len(columns) > 1:
            order = np.argsort(np.concatenate([each[-1] for each in columns]), kind="stable")
            columns = [tuple(np.concatenate(each)[order] for each in zip(*columns, strict=True))]
        self._columns += [each[:-1] for each in columns]
        if cuttings:
            self._pieces.append(cuttings[0].region.data)
            self._size += len(cuttings[0].region.data)

    def part(self) -> Part:
        """It makes a part of all that came. Sessions have yet to hear of it."""
        self._settle()
        columns = [np.concatenate(each) for each in zip(*self._columns, strict=True)]
        start, length, offset, gap_before, weak, packet, ts_ns, file, of = columns
        data = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        view = np.frombuffer(data, np.uint8)
        header = Headers.of(overlapping(view, HEADER)[start])
        whole = np.ones(self._count, bool)
        whole[list(self._odd)] = False
        return Part(
            self._first,
            data,
            start,
            length,
            offset,
            gap_before,
            weak.astype(bool),
            packet,
            ts_ns,
            file,
            self._files.all,
            of,
            self._places.all,
            header,
            place(view, start, whole, header),
            np.full(self._count, UNKNOWN, np.int8),
            np.zeros(self._count, bool),
            np.zeros(self._count, bool),
            self._odd,
            {},
        )

    def _settle(self) -> None:
        """It makes columns of the frames that came one by one."""
        if self._single:
            self._columns.append(tuple(np.array(self._single, np.int64).T))
            self._single = []
