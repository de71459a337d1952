"""DCP216: keys of controls."""

from dcpdump.check.quote import quoted
from dcpdump.check.rule import SUSPICIOUS, rule
from dcpdump.nearest import nearest
from dcpdump.spec.names import CONTROL_KEYS
from dcpdump.streams.frame_event import FrameEvent
from dcpdump.streams.opcode_kinds import CONTROL
from dcpdump.streams.state import ConnectionState
from dcpdump.streams.stream import Stream

_NEAR = 0.85  #: of 1, which is the same


@rule(
    "DCP216",
    "C16",
    "Control key that is misspelt",
    severity=SUSPICIOUS,
    source="control.md, dcp/producer.cc",
    on=(CONTROL,),
    status="Einval",
)
def misspelt(frame: FrameEvent, connection: ConnectionState, stream: Stream) -> str | None:
    """Reported when the key of a CONTROL is not one that any release knows, and differs little from one that is.

    A producer refuses what it does not know. (Keys that resemble none may be those of a later release.)

    Usual causes: a letter that is missing, doubled or of the wrong case.
    """
    key = frame.key.decode("ascii", "replace")
    if key in CONTROL_KEYS:
        return None
    known = {name.lower(): name for name in CONTROL_KEYS}
    near = nearest(key.lower(), known, n=1, cutoff=_NEAR)
    return f"control key {quoted(frame.key)}: no release knows it; {known[near[0]]} is near" if near else None


RULES = (misspelt,)
