"""Parts are handed to other processes as bytes, where that is less work than what is done with them."""

import numpy as np
import pytest

from dcpdump.batch.part import Part, is_heavy, joined, pieces_of, thing_of
from dcpdump.net.packet import Packet
from dcpdump.render import View
from dcpdump.render.plain_formats import Bulk
from dcpdump.render.style import Palette
from tests.support.hostile import documents, requests_without_answers
from tests.support.pieces import parts_of


def part_of(packets: list[Packet]) -> Part:
    """Return the frames of packets."""
    return joined(parts_of(packets, 1 << 20))


@pytest.mark.parametrize("packets", [documents(200), requests_without_answers(50)], ids=["documents", "requests"])
def test_what_is_packed_is_written_as_it_was(packets: list[Packet]) -> None:
    part = part_of(packets)
    bulk = Bulk("ndjson", View(None, Palette(False)))
    memory = memoryview(bytearray(b"".join(pieces_of((part, range(len(part)))))))
    same, rows = thing_of(memory)
    assert bulk.text(same, rows) == bulk.text(part, range(len(part))) != b""


def test_large_columns_are_read_where_they_were_written_at_places_that_numpy_reads_fast() -> None:
    part = part_of(documents(200))
    memory = memoryview(bytearray(b"".join(pieces_of(part))))
    same = thing_of(memory)
    assert [np.shares_memory(same.row, memory), same.row.flags.aligned] == [True, True]
    memory[:] = bytes(len(memory))
    assert same.data == part.data  # what compiled modules take are bytes, which are copied


def test_records_of_many_frames_are_sooner_written_than_packed() -> None:
    assert is_heavy(part_of(requests_without_answers(50)))
    assert not is_heavy(part_of(documents(200)))
    assert not is_heavy(joined([part_of(documents(2_000)), part_of(requests_without_answers(50))]))
    assert is_heavy(joined([part_of(documents(500)), part_of(requests_without_answers(50))]))
