"""Decode the packets that were chosen from captures as if the others had never been captured."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from dcpdump.batch.block import Block, blocks
from dcpdump.batch.deferred import renumbered
from dcpdump.batch.part import Part
from dcpdump.net.limits import Limits
from dcpdump.net.packet import Packet
from dcpdump.rewrite.packet_survey import PacketSurvey
from dcpdump.rewrite.payload_map import NOWHERE, PayloadMap
from dcpdump.tls.secrets import Secrets

NO_CONNECTION = -1  #: the number for frames that were in no connection before


def dry_run(
    packets: Iterable[Packet], before: PayloadMap, limits: Limits, secrets: Secrets | None = None
) -> Iterator[Part]:
    """Yield the frames of packets; connections keep the numbers that they had ``before``, or get NO_CONNECTION."""
    tracing = _Tracing(before, limits, secrets)
    for block in blocks(packets):
        for parts in tracing.survey.feed_block(block):
            tracing.trace(block)
            yield from (_renumbered(part, tracing.origin) for part in parts)
    for parts in tracing.survey.close_blocks():
        yield from (_renumbered(part, tracing.origin) for part in parts)


class _Tracing:
    """A map from the connections of a new survey to those of an earlier one."""

    def __init__(self, before: PayloadMap, limits: Limits, secrets: Secrets | None) -> None:
        self.survey = PacketSurvey(limits, secrets=secrets)
        self.origin: dict[int, int] = {}  #: by a connection's number now: its number before
        self._before = before

    def trace(self, block: Block) -> None:
        """Look up which connections the packets of a block belong to now, as far as they are noted, and before."""
        now = self.survey.places
        for which, file in enumerate(block.files):
            numbers = now.noted(file, block.numbers[block.file == which])
            streams = (places.columns(file, numbers).stream.tolist() for places in (self._before, now))
            for number, old, new in zip(numbers.tolist(), *streams, strict=True):
                old, new = _stream(self._before, file, number, old), _stream(now, file, number, new)
                if new != NOWHERE:
                    self.origin[new // 2] = old // 2


def _stream(places: PayloadMap, file: str, number: int, stream: int) -> int:
    """Return the stream of a packet, which may be a fragment."""
    piece = places.pieces.get((file, number)) if stream == NOWHERE else None
    return stream if piece is None else piece[0].carried.stream


def _renumbered(part: Part, numbers: Mapping[int, int]) -> Part:
    places = [replace(ends, connection=numbers.get(ends.connection, NO_CONNECTION)) for ends in part.places]
    of = part.place.tolist()
    records = {row: renumbered(record, connection=places[of[row]].connection) for row, record in part.records.items()}
    return replace(part, places=places, records=records)
