"""Hold which packets are taken: computed once from a survey, asked each time the captures are read."""

from collections.abc import Mapping

import numpy as np

from dcpdump.batch.block import Block
from dcpdump.batch.layouts import Array
from dcpdump.net.packet import Packet
from dcpdump.rewrite.needed import NeededOfConnection
from dcpdump.rewrite.packet_survey import PacketSurvey


class PacketChoice:
    """The packets of some connections that carry what is wanted, and those that open the connections."""

    def __init__(self, survey: PacketSurvey, needs: Mapping[int, NeededOfConnection]) -> None:
        self._taken = {file: _taken(survey, needs, file) for file in survey.places.files}
        for (file, number), (split, _) in survey.places.pieces.items():
            stream, offset, _ = split.carried
            need = needs.get(stream // 2)
            if need is not None:
                place, size = np.array([offset]), np.array([len(split.payload)])
                self._taken[file][number - 1] = _wants(survey, need, stream, place, size)[0]

    def takes(self, packet: Packet) -> bool:
        """Return whether a packet is taken."""
        return bool(self._taken[packet.file][packet.number - 1])

    def rows(self, block: Block) -> list[int]:
        """Return the rows of a block whose packets are taken."""
        found = np.zeros(len(block.numbers), bool)
        for which, file in enumerate(block.files):
            mine = np.flatnonzero(block.file == which)
            found[mine] = self._taken[file][block.numbers[mine] - 1]
        rows: list[int] = np.flatnonzero(found).tolist()
        return rows


def _taken(survey: PacketSurvey, needs: Mapping[int, NeededOfConnection], file: str) -> Array:
    """Return for each packet of a file whether it is taken; fragments are not."""
    stream, offset, size = survey.places.columns(file)
    taken = np.zeros(len(stream), bool)
    known = np.isin(stream // 2, list(needs))
    rows = np.flatnonzero(known)
    rows = rows[np.argsort(stream[rows], kind="stable")]
    for mine in np.split(rows, np.flatnonzero(np.diff(stream[rows])) + 1) if len(rows) else ():
        number = int(stream[mine[0]])
        taken[mine] = _wants(survey, needs[number // 2], number, offset[mine], size[mine])
    opening = np.array(survey.handshakes.packets.get(file, ()), np.int64) - 1
    taken[opening] |= known[opening]
    return taken


def _wants(survey: PacketSurvey, need: NeededOfConnection, stream: int, offset: Array, size: Array) -> Array:
    """Return which payloads of a direction are wanted; of TLS those with a part of a record that is, or has no text."""
    places = survey.texts(stream)
    if places is None:
        return need.wants(stream % 2, offset, size)
    text, length, others = places.texts(offset, size)
    return others | ((length > 0) & need.wants(stream % 2, text, length))
