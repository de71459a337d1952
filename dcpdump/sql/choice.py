"""Turn a hint into the options that choose frames, as a person would give them to ``read``."""

from collections.abc import Mapping

from dcpdump.filter import Instant, TimeWindow
from dcpdump.filter.ranges import U64
from dcpdump.sql.spans import KINDS, Hint, Spans

#: Columns, their options and their largest numbers. ``--seqno`` takes more frames than ``by_seqno`` has: a superset.
_OPTIONS: Mapping[str, tuple[str, int]] = {
    "frame": ("frame", U64),
    "connection": ("connection", U64),
    "opcode": ("opcode", 0xFF),
    "vbucket": ("vbucket", 0xFFFF),
    "opaque": ("opaque", 0xFFFFFFFF),
    "by_seqno": ("seqno", U64),
    "kind": ("kind", len(KINDS) - 1),
}
#: More ranges than this are looked for as one.
_MOST = 64
_LATEST = (1 << 63) - 1
_NO_FRAME = {"frame": "!0-"}


def options_of(hint: Hint) -> dict[str, str]:
    """Return the options that choose all frames of a hint, and as few others as they can."""
    found: dict[str, str] = {}
    for column, (option, top) in _OPTIONS.items():
        if column not in hint:
            continue
        spans = _joined(hint[column], top)
        if not spans:
            return dict(_NO_FRAME)
        if column == "opcode":
            found[option] = ",".join(str(op) for low, high in spans for op in range(low, high + 1))
        elif column == "kind":
            found[option] = ",".join(KINDS[at] for low, high in spans for at in range(low, high + 1))
        else:
            found[option] = ",".join(f"{low}-{high}" for low, high in spans)
    return found if hint.get("time_ns", ((0, 0),)) else dict(_NO_FRAME)


def window_of(hint: Hint) -> TimeWindow | None:
    """Return the time in which all frames of a hint are; None where it does not say."""
    if not hint.get("time_ns"):
        return None
    low, high = min(low for low, _ in hint["time_ns"]), max(high for _, high in hint["time_ns"])
    until = Instant(high) if high < _LATEST else None
    return TimeWindow(Instant(max(-_LATEST, min(low, _LATEST))), until)


def _joined(spans: Spans, top: int) -> Spans:
    """Return spans in order, without those that touch others, up to the largest number."""
    found: list[tuple[int, int]] = []
    for low, high in sorted((max(low, 0), high) for low, high in spans if high >= 0):
        if low > top:
            break
        if found and low <= found[-1][1] + 1:
            found[-1] = found[-1][0], max(found[-1][1], min(high, top))
        else:
            found.append((low, min(high, top)))
    return tuple(found) if len(found) <= _MOST else ((found[0][0], found[-1][1]),)
