"""Every frame of an index is the frame of ``read``, in whatever order it is requested."""

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dcpdump.capture.file import Capture, timeline
from dcpdump.dissect import Dissector
from dcpdump.index.building import IndexOptions
from dcpdump.index.capture_index import CaptureIndex
from dcpdump.index.columns import HAS_SEQNO, HAS_STREAM_ID, HAS_VBUCKET, ODD, Columns
from dcpdump.net.limits import DEFAULT, Limits
from dcpdump.net.packet import NO_TIME
from dcpdump.record import Json, Record, as_json
from tests.support.conversation import opening
from tests.support.diagnoses import written

SAMPLES = sorted(Path("samples").glob("*.pcap"))
#: Blocks of one packet, of a few, and of all.
SIZES = (1, 4096, 2 << 20)
#: Frames that are requested in any order.
_JUMPS = 40


def dissected(paths: Sequence[str], limits: Limits = DEFAULT, *, salvage: bool = False) -> list[Record]:
    """Return the frames of captures, decoded one by one."""
    dissector = Dissector(limits)
    packets = timeline([Capture(path, salvage=salvage) for path in paths])
    records = [record for packet in packets for record in dissector.feed(packet)]
    return records + dissector.close()


def options(size: int, **others: int) -> IndexOptions:
    """Return options by which checkpoints are many and little is kept."""
    return replace(IndexOptions(block_bytes=size, distance=1, connection_distance=0, batches=1), **others)  # type: ignore[arg-type]


def check_frames(paths: Sequence[str], given: IndexOptions, *, salvage: bool = False) -> int:
    """Compare all frames of an index with those of a dissector."""
    expected = dissected(paths, given.limits, salvage=salvage)
    return check_against(expected, paths, [given], salvage=salvage)


def check_sizes(paths: Sequence[str], sizes: Sequence[int] = SIZES) -> int:
    """Compare all frames of an index in blocks of each size with those of a dissector."""
    return check_against(dissected(paths), paths, list(map(options, sizes)))


def all_of(record: Record) -> tuple[Record, list[tuple[Any, ...]], Json]:
    """Return all that a frame is, with the names that its collection had then; the definitions of fields by name."""
    fields = [(each.field.name, each.field.label, *each[1:]) for each in record.frame.fields]
    frame = replace(record.frame, fields=())
    return replace(record, frame=frame), fields, as_json(record, value_bytes=None)


def check_against(
    expected: Sequence[Record],
    paths: Sequence[str],
    ways: Sequence[IndexOptions],
    *,
    salvage: bool = False,
) -> int:
    """Compare all frames of an index, made in each way, with those that are expected: one by one, then in any order."""
    wanted = list(map(all_of, expected))
    numbers = list(range(1, len(expected) + 1))
    jumps = random.Random(len(numbers)).choices(numbers, k=min(_JUMPS, len(numbers)))
    for given in ways:
        captures = [Capture(path, salvage=salvage) for path in paths]
        with CaptureIndex(captures, given) as index:
            index.finish()
            assert index.frames == len(expected), given
            for number in [*numbers, *jumps]:
                assert all_of(index.record(number)) == wanted[number - 1], given
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
    assert np.where(columns.flags & HAS_VBUCKET, columns.vbucket.astype(int), -1).tolist() == [
        -1 if each.vbucket is None else each.vbucket for each in records
    ]
    assert columns.magic.tolist() == [each.header.magic for each in frames]
    assert columns.status.tolist() == [each.header.vbucket_or_status if each.magic.response else 0 for each in frames]
    assert known(columns, HAS_STREAM_ID, columns.stream_id) == [each.stream_id for each in records]
    assert known(columns, HAS_SEQNO, columns.seqno) == [seqno_of(each) for each in records]
    whole = [each.raw.length == len(each.raw.data) and not each.raw.holes for each in frames]
    assert (columns.flags & ODD == 0).tolist() == whole
    found = [index.directions[at] for at in columns.direction.tolist()]
    assert [(each.connection, each.side, each.src, each.dst) for each in found] == [
        (each.connection, each.direction, each.src, each.dst) for each in records
    ]
    answers = {each.number: each.request.frame for each in records if each.request is not None}
    assert dict(zip(columns.answer.tolist(), columns.request.tolist(), strict=True)) == answers
    gaps = {each.number: each.frame.raw.gap_before for each in records if each.frame.raw.gap_before}
    assert dict(zip(columns.gap_frame.tolist(), columns.gap_bytes.tolist(), strict=True)) == gaps


def known(columns: Columns, bit: int, values: Any) -> list[int | None]:
    """Return the values of the frames that have one."""
    rows = zip(values.tolist(), columns.flags.tolist(), strict=True)
    return [value if flags & bit else None for value, flags in rows]


def seqno_of(record: Record) -> int | None:
    names = ("by_seqno", "commit_seqno", "abort_seqno", "start_seqno")
    return next((found for name in names if (found := record.frame.get(name)) is not None), None)


def test_few_frames_are_decoded_one_by_one_again_wherever_one_is_asked_for(tmp_path: Path) -> None:
    talk = opening() + "\n".join(f"STREAM vb={vbucket}, start-seqno=0" for vbucket in range(1024))
    path = written(talk, tmp_path / "many-streams.pcap")
    with CaptureIndex([Capture(str(path))], IndexOptions(batches=1000)) as index:
        index.finish()
        batches = list(index.building.replay.batches(1))
        assert sum(len(batch.records) for batch in batches) > 2000
        for number in range(1, index.frames, 50):
            index.building.replay.forget()
            index.building.replay._kept.clear()
            assert index.record(number).number == number
            assert sum(len(batch.records) for batch in index.building.replay._kept.values()) <= 700


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_each_frame_of_a_sample_is_that_of_read(path: Path) -> None:
    assert check_sizes([str(path)]) > 0
