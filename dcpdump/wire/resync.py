"""Judge where a frame may begin: the evidence for a header, and the search for one after bytes were lost.

DCP has no marker between frames, so after a lost header one searches for 24 bytes that can hardly be anything else.
Three levels of evidence, each compiled from the protocol table:

1. *framed*: one of the six magics, and lengths that do not contradict each other (a server checks no more); 2. *known*:
and an opcode that has a name, a legal datatype, a vbucket or status that exists; 3. *strict*: and a DCP message whose
extras, key and value have lengths that the table allows.

While frame boundaries are known, level 1 is enough. After a loss it takes level 3, further headers that follow it, and
an opaque of a stream of this connection, since a document may itself hold complete frames.
"""

import re
from collections.abc import Callable
from enum import Enum
from typing import Final, NamedTuple

from dcpdump.spec import MESSAGES, PUSHES, find, opcodes
from dcpdump.spec.field import MUST, NEVER, Layout
from dcpdump.spec.header import ALT_CLIENT_REQUEST, CLIENT_REQUEST, CLIENT_RESPONSE, HEADER_LENGTH, MAGICS, MAX_FRAME
from dcpdump.spec.statuses import STATUS, SUCCESS
from dcpdump.wire.frame import Header, unpack_header
from dcpdump.wire.session import Session

MAX_VBUCKET = 1024
MAX_KEY = 251
MAX_DATATYPE = 7
#: How many bytes after a header with weak evidence are searched for a better one.
SEARCH_WINDOW: Final = 1024 * 1024
#: Headers that must follow one another before an offset is accepted.
CHAIN = 2

_DCP_OPCODES = sorted(opcode for opcode, message in MESSAGES.items() if message.dcp)
_CANDIDATE = re.compile(
    b"[\x80\x81\x08][" + re.escape(bytes((_DCP_OPCODES[0],))) + b"-" + re.escape(bytes((_DCP_OPCODES[-1],))) + b"]"
)
#: Messages whose opaque is not that of a stream.
_OWN_OPAQUE = frozenset(
    {
        opcodes.DCP_OPEN,
        opcodes.DCP_ADD_STREAM,
        opcodes.DCP_CLOSE_STREAM,
        opcodes.DCP_STREAM_REQ,
        opcodes.DCP_GET_FAILOVER_LOG,
        opcodes.DCP_NOOP,
        opcodes.DCP_BUFFER_ACKNOWLEDGEMENT,
        opcodes.DCP_CONTROL,
    }
)


class Judgement(Enum):
    """The judgement of an offset in the bytes."""

    FRAME = "a frame begins here"
    WEAK = "a frame may begin here"
    NO = "no frame begins here"
    WAIT = "more bytes are needed"


class StreamMatch(Enum):
    """How a candidate's opaque, vbucket and seqno compare with the connection's streams."""

    OURS = "it goes with a stream that was seen"
    UNKNOWN = "its stream was not seen"
    CONTRADICTS = "it contradicts what was seen: a document's copy of a frame"


class SearchResult(NamedTuple):
    """The result of a search: an offset, and its judgement."""

    at: int
    verdict: Judgement


def framed(header: Header) -> bool:
    """Return whether magic and lengths are those of a frame: level 1."""
    return header.magic in MAGICS and header.value_length >= 0 and header.body_length <= MAX_FRAME - HEADER_LENGTH


def known(header: Header) -> bool:
    """Return whether it is framed, and every byte of the header has a meaning: level 2."""
    if not framed(header) or header.datatype > MAX_DATATYPE:
        return False
    magic = MAGICS[header.magic]
    if header.opcode not in (PUSHES if magic.server else MESSAGES):
        return False
    return header.vbucket_or_status in STATUS.names if magic.response else header.vbucket_or_status < MAX_VBUCKET


def nearly(header: Header) -> bool:
    """Return whether only one field keeps a header from being known: damage rather than another protocol."""
    message = MESSAGES.get(header.opcode)
    signs = (
        header.magic in MAGICS,
        message is not None and (message.known or message.dcp),
        header.datatype <= MAX_DATATYPE,
        header.vbucket_or_status < MAX_VBUCKET or header.vbucket_or_status in STATUS.names,
        header.value_length >= 0 and header.body_length <= MAX_FRAME - HEADER_LENGTH,
    )
    return sum(signs) >= len(signs) - 1


def fits_table(header: Header) -> bool:
    """Return whether a known header's section lengths are those of one of its message's layouts."""
    magic = MAGICS[header.magic]
    message = find(header.opcode, server=magic.server)
    if magic.response and header.vbucket_or_status != SUCCESS:
        return header.key_length == 0 and header.extras_length in (0, 4)
    layouts = message.response if magic.response else message.request
    return any(_lengths_fit(layout, header) for layout in layouts)


def strict(header: Header) -> bool:
    """Return whether it is a DCP message, classic or with a stream id, exactly as the table has it: level 3."""
    if header.magic not in (CLIENT_REQUEST, CLIENT_RESPONSE, ALT_CLIENT_REQUEST) or not known(header):
        return False
    return MESSAGES[header.opcode].dcp and fits_table(header)


def _lengths_fit(layout: Layout, header: Header) -> bool:
    if layout.extras_length != header.extras_length:
        return False
    if layout.key is NEVER and header.key_length:
        return False
    if layout.key is MUST and not 1 <= header.key_length <= MAX_KEY:
        return False
    return value_fits(layout, header.value_length)


def value_fits(layout: Layout, length: int) -> bool:
    """Return whether a layout may have a value of this length."""
    wanted = layout.when.get("value_length", layout.value_length)
    return length == wanted if wanted is not None else layout.value is not MUST or length > 0


def begins(data: bytes | bytearray, *, final: bool = False) -> Judgement:
    """Judge whether a direction's very first bytes are a frame of the memcached binary protocol.

    A header that fits the protocol table is accepted at once. One with a known opcode only is accepted if the next
    header is known too, or if the frame ends where the bytes do. ``final``: no more bytes will come.
    """
    if len(data) < HEADER_LENGTH:
        return Judgement.NO if final or (data and data[0] not in MAGICS) else Judgement.WAIT
    header = unpack_header(data)
    if not known(header):
        return Judgement.NO
    if fits_table(header):
        return Judgement.FRAME
    if MAGICS[header.magic].response and header.vbucket_or_status == SUCCESS and header.extras_length > 32:
        return Judgement.NO
    return chained(data, 0, 1, final=final)


def chained(data: bytes | bytearray, at: int, count: int, *, final: bool) -> Judgement:
    """Follow ``count`` frames from ``at`` on: each header must be known, unless the bytes end there."""
    for _ in range(count):
        at += unpack_header(data, at).frame_length
        if at == len(data):
            return Judgement.FRAME
        if at + HEADER_LENGTH > len(data):
            if not final:
                return Judgement.WAIT
            # The bytes end inside the next header, or inside the frame: the evidence stays weak.
            return Judgement.FRAME if at < len(data) and data[at] in MAGICS else Judgement.WEAK
        if not known(unpack_header(data, at)):
            return Judgement.NO
    return Judgement.FRAME


def find_frame(
    data: bytes | bytearray, start: int, session: Callable[[], Session], *, final: bool, segment: bool = False
) -> SearchResult:
    """Find the first offset from ``start`` at which a frame begins.

    FRAME: a frame begins at ``at``. WAIT: none before ``at``, and more bytes are needed there (never with ``final``).
    NO: none, and no byte before ``at`` need be kept. WEAK: a frame may begin at ``at``, and nothing better follows
    within the window. ``session`` returns what is known of the connection. ``segment``: a TCP segment begins at
    ``start``, where a frame is likely: there, messages other than DCP's are accepted too.
    """
    if segment and start + HEADER_LENGTH <= len(data):
        header = unpack_header(data, start)
        if known(header) and not strict(header):
            verdict = chained(data, start, CHAIN, final=final)
            # A header that may be part of a document is no reason to wait for megabytes.
            if verdict is Judgement.FRAME or (verdict is Judgement.WAIT and header.frame_length <= SEARCH_WINDOW):
                return SearchResult(start, verdict)
    weak = -1
    dead: set[int] = set()
    at = start
    while True:
        match = _CANDIDATE.search(data, at)
        if match is None or match.start() + HEADER_LENGTH > len(data):
            break
        at = match.start()
        if weak >= 0 and at - weak > SEARCH_WINDOW:
            return SearchResult(weak, Judgement.WEAK)
        header = unpack_header(data, at)
        if strict(header):
            verdict = chained(data, at, CHAIN, final=final)
            if verdict is Judgement.WAIT and header.frame_length <= SEARCH_WINDOW:
                return SearchResult(at if weak < 0 else weak, Judgement.WAIT)
            belongs = _match(data, at, header, session())
            if verdict is Judgement.FRAME and belongs is StreamMatch.OURS:
                # Frames cut off by the end are weaker evidence: a document may hold copies of its stream's frames.
                sure = _leads_on(data, at, dead)
                return SearchResult(_earliest(data, weak, at), Judgement.FRAME if sure else Judgement.WEAK)
            if (
                verdict is not Judgement.NO
                and weak < 0
                and belongs is not StreamMatch.CONTRADICTS
                and _leads_on(data, at, dead)
            ):
                weak = at
        at += 1
    if weak >= 0:
        done = final or len(data) - weak > SEARCH_WINDOW
        return SearchResult(weak, Judgement.WEAK if done else Judgement.WAIT)
    rest = len(data) if final else max(start, len(data) - HEADER_LENGTH + 1)
    return SearchResult(rest, Judgement.NO)


def _earliest(data: bytes | bytearray, weak: int, at: int) -> int:
    """Return the weaker candidate ``weak`` if the frames from there end exactly at ``at``, else ``at``."""
    if weak < 0:
        return at
    reached = weak
    while reached < at:
        reached += unpack_header(data, reached).frame_length
    return weak if reached == at else at


def _leads_on(data: bytes | bytearray, at: int, dead: set[int]) -> bool:
    """Return whether known headers follow one another from ``at`` to the end of the bytes, unlike a document's copies.

    ``dead`` collects the offsets that do not, so that a search over many candidates stays linear.
    """
    passed: list[int] = []
    while at + HEADER_LENGTH <= len(data):
        passed.append(at)
        header = unpack_header(data, at)
        if at in dead or not known(header):
            dead.update(passed)
            return False
        at += header.frame_length
    return True


def _match(data: bytes | bytearray, at: int, header: Header, session: Session) -> StreamMatch:
    """Compare a candidate's opaque, vbucket and seqno with the streams of this connection."""
    if not session.streams or header.magic == CLIENT_RESPONSE or header.opcode in _OWN_OPAQUE:
        return StreamMatch.OURS
    vbucket = session.streams.get(header.opaque)
    if vbucket is None:
        return StreamMatch.CONTRADICTS if session.complete else StreamMatch.UNKNOWN
    if vbucket != header.vbucket_or_status:
        return StreamMatch.CONTRADICTS
    if MAGICS[header.magic].flexible:
        return StreamMatch.OURS  # streams with ids may share an opaque, but not their seqnos
    last = session.seqnos.get(header.opaque)
    layout = next((lay for lay in find(header.opcode).request if _lengths_fit(lay, header)), None)
    if last is None or layout is None or not layout.extras or layout.extras[0].name != "by_seqno":
        return StreamMatch.OURS
    seqno = data[at + HEADER_LENGTH : at + HEADER_LENGTH + 8]
    if len(seqno) < 8:
        return StreamMatch.OURS  # the bytes end before the seqno: nothing contradicts the header
    return StreamMatch.OURS if int.from_bytes(seqno, "big") > last else StreamMatch.CONTRADICTS
