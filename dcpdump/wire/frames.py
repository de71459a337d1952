"""Collect complete frames of all directions, one after another in the order in which they completed.

Frames that follow one another in one direction are a *run*. For each frame the packet that completed it is known; for
each run, its bytes and their offset in the direction. Decoding is done elsewhere.
"""

from typing import TYPE_CHECKING, Final

from dcpdump.big_endian import be16, be32
from dcpdump.spec import find
from dcpdump.spec.header import HEADER_LENGTH, MAGICS, MAX_FRAME
from dcpdump.spec.names import SNAPPY
from dcpdump.wire.frame import RawFrame

if TYPE_CHECKING:
    from mypy_extensions import i64

_MOST: Final = MAX_FRAME - HEADER_LENGTH
#: By first byte: 0 is not a magic, 1 is a classic header's, 2 a flexible one's.
_KIND: Final = bytes([(1 + MAGICS[byte].flexible) if byte in MAGICS else 0 for byte in range(256)])
#: By opcode: 1 for a known message other than documents, of which every byte or two of the value may become a field.
_LISTING: Final = bytes(
    [any(each.known and not each.collection_key for each in (find(op), find(op, server=True))) for op in range(256)]
)
#: A longer value counts as a list.
_LONG: Final = 64
#: So many bytes of a list need as much memory as one frame.
_BYTES: Final = 8
#: So many decompressed bytes need as much memory as one byte of a list.
_TEXT: Final = 64
#: Texts up to here are short, as nearly all documents are.
_SHORT_TEXT: Final = 1_024
#: The best ratio of Snappy: three bytes stand for 64 at most.
_RATIO: Final = 24


class Frames:
    """The bytes of frames, one after another, with columns by frame, by packet and by run."""

    def __init__(self) -> None:
        self.count = 0  #: how many frames there are
        self.size = 0  #: how many bytes they are
        self.listing = 0  #: bytes that may become fields: of lists, and of compressed values in proportion
        self.odd: dict[int, RawFrame] = {}  #: by number: frames with bytes missing

        self.bounds: list[int] = []  #: by packet: up to which end it completed frames
        self.packets: list[int] = []  #: its number
        self.times: list[int | None] = []  #: its capture time in ns
        self.files: list[str] = []  #: and its file

        self.pieces: list[bytes] = []  #: by run: the bytes that begin with its frames; more bytes may follow
        self.begins: list[int] = []  #: where it begins in the bytes of all frames
        self.firsts: list[int] = []  #: the number of its first frame
        self.offsets: list[int] = []  #: where that frame begins in its direction
        self.gaps: list[int] = []  #: bytes that were lost or skipped before it
        self.direction_ids: list[int] = []  #: the number of the direction, which the caller chooses
        self.weak: list[bool] = []  #: found on weak evidence

        self.need = HEADER_LENGTH  #: after ``cut``: how many bytes, from the first that is left, the next frame needs
        self.fault = 0  #: after ``cut`` returned -1: where the header begins that is not ordinary

    def __len__(self) -> int:
        return self.count

    @property
    def weight(self) -> int:
        """Return how much memory they may need once they are decoded, counted in frames."""
        return self.count + self.listing // _BYTES

    def data(self) -> bytes:
        """Return the bytes of all frames, one behind the other."""
        if len(self.pieces) == 1:
            return self.pieces[0][: self.size]
        ends = [*self.begins[1:], self.size]
        return b"".join(
            [memoryview(piece)[: end - begin] for piece, begin, end in zip(self.pieces, self.begins, ends, strict=True)]
        )

    def add(self, raw: RawFrame, direction_id: int) -> None:
        """Add one frame, which may have bytes missing."""
        if raw.holes or len(raw.data) < raw.length:
            self.odd[self.count] = raw
        self._run(raw.data, 1, len(raw.data), direction_id)
        if len(raw.data) > HEADER_LENGTH + _LONG:
            header = raw.header
            if _LISTING[header.opcode]:
                self.listing += len(raw.data) - HEADER_LENGTH
            elif header.datatype & SNAPPY:
                at = HEADER_LENGTH + header.framing_length + header.extras_length + header.key_length
                self.listing += _text_size(raw.data, at, len(raw.data)) // _TEXT
        self.offsets.append(raw.offset)
        self.gaps.append(raw.gap_before)
        self.weak.append(raw.confidence == "low")
        self.bound(self.size, raw.where.packet, raw.where.ts_ns, raw.where.file)

    def bound(self, end: int, packet: int, ts_ns: int | None, file: str) -> None:
        """Note that a packet completed the last frames, up to the one that ends at ``end``."""
        self.bounds.append(end)
        self.packets.append(packet)
        self.times.append(ts_ns)
        self.files.append(file)

    def cut(self, data: bytes, offset: int, gap: int, direction_id: int) -> int:
        """Add the complete frames at the beginning of ``data``, whose offset in its direction is ``offset``.

        Return their size in bytes; -1 where a header is not one of a frame: then nothing is added.
        """
        kinds, lists = _KIND, _LISTING
        listing: i64 = 0
        count: i64 = 0
        at: i64 = 0
        end: i64 = len(data)
        last = end - HEADER_LENGTH
        self.need = HEADER_LENGTH
        sound = True
        while at <= last:
            kind: i64 = kinds[data[at]]
            sections: i64 = data[at + 4]
            body = be32(data, at + 8)
            if kind == 1:
                sections += be16(data, at + 2)
            else:
                sections += data[at + 2] + data[at + 3]
            if not kind or body > _MOST or sections > body:
                sound = False
                break
            stop = at + HEADER_LENGTH + body
            if stop > end:
                self.need = stop - at
                break
            count += 1
            if body > _LONG:
                if lists[data[at + 1]]:
                    listing += body
                elif data[at + 5] & SNAPPY:
                    listing += _text_size(data, at + HEADER_LENGTH + sections, stop) // _TEXT
            at = stop
        else:
            sound = at == end or kinds[data[at]] != 0
        if not sound:
            self.fault = at
            return -1
        if at:
            self._run(data, count, at, direction_id)
            self.listing += listing
            self.offsets.append(offset)
            self.gaps.append(gap)
            self.weak.append(False)
        return at

    def _run(self, piece: bytes, count: int, size: int, direction_id: int) -> None:
        self.pieces.append(piece)
        self.begins.append(self.size)
        self.firsts.append(self.count)
        self.direction_ids.append(direction_id)
        self.count += count
        self.size += size


def _text_size(data: bytes, at: "i64", stop: "i64") -> "i64":
    """Return the length that a compressed value claims for its text, as far as possible; 0 where it is short."""
    most: i64 = _RATIO * (stop - at)
    size: i64 = 0
    shift: i64 = 0
    while at < stop and shift < 35:
        byte: i64 = data[at]
        size |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        at += 1
        shift += 7
    size = min(size, most)
    return size if size > _SHORT_TEXT else 0
