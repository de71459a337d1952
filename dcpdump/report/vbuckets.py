"""Make the maps of vBuckets over time: the silence of each, by consumer; and the seqnos of streams in trouble."""

from base64 import b64encode
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from dcpdump.batch.gather import Array
from dcpdump.batch.traffic_over_time import OTHERS, TrafficOverTime
from dcpdump.diagnosis.trouble import grouped
from dcpdump.report.context import Context, folded, section
from dcpdump.report.draw import WIDTH, Colour, TimeAxis, axis, band, head, lane, picture, png, side_labels, swatch
from dcpdump.report.html import Markup, element
from dcpdump.streams.identity import Owner, alike, host, owners, same
from dcpdump.streams.state import ConnectionState
from dcpdump.streams.stream import Stream
from dcpdump.streams.wording import client, clock, seqno, span
from dcpdump.text import counted

# -- silence ------------------------------------------------------------------------------------------
# A map has, for each vbucket and step, how long its streams have been silent, and how many messages came.

#: The levels of a map, from pale to strong; 0 is empty, and the one after the last is grey.
LEVELS = 13
ENDED = LEVELS + 1
_INK = (37, 99, 205)
_GREY = (128, 128, 128, 90)
COLOURS: list[Colour] = [
    (0, 0, 0, 0),
    *((*_INK, round(18 + 237 * (level / (LEVELS - 1)) ** 1.4)) for level in range(LEVELS)),
    _GREY,
    (0, 0, 0, 0),
]
#: The most rows and columns of a picture; beyond these, neighbours are joined to their largest value.
ROWS, COLUMNS = 1024, 600
#: The palest level is silence below this fraction of the time.
_SHORT = 128


class Map(NamedTuple):
    """The vbuckets of one consumer over time."""

    vbuckets: list[int]  #: a row for each
    silence: Array  #: levels
    messages: Array  #: levels
    limits: list[float]  #: seconds of silence at which each level begins
    most: int  #: messages in a cell


def silence_map(traffic: TrafficOverTime, group: Sequence[ConnectionState], times: TimeAxis) -> Map:
    """Return the map of a consumer's streams."""
    streams = (stream for connection in group for stream in connection.streams if stream.known)
    by_vbucket = grouped(streams, lambda stream: stream.vbucket)
    vbuckets = sorted(by_vbucket)
    used, step_s = traffic.axis.used, traffic.axis.step_ns / 1e9
    total = used * step_s
    short = max(step_s, total / _SHORT)
    limits = [short * (total / short) ** (level / LEVELS) for level in range(LEVELS)]
    each = max(1, -(-len(vbuckets) // ROWS))  # how many neighbours are joined in a row
    silence = np.zeros((-(-len(vbuckets) // each), used), np.uint8)
    messages = np.zeros(silence.shape, np.uint32)
    for at, vbucket in enumerate(vbuckets):
        row, mine = at // each, by_vbucket[vbucket]
        now = traffic.messages_of({(stream.connection.number, vbucket, stream.stream_id) for stream in mine})
        messages[row] = np.maximum(messages[row], now)
        silence[row] = np.maximum(silence[row], _silences(now, mine, times, used, np.array(limits) / step_s))
    most = int(messages.max(initial=0))
    return Map(vbuckets, _shrunk(silence), _shrunk(_heat(messages, most)), limits, most)


def _silences(messages: Array, streams: Sequence[Stream], times: TimeAxis, used: int, limits: Array) -> Array:
    """Return the levels of one vbucket."""
    alive = np.zeros(used, bool)
    begins = used
    for stream in streams:
        begin, end = _life(stream, times, used)
        if begin is not None:
            alive[begin:end] = True
            begins = min(begins, begin)
    steps = np.arange(used)
    last = np.maximum.accumulate(np.where(messages > 0, steps, begins))
    level = np.searchsorted(limits, np.maximum(steps - last, 0), side="right")
    levels = np.clip(level, 1, LEVELS)
    return np.where(alive, levels, np.where(steps > begins, ENDED, 0)).astype(np.uint8)


def _life(stream: Stream, times: TimeAxis, used: int) -> tuple[int | None, int]:
    """Return the steps in which a stream was open."""
    if stream.requests and not stream.granted and not stream.traffic.any:
        return None, 0
    first = stream.granted_ns if stream.granted_ns is not None else stream.traffic.first_ns
    ends = [ts for ts in (stream.ended_ns, stream.closed_ns, stream.connection.end.ts_ns) if ts is not None]
    begin = 0 if not stream.requests or first is None else min(used - 1, int(times.fraction(first) * used))
    return begin, min(used, int(times.fraction(min(ends)) * used) + 1) if ends else used


def _heat(messages: Array, most: int) -> Array:
    """Return the levels for numbers of messages: logarithms, and 0 for none."""
    if not most:
        return np.zeros(messages.shape, np.uint8)
    scaled = np.log1p(messages) / np.log1p(most) * (LEVELS - 1)
    return np.where(messages > 0, 1 + scaled.astype(np.uint8), 0).astype(np.uint8)


def _shrunk(cells: Array) -> Array:
    """Return cells with neighbours joined to their largest value, if there are too many in a row."""
    count = cells.shape[1]
    if count > COLUMNS:
        cells = np.maximum.reduceat(cells, np.arange(0, count, -(-count // COLUMNS)), axis=1)
    return cells


MOST = 8  #: maps
_MULTIPLES = 12
_HITS = 400
#: Maps with at most so many rows have sharp edges.
_FEW = 64
_LABELS = 16


def vbuckets(context: Context, most: int) -> tuple[Markup | None, list[dict[str, object]]]:
    """Return the section, and the data with which a script reads its maps."""
    times, traffic = context.times, context.gathered.traffic
    groups = consumers(context.evidence.connections)
    if times is None or not groups:
        return None, []
    troubled = {stream for trouble in context.found.troubles for stream in trouble.streams}
    order = sorted(groups, key=lambda group: (-len(_of(group, troubled)), -sum(len(each.streams) for each in group)))
    shown, known = [], []
    for group in order[:most]:
        found = silence_map(traffic, group, times)
        shown.append(_map(times, group, found, troubled))
        known.append({"vbuckets": found.vbuckets, "limits": [round(each, 3) for each in found.limits]})
    rest = len(groups) - len(shown)
    crowded = "Some streams share one row, as there are very many. " if OTHERS in traffic.streams else ""
    made = section(
        "vbuckets",
        "vBuckets over time",
        shown,
        element("p", f"{counted(rest, 'consumer')} more: {sum(map(len, order[most:])):,} connections")
        if rest
        else None,
        _multiples(context, times),
        lead="A row for each vbucket. The stronger the colour, the longer nothing had come on its stream: a healthy "
        "vbucket stays pale, one that has stopped grows strong to the right. Empty is before a stream was granted, "
        f"grey after it ended. {crowded}Each point is {span(traffic.axis.step_ns)} or the longest silence of several.",
    )
    return made, known


def _of(group: Sequence[ConnectionState], troubled: set[Stream]) -> list[Stream]:
    return [stream for each in group for stream in each.streams if stream in troubled]


def _map(times: TimeAxis, group: Sequence[ConnectionState], found: Map, troubled: set[Stream]) -> Markup:
    names = ", ".join(f"c{each.number}" for each in group[:12]) + (" …" if len(group) > 12 else "")
    mine = sorted({stream.vbucket for stream in _of(group, troubled)})
    in_trouble = (
        f"in trouble: vb {', '.join(map(str, mine[:20]))}{' …' * (len(mine) > 20)}" if mine else "none in trouble"
    )
    label = f"{client(group[0])}: silence of {counted(len(found.vbuckets), 'vbucket')} over time; {in_trouble}"
    hits = list(_hits(times, group, found))[:_HITS]
    return element(
        "figure",
        element("h3", client(group[0]), " ", element("span", names, class_="detail")),
        lane([_rows(found)], _image(found, found.silence, label, hits, "silence"), kind="tall"),
        axis(times),
        element("figcaption", f"{counted(len(found.vbuckets), 'vbucket')} · ", _legend(found), f" · {in_trouble}"),
        folded(
            "How many messages came, by vbucket and time",
            lane(
                head("messages", f"at most {found.most:,} a point"),
                _image(found, found.messages, f"messages of {client(group[0])}", [], "messages"),
                kind="tall",
            ),
        ),
    )


def _image(found: Map, cells: np.ndarray, label: str, hits: Sequence[Markup], kind: str) -> Markup:
    height = cells.shape[0]
    source = f"data:image/png;base64,{b64encode(png(cells, COLOURS)).decode()}"
    image = element("image", href=source, width=WIDTH, height=height, preserveAspectRatio="none")
    size = "few" if height <= 12 else "some" if len(found.vbuckets) <= _FEW else "many"
    return picture(height, label, image, hits, kind=f"plot map {size}", map=kind)


def _hits(times: TimeAxis, group: Sequence[ConnectionState], found: Map) -> Iterator[Markup]:
    """Yield the positions of rollbacks."""
    rows = {vbucket: row for row, vbucket in enumerate(found.vbuckets)}
    height = found.silence.shape[0]
    scale = height / max(1, len(found.vbuckets))
    for stream in (stream for connection in group for stream in connection.streams if stream.vbucket in rows):
        for request in stream.requests.rolled_back:
            when = request.answered_ns
            if when is not None:
                text = f"vb {stream.vbucket} rolled back to {seqno(request.rollback_seqno)} at {clock(when)}"
                text += f", and {request.repeats:,} more later" if request.repeats else ""
                left, top, tall = WIDTH * times.fraction(when), rows[stream.vbucket] * scale, max(scale, height / 100)
                yield element("rect", element("title", text), x=left, y=top, width=4, height=tall, class_="hit")


def _rows(found: Map) -> Markup:
    """Return the numbers of some vbuckets, beside their rows."""
    count = len(found.vbuckets)
    each = max(1, -(-count // _LABELS))
    return side_labels(
        (f"{100 * (row + 0.5) / count:.2f}%", f"vb {found.vbuckets[row]}") for row in range(each // 2, count, each)
    )


def _legend(found: Map) -> Markup:
    """Return a legend of the colours."""
    begins = {level: span(round(limit * 1e9)) for level, limit in enumerate(found.limits, 1)}
    texts = {level: begins[level] for level in (1, LEVELS // 3, 2 * LEVELS // 3, LEVELS)}
    texts |= {1: f"less than {begins[2]}", LEVELS: f"{begins[LEVELS]} and more"}
    squares = {level: swatch(element("rect", width=14, height=14, class_=f"level{level}")) for level in texts}
    return element("span", "silent for ", [(squares[level], f" {text} ") for level, text in texts.items()])


# -- seqnos of streams in trouble -------------------------------------------------------------------------------


def _multiples(context: Context, times: TimeAxis) -> Markup | None:
    chosen = list(context.dialogues)[:_MULTIPLES]
    drawn = [each for each in (_multiple(context, times, stream) for stream in chosen) if each is not None]
    if not drawn:
        return None
    return element("div", element("h3", "Seqnos of the streams to look at"), element("div", drawn, class_="multiples"))


def _multiple(context: Context, times: TimeAxis, stream: Stream) -> Markup | None:
    """Return the picture of one stream's seqnos over time; None without any."""
    connection = stream.connection
    values = context.gathered.traffic.seqno((connection.number, stream.vbucket, stream.stream_id))
    there = np.flatnonzero(values)
    if not len(there):
        return None
    low, high = int(values[there].min()), int(values[there].max())
    height, count = 60, len(values)
    points = [
        f"{WIDTH * (at + 1) / count:.0f} {height - 3 - (int(values[at]) - low) / max(1, high - low) * (height - 6):.1f}"
        for at in there.tolist()
    ]
    line = element("path", d=f"M{points[0]}L{' '.join(points)} h2", class_="line hue0")
    over = stream.ended_ns if stream.ended_ns is not None else stream.closed_ns
    shade = [band(times, over, times.last_ns, height, "over", "ended")] if over is not None else []
    label = f"vb {stream.vbucket}: seqno {low:,} to {high:,}"
    number = context.dialogues[stream]
    return element(
        "div",
        element("a", element("b", f"vb {stream.vbucket}"), f" c{connection.number}", href=f"#dialogue-{number}"),
        element("span", context.verdicts[stream].text, class_="detail"),
        picture(height, label, shade, line, kind="small"),
        element("span", f"{low:,} … {high:,}", class_="range"),
        class_="multiple",
    )


#: How many consumers on one host are compared with a connection.
_COMPARED = 50

Group = tuple[list[ConnectionState], set[int]]  #: connections, and their vbuckets


def consumers(connections: Sequence[ConnectionState]) -> list[list[ConnectionState]]:
    """Group connections with streams by consumer: connections of one client with different vbuckets."""
    out: list[Group] = []
    by_owner = defaultdict[Owner, list[Group]](list)
    for connection in connections:
        mine = {stream.vbucket for stream in connection.streams if stream.known}
        if not mine:
            continue
        near = (group for owner in owners(connection) for group in by_owner[owner][-_COMPARED:])
        found = next((group for group in near if _shares(group, connection, mine)), None)
        if found is None:
            found = [], set()
            for groups in (out, *(by_owner[owner] for owner in owners(connection))):
                groups.append(found)
        found[0].append(connection)
        found[1].update(mine)
    return [group for group, _ in out]


def _shares(group: Group, connection: ConnectionState, vbuckets: set[int]) -> bool:
    """Return whether a connection belongs to the consumer of others, whose vbuckets it does not share.

    A restarted consumer has other ids, and vbuckets that it had before.
    """
    members, theirs = group
    first, common = members[0], vbuckets & theirs
    if same(first, connection):
        return not common or _after(members, connection)
    restarted = host(first) == host(connection) and alike(first, connection)
    return restarted and bool(common) and _after(members, connection)


def _after(group: Sequence[ConnectionState], connection: ConnectionState) -> bool:
    """Return whether a connection begins after all of a group have ended."""
    begins = connection.first_ns
    return begins is not None and all(each.end.ts_ns is not None and each.end.ts_ns <= begins for each in group)
