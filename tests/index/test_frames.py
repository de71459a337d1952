"""Every frame of an index is the frame of ``read``, in whatever order it is asked for."""

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dcpdump.capture import open_capture
from dcpdump.dissect import Dissector
from dcpdump.index import CaptureIndex, IndexOptions
from dcpdump.index.columns import HAS_VBUCKET
from dcpdump.net.batch import NO_TIME
from dcpdump.net.limits import DEFAULT, Limits
from dcpdump.record import Record
from tests.support.batch_rows import files

SAMPLES = sorted(Path("samples").glob("*.pcap"))
#: Blocks of one packet, of a few, and of all.
SIZES = (1, 4096, 2 << 20)


def dissected(paths: Sequence[str], limits: Limits = DEFAULT) -> list[Record]:
    """Return the frames of captures, decoded one by one."""
    dissector = Dissector(limits)
    records = [record for packet in files(*paths) for record in dissector.feed(packet)]
    return records + dissector.close()


def options(size: int, **others: int) -> IndexOptions:
    """Return options by which checkpoints are many and little is kept."""
    return replace(IndexOptions(block_bytes=size, distance=1, parts=1), **others)  # type: ignore[arg-type]


def check_frames(paths: Sequence[str], given: IndexOptions, *, helped: bool = False) -> int:
    """Compare all frames of an index, in any order, with those of a dissector."""
    expected = dissected(paths, given.limits)
    with CaptureIndex([open_capture(path) for path in paths], given, helped=helped) as index:
        index.finish()
        assert index.frames == len(expected)
        numbers = list(range(1, index.frames + 1))
        random.Random(len(numbers)).shuffle(numbers)
        for number in numbers:
            assert repr(index.record(number)) == repr(expected[number - 1])
        check_columns(index, expected)
    return len(expected)


def check_columns(index: CaptureIndex, records: Sequence[Record]) -> None:
    columns = index.columns
    frames = [record.frame for record in records]
    assert columns.ts_ns.tolist() == [
        NO_TIME if each.raw.where.ts_ns is None else each.raw.where.ts_ns for each in frames
    ]
    assert columns.opcode.tolist() == [each.header.opcode for each in frames]
    assert columns.length.tolist() == [each.raw.length for each in frames]
    assert columns.opaque.tolist() == [each.header.opaque for each in frames]
    assert np.where(columns.flags & HAS_VBUCKET, columns.vbucket, -1).tolist() == [
        -1 if each.vbucket is None else each.vbucket for each in records
    ]
    ends = [index.ends[place] for place in columns.place.tolist()]
    assert [(each.connection, each.direction, each.src, each.dst) for each in ends] == [
        (each.connection, each.direction, each.src, each.dst) for each in records
    ]
    answers = {each.number: each.request.frame for each in records if each.request is not None}
    assert dict(zip(columns.answer.tolist(), columns.request.tolist(), strict=True)) == answers
    gaps = {each.number: each.frame.raw.gap_before for each in records if each.frame.raw.gap_before}
    assert dict(zip(columns.gap_frame.tolist(), columns.gap_bytes.tolist(), strict=True)) == gaps


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_each_frame_of_a_sample_is_that_of_read(path: Path, size: int) -> None:
    assert check_frames([str(path)], options(size)) > 0
