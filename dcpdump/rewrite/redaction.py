"""Rewrite captures so that they may be shared, and prove that they may.

The captures are read twice: first to learn what every byte of every stream is, then to write each record again; the
same bytes of a stream get the same replacement wherever they are captured. Then the result is read, to prove that it
holds none of the concealed texts, and exactly the expected frames.
"""

from array import array
from collections import Counter
from collections.abc import Iterator, Sequence

from dcpdump.batch.dissector import Dissection
from dcpdump.batch.part import Part
from dcpdump.batch.read_blocks import blocks_of
from dcpdump.capture import Capture
from dcpdump.capture.rewriter import RawRecords, Rewriter
from dcpdump.conversation import Conversation
from dcpdump.net.ip import CHECKSUM_AT, mend_checksum, pseudo_header
from dcpdump.net.layers import HeaderOffsets, anatomy
from dcpdump.net.limits import DEFAULT, Limits
from dcpdump.net.packet import Packet
from dcpdump.net.tcp import PROTOCOL
from dcpdump.pseudonymize import Pseudonyms
from dcpdump.quick_dataclass import dataclass
from dcpdump.record import Record
from dcpdump.rewrite.concealed_frame import Concealer
from dcpdump.rewrite.leak_scan import Search
from dcpdump.rewrite.packet_survey import PacketSurvey
from dcpdump.rewrite.payload_map import NOWHERE, FragmentedSegment, stream_number
from dcpdump.rewrite.plain_frames import plain_frames
from dcpdump.rewrite.proof_hash import FramePlace, damaged_hash, places_of, plain_proof_hash, proof_hash
from dcpdump.rewrite.rebuilt_packet import Addresses, conceal_packet, header_to_share
from dcpdump.rewrite.spill import Spill
from dcpdump.spec.header import HEADER_LENGTH
from dcpdump.wire.frame import RawFrame
from dcpdump.wire.split import Cut, FrameSplitter, Why


@dataclass(frozen=True, slots=True)
class Flaw:
    """Why a result may not be shared: what was found in it, and where."""

    text: str
    survivor: bool  #: a concealed text was found


class _Survey(PacketSurvey):
    """A survey that remembers where headers were torn or damaged: their rest shows where frames are, and is kept."""

    def __init__(self, limits: Limits) -> None:
        super().__init__(limits, show_secrets=True)
        self.torn: dict[int, list[tuple[int, int]]] = {}  #: by stream: from, to
        self.late: set[int] = set()  #: streams whose capture begins in their middle
        self.framed: set[int] = set()  #: streams that have frames, so they are not another protocol's

    def _splitter(self, conversation: Conversation, direction: int, *, late: bool) -> FrameSplitter:
        if late:
            self.late.add(stream_number(conversation.connection.number, direction))
        return super()._splitter(conversation, direction, late=late)

    def _records(self, conversation: Conversation, direction: int, cuts: list[Cut]) -> list[Record]:
        number = stream_number(conversation.connection.number, direction)
        for cut in cuts:
            if isinstance(cut, RawFrame):
                continue
            if cut.why is Why.TORN_HEADER or (not cut.offset and number not in self.late):
                stop = cut.offset + min(cut.length, HEADER_LENGTH)
                self.torn.setdefault(number, []).append((cut.offset, stop))
        return super()._records(conversation, direction, cuts)


class Redaction:
    """A redaction in three steps: ``survey``, then ``write`` each capture, then ``prove`` what was written."""

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
        self._places = self.dissector.places
        self._search = Search()
        self._frames: array[int] = array("q")

    def survey(self) -> None:
        """Read all captures, and conceal every frame."""
        for part in _parts(self.dissector, self._captures):
            self.dissector.framed.update(ends.place for ends in part.places)
            self._take(part)
        self._places.close()
        self._spill.flush()

    def _take(self, part: Part) -> None:
        for row, (place, plain) in enumerate(zip(places_of(part), plain_frames(part), strict=True)):
            if plain is not None:
                concealed = self._concealer.conceal_plain(plain)
                number = plain_proof_hash(place, plain, concealed.data)
            else:
                record = part.record(row)
                concealed = self._concealer.conceal(record)
                number = proof_hash(place, record, concealed.data)
            self._spill.put(stream_number(place.connection, place.direction), place.offset, concealed.data)
            for secret in concealed.secrets:
                self._search.add(secret)
            self._frames.append(number)

    # -- writing ------------------------------------------------------------------------------------------

    def write(self, path: str, *, salvage: bool = False) -> Iterator[bytes]:
        """Yield the bytes of one concealed capture; with ``salvage``, without its damage."""
        rewriter = Rewriter(words=not self._full)
        raw_records = RawRecords(path, salvage=salvage)
        with raw_records:
            for packet in raw_records:
                body = anatomy(packet, self._limits)
                data = conceal_packet(packet, body, self._payload(packet, body), self._addresses)
                yield rewriter.record(raw_records.taken(), data)
        yield rewriter.rest(raw_records.rest)
        self.left_out += rewriter.left_out

    def _payload(self, packet: Packet, body: HeaderOffsets) -> bytes:
        if body.fragment:
            return self._fragment(packet)
        stream, offset, _ = self._places.of(packet.file, packet.number)
        if stream == NOWHERE or body.segment is None:
            return b""
        _, start, end = body.segment
        return self._content(stream, offset, packet.data[start:end])

    def _content(self, stream: int, offset: int, payload: bytes) -> bytes:
        """Return what replaces a payload of a stream at an offset."""
        out = bytearray(self._spill.get(stream, offset, offset + len(payload)))
        for first, last in self.dissector.torn.get(stream, ()) if stream in self.dissector.framed else ():
            start, end = max(first - offset, 0), min(last - offset, len(payload))
            if start < end:
                out[start:end] = payload[start:end]
        return bytes(out)

    def _fragment(self, packet: Packet) -> bytes:
        """Return what replaces the payload of an IP fragment: a piece of a segment, its TCP header included."""
        piece = self._places.pieces.get((packet.file, packet.number))
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
        """Read what was written, and return the first reason why it may not be shared; None if there is none."""
        for path in paths:
            for place in self._search.scan(path):
                return Flaw(f"a key or a value of the input still stands at byte {place:,} of the result", True)
        number = 0
        for part in _parts(Dissection(self._limits, show_secrets=True), captures):
            for row, (at, there) in enumerate(_proof_hashes(part)):
                here = self._frames[number] if number < len(self._frames) else None
                # A damaged frame may have no damage without its bytes; of it nothing but those is compared.
                if here != there and here != damaged_hash(at, (raw := part.raw(row)).holes, raw.data):
                    return Flaw(f"frame {number + 1:,} of the result is not what the input's is", False)
                number += 1
        if number < len(self._frames):
            return Flaw(f"the result has {number:,} frames, the input {len(self._frames):,}", False)
        return None


def _parts(dissection: Dissection, captures: Sequence[Capture]) -> Iterator[Part]:
    for block in blocks_of(captures):
        for parts in dissection.feed_block(block):
            yield from parts
    for parts in dissection.close_blocks():
        yield from parts


def _proof_hashes(part: Part) -> Iterator[tuple[FramePlace, int]]:
    """Yield the places of frames, and their hashes as they are."""
    for row, (place, plain) in enumerate(zip(places_of(part), plain_frames(part), strict=True)):
        if plain is not None:
            yield place, plain_proof_hash(place, plain, plain.data)
        else:
            record = part.record(row)
            yield place, proof_hash(place, record, record.frame.raw.data)
