"""Neighbours: a client's own requests on the port of DCP are decoded only where they are needed."""

import struct

from dcpdump.batch.block import blocks
from dcpdump.batch.scan import DeferredRecord
from dcpdump.check.engine import RuleEngine
from dcpdump.check.finding import Finding
from dcpdump.net.packet import Packet
from dcpdump.streams.dissection import Watching, piece_of
from dcpdump.streams.feed import Feed
from dcpdump.streams.frame_event import event_of
from dcpdump.streams.ledger import Ledger
from tests.streams.test_document_runs import books
from tests.support.batch_rows import columnar, scalar
from tests.support.conversation import Said, events_of, opening, packets, said
from tests.support.pieces import all_pieces, parts_of

GET, SET, GETQ, UNKNOWN, QUIET_SET = 0x00, 0x01, 0x09, 0xDE, 0x11
TRACED = bytes.fromhex("020010")  # how long the server took


def message(
    magic: int, opcode: int, opaque: int, key: bytes = b"", value: bytes = b"", *, word: int = 0, datatype: int = 0
) -> bytes:
    """Return a frame of the key-value protocol; one of magic 0x18 carries the server's duration."""
    framing = TRACED if magic == 0x18 else b""
    lengths = struct.pack(">BB", len(framing), len(key)) if framing else struct.pack(">H", len(key))
    extras = b"\0\0\0\4" if opcode == GET and magic != 0x80 else b"\0" * 8 if opcode in (SET, QUIET_SET) else b""
    body = framing + extras + key + value
    head = struct.pack(">BB2sBBHIIQ", magic, opcode, lengths, len(extras), datatype, word, len(body), opaque, 7)
    return head + body


MIXED = [
    (0, message(0x80, GET, 1, b"\x00a", word=5)),
    (1, message(0x81, GET, 1, value=b'{"a":1}', datatype=1)),
    (0, message(0x80, SET, 2, b"\x00b", b"#\x01\x02", word=6, datatype=2)),
    (1, message(0x18, SET, 2)),
    (0, message(0x80, GETQ, 3, b"\x00c", word=9)),
    (0, message(0x80, QUIET_SET, 4, b"\x00d", b"x" * 300, datatype=9)),  # bits that are no datatype
    (1, message(0x81, GET, 99, value=b"nobody asked", word=1)),
    (0, message(0x80, UNKNOWN, 5, b"?")),
    (0, message(0x80, GET, 1, b"\x00a", word=5)),
    (0, message(0x80, GET, 1, b"\x00a", word=7)),  # the opaque again before the answer
    (1, message(0x81, GET, 1, value=b"late", word=1)),
    (1, message(0x81, GET, 1, value=b"later", word=1)),
]


def mixed(text: str = "") -> list[Packet]:
    """Return packets of a DCP conversation with other requests between its frames."""
    text = text or opening(collections=True) + "STREAM vb=5\nRX snapshot-marker{start=1, end=2, flags=0x5}\n"
    spoken = said(text + "RX mutation{seqno=1, key=#0061}\nRX mutation{seqno=2, key=#0062}\n")
    out: list[Said] = []
    for at, frame in enumerate(spoken):
        out.append(frame)
        for number in (2 * at % len(MIXED), (2 * at + 1) % len(MIXED)):
            direction, data = MIXED[number]
            out.append(Said(frame.connection, direction, frame.ts_ns + 1000 * (number + 1), data))
    return packets(out)


def test_neighbours_are_not_decoded_until_somebody_looks() -> None:
    (part,) = parts_of(mixed())
    waiting = [row for row, record in part.records.items() if isinstance(record, DeferredRecord)]
    names = {part.record(row).frame.message.name for row in waiting}
    assert names == {"GET", "SET", "GETQ"}
    assert not any(isinstance(part.records[row], DeferredRecord) for row in waiting)


def test_neighbours_have_the_same_rows_as_frame_by_frame() -> None:
    captured = mixed()
    assert columnar(captured) == scalar(captured)
    late = captured[len(captured) // 3 :]
    assert columnar(late) == scalar(late)


def test_neighbours_teach_the_ledger_and_the_rules_the_same_undecoded() -> None:
    captured = mixed()
    kept: list[Ledger] = []
    found = []
    for looks in (False, True):
        said_of: list[Finding] = []
        dissection, ledger, engine = Watching(), Ledger(), RuleEngine(said_of.append)
        feed = Feed(dissection, ledger)
        for block in blocks(captured):
            some = all_pieces(dissection.feed_block(block))
            feed.steps(some)  # it tells the ledger who the ends are
            for part in some:
                seen = events_of(piece_of(part))
                for row in part.records if looks else ():
                    seen[row] = event_of(part.record(row))
                for frame in seen:
                    ledger.feed(frame)
                    engine.feed(frame)
        feed.close()
        engine.close()
        kept.append(ledger)
        found.append(said_of)
    assert books(kept[0]) == books(kept[1])
    assert found[0] == found[1] != []
