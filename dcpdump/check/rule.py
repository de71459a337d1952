"""Define a rule: a sentence of the protocol that a conversation can break, and the function that recognises it.

A rule's function is pure: it is asked before a frame is learnt, reads the frame and the state of its connection and
stream, and answers with a sentence, or with nothing. Code, severity, place, and whether the sentence may be a verdict
at all, are added by the engine, from data.
"""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import replace
from enum import Enum
from typing import NamedTuple

from dcpdump.batch.document_runs import Inspected
from dcpdump.startup import dataclass
from dcpdump.streams.clients import Skip
from dcpdump.streams.frame_event import DocumentRun, FrameEvent
from dcpdump.streams.rollbacks import Explanation
from dcpdump.streams.stream import Stream


class Severity(Enum):
    """How bad a finding is; the order is that of ``--fail-on``."""

    VIOLATION = "violation"
    SUSPICIOUS = "suspicious"
    INFO = "info"
    UNKNOWN = "unknown"  #: it would be a finding, if bytes were not missing


VIOLATION, SUSPICIOUS, INFO = Severity.VIOLATION, Severity.SUSPICIOUS, Severity.INFO

RESPONSE = 0x100  #: added to an opcode: its responses


class Event:
    """Events beside messages on which rules are called; their numbers continue those of opcodes and responses."""

    DECODED = 0x200  #: a frame that was decoded one by one, such as one that fits no layout, or one of the server's own
    STRAY = 0x201  #: a message of a stream whose opaque, vbucket and stream id are not those of one live stream
    OUTSIDE = 0x202  #: a message of a stream that is in no snapshot, or past its end
    WRONG_DIRECTION = 0x203  #: a DCP request that travels against the roles of the two ends
    REQUEST = 0x204  #: any request that expects a response
    STREAM_DONE = 0x207  #: a stream ended, was replaced, or the capture is over
    SILENCE = 0x208  #: an end speaks after a long silence
    FIRST = 0x20A  #: the first item after a marker
    ZERO = 0x20B  #: an item with seqno 0
    MARKED = 0x20C  #: a document with a datatype
    DISORDERED = 0x20D  #: an item in an out-of-order snapshot
    COUNTED = 0x20E  #: a message of a stream on a connection with flow control
    PACKED = 0x20F  #: a document with a datatype that is more than JSON
    SKIPPED = 0x210  #: a frame before which captured bytes are that are none
    FRAMED = 0x211  #: a request of the magic that has framing extras
    # What becomes clear only some time after a frame (``check/evidence.py``); rules get it as a ``Delayed``.
    UNREQUESTED = 0x220  #: an answer for which no request came
    OVERDUE = 0x221  #: a request that should have been answered by now
    OVERDRAWN = 0x222  #: an acknowledgement of more bytes than were sent
    STALLED = 0x223  #: a window that has been full for long
    NOOPS_MISSING = 0x224  #: no NOOP came for longer than two intervals
    AHEAD = 0x225  #: a SEQNO_ACKNOWLEDGED beyond what was sent, or without durable writes
    LAGGING = 0x226  #: a prepare that has not been acknowledged for long
    UNACKNOWLEDGED = 0x227  #: the last item of a snapshot that was to be acknowledged, and was not
    ACK_UNASKED = 0x228  #: an acknowledgement of a snapshot that did not ask for one
    CLOSING = 0x229  #: the input is over, on every connection
    WRONG_ROLLBACK = 0x22A  #: a rollback that is wrong, once all was captured that may explain it
    SKIPPED_CHANGES = 0x22B  #: a stream that was granted from beyond what its client has received


#: Above all events.
EVENTS = 0x230


class Scope(Enum):
    """The part of the conversation that a verdict needs without loss."""

    FRAME = "the frame alone"
    SINCE = "the connection from its first captured frame on"
    CONNECTION = "the connection from its beginning"
    STREAM = "the stream from its request"
    SNAPSHOT = "the stream from a snapshot marker on"


class Remark(NamedTuple):
    """A rule's result with more than a sentence."""

    message: str
    severity: Severity | None = None  #: other than the rule's
    status: str = ""  #: other than the rule's
    frame: FrameEvent | None = None  #: another frame than the one at hand
    scope: Scope | None = None  #: other than the rule's
    ordered: bool = False  #: it depends on what the other direction had sent by then


class Delayed(NamedTuple):
    """A fact about a frame that is known some time after it."""

    event: int
    frame: FrameEvent  #: the frame
    stream: Stream  #: that it is about
    waited_ns: int = 0
    amount: int = 0
    limit: int = 0  #: what the amount should not be above
    proven: bool = False  #: by what came later, not merely by the end of the input
    explanation: Explanation | None = None  #: of a rollback
    skip: Skip | None = None


Answer = str | Remark | Sequence[Remark] | None
#: Asked with a frame, or with what became clear about one, its connection and its stream.
Judge = Callable[..., Answer]


class Broken(NamedTuple):
    """The frames of a run that break a rule for single frames, all with one severity."""

    rows: Sequence[int]
    severity: Severity


#: Returns whether no frame of a run can break a rule, when in doubt False; or which ones do.
CanSkipRun = Callable[[DocumentRun, Inspected, Stream], bool | Broken]


class Suspend(Enum):
    """When a rule is not judged: a code, and in words."""

    START = "m", "the start of the connection or of the stream was not captured"
    LOST = "g", "bytes were lost before, so that the state is not certain"
    OUT_OF_ORDER = "o", "inside an out-of-order snapshot"
    HISTORY = "h", "a change-stream snapshot"
    FILTER = "f", "a collection or scope filter"
    REPLICA = "r", "the source may be a replica: its request does not insist on an active vbucket"  # it is unknown then
    CACHE_TRANSFER = "x", "during a cache transfer"

    def __init__(self, code: str, text: str) -> None:
        self.code, self.text = code, text


@dataclass(frozen=True, slots=True, eq=False)
class Rule:
    """One rule. Title, page and source are from the docstring of its function."""

    code: str
    id: str  #: the paragraph of the protocol's list of rules: "S11"
    severity: Severity
    on: tuple[int, ...]  #: opcodes of requests, of responses (with RESPONSE), and the events above
    scope: Scope
    off: tuple[Suspend, ...]  #: when it is not judged although nothing is missing
    status: str  #: what a conforming peer answers to such a frame
    judge: Judge
    can_skip_run: CanSkipRun | None = None  #: None: the rule wants to see every frame

    @property
    def title(self) -> str:
        """Return the title: what is wrong, in a few words."""
        return self._doc[0]

    @property
    def page(self) -> str:
        """Return the page: when it is reported, its consequences, and its usual causes, in paragraphs."""
        return self._doc[1]

    @property
    def source(self) -> str:
        """Return the source in a server's code or the specification; empty without one."""
        return self._doc[2]

    @property
    def unjudged(self) -> tuple[Suspend, ...]:
        """Return when it is not judged."""
        start = (Suspend.START,) if self.scope not in (Scope.FRAME, Scope.SINCE) else ()
        lost = (Suspend.LOST,) if self.scope is not Scope.FRAME else ()
        return (*start, *lost, *self.off)

    @property
    def _doc(self) -> tuple[str, str, str]:
        text, _, source = inspect.cleandoc(self.judge.__doc__ or "").partition("\nSource: ")
        title, _, page = text.partition(".\n\n")
        return title, page, source


def rule(
    code: str,
    id: str,
    severity: Severity,
    *on: int,
    scope: Scope = Scope.FRAME,
    off: tuple[Suspend, ...] = (),
    status: str = "",
) -> Callable[[Judge], Rule]:
    """Make a rule of the function below it: the docstring of that is its page. ``on``: as a Rule has it."""
    return lambda judge: Rule(code, id, severity, on, scope, off, status, judge)


def skipping(can_skip_run: CanSkipRun) -> Callable[[Rule], Rule]:
    """Have the rule below it not see the frames of runs where a function says so."""
    return lambda rule: replace(rule, can_skip_run=can_skip_run)
