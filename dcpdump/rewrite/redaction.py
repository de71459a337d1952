"""Redact captures for sharing, and prove that no concealed text is left.

The captures are read twice: first to classify every byte of every stream, then to write each record again. The same
bytes of a stream get the same replacement in every packet. Then the result is read, to prove that it has none of the
concealed texts, and exactly the expected frames.
"""

import mmap
from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dcpdump.batch.dissector import Dissection
from dcpdump.batch.frame_batch import FrameBatch
from dcpdump.batch.read_blocks import blocks_of
from dcpdump.capture.file import Capture
from dcpdump.capture.rewriter import RawRecords, Rewriter
from dcpdump.conversation import Conversation
from dcpdump.net.ip import CHECKSUM_AT, mend_checksum, pseudo_header
from dcpdump.net.layers import HeaderOffsets, anatomy
from dcpdump.net.limits import DEFAULT, Limits
from dcpdump.net.packet import Packet
from dcpdump.net.tcp import PROTOCOL
from dcpdump.record import Record
from dcpdump.redact import Pseudonyms, is_damaged
from dcpdump.rewrite.concealed_frame import Concealer, Plain, plain_frames
from dcpdump.rewrite.packet_survey import NOWHERE, FragmentedSegment, PacketSurvey, stream_number
from dcpdump.rewrite.rebuilt_packet import Addresses, conceal_packet, header_to_share
from dcpdump.rewrite.spill import Spill
from dcpdump.spec.header import HEADER_LENGTH
from dcpdump.startup import dataclass
from dcpdump.wire.frame import RawFrame, Span
from dcpdump.wire.split import Cut, FrameSplitter, Why
from dcpdump.wire.value import Body

# -- a search of files for many texts at once ---------------------------------------------------------

#: Shorter texts cannot be searched for.
_WINDOW = 8
#: A window must have this many bytes other than zero: numbers and blanked bytes are mostly zeros.
_LEAST_NONZERO = 5
_LOOKED_AT = 64  #: such a window must begin within this many bytes of a text
_CHUNK = 4 * 1024 * 1024
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)

_Words = npt.NDArray[np.uint64]


class _Search:
    """A set of texts to search for in files, without texts of nearly only zeros."""

    def __init__(self) -> None:
        self._windows = bytearray()
        self._shifts = array("B")
        self._lengths = array("L")
        self._digests = bytearray()

    def add(self, text: bytes) -> None:
        """Add a text of eight bytes or more."""
        for shift in range(min(len(text) - _WINDOW + 1, _LOOKED_AT)):
            window = text[shift : shift + _WINDOW]
            if _WINDOW - window.count(0) >= _LEAST_NONZERO:
                self._windows += window
                self._shifts.append(shift)
                self._lengths.append(len(text))
                self._digests += _digest(text)
                return

    def __len__(self) -> int:
        return len(self._shifts)

    def scan(self, path: str) -> Iterator[int]:
        """Yield the offsets in a file at which a text occurs, each offset once."""
        if not len(self):
            return
        windows = np.frombuffer(bytes(self._windows), "<u8")
        order = np.argsort(windows, kind="stable")
        windows = windows[order]
        bits = max(16, min(26, len(windows).bit_length() + 5))
        table = np.zeros(1 << bits, bool)
        table[_hashed(windows, bits)] = True
        with open(path, "rb") as file:
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        with data:
            for start in range(0, len(data), _CHUNK):
                chunk = data[start : start + _CHUNK + _WINDOW - 1]
                for position, window in _candidates(chunk, table, bits, windows):
                    if self._occurs(data, start + position, window, windows, order):
                        yield start + position

    def _occurs(self, data: mmap.mmap, at: int, window: int, windows: _Words, order: npt.NDArray[np.intp]) -> bool:
        """Return whether one of the texts with this window occurs completely around it."""
        first = np.searchsorted(windows, np.uint64(window), "left")
        last = np.searchsorted(windows, np.uint64(window), "right")
        for index in set(order[first:last].tolist()):
            start = at - self._shifts[index]
            text = data[max(start, 0) : max(start, 0) + self._lengths[index]]
            if start >= 0 and _digest(text) == bytes(self._digests[8 * index : 8 * index + 8]):
                return True
        return False


def _hashed(words: _Words, bits: int) -> npt.NDArray[np.int64]:
    hashed: npt.NDArray[np.int64] = ((words * _MULTIPLIER) >> np.uint64(64 - bits)).astype(np.int64)
    return hashed


def _candidates(chunk: bytes, table: npt.NDArray[np.bool_], bits: int, windows: _Words) -> Iterator[tuple[int, int]]:
    """Yield offset and window of each window in the chunk that a text has."""
    for shift in range(min(_WINDOW, len(chunk) - _WINDOW + 1)):
        words = np.frombuffer(chunk, "<u8", (len(chunk) - shift) // _WINDOW, shift)
        near = np.flatnonzero(table[_hashed(words, bits)])
        found = words[near]
        exact = windows[np.minimum(np.searchsorted(windows, found), len(windows) - 1)] == found
        for position, window in zip(near[exact].tolist(), found[exact].tolist(), strict=True):
            yield shift + _WINDOW * position, window


def _digest(text: bytes) -> bytes:
    return blake2b(text, digest_size=8).digest()


# -- hashes of frames ---------------------------------------------------------------------------------
# Hashes differ if any byte differs, or a fact that concealing must keep.


class _FramePosition(NamedTuple):
    """The place of a frame in the captures."""

    number: int
    connection: int
    direction: int
    offset: int
    length: int
    gap_before: int
    packet: int
    ts_ns: int


def positions_of(batch: FrameBatch) -> Iterator[_FramePosition]:
    """Yield the places of a batch's frames."""
    directions = [(each.connection, each.side) for each in batch.directions]
    columns = batch.offset, batch.length, batch.gap_before, batch.packet, batch.ts_ns
    rows = zip(batch.direction.tolist(), *(column.tolist() for column in columns), strict=True)
    for number, (position, *facts) in enumerate(rows, batch.first):
        yield _FramePosition(number, *directions[position], *facts)


def plain_proof_hash(position: _FramePosition, plain: Plain, data: bytes) -> int:
    """Return the hash of a plain frame whose bytes, once written, are ``data``."""
    # Its bytes include its numbers and the lengths of its parts.
    body = plain.body
    value = None if body is None else (len(body.faults), _texts(body))
    return hash((position, plain.name, plain.guess and plain.message.collection_key, value, data))


def proof_hash(position: _FramePosition, record: Record, data: bytes) -> int:
    """Return the hash of any frame whose bytes, once written, are ``data``."""
    if is_damaged(record.frame):
        return _damaged_hash(position, record.frame.raw.holes, data)
    return hash((position, _facts(record), data))


def _damaged_hash(position: _FramePosition, holes: tuple[Span, ...], data: bytes) -> int:
    """Return the hash of a damaged frame, of which only the header, a part of its bytes, is certain."""
    return hash((position, holes, data))


def _texts(body: Body | None) -> tuple[tuple[int, int], ...] | None:
    """Return the lengths of xattrs' texts; None for damaged xattrs."""
    if body is None or body.faults or body.xattrs is None:
        return None
    return tuple((len(name), len(text)) for name, text in body.xattrs)


def _facts(record: Record) -> tuple[object, ...]:
    """Return the facts that a concealed copy must keep: every number, and the lengths of texts."""
    frame, content = record.frame, record.content
    return (
        frame.raw.holes,
        frame.header,
        frame.layout.version,
        frame.stream_id,
        tuple(frame.lookup.items()),
        tuple(
            (field.start, field.end, field.value if isinstance(field.value, int) else None) for field in frame.fields
        ),
        tuple((problem.start, problem.end) for problem in record.problems),
        record.vbucket,
        record.request,
        (content.collection, content.collection_inferred, _texts(content.body)),
        tuple((item.collection, _texts(item.body)) for item in content.items),
    )


@dataclass(frozen=True, slots=True)
class Flaw:
    """Why a result must not be shared, and where the reason was found."""

    text: str
    survivor: bool  #: a concealed text was found


class _Survey(PacketSurvey):
    """A survey that remembers incomplete and damaged headers, whose bytes are kept as boundaries of frames."""

    def __init__(self, limits: Limits) -> None:
        super().__init__(limits, show_secrets=True)
        self.cut_ranges: dict[int, list[tuple[int, int]]] = {}  #: by stream
        self.joined_late: set[int] = set()  #: streams whose capture begins in their middle
        self.framed: set[int] = set()  #: streams with frames, and so of our protocol

    def _splitter(self, conversation: Conversation, direction: int, *, joined_late: bool) -> FrameSplitter:
        if joined_late:
            self.joined_late.add(stream_number(conversation.connection.number, direction))
        return super()._splitter(conversation, direction, joined_late=joined_late)

    def _records(self, conversation: Conversation, direction: int, cuts: list[Cut]) -> list[Record]:
        number = stream_number(conversation.connection.number, direction)
        for cut in cuts:
            if isinstance(cut, RawFrame):
                continue
            if cut.why is Why.TORN_HEADER or (not cut.offset and number not in self.joined_late):
                stop = cut.offset + min(cut.length, HEADER_LENGTH)
                self.cut_ranges.setdefault(number, []).append((cut.offset, stop))
        return super()._records(conversation, direction, cuts)


class Redaction:
    """A redaction in three steps: ``survey``, ``write`` each capture, then ``prove`` the results."""

    def __init__(
        self, captures: Sequence[Capture], words: Pseudonyms, spill: Spill, *, full: bool, limits: Limits = DEFAULT
    ) -> None:
        self.dissector = _Survey(limits)
        self.left_out: Counter[str] = Counter()  #: comments and names of pcapng files that were left out, by kind
        self._captures = captures
        self._spill = spill
        self._limits = limits
        self._full = full
        self._concealer = Concealer(words, full=full)
        self._addresses = Addresses(words) if full else None
        self._payloads = self.dissector.payloads
        self._search = _Search()
        self._frames: array[int] = array("q")

    def survey(self) -> None:
        """Read all captures, and conceal every frame."""
        for batch in _batches(self.dissector, self._captures):
            self.dissector.framed.update(direction.id for direction in batch.directions)
            self._conceal_batch(batch)
        self._payloads.close()

    def _conceal_batch(self, batch: FrameBatch) -> None:
        for row, (position, plain) in enumerate(zip(positions_of(batch), plain_frames(batch), strict=True)):
            if plain is not None:
                concealed = self._concealer.conceal_plain(plain)
                number = plain_proof_hash(position, plain, concealed.data)
            else:
                record = batch.record(row)
                concealed = self._concealer.conceal(record)
                number = proof_hash(position, record, concealed.data)
            self._spill.put(stream_number(position.connection, position.direction), position.offset, concealed.data)
            for secret in concealed.secrets:
                self._search.add(secret)
            self._frames.append(number)

    # -- writing ------------------------------------------------------------------------------------------

    def write(self, path: str, *, salvage: bool = False) -> Iterator[bytes]:
        """Yield the bytes of one redacted capture; with ``salvage``, without its damage."""
        rewriter = Rewriter(words=not self._full)
        raw_records = RawRecords(path, salvage=salvage)
        with raw_records:
            for packet in raw_records:
                body = anatomy(packet, self._limits)
                data = conceal_packet(packet, body, self._payload(packet, body), self._addresses)
                yield rewriter.record(raw_records.pop_bytes(), data)
        yield rewriter.rest(raw_records.rest)
        self.left_out += rewriter.left_out

    def _payload(self, packet: Packet, body: HeaderOffsets) -> bytes:
        if body.fragment:
            return self._fragment(packet)
        stream, offset, _ = self._payloads.of(packet.file, packet.number)
        if stream == NOWHERE or body.segment is None:
            return b""
        _, start, end = body.segment
        return self._content(stream, offset, packet.data[start:end])

    def _content(self, stream: int, offset: int, payload: bytes) -> bytes:
        """Return the replacement of a stream's payload at an offset."""
        out = bytearray(self._spill.get(stream, offset, offset + len(payload)))
        for first, last in self.dissector.cut_ranges.get(stream, ()) if stream in self.dissector.framed else ():
            start, end = max(first - offset, 0), min(last - offset, len(payload))
            if start < end:
                out[start:end] = payload[start:end]
        return bytes(out)

    def _fragment(self, packet: Packet) -> bytes:
        """Return the replacement of an IP fragment's payload: a piece of a segment, its TCP header included."""
        piece = self._payloads.pieces.get((packet.file, packet.number))
        if piece is None:
            return b""
        split, start = piece
        whole = self._segment(split)
        (layer,) = anatomy(packet, self._limits).layers[-1:]
        return whole[start : start + layer.datagram.end - layer.datagram.start]

    def _segment(self, split: FragmentedSegment) -> bytes:
        stream, offset, _ = split.carried
        whole = bytearray(header_to_share(split.header))
        whole += self._content(stream, offset, split.payload)
        addresses = split.addresses
        if self._addresses is not None:
            half = len(addresses) // 2
            addresses = self._addresses.ip(addresses[:half]) + self._addresses.ip(addresses[half:])
        if split.right:
            mend_checksum(pseudo_header(addresses, PROTOCOL, len(whole)), whole, CHECKSUM_AT[PROTOCOL])
        return bytes(whole)

    # -- the proof ----------------------------------------------------------------------------------------

    def prove(self, paths: Sequence[str], captures: Sequence[Capture]) -> Flaw | None:
        """Read the results, and return the first reason why they must not be shared; None without one."""
        for path in paths:
            for position in self._search.scan(path):
                return Flaw(f"a key or a value of the input still stands at byte {position:,} of the result", True)
        number = 0
        for batch in _batches(Dissection(self._limits, show_secrets=True), captures):
            for row, (at, there) in enumerate(_proof_hashes(batch)):
                here = self._frames[number] if number < len(self._frames) else None
                # A concealed frame may have no damage; of a damaged frame only the bytes are compared.
                if here != there and here != _damaged_hash(at, (raw := batch.raw(row)).holes, raw.data):
                    return Flaw(f"frame {number + 1:,} of the result is not what the input's is", False)
                number += 1
        if number < len(self._frames):
            return Flaw(f"the result has {number:,} frames, the input {len(self._frames):,}", False)
        return None


def _batches(dissection: Dissection, captures: Sequence[Capture]) -> Iterator[FrameBatch]:
    for block in blocks_of(captures):
        for batches in dissection.feed_block(block):
            yield from batches
    for batches in dissection.close_blocks():
        yield from batches


def _proof_hashes(batch: FrameBatch) -> Iterator[tuple[_FramePosition, int]]:
    """Yield the places and hashes of frames."""
    for row, (position, plain) in enumerate(zip(positions_of(batch), plain_frames(batch), strict=True)):
        if plain is not None:
            yield position, plain_proof_hash(position, plain, plain.data)
        else:
            record = batch.record(row)
            yield position, proof_hash(position, record, record.frame.raw.data)
