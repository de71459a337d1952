"""Decode the packets that were chosen from captures as if the others had never been captured."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np

from dcpdump.batch.block import Block, blocks
from dcpdump.batch.ends import Ends
from dcpdump.batch.learning import renumbered
from dcpdump.batch.part import Part
from dcpdump.net.limits import Limits
from dcpdump.net.packet import Packet
from dcpdump.rewrite.packet_survey import PacketSurvey
from dcpdump.rewrite.payload_map import NOWHERE, PayloadMap
from dcpdump.tls.secrets import Secrets

NO_CONNECTION = -1  #: the number for frames that were in no connection before


def dry_run(
    packets: Iterable[Packet], before: PayloadMap, carved: int, limits: Limits, secrets: Secrets | None = None
) -> Iterator[Part]:
    """Yield the frames of packets, with the connections, directions and offsets that they had ``before``.

    Frames that were in none get NO_CONNECTION. ``carved``: as a file has it that holds these packets only.
    """
    tracing = _Tracing(before, limits, secrets)
    for block in blocks(packets):
        block.carved = dict.fromkeys(block.files, carved)
        for parts in tracing.survey.feed_block(block):
            tracing.trace(block)
            yield from map(tracing.placed, parts)
    for parts in tracing.survey.close_blocks():
        yield from map(tracing.placed, parts)


class _Tracing:
    """A map from the streams of a new survey to those of an earlier one."""

    def __init__(self, before: PayloadMap, limits: Limits, secrets: Secrets | None) -> None:
        self.survey = PacketSurvey(limits, secrets=secrets)
        self._origin: dict[int, int] = {}  # by a stream's number now: its number before
        self._packets: dict[int, tuple[str, int]] = {}  # by a stream's number now: a packet of it, which has payload
        self._before = before

    def trace(self, block: Block) -> None:
        """Look up which streams the packets of a block belong to now, as far as they are noted, and before."""
        now = self.survey.places
        for which, file in enumerate(block.files):
            numbers = now.noted(file, block.numbers[block.file == which])
            old, new = (places.columns(file, numbers) for places in (self._before, now))
            found = zip(numbers.tolist(), old.stream.tolist(), new.stream.tolist(), new.size.tolist(), strict=True)
            for number, before, after, size in found:
                before, after = _stream(self._before, file, number, before), _stream(now, file, number, after)
                if after != NOWHERE and before != NOWHERE:
                    self._origin[after], self._origin[after ^ 1] = before, before ^ 1
                    if size:
                        self._packets[after] = file, number

    def placed(self, part: Part) -> Part:
        """Return frames with the connections, directions and offsets that they had before."""
        places = [self._place(ends) for ends in part.places]
        shifts = np.array([self._shift(ends.place) for ends in part.places], np.int64)
        of = part.place.tolist()
        records = {
            row: renumbered(record, connection=places[of[row]].connection) for row, record in part.records.items()
        }
        return replace(part, places=places, records=records, offset=part.offset + shifts[part.place])

    def _place(self, ends: Ends) -> Ends:
        before = self._origin.get(ends.place)
        if before is None:
            return replace(ends, connection=NO_CONNECTION)
        return replace(ends, connection=before // 2, direction=before % 2)

    def _shift(self, stream: int) -> int:
        """Return by how much further its offsets were: where its beginning was not captured, they count from here."""
        now = self.survey.places
        found = self._packets.get(stream)
        if found is None or self.survey.texts(stream) is not None:  # TLS opens from its beginning on
            return 0
        now.settle(stream)
        return self._before.of(*found).offset - now.of(*found).offset


def _stream(places: PayloadMap, file: str, number: int, stream: int) -> int:
    """Return the stream of a packet, which may be a fragment."""
    piece = places.pieces.get((file, number)) if stream == NOWHERE else None
    return stream if piece is None else piece[0].carried.stream
