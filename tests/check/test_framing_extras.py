"""Framing extras of requests, as check judges them: which frame infos a message may have, and which stream ids."""

import pytest

from dcpdump.spec import MESSAGES
from dcpdump.wire.encode import encode
from tests.support.check_cases import CONSUMER
from tests.support.console import run
from tests.support.conversation import opening
from tests.support.findings import certain

SIDS = opening(collections=True, controls="enable_stream_id=true")
STREAM = 'STREAM vb=5, value={"sid":71}\nRX snapshot-marker{start=0, end=9, flags=0x6}\n'
#: The frame infos of requests as bytes.
BARRIER, DURABILITY, STREAM_ID, TRACING, USER, TTL, PRIVILEGE, TOKEN = "00 1103 220047 3161 4161 50 6161 720001".split()
UNKNOWN = "81aa"


def judged(text: str) -> list[str]:
    """Return the findings on the framing extras in a conversation."""
    return certain(text, "DCP108", "DCP118")


@pytest.mark.parametrize(
    ("framing", "wanted"),
    [
        (BARRIER, ["DCP118 violation: CONTROL has Barrier, which no DCP request may have"]),
        (DURABILITY, ["DCP118 violation: CONTROL has DurabilityRequirement, which no DCP request may have (Einval)"]),
        ("1300ffff", ["DCP118 violation: CONTROL has DurabilityRequirement, which no DCP request may have (Einval)"]),
        (TTL, ["DCP118 violation: CONTROL has PreserveTtl, which no DCP request may have (NotSupported)"]),
        (STREAM_ID, ["DCP118 violation: CONTROL has a stream id, which it never may"]),
        (TRACING, ["DCP118 suspicious: CONTROL has OpenTracing, which old releases took"]),
        (UNKNOWN, ["DCP118 violation: CONTROL has frame info 8, which has no meaning (UnknownFrameInfo)"]),
        ("ff0000" + "00" * 15,
         ["DCP118 violation: CONTROL has frame info 15, which has no meaning (UnknownFrameInfo)"]),
        (UNKNOWN + UNKNOWN, ["DCP118 violation: CONTROL has frame info 8, which has no meaning (UnknownFrameInfo)"]),
        (USER + PRIVILEGE + TOKEN, []),
    ],
)  # fmt: skip
def test_a_frame_info_that_no_dcp_request_may_have_is_reported(framing: str, wanted: list[str]) -> None:
    text = opening() + f"TX control{{key=enable_noop, value=true, framing={framing}}}\nRX control-response{{einval}}\n"
    assert judged(text) == wanted


def test_each_frame_info_of_a_frame_is_judged() -> None:
    frame = "085e070b0000000000000016000000030000000000000000110381aa220047656e61626c655f6e6f6f7074727565"
    heading = "rule: DCP118 Frame info that the message cannot have: CONTROL has "
    assert [line for line in run(f"dcpdump explain -f line {frame}").out.splitlines() if line.startswith("rule: ")] == [
        heading + "DurabilityRequirement, which no DCP request may have (a conforming peer answers Einval)",
        heading + "frame info 8, which has no meaning (a conforming peer answers UnknownFrameInfo)",
        heading + "a stream id, which it never may",
    ]


#: The messages that carry stream ids, by the specification: from the producer, and CLOSE_STREAM.
WITH_STREAM_ID = {0x52, *range(0x55, 0x5A), 0x5F, *range(0x64, 0x68)}


@pytest.mark.parametrize("opcode", [number for number, message in MESSAGES.items() if message.dcp])
def test_a_stream_id_is_on_messages_of_streams_alone(opcode: int) -> None:
    frame = encode(MESSAGES[opcode], {}, key=b"k" * (opcode in (0x50, 0x5E)), value=b"", stream_id=71)
    name = MESSAGES[opcode].name.removeprefix("DCP_")
    wanted = [f"rule: DCP118 Frame info that the message cannot have: {name} has a stream id, which it never may"]
    said = [line for line in run(f"dcpdump explain -f line {frame.hex()}").out.splitlines() if "DCP118" in line]
    assert said == ([] if opcode in WITH_STREAM_ID else wanted)


STRAY = "DCP108 violation: {} has {}, the stream request had stream id 71"


@pytest.mark.parametrize("before", ["", "RX mutation{seqno=1, key=#0061}\n"])
@pytest.mark.parametrize(
    ("message", "wanted"),
    [
        ("mutation{seqno=2, key=#0062, sid=71}", []),
        ("mutation{seqno=2, key=#0062, sid=0}", [STRAY.format("MUTATION", "no stream id")]),
        ("mutation{seqno=2, key=#0062, sid=0, framing=220000}",
         ["DCP118 violation: MUTATION has stream id 0, which no stream has", STRAY.format("MUTATION", "stream id 0")]),
        ("mutation{seqno=2, key=#0062, sid=9}", [STRAY.format("MUTATION", "stream id 9")]),
        ("seqno-advanced{seqno=9}", []),
        ("set-vbucket-state{state=3}", []),
        ("set-vbucket-state{state=3, sid=71}",
         ["DCP118 violation: SET_VBUCKET_STATE has a stream id, which it never may"]),
        ("noop{sid=71}", ["DCP118 violation: NOOP has a stream id, which it never may"]),
        ("prepare{seqno=2, key=#0062, sid=71}", ["DCP118 violation: PREPARE has a stream id, which it never may"]),
    ],
)  # fmt: skip
def test_stream_ids_on_a_stream_that_has_one(before: str, message: str, wanted: list[str]) -> None:
    opaque = "" if message.startswith("noop") else ", opaque=0x471005"
    assert judged(SIDS + STREAM + before + f"RX {message[:-1]}{opaque}}}\n") == wanted


MARKED = "RX snapshot-marker{start=0, end=99, flags=0x6}\n"
ON_STREAM, NINE = opening() + "STREAM vb=5\n", "TX snapshot-marker{start=0, end=9, flags=0x6, vb=5}\n"
ZERO = "".join(f"RX mutation{{seqno={seqno}, framing=220000}}\n" for seqno in range(1, 51))
TWO = "".join(f"TX mutation{{seqno={seqno}, sid=%s}}\n" for seqno in (1, 2))
SETS = "".join(
    f"TX set{{key=k, value=v, framing={framing}, status_code=0}}\n"
    for framing in (BARRIER, DURABILITY, STREAM_ID, TRACING, USER, TTL, PRIVILEGE, TOKEN, UNKNOWN)
)
OF_ZERO = "DCP118 violation: MUTATION has stream id 0, which no stream has"
OF_CONSUMER = "DCP118 violation: MUTATION has a stream id, which a consumer does not take (Einval)"
NEVER = "DCP118 violation: %s has a stream id, which it never may"
CASES = {
    "stream id 0": (ON_STREAM + MARKED + ZERO.splitlines()[0] + "\n", [OF_ZERO]),
    "stream id 0 of many documents": (ON_STREAM + MARKED + ZERO, [OF_ZERO] * 50),
    "what clients ask of requests that are not DCP": (opening() + SETS, []),
    "no stream id to a consumer": (CONSUMER + NINE + TWO % (0, 0), []),
    "a stream id to a consumer": (CONSUMER + NINE + TWO % (71, 71), [OF_CONSUMER] * 2),
    "a stream id of a consumer": (
        CONSUMER + NINE + "RX seqno-acknowledged{prepared-seqno=1, sid=7}\n", [NEVER % "SEQNO_ACKNOWLEDGED"]),
    "a frame info that is too short": (
        opening() + "TX control{key=enable_noop, value=true, framing=2171}\n", [NEVER % "CONTROL"]),
    "a stream id of one byte": (
        SIDS + STREAM + "RX seqno-advanced{seqno=9, sid=0, framing=2100, opaque=0x471005}\n",
        [STRAY.format("SEQNO_ADVANCED", "no stream id")]),
}  # fmt: skip


@pytest.mark.parametrize(("text", "wanted"), CASES.values(), ids=CASES)
def test_framing_extras_are_judged(text: str, wanted: list[str]) -> None:
    assert judged(text) == wanted


def test_the_bug_of_servers_that_do_not_count_a_stream_id_is_no_finding() -> None:
    frame = (
        "08580006150000000000001e000010000000000000000001220047000000000000000500000000000000015f000000000068656c6c6f"
    )
    assert "rule: " not in run(f"dcpdump explain {frame}").out


def test_frame_infos_that_do_not_fit_are_not_judged_twice() -> None:
    longer = "085eff0b0000000000000016000000030000000000000000110381aa220047656e61626c655f6e6f6f7074727565"
    assert "DCP118" not in run(f"dcpdump explain {longer}").out


def test_an_undefined_durability_level_has_no_name_in_framing_extras_either() -> None:
    for level in range(6):
        frame = encode("SET", key=b"k", value=b"v", framing=bytes((0x11, level)))
        complaint = f"level 0x{level:02x} has no name"
        assert (complaint in run(f"dcpdump explain {frame.hex()}").out) is (not 1 <= level <= 3)
