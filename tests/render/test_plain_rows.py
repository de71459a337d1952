"""Plain frames are written as the writers for one record write them, whatever is in them."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from dcpdump.batch.frame_batch import joined
from dcpdump.clock import PLAIN_TIMES
from dcpdump.escape import safe
from dcpdump.render import OUTPUTS, View
from dcpdump.render.plain_formats import Bulk
from dcpdump.render.plain_rows import PlainRows, shown, shown_text
from dcpdump.render.style import Palette
from dcpdump.text import iso_time
from dcpdump.wire.encode import encode
from tests.bench.captures import capture
from tests.support.batch_rows import files
from tests.support.packets import TcpTalk, flow
from tests.support.pieces import parts_of
from tests.support.strategies import SHAPES, sent

FORMATS = ("table", "line", "ndjson", "csv")
COLLECTIONS = 0x12
UNDERLYING_DATATYPE = 0x40  # a flag of DCP_OPEN
PUSHED = [shape for shape in SHAPES if shape.message.streamed and not shape.response]
modest = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
times = st.integers(-(10**18), 3 * 10**18) | st.sampled_from([0, 10**18 + 7, 10**18 + 7000])


def view(value_bytes: int | None = 64, *, file: bool = False) -> View:
    return View(value_bytes, Palette(False), file=file, times=PLAIN_TIMES)


@st.composite
def documents(draw: st.DrawFn) -> bytes:
    """Make frames that producers send, with any datatype, and keys and values that may begin in any way."""
    data = bytearray(draw(st.sampled_from(PUSHED).flatmap(sent)).data)
    if len(data) > 24 and draw(st.booleans()):
        data[5] = draw(st.integers(0, 7))
    return bytes(data)


@st.composite
def mutations(draw: st.DrawFn) -> bytes:
    """Make mutations."""
    ids = st.sampled_from(
        [b"", b"\0", b"\x08", b"\x07", b"\x80", b"\xac\2", b"\x88\0", b"\xff\xff\xff\xff\x0f", b"\xff" * 5]
    )
    names = st.sampled_from([b"user::1", b"k \xc3\xa9 ", b"\x1b[1m", b"\xff", b'a,"b"', b""])
    texts = [b"", b'{"a": 1}', b"{", b" 7 ", b'"\xc3\xa9"', b"\x85\0", b"\xf0\x9f\x98", b"a\tb\n", b"[" * 1000]
    return encode(
        "DCP_MUTATION",
        {"by_seqno": draw(st.integers(0, 2**64 - 1)), "expiration": draw(st.sampled_from([0, 1, 1_700_000_000]))},
        layout="1",
        key=draw(ids) + draw(names) or b"k",
        value=draw(st.sampled_from(texts) | st.binary(max_size=80)),
        datatype=draw(st.sampled_from([0, 0, 1, 1, 2, 4, 3])),
        stream_id=draw(st.sampled_from([None, None, 3])),
    )  # fmt: skip


#: Numbers side by side that have one digit, two, and as many thousands as the one before, or more.
COUNTS = (9, 10, 99, 999, 1000, 1009, 1999, 10_000, 2**63, 2**64 - 1)
HIGHEST = {"by_seqno": 2**64 - 1, "rev_seqno": 2**64 - 1, "expiration": 2**32 - 1, "flags": 2**32 - 1}


@modest
@example([encode("DCP_MUTATION", HIGHEST, layout="1", key=b"k")], None, None, False, False)
@example(
    [encode("DCP_MUTATION", {"by_seqno": each}, layout="1", key=b"k") for each in COUNTS], None, None, False, False
)
@given(
    st.lists(mutations() | documents(), min_size=1, max_size=12),
    st.sampled_from([True, False, None]),
    st.sampled_from([None, 3, 0]),
    st.booleans(),
    st.booleans(),
)
def test_frames_are_written_as_one_by_one(
    frames: list[bytes], hello: bool | None, value_bytes: int | None, file: bool, underlying: bool
) -> None:
    talk = TcpTalk(flow("10.0.0.9:50001", "10.0.0.1:11210"), segment=1448, syn=hello is not None)
    if hello is not None:
        features = {"features": [COLLECTIONS] if hello else [6]}
        talk.send(0, encode("HELLO", features, opaque=1)).send(1, encode("HELLO", features, response=True, opaque=1))
    if underlying:
        talk.send(0, encode("DCP_OPEN", {"flags": UNDERLYING_DATATYPE}, key=b"a"))
        talk.send(1, encode("DCP_OPEN", response=True))
    for _ in range(4):
        talk.send(1, b"".join(frames))
    batches = parts_of(talk.fin().packets)
    seen = view(value_bytes, file=file)
    for batch in batches:
        records = [batch.record(row) for row in range(len(batch))]
        for form in FORMATS:
            alone = [OUTPUTS[form].write(record, seen).encode() for record in records]
            assert Bulk(form, seen).text(batch, range(len(batch))) == b"".join(alone)
            assert Bulk(form, seen).text(batch, range(0, len(batch), 2)) == b"".join(alone[::2])


def test_nearly_all_frames_of_a_replica_are_plain(tmp_path: Path) -> None:
    batch = joined(parts_of(files(str(capture(tmp_path, "wire", 2500, 64)))))
    frames = PlainRows(batch, range(len(batch)))
    plain = [frames.load(at) for at in range(frames.count)]
    assert plain.count(True) / len(batch) > 0.9


@given(st.lists(times, min_size=1, max_size=4))
def test_times_are_those_of_one_alone(moments: list[int]) -> None:
    talk = TcpTalk(flow("10.0.0.9:50001", "10.0.0.1:11210")).send(0, encode("DCP_NOOP"))
    frames = PlainRows(joined(parts_of(talk.packets)), [])
    found = []
    for ts_ns in moments:
        frames.ts_ns = ts_ns
        found.append(frames.time_text())
    assert found == [iso_time(ts_ns) for ts_ns in moments]


@pytest.mark.parametrize(
    "wire", [b"a b", "é€😀".encode(), b"\xed\xa0\x80", b"\xc0\x80", b"\xf4\x90\x80\x80", b"\xe2\x80"]
)
@given(st.binary(max_size=9))
def test_bytes_are_shown_as_they_are_elsewhere(wire: bytes, other: bytes) -> None:
    text = other[:4] + wire + other[4:]
    assert shown(text) == safe(text).encode()
    assert shown_text(text) == safe(text)
