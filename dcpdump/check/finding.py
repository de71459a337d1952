"""Finding: where a conversation breaks a rule, or would, if bytes were not missing."""

from dataclasses import replace

from dcpdump.check.quote import hidden
from dcpdump.check.rule import Rule, Severity
from dcpdump.quick_dataclass import dataclass, field
from dcpdump.redact import Redactor


@dataclass(frozen=True, slots=True)
class Finding:
    """One answer of a rule, in its place."""

    rule: Rule
    severity: Severity
    message: str
    connection: int
    frame: int
    ts_ns: int | None
    vbucket: int | None = None  #: None: it is about the connection
    stream_id: int = 0
    status: str = ""  #: what a conforming peer would have answered
    reason: str = ""  #: of an unknown one: why there is no verdict
    marked: str = field(default="", compare=False, repr=False)  #: the message, with what it quotes marked
    times: int = field(default=1, compare=False)  #: above 1: it stands for so many that are only counted
    last: int = field(default=0, compare=False)  #: the frame of the last of those

    @property
    def place(self) -> tuple[str, int, int | None, int, bool]:
        """What repeats of it have in common: the rule and the stream; of unknown ones, the connection."""
        if self.severity is Severity.UNKNOWN:
            return self.rule.code, self.connection, None, 0, True
        return self.rule.code, self.connection, self.vbucket, self.stream_id, False

    def hidden(self, redactor: Redactor) -> "Finding":
        """Return it with what its message quotes hashed, and the numbers left out that may be bytes of values."""
        return replace(self, message=hidden(self.marked, redactor), marked="") if self.marked else self
