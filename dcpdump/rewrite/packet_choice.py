"""Choice: which packets are taken. It is made once, of what a survey knows, and asked as often as captures are read."""

from collections.abc import Mapping

import numpy as np

from dcpdump.batch.block import Block
from dcpdump.batch.layouts import Array
from dcpdump.net.packet import Packet
from dcpdump.rewrite.needed import NeededOfConnection
from dcpdump.rewrite.packet_survey import PacketSurvey


class PacketChoice:
    """The packets of some connections that carry what is wanted, and those that open them."""

    def __init__(self, survey: PacketSurvey, talks: Mapping[int, NeededOfConnection]) -> None:
        self._taken = {file: _taken(survey, talks, file) for file in survey.places.files}
        for (file, number), (split, _) in survey.places.pieces.items():
            stream, offset, _ = split.carried
            talk = talks.get(stream // 2)
            if talk is not None:
                place, size = np.array([offset]), np.array([len(split.payload)])
                self._taken[file][number - 1] = _wants(survey, talk, stream, place, size)[0]

    def takes(self, packet: Packet) -> bool:
        """It says whether a packet is taken."""
        return bool(self._taken[packet.file][packet.number - 1])

    def rows(self, block: Block) -> list[int]:
        """It gives the packets of a block that are taken."""
        found = np.zeros(len(block.numbers), bool)
        for which, file in enumerate(block.files):
            mine = np.flatnonzero(block.file == which)
            found[mine] = self._taken[file][block.numbers[mine] - 1]
        rows: list[int] = np.flatnonzero(found).tolist()
        return rows


def _taken(survey: PacketSurvey, talks: Mapping[int, NeededOfConnection], file: str) -> Array:
    """It says which packets of a file are taken, but for fragments."""
    stream, offset, size = survey.places.columns(file)
    taken = np.zeros(len(stream), bool)
    known = np.isin(stream // 2, list(talks))
    rows = np.flatnonzero(known)
    rows = rows[np.argsort(stream[rows], kind="stable")]
    for mine in np.split(rows, np.flatnonzero(np.diff(stream[rows])) + 1) if len(rows) else ():
        number = int(stream[mine[0]])
        taken[mine] = _wants(survey, talks[number // 2], number, offset[mine], size[mine])
    opening = np.array(survey.handshakes.packets.get(file, ()), np.int64) - 1
    taken[opening] |= known[opening]
    return taken


def _wants(survey: PacketSurvey, talk: NeededOfConnection, stream: int, offset: Array, size: Array) -> Array:
    """Return which payloads of a direction are wanted; of TLS those with a part of a record that is, or has no text."""
    places = survey.texts(stream)
    if places is None:
        return talk.wants(stream % 2, offset, size)
    text, length, others = places.texts(offset, size)
    return others | ((length > 0) & talk.wants(stream % 2, text, length))
