"""ByteStream: one direction's segments in, its bytes in order out, and a word for everything that went wrong."""

import marshal
import random
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcpdump.net.bytestream import ByteStream, StreamState
from dcpdump.net.event import Bytes, Conflict, Event, Gap, Seen, one_by_one
from dcpdump.net.limits import SECOND, Limits
from dcpdump.net.reassembly import Counters
from dcpdump.net.tcp import Segment, advance
from tests.support.balances import accounted
from tests.support.packets import ACK, FIN, MILLISECOND, NOON, RST, SYN
from tests.support.sentences import sentences

ISN = 1000


class Line:
    """A ByteStream with a clock: each segment arrives a millisecond and a packet number later."""

    def __init__(self, *, syn: bool = True, isn: int = ISN, limits: Limits | None = None) -> None:
        self.balance = Counters()
        self.stream = ByteStream(limits or Limits(), self.balance)
        self.events: list[Event] = []
        self.number = 0
        self.now = NOON
        self.isn = isn
        if syn:
            self.send(-1, b"", flags=SYN)

    def send(self, offset: int, data: bytes, *, flags: int = ACK, missing: int = 0) -> "Line":
        segment = Segment(b"", advance(self.isn, 1 + offset), 0, flags, 0, data, missing)
        self.events += one_by_one(self.stream.feed(segment, self.see()))
        return self

    def ack(self, offset: int) -> "Line":
        self.events += one_by_one(self.stream.acknowledge(advance(self.isn, 1 + offset), self.see()))
        return self

    def wait(self, ns: int) -> "Line":
        self.now += ns
        return self

    def tick(self) -> "Line":
        self.events += one_by_one(self.stream.tick(self.see()))
        return self

    def reset(self) -> "Line":
        self.events += one_by_one(self.stream.reset(self.see()))
        return self

    def evict(self) -> "Line":
        self.events += one_by_one(self.stream.evict(self.see()))
        return self

    def close(self) -> "Line":
        self.events += one_by_one(self.stream.close(Seen(self.number, self.now), "end"))
        return self

    def see(self) -> Seen:
        self.number += 1
        self.now += MILLISECOND
        return Seen(self.number, self.now)

    @property
    def data(self) -> bytes:
        return b"".join(event.data for event in self.events if isinstance(event, Bytes))

    def do(self, step: str) -> None:
        """Do a step of a case."""
        word, _, rest = step.partition(" ")
        if word == "ack":
            self.ack(int(rest))
        elif word == "wait":
            self.wait(int(float(rest) * SECOND)).tick()
        elif word == "later":
            self.wait(int(rest) * SECOND)
        elif word in ("reset", "evict", "close"):
            getattr(self, word)()
        else:
            text, _, missing = rest.partition("/")
            text, _, flag = text.partition("+")
            data = text.replace("~", "\0").encode()
            self.send(int(word), data, flags=FLAGS[flag], missing=int(missing or 0))


FLAGS = {"": ACK, "fin": FIN | ACK, "syn": SYN, "rst": RST}
COUNTED = ("retransmitted_bytes", "duplicate_bytes", "keepalive_bytes", "late_bytes", "stray_bytes", "conflicts")


def short(event: Event) -> str:
    if isinstance(event, Bytes):
        return f"{event.offset} {event.data.decode()}"
    if isinstance(event, Gap):
        return f"{event.offset} gap {event.length} {event.reason}"
    if isinstance(event, Conflict):
        return f"{event.offset} conflict {event.kept.decode()} {event.refused.decode()}"
    return f"{event.offset} end {event.reason}"


#: Steps -> the events; then counters, all that are not 0. Behind a bar go on steps, and what they yield. The steps:
#: ``3 def`` bytes at an offset (``~`` a zero, ``/5`` five more that were not captured, ``+fin`` a flag), ``ack 6``,
#: ``later 1`` a second passes, ``wait 1`` and is noticed, ``reset``, ``evict``, ``close``.
#: In brackets: a limit, the ISN, or that the capture joined late.
CASES = """
sequence numbers wrap and offsets do not
    [isn=4294967293] 4 ef, 2 cd, 0 ab, 6 gh -> 0 ab, 2 cd, 4 ef, 6 gh
a segment of nothing says nothing
    0 ->
data on the syn itself is data
    [late] -1 early+syn, 5 more -> 0 early, 5 more

a retransmission is counted and not repeated
    0 abc, later 1, 0 abc, 3 d -> 0 abc, 3 d; retransmitted=3
the same segment within a moment is a duplicate of the capture
    0 abc, 0 abc, 6 ghi, 6 ghi, 3 def -> 0 abc, 3 def, 6 ghi; duplicate=6
a duplicate is one of a segment that waited too, alone or below another
    9 jk, 3 defg, 5 fghi, 0 abc -> 0 abc, 3 defg, 7 hi, 9 jk; retransmitted=2
    9 jk, 3 defg, 5 fghi, 0 abc | 3 defg, 9 jk, 0 abc -> 0 abc, 3 defg, 7 hi, 9 jk |; retransmitted=2 duplicate=9
    9 jk, 0 abcdefghi, later 1, 0 abc, 9 jk -> 0 abcdefghi, 9 jk; retransmitted=5
a coalesced retransmission brings what is new in it
    0 abc, 0 abcdef -> 0 abc, 3 def; retransmitted=3
a keepalive byte is ignored
    0 abc, later 1, 2 ~, 2 , 3 def -> 0 abc, 3 def; keepalive=1
a keepalive byte behind a hole is ignored
    3 def, later 1, 5 ~, 0 abc -> 0 abc, 3 def; keepalive=1
a zero window probe is data
    0 abc, 3 d, 3 def -> 0 abc, 3 d, 4 ef; retransmitted=1
overlapping bytes that disagree keep the first and are reported
    0 abcdef, 2 cXXfgh -> 0 abcdef, 3 conflict def XXf, 6 gh; retransmitted=4 conflicts=1
the first arrival wins among waiting segments too
    4 EFGH, 2 cdef, 0 ab -> 0 ab, 2 cd, 4 EFGH, 4 conflict EF ef; retransmitted=2 conflicts=1
a waiting segment sent again with other bytes is a conflict
    3 def, 3 dXf, 0 abc -> 4 conflict ef Xf, 0 abc, 3 def; retransmitted=3 conflicts=1

an acknowledged hole is lost by the capture after two seconds
    0 abc, 6 ghi, ack 9, wait 1 | wait 1 -> 0 abc | 3 gap 3 lost-by-capture, 6 ghi
an acknowledged hole is lost by the capture after more bytes
    [patience_bytes=8] 4 efgh, ack 8, 8 ijkl | 12 mnop -> | 0 gap 4 lost-by-capture, 4 efgh, 8 ijkl, 12 mnop
a late retransmission still fills an acknowledged hole
    3 def, ack 6, later 1, 0 abc -> 0 abc, 3 def
a hole that the receiver waits for is not given up
    ack 0, 3 def, ack 0, wait 60 | 0 abc -> | 0 abc, 3 def
a hole in a capture of one direction is given up after two seconds
    3 def, wait 1.9 | wait 0.1 -> | 0 gap 3 not-acked, 3 def
a hole is given up when too much waits behind it
    [pending_bytes=8] ack 0, 2 cdef, 6 ghij, 10 k -> 0 gap 2 not-acked, 2 cdef, 6 ghij, 10 k
too many waiting segments count as too much
    [pending_segments=2] ack 0, 2 c, 4 e, 6 g -> 0 gap 2 not-acked, 2 c
the end of input turns holes into gaps
    ack 0, 3 def, 9 jkl, close -> 0 gap 3 end, 3 def, 6 gap 3 end, 9 jkl, 12 end end
at the end an acknowledged hole is still lost by the capture
    3 def, ack 6, close -> 0 gap 3 lost-by-capture, 3 def, 6 end end
acknowledged bytes after the last one seen were lost by the capture, but for one: a FIN, most likely
    0 abc, ack 9, close -> 0 abc, 3 gap 6 lost-by-capture, 9 end end
    0 abc, ack 4, close -> 0 abc, 3 end end
a direction of which only acknowledgements were seen is one gap
    [late] ack 100, ack 600, close -> 0 gap 500 lost-by-capture, 500 end end
the snap length leaves a gap and the stream continues
    0 abc/5, 8 def -> 0 abc, 3 gap 5 snaplen, 8 def
the snap length may cut segments that wait
    8 ij/6, 16 qr, 0 ab/6 -> 0 ab, 2 gap 6 snaplen, 8 ij, 10 gap 6 snaplen, 16 qr
bytes under a cut that another segment brought are used
    4 ef, 0 ab/6 -> 0 ab, 2 gap 2 snaplen, 4 ef, 6 gap 2 snaplen
memory that must be given back makes an evicted gap
    ack 0, 3 def | evict | 6 g -> | 0 gap 3 evicted, 3 def | 6 g

a fin ends the stream after its own data
    0 abc+fin, close -> 0 abc, 3 end fin
a fin behind bytes that never came ends the stream nevertheless
    0 abc, 9 jkl+fin, close -> 0 abc, 3 gap 6 end, 9 jkl, 12 end fin
a fin that overtook the data waits for it
    3 +fin | 0 abc -> | 0 abc, 3 end fin
a hole before a fin is given up in time
    ack 0, 3 +fin | wait 2 -> | 0 gap 3 not-acked, 3 end fin
a forged fin does not stop the stream
    0 abc, 3 +fin, 3 def, close -> 0 abc, 3 end fin, 3 def, 6 end end
a reset marks and does not discard
    0 abc, 3 +rst, 3 def, close -> 0 abc, 3 def, 6 end end
a stream that was reset ends so
    0 abc, 3 +rst, close -> 0 abc, 3 end rst
after a reset a hole is waited for two seconds whoever wants it
    ack 0, 3 def, reset | wait 2 -> | 0 gap 3 not-acked, 3 def
a retransmitted syn begins nothing
    0 abc, -1 +syn, 3 def -> 0 abc, 3 def

one segment far ahead is set aside
    0 abc, 100000000 forged, 3 def, close -> 0 abc, 3 def, 6 end end; stray=6
a second segment far ahead proves the first
    0 abc, 99000001 h, 99000000 g, 99000002 i -> 0 abc, 3 gap 98999997 not-acked, 99000000 g, 99000001 h, 99000002 i
the same forged segment twice proves nothing
    0 abc, 100000000 forged, 100000000 forged, 3 def, close -> 0 abc, 3 def, 6 end end; stray=12
an acknowledgement far ahead proves a stray
    0 abc, 100000000 ghi, ack 100000003 -> 0 abc, 3 gap 99999997 lost-by-capture, 100000000 ghi
a proven jump backwards is a gap of unknown length
    0 abc, -100000000 ghi, -99999997 jkl, -99999994 m -> 0 abc, 3 gap None not-acked, 3 ghi, 6 jkl, 9 m
an acknowledgement from nowhere is not believed
    0 abc, ack 100000000, close -> 0 abc, 3 end end

a late join loses nothing to a swap at its start
    [late] 503 def, 500 abc, 506 ghi, ack 509 -> 0 abc, 3 def, 6 ghi
a late join waits no longer than a moment
    [late] 500 abc, wait 0.19 | wait 0.01 -> | 0 abc
a late join in a capture of one direction continues after a few segments
    [late] 0 a, 1 b, 2 c, 3 d, 4 e, 5 f, 6 g | 7 h, 8 i -> | 0 a, 1 b, 2 c, 3 d, 4 e, 5 f, 6 g, 7 h, 8 i
bytes from before a late start are counted and dropped
    [late] 500 abc, ack 503, 490 old, 503 def -> 0 abc, 3 def; late=3
a late join that ends at once keeps its bytes
    [late] 5 abc, close -> 0 abc, 3 end end
bytes that come after their place was given up are counted
    0 abc, 6 ghi, ack 9, wait 2, 3 def -> 0 abc, 3 gap 3 lost-by-capture, 6 ghi; late=3
"""


@pytest.mark.parametrize(("given_", "wanted"), sentences(CASES))
def test_it_holds_that(given_: str, wanted: str) -> None:
    option, _, steps = given_[1:].partition("] ") if given_.startswith("[") else ("", "", given_)
    name, _, value = option.partition("=")
    limits: dict[str, Any] = {name: int(value)} if value and name != "isn" else {}
    line = Line(syn=option != "late", isn=int(value) if name == "isn" else ISN, limits=Limits(**limits))
    yielded = []
    for phase in steps.split(" | "):
        for step in phase.split(", "):
            line.do(step)
        yielded.append(", ".join(map(short, line.events)))
        line.events.clear()
    counts = ((name.removesuffix("_bytes"), getattr(line.balance, name)) for name in COUNTED)
    counted = " ".join(f"{name}={count}" for name, count in counts if count)
    assert " | ".join(yielded).strip() + (f"; {counted}" if counted else "") == wanted
    assert line.balance.payload_bytes == accounted(line.balance)


def test_a_capture_that_joined_late_says_so_unless_its_syn_came_late() -> None:
    line = Line(syn=False).send(500, b"abc").ack(503)
    assert line.events == [Bytes(0, b"abc", Seen(1, NOON + MILLISECOND), joined_late=True)]
    line = Line(syn=False).send(3, b"def").send(-1, b"", flags=SYN).send(0, b"abc")
    seen = Seen(3, NOON + 3 * MILLISECOND)
    assert line.events == [Bytes(0, b"abc", seen, joined_late=False), Bytes(3, b"def", seen, joined_late=False)]


@pytest.mark.parametrize(("pause_ms", "more_ms", "offset_ms"), [(1000, 0, 2003), (1000, 1, None)])
def test_all_that_comes_again_at_one_distance_was_captured_twice_by_two_clocks(
    pause_ms: int, more_ms: int, offset_ms: int | None
) -> None:
    line = Line()
    for at in range(0, 60, 3):
        line.send(at, b"abc").wait((pause_ms + at * more_ms) * MILLISECOND)
        if at:
            line.send(at - 3, b"abc")
    assert (line.balance.offset_ms, line.balance.retransmitted_bytes) == (offset_ms, 57)


def test_what_is_sent_again_in_part_was_not_captured_twice() -> None:
    line = Line()
    for at in range(0, 60, 3):
        line.send(at, b"abc")
    for at in range(0, 30, 3):
        line.wait(SECOND).send(at, b"abc")
    assert line.balance.offset_ms is None


def test_a_stream_knows_its_isn_what_it_holds_and_until_when_it_waits() -> None:
    line = Line().send(0, b"abc").send(-1, b"", flags=SYN).send(6, b"g")
    assert (line.stream.begins_with(ISN), line.stream.begins_with(ISN + 1)) == (True, False)
    assert line.stream.deadline == line.now + 2 * SECOND
    assert Line().ack(0).send(3, b"def").ack(0).stream.deadline is None
    late = Line(syn=False).send(500, b"abc")
    assert late.stream.deadline == late.now + 200 * MILLISECOND
    assert line.evict().stream.held > 0


# ── laws ────────────────────────────────────────────────────────────────────────────────────────────────────


@st.composite
def deliveries(draw: st.DrawFn) -> tuple[int, bytes, list[tuple[int, bytes]]]:
    """Return an ISN near the wrap, a text, and the text in pieces: cut, swapped, doubled and overlapping."""
    text = draw(st.binary(min_size=1, max_size=300))
    isn = (1 << 32) - draw(st.integers(1, 400))
    pieces = []
    at = 0
    while at < len(text):
        size = draw(st.integers(1, 40))
        pieces.append((at, text[at : at + size]))
        at += size
    for _ in range(draw(st.integers(0, 6))):
        start = draw(st.integers(0, len(text) - 1))
        pieces.append((start, text[start : start + draw(st.integers(1, 60))]))
    random.Random(draw(st.integers(0, 1 << 16))).shuffle(pieces)
    return isn, text, pieces


@settings(max_examples=150, deadline=None)
@given(deliveries())
def test_any_arrival_of_the_same_bytes_gives_the_same_bytes(given_: tuple[int, bytes, list[tuple[int, bytes]]]) -> None:
    isn, text, pieces = given_
    line = Line(isn=isn, limits=Limits(duplicate_ns=0))
    for start, data in pieces:
        line.send(start, data)
    assert line.data == text
    offset = 0
    for event in line.events:
        assert isinstance(event, Bytes)
        assert event.offset == offset
        offset += len(event.data)
    balance = line.balance
    assert balance.payload_bytes == accounted(balance)
    assert (balance.pending_bytes, balance.conflicts) == (0, 0)


@settings(max_examples=150, deadline=None)
@given(deliveries(), st.randoms(use_true_random=False))
def test_of_bytes_that_disagree_the_first_to_arrive_stands(
    given_: tuple[int, bytes, list[tuple[int, bytes]]], chance: random.Random
) -> None:
    isn, _, pieces = given_
    line = Line(isn=isn)
    known: dict[int, int] = {}  # the obviously correct machine
    for start, data in pieces:
        data = bytes(byte ^ chance.choice((0, 0, 0, 0xFF)) for byte in data)
        balance = line.balance.keepalive_bytes
        line.send(start, data)
        if line.balance.keepalive_bytes == balance:
            for at, byte in enumerate(data, start):
                known.setdefault(at, byte)
    line.close()
    reported: dict[int, int] = {}
    for event in line.events:
        if isinstance(event, Bytes):
            reported.update(enumerate(event.data, event.offset))
    assert reported == known
    assert line.balance.payload_bytes == accounted(line.balance)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(-5, 60), st.integers(0, 12), st.integers(0, 5), st.integers(0, 9))))
def test_the_balance_holds_and_offsets_tile_whatever_comes(moves: list[tuple[int, int, int, int]]) -> None:
    line = Line(syn=False, limits=Limits(pending_bytes=64, patience_bytes=16, jump=40, near=10, history=512))
    for offset, size, missing, kind in moves:
        flags = {1: SYN, 2: FIN, 3: RST}.get(kind, ACK)
        if kind == 4:
            line.ack(offset)
        elif kind == 5:
            line.wait(SECOND).tick()
        else:
            line.send(offset, bytes(size), flags=flags, missing=missing)
        assert line.balance.payload_bytes == accounted(line.balance)
    line.close()
    assert line.balance.payload_bytes == accounted(line.balance)
    assert line.balance.pending_bytes == 0
    assert line.stream.held == 0
    at = 0
    for event in line.events:
        if isinstance(event, Bytes | Gap):
            assert event.offset == at
            at += len(event.data) if isinstance(event, Bytes) else event.length or 0


# -- state ------------------------------------------------------------------------------------------------------

SENT = bytes(range(256)) * 2
MOVES = st.one_of(
    st.tuples(st.just("send"), st.integers(0, 90), st.integers(0, 40)),
    st.tuples(st.just("send"), st.integers(0, 90), st.integers(0, 40)),
    st.tuples(st.just("cut"), st.integers(0, 90), st.integers(1, 9)),
    st.tuples(st.just("stray"), st.integers(0, 9), st.integers(1, 9)),
    st.tuples(st.just("ack"), st.integers(0, 120), st.just(0)),
    st.tuples(st.just("fin"), st.integers(60, 120), st.just(0)),
    st.tuples(st.just("wait"), st.integers(1, 40), st.just(0)),
    st.tuples(st.just("reset"), st.just(0), st.just(0)),
)
TIGHT = Limits(history=0, patience_bytes=60, patience_ns=SECOND, late_segments=3, jump=1000, near=500)


def move(line: Line, kind: str, at: int, size: int) -> None:
    data = SENT[at : at + size]
    if kind == "send":
        line.send(at, data)
    elif kind == "cut":
        line.send(at, data, missing=5)
    elif kind == "stray":
        line.send(1_000_000 + at, data)
    elif kind == "ack":
        line.ack(at)
    elif kind == "fin":
        line.send(at, b"", flags=FIN | ACK)
    elif kind == "reset":
        line.reset()
    else:
        line.wait(at * SECOND // 20).tick()


@settings(max_examples=300)
@given(st.booleans(), st.lists(MOVES, max_size=12), st.lists(MOVES, max_size=12))
def test_a_stream_continues_from_its_state_as_if_it_had_not_stopped(
    syn: bool, before: list[tuple[str, int, int]], after: list[tuple[str, int, int]]
) -> None:
    one, other = Line(syn=syn, limits=TIGHT), Line(syn=False, limits=TIGHT)
    for each in before:
        move(one, *each)
    state: StreamState = marshal.loads(marshal.dumps(cast(Any, one.stream.state())))  # plain values
    assert state == one.stream.state()
    other.stream.restore(state)
    assert other.stream.state() == state
    assert other.balance.pending_bytes == one.balance.pending_bytes
    one.events.clear()
    other.number, other.now = one.number, one.now
    for each in after:
        move(one, *each)
        move(other, *each)
        assert other.stream.deadline == one.stream.deadline
    assert other.close().events == one.close().events
    assert other.stream.state() == one.stream.state()
