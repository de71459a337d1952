"""Conversations in the notation of the specification's dialogues, as ``read --format line`` prints them.

    TX stream-request{vb=5, start-seqno=5}
    RX stream-request-response{success, failover-log=0xfeed:0}
    RX snapshot-marker{start=9, end=12, flags=0x1}
    RX mutation{seqno:9, key=hello}

TX is the side that wants changes, RX what it receives. A vbucket, an opaque, a stream id that is not said is that
of the stream last spoken of; an answer has the opaque of the last request of its name. What no frame says:

    CONNECT             another connection begins (it opens as the client)
    CONNECT a:1 b:2     the same, of these ends
    ON 0                a connection goes on
    FIN TX, RST RX      a side closes, or resets, the connection
    CONTROL a=b, c=d    controls, requested and accepted
    STREAM vb=5, …      a stream request and its success
    WAIT 30             seconds pass
    HEX RX 8057…        bytes as they are
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from dcpdump.batch.dissector import Dissection
from dcpdump.check.engine import RuleEngine
from dcpdump.check.finding import Finding
from dcpdump.check.rule import Rule
from dcpdump.check.rules import RULES
from dcpdump.net.packet import Packet
from dcpdump.record import Lost
from dcpdump.render.line import dialogue_name
from dcpdump.spec import MESSAGES, PUSHES
from dcpdump.spec.statuses import STATUS
from dcpdump.streams.dissection import RunBatch, Watching, piece_of
from dcpdump.streams.feed import Feed, PendingLosses
from dcpdump.streams.frame_event import Before, FrameEvent, one_by_one
from dcpdump.wire.encode import encode
from tests.support.packets import ACK, FIN, NOON, RST, TcpTalk, flow
from tests.support.pieces import fed, told

MAX = (1 << 64) - 1
_NAMES = {
    dialogue_name(message.name): message
    for message in sorted((*PUSHES.values(), *MESSAGES.values()), key=lambda message: message.dcp)
}
_STATUS = {name.lower(): value for value, name in STATUS.names.items()}
_LINE = re.compile(r"(TX|RX)\s+([\w-]+?)(-response)?(?:\{(.*)\})?$")
_ALIASES = {"seqno": "by_seqno", "start": "start_seqno", "end": "end_seqno", "lvl": "durability_level"}
_STREAMED = {*range(0x55, 0x5A), 0x5B, 0x5F, 0x60, *range(0x61, 0x68)}
_DOCUMENTS = {0x57, 0x58, 0x59, 0x60, 0x62, 0x63}
_OF_CONNECTIONS = {0x1F, 0x20, 0x21, 0x22, 0x50, 0x5C, 0x5D, 0x5E, 0x89}
#: What the others mean when they say nothing: a healthy connection up to its first stream request.
HELLO = "TX hello{features=6|0xa|0xb%s, key=app}\nRX hello-response{success, features=6|0xa|0xb%s}\n"
LOGIN = """
TX sasl-auth{key=PLAIN, value=secret}
RX sasl-auth-response{success}
TX select-bucket{key=travel}
RX select-bucket-response{success}
"""
OPEN = "TX open{flags=0x%x, key=%s}\nRX open-response{success}\n"
NOOPS = "CONTROL enable_noop=true\n"


def opening(
    flags: int = 0x05,
    *,
    collections: bool = False,
    name: str = "app",
    controls: str = "",
    agent: str = "app",
    bucket: str = "travel",
) -> str:
    """Return the beginning of a connection: HELLO, authentication, bucket, DCP_OPEN, controls."""
    extra = "|0x12" if collections else ""
    text = (HELLO % (extra, extra)).replace("app", agent) + LOGIN.replace("travel", bucket)
    text += OPEN % (flags, name) + NOOPS
    return text + (f"CONTROL {controls}\n" if controls else "")


@dataclass
class Said:
    """One frame: on which connection, from which side, when."""

    connection: int
    direction: int
    ts_ns: int
    data: bytes
    flags: int = 0  #: of TCP, beside those of data
    ends: str = ""  #: client and server of the connection, where the conversation names them


@dataclass
class _Speaker:
    """What a conversation has sent so far that its next line may leave out."""

    connection: int = 0
    ts_ns: int = NOON
    vbucket: int = 5
    opaque: int = 0x1000
    sid: int | None = None
    next_opaque: int = 1
    asked: dict[tuple[str, str], int] = field(default_factory=dict)
    streams: dict[tuple[int, int | None], int] = field(default_factory=dict)
    ends: list[str] = field(default_factory=lambda: [""])


def said(text: str) -> list[Said]:
    """Return a conversation as frames."""
    now = _Speaker()
    out: list[Said] = []
    for line in _lines(text):
        word, _, rest = line.partition(" ")
        if word == "CONNECT" and rest and not out:
            now.ends[0] = rest
        elif word in ("CONNECT", "ON"):
            now.connection = len(now.ends) if word == "CONNECT" else int(rest)
            now.ends += [rest] * (word == "CONNECT")
            now.asked.clear()
            now.streams.clear()
        elif word in ("FIN", "RST"):
            out.append(replace(_put(now, rest, b""), flags=FIN if word == "FIN" else RST))
        elif word == "WAIT":
            now.ts_ns += int(float(rest) * 1e9)
        elif word == "HEX":
            side, _, digits = rest.partition(" ")
            out.append(_put(now, side, bytes.fromhex(digits)))
        else:
            out.append(_put(now, line[:2], _frame(now, line)))
    return out


def frames_in(line: str) -> int:
    """Return how many frames a line of a conversation is."""
    return sum(each.partition(" ")[0] not in ("CONNECT", "ON", "WAIT") for each in _lines(line))


def _lines(text: str) -> Iterator[str]:
    for line in map(str.strip, text.splitlines()):
        if line.startswith("CONTROL "):
            for pair in line[8:].split(", "):
                key, _, value = pair.partition("=")
                yield f"TX control{{key={key}, value={value}}}"
                yield "RX control-response{success}"
        elif line.startswith("STREAM"):
            yield f"TX stream-request{{{line[6:].strip()}}}"
            yield "RX stream-request-response{success}"
        elif line:
            yield line


def _put(now: _Speaker, side: str, data: bytes) -> Said:
    now.ts_ns += 1_000_000
    return Said(now.connection, 0 if side == "TX" else 1, now.ts_ns, data, ends=now.ends[now.connection])


def _said_in(name: str, inside: str) -> dict[str, Any]:
    """Return what the words of a line give to encode()."""
    values: dict[str, Any] = {}
    given: dict[str, Any] = {"values": values, "key": b"", "value": b"", "status": 0}
    for word in filter(None, map(str.strip, inside.split(", "))):
        label, mark, text = word.partition("=") if "=" in word else word.partition(":")
        label = label.replace("-", "_")
        if not mark:
            given["status"] = _STATUS[label]
        elif label in ("key", "value"):
            given[label] = bytes.fromhex(text[1:]) if text.startswith("#") else text.encode()
        elif label in ("vb", "opaque", "cas", "datatype", "sid", "magic"):
            given[label] = int(text, 0)
        elif label == "status_code":
            given["status"] = int(text, 0)
        elif label == "layout":
            given[label] = text
        elif label == "failover_log":
            pairs = [pair.split(":") for pair in text.split("|") if pair]
            values[label] = [{"vbucket_uuid": int(a, 0), "seqno": int(b, 0)} for a, b in pairs]
        elif label == "features":
            values[label] = [int(each, 0) for each in text.split("|")]
        elif label in ("metadata", "framing"):
            (values if label == "metadata" else given)[label] = bytes.fromhex(text)
        else:
            label = "snapshot_type" if name == "snapshot-marker" and label == "flags" else _ALIASES.get(label, label)
            values[label] = MAX if text == "max" else int(text, 0)
    return given


def _frame(now: _Speaker, line: str) -> bytes:
    """Return the bytes of a line, with what it leaves out."""
    found = _LINE.match(line)
    assert found, line
    side, name, response = found[1], found[2], bool(found[3])
    message, given = _NAMES[name], _said_in(name, found[4] or "")
    opcode, values = message.opcode, given["values"]
    vbucket = given.pop("vb", now.vbucket)
    sid = given.pop("sid", now.sid if message.stream_id and not response else None) or None
    if opcode == 0x53 and not response:
        if sid_of := re.search(rb'"sid":\s*(\d+)', given["value"]):
            sid = int(sid_of[1])
        now.sid, now.vbucket = sid, vbucket
        now.streams[vbucket, sid] = given.get("opaque", 0x1000 + vbucket + ((sid or 0) % 0x10000 << 16))
        start = values.setdefault("start_seqno", 0)
        uuid = 0xFEED if start else 0
        given["values"] = {"end_seqno": MAX, "snap_start_seqno": start, "snap_end_seqno": start, "vbucket_uuid": uuid}
        given["values"] |= values
    elif opcode in _STREAMED and not response:
        now.vbucket, now.sid = vbucket, sid if message.stream_id else now.sid
    if "opaque" not in given:
        if response:
            other = "RX" if side == "TX" else "TX"
            given["opaque"] = now.asked.get((other, name), now.streams.get((now.vbucket, now.sid), 0))
        elif opcode in _STREAMED or opcode == 0x53:
            there = now.streams.get((vbucket, sid), 0x1000 + vbucket)
            given["opaque"] = now.streams.get((vbucket, now.sid), there)
        else:
            given["opaque"], now.next_opaque = now.next_opaque, now.next_opaque + 1
    if not response:
        now.asked[side, name] = given["opaque"]
        if opcode in _DOCUMENTS and not given["key"]:
            given["key"] = b"key-%d" % (values.get("by_seqno") or values.get("prepared_seqno") or 0)
        if opcode == 0x60:
            given.setdefault("cas", 0x17)
            values.setdefault("durability_level", 1)
    elif opcode == 0x53 and not given["status"]:
        values.setdefault("failover_log", [{"vbucket_uuid": 0xFEED, "seqno": 0}])
    vbucket = 0 if opcode in _OF_CONNECTIONS else vbucket
    return encode(message, response=response, vbucket=vbucket, stream_id=sid if opcode != 0x53 else None, **given)


# -- from frames to packets, and through the whole machine --------------------------------------------------


def packets(frames: Iterable[Said], segment: int = 1 << 20) -> list[Packet]:
    """Put each frame into TCP segments, after the handshake of its connection, and return the packets."""
    talks: dict[int, TcpTalk] = {}
    out: list[tuple[int, Packet]] = []
    for frame in frames:
        number = frame.connection
        if number not in talks:
            client, _, server = frame.ends.partition(" ")
            ends = flow(client, server) if server else flow(f"10.0.0.1:{50_000 + number}")
            isn = 1000 + number * 1_000_003, 5000 + number * 2_000_003
            talks[number] = TcpTalk(ends, segment=segment, isn=isn)
            talks[number].acks = False
        talk = talks[number]
        if frame.flags:
            talk.write(frame.direction, flags=frame.flags | ACK).skip(frame.direction, int(frame.flags == FIN))
        talk.send(frame.direction, frame.data)
        out += [(frame.ts_ns, packet) for packet in talk.packets]
        talk.packets.clear()
    return [Packet(number, ts_ns, 1, each.data, len(each.data), "") for number, (ts_ns, each) in enumerate(out, 1)]


def events_of(piece: RunBatch, losses: Mapping[int, Before] | None = None) -> list[FrameEvent]:
    """Return the events of all frames of a piece."""
    return [frame for step in piece.steps(with_rules=False, losses=losses or {}) for frame in one_by_one(step)]


def seen(captured: Iterable[Packet]) -> Iterator[FrameEvent | Lost]:
    """Return the events of captured packets, and at the end the losses that no frame followed."""
    dissection, pending = Dissection(), PendingLosses()
    for parts in fed(dissection, captured):
        for piece in map(piece_of, parts):
            pending.add(dissection.gaps)
            dissection.gaps.clear()
            yield from events_of(piece, pending.before(piece))
    yield from [*pending.pop(), *dissection.gaps]


def findings_of(captured: Iterable[Packet], rules: Iterable[Rule] = RULES) -> list[Finding]:
    """Return the findings on captured packets, frame by frame."""
    found: list[Finding] = []
    dissection, engine = Watching(), RuleEngine(found.append, rules)
    feed = Feed(dissection, engine.ledger, with_rules=True)
    for step in told(feed, dissection, captured):
        engine.feed_step(step)
    feed.close(None, engine.lose)
    engine.close()
    return found


def findings(text: str) -> list[Finding]:
    """Return the findings on a conversation."""
    return findings_of(packets(said(text)))


def codes(text: str) -> list[str]:
    """Return the rules that a conversation breaks: their ids, each once, in order of appearance."""
    return list(dict.fromkeys(f"{each.rule.id}" for each in findings(text) if each.reason == ""))
