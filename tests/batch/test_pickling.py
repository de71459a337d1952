"""Batches are handed to other processes as bytes, where that is less work than what is done with them."""

import numpy as np
import pytest

from dcpdump.batch.frame_batch import FrameBatch, is_heavy, joined, pieces_of, thing_of
from dcpdump.net.packet import Packet
from dcpdump.render import View
from dcpdump.render.plain_formats import Bulk
from dcpdump.render.style import Palette
from tests.support.hostile import documents, requests_without_answers
from tests.support.pieces import parts_of


def batch_of(packets: list[Packet]) -> FrameBatch:
    """Return the frames of packets."""
    return joined(parts_of(packets, 1 << 20))


@pytest.mark.parametrize("packets", [documents(200), requests_without_answers(50)], ids=["documents", "requests"])
def test_what_is_packed_is_written_as_it_was(packets: list[Packet]) -> None:
    batch = batch_of(packets)
    bulk = Bulk("ndjson", View(None, Palette(False)))
    memory = memoryview(bytearray(b"".join(pieces_of((batch, range(len(batch)))))))
    same, rows = thing_of(memory)
    assert bulk.text(same, rows) == bulk.text(batch, range(len(batch))) != b""


def test_large_columns_are_read_where_they_were_written_at_places_that_numpy_reads_fast() -> None:
    batch = batch_of(documents(200))
    memory = memoryview(bytearray(b"".join(pieces_of(batch))))
    same = thing_of(memory)
    assert [np.shares_memory(same.row, memory), same.row.flags.aligned] == [True, True]
    memory[:] = bytes(len(memory))
    assert same.data == batch.data  # what compiled modules take are bytes, which are copied


def test_records_of_many_frames_are_sooner_written_than_packed() -> None:
    assert is_heavy(batch_of(requests_without_answers(50)))
    assert not is_heavy(batch_of(documents(200)))
    assert not is_heavy(joined([batch_of(documents(2_000)), batch_of(requests_without_answers(50))]))
    assert is_heavy(joined([batch_of(documents(500)), batch_of(requests_without_answers(50))]))
