"""How times, durations and seqnos are written in verdicts and explanations."""

from typing import TYPE_CHECKING, Any

from dcpdump.clock import clock_in_use
from dcpdump.escape import LONGEST, safe_text
from dcpdump.spec.names import STREAM_END_STATUS
from dcpdump.spec.statuses import STATUS
from dcpdump.startup import lazy_pattern
from dcpdump.streams.frame_event import NEVER, between
from dcpdump.wire.json_text import parse_json

if TYPE_CHECKING:
    from dcpdump.streams.failover_logs import Lag
    from dcpdump.streams.state import ConnectionState
    from dcpdump.streams.stream import Stream

_MS, _SECOND = 1_000_000, 1_000_000_000
#: A high seqno that was said so long ago may be too low by now.
_OLD_NS = 10 * _SECOND
_MOST_SAID = 400  #: signs of what a server says of an error

#: The ids of a client and of its connection, and the agent, of which the product is first. It may be cut short.
_JSON_NAME = lazy_pattern(r'\{"i":"([0-9A-Fa-f]+)/0*([0-9A-Fa-f]+)","a":"([^"/ ]+)')


def clock(ts_ns: int | None) -> str:
    """Return the time of day to the millisecond; for people in their zone, with the date where days differ."""
    return "an unknown time" if ts_ns is None else clock_in_use().short(ts_ns)


def span(ns: int | None) -> str:
    """Return a duration as text: ``0.4 ms``, ``31 s``, ``52 m``, ``3.2 h``, ``17 d``."""
    if ns is None:
        return "an unknown time"
    if ns < _SECOND:
        return f"{ns / _MS:.3g} ms"
    seconds = ns / _SECOND
    if seconds < 180:
        return f"{seconds:.3g} s"
    if seconds < 10_800:
        return f"{seconds / 60:.3g} m"
    days = seconds / 86_400
    return f"{seconds / 3600:.3g} h" if days < 3 else f"{days:.3g} d" if days < 100 else f"{days:,.0f} d"


def seqno(number: int | None) -> str:
    """Write a seqno; the largest is max, one that was not captured is a question mark."""
    return "?" if number is None else "max" if number == NEVER else str(number)


def lag_text(lag: "Lag | None", now_ns: int | None) -> str:
    """Write a lag: ``12``, ``≥ 12``, ``?`` where it is not known, empty for None. What was exact long ago says so."""
    if lag is None:
        return ""
    if lag.seqnos is None:
        return "?"
    age = between(lag.high_ns, now_ns) if lag.exact else None
    old = f" ({span(age)} ago)" if age is not None and age >= _OLD_NS else ""
    return f"{'' if lag.exact else '≥ '}{lag.seqnos:,}{old}"


def status(value: int | None) -> str:
    """Return the name of a response's status."""
    if value is None:
        return "no answer"
    return f"{STATUS.names.get(value, 'unknown status')} 0x{value:02x}"


def reason_name(value: int | None) -> str | None:
    """Return the name of the reason why a stream ended; None where it has none, or was not captured."""
    return None if value is None else STREAM_END_STATUS.names.get(value)


def reason(value: int | None) -> str:
    """Return the reason why a stream ended, by name and number."""
    return "reason not captured" if value is None else f"{reason_name(value) or 'unknown'} ({value})"


def printable(text: str) -> str:
    """Make a text that came from the wire safe to show, cut where it is longer than any that is of use."""
    return safe_text(text[: LONGEST + 1].encode("utf-8", "backslashreplace"))


def shortened(text: str, most: int = 40) -> str:
    """Return the beginning of a text that is longer than ``most`` signs, which an ellipsis ends."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def error_text(document: Any) -> str:
    """Return what a server says of an error, in the JSON of its answer, and the reference to its log."""
    error = document.get("error") if isinstance(document, dict) else None
    if not isinstance(error, dict):
        return ""
    context, ref = (printable(each) if isinstance(each, str) else "" for each in map(error.get, ("context", "ref")))
    words = [shortened(context, _MOST_SAID)] * bool(context) + [f"ref {shortened(ref)}"] * bool(ref)
    return ", ".join(words)


def whole_number(text: str) -> int | None:
    """Read a number of 64 bits at most; None where the text is not one."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= 20 else None


def times(count: int) -> str:
    """Return as text how often something happened."""
    return {1: "once", 2: "twice"}.get(count, f"{count:,} times")


def client(connection: "ConnectionState") -> str:
    """Return the name of DCP_OPEN, else the client's address, else both ends: either may be the client."""
    return short_name(connection.setup.name) or connection.client_address or f"{connection.src} ? {connection.dst}"


def name_stream(stream: "Stream") -> str:
    """Name a stream by its vbucket and stream id."""
    return f"vb {stream.vbucket}" + (f" sid {stream.stream_id}" if stream.stream_id else "")


def short_name(name: str | None) -> str:
    """Return a name as people read it: of JSON, as Java clients have it, the product and the ids; empty for None."""
    found = _JSON_NAME.match(name or "")
    return f"{found[3]} {found[1]}/{found[2]}" if found else name or ""


def product(agent: str | None) -> str | None:
    """Return what a HELLO's key calls its client, without what differs between connections; None where nothing does."""
    try:
        parsed = parse_json((agent or "").encode("utf-8", "surrogatepass"))
    except ValueError:
        return agent
    name = parsed.get("a") if isinstance(parsed, dict) else None
    return printable(name) if isinstance(name, str) else None


def agent_name(agent: str | None) -> str:
    """Return the agent of a HELLO's key for people: its product, else the key as it is; empty for None."""
    return product(agent) or agent or ""
