"""Write statistics as text for people (tables, a heat map of the vbuckets, a line of throughput), and as objects."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from dcpdump.batch.statistics import Amount, Client, Distribution, HotKey, Kind, Statistics, TimedAmount
from dcpdump.clock import clock_in_use
from dcpdump.escape import safe
from dcpdump.record import Json
from dcpdump.render.column import INT, Column, ColumnSet, at, of
from dcpdump.render.style import Line, LineKind
from dcpdump.render.text_columns import Fitting, Table, bytes_text, rate_text, spark
from dcpdump.spec import UNKNOWN_NAME, find
from dcpdump.streams.wording import agent_name, short_name
from dcpdump.text import counted

_COLUMNS = 64  #: vbuckets in a row of the map
_HEAT = " ░▒▓█"
_NS = 1_000_000_000
_SHORTEST = 0.001  #: seconds: what is shorter has no meaningful rate
_NOBODY = Client()


class CountedRow(NamedTuple):
    """What was counted of one message, of one direction of a connection, or of one vbucket."""

    key: Any
    name: Any  #: what rows can be sorted by
    amount: Amount
    client: Client = _NOBODY
    seconds: float | None = None  #: from the first to the last frame of its connection; None: too short, or not known
    share: float = 0  #: of all bytes

    def rate(self, count: int, digits: int | None = None) -> float | None:
        """Return how many a second that is."""
        return None if self.seconds is None else round(count / self.seconds, digits)


Order = Callable[[Iterable[CountedRow]], list[CountedRow]]

C = Column[CountedRow]
_AMOUNT = of("frames:frames bytes:bytes", "amount")
_OWN_TIME = "from the first to the last frame of its connection that is counted"
#: What connections have beside that.
_OF_CONNECTIONS = (
    *of("seconds?", meaning=_OWN_TIME),
    C(
        "frames_per_second?",
        lambda row: row.rate(row.amount.frames, 1),
        "frames/s",
        lambda row: _rate(row.rate(row.amount.frames, 3)),
        meaning=f"frames a second, {_OWN_TIME}",
    ),
    C(
        "bytes_per_second?",
        lambda row: row.rate(row.amount.bytes),
        "bytes/s",
        lambda row: _rate(row.rate(row.amount.bytes, 3)),
        meaning=f"bytes a second, {_OWN_TIME}",
    ),
    C("bucket?", lambda row: row.client.bucket, "bucket", lambda row: row.client.bucket or "?", drop_rank=1),
    C(head="client", text=lambda row: _client(row) or "?", sort=lambda row: _client(row)),
)
#: What the rows of each table can be sorted by.
COUNTED = ColumnSet[CountedRow](C(get=lambda row: row.name, head="name"), *_AMOUNT, *_OF_CONNECTIONS)

TOTAL = ColumnSet[Statistics](
    *of("frames bytes", "total"),
    Column("seconds", lambda found: _seconds(found.total)),
    *of("after_gaps=gaps first?=total.first_ns last?=total.last_ns"),
    type="total",
)
_NAME = "the name of the message"
MESSAGES = ColumnSet[CountedRow](
    C("name", lambda row: find(row.key[1], server=row.key[0]).name, meaning=_NAME),
    C("opcode", lambda row: row.key[1]),
    C("kind", lambda row: "response" if row.key[2] else "request"),
    C(head="message", text=lambda row: str(row.name)),
    *_AMOUNT,
    C(head="share", text=lambda row: f"{100 * row.share:.1f} %", right=True),
    type="message",
)
CONNECTIONS = ColumnSet[CountedRow](
    *of("connection:conn src dst", "key"),
    C(head="src → dst", text=lambda row: f"{row.key.src} → {row.key.dst}"),
    *of("name? agent?", "client"),
    *_AMOUNT,
    *_OF_CONNECTIONS,
    type="connection",
)
VBUCKETS = ColumnSet[CountedRow](*of("vbucket=key"), *_AMOUNT, type="vbucket")

_Named = tuple[int, Distribution]  #: an opcode, and what was measured of it
_DISTRIBUTION: tuple[Column[_Named], ...] = (
    *of("count:count", "1"),
    Column("p50", lambda row: row[1].percentile(50), "p50"),
    Column("p90", lambda row: row[1].percentile(90), "p90"),
    Column("p99", lambda row: row[1].percentile(99), "p99"),
    *of("max=most:max", "1"),
)
SIZES = ColumnSet[_Named](*_DISTRIBUTION, type="sizes")
LATENCIES = ColumnSet[_Named](
    Column("name", lambda row: find(row[0]).name, meaning=_NAME),
    *of("opcode=0"),
    Column(head="request", text=lambda row: opcode_name(row[0])),
    *_DISTRIBUTION,
    type="latency",
)
#: Their begin, their length in seconds, and what was counted in them.
INTERVALS = ColumnSet[tuple[int, float, Amount]](
    *of("time=0 seconds=1 frames=2.frames bytes=2.bytes"),
    type="interval",
)


def _more(what: str) -> Column[HotKey]:
    """Return the column of what a key may have had too, of frames or of bytes."""
    get = at(f"error.{what}")
    meaning = f"{what} that it may have had too, at most"
    return Column(f"more_{what}", get, f"more {what}", lambda row: _at_most(get(row)), type=INT, meaning=meaning)


DOCUMENTS = ColumnSet[HotKey](
    Column("key", lambda row: safe(row.key), "key"),
    Column("collection?", lambda row: row.collection, "collection", lambda row: _collection(row)),
    *of("collection_name??=path"),
    *_AMOUNT,
    *(_more(of_what) for of_what in ("frames", "bytes")),
    type="document",
)
#: The rows of statistics.
STATISTICS: tuple[ColumnSet[Any], ...] = (
    *(TOTAL, MESSAGES, CONNECTIONS, VBUCKETS, SIZES, LATENCIES, INTERVALS, DOCUMENTS),
)


def lines(found: Statistics, order: Order = list) -> list[Line | Fitting]:
    """Return everything that was counted. ``order`` arranges the rows of a table."""
    if not found.total.frames:
        return [Line(LineKind.PLAIN, "no frame matches")]
    out: list[Line | Fitting] = [Line(LineKind.TITLE, _total(found))]
    latencies = LATENCIES.table(sorted(found.latencies.items()))
    for title, part in (
        ("messages", MESSAGES.table(order(kinds_of(found)))),
        ("connections", CONNECTIONS.table(order(_ends(found)))),
        (_vbuckets_title(found), _heat_map(found)),
        ("sizes in bytes, of all frames", SIZES.table([(0, found.sizes)])),
        ("latencies in microseconds, request to response", latencies),
        ("throughput", _throughput(found)),
        ("keys with most frames, and those with most bytes", DOCUMENTS.table(found.documents)),
    ):
        if part:
            out += [Line(LineKind.PLAIN, ""), Line(LineKind.COLUMNS, title)]
            out += (
                [replace(part, indent="  ")] if isinstance(part, Table) else [Line(LineKind.PLAIN, row) for row in part]
            )
    return out


def objects(found: Statistics, order: Order = list) -> Iterator[Json]:
    """Yield the same as objects, each with its ``type``."""
    if not found.total.frames:
        return
    yield TOTAL.object(found)
    yield from map(MESSAGES.object, order(kinds_of(found)))
    yield from map(CONNECTIONS.object, order(_ends(found)))
    yield from map(VBUCKETS.object, order(_vbuckets(found)))
    yield SIZES.object((0, found.sizes))
    yield from map(LATENCIES.object, sorted(found.latencies.items()))
    for begins, amount in found.timeline.steps(_COLUMNS):  # which makes the steps longer
        yield INTERVALS.object((begins, found.timeline.step_ns / _NS, amount))
    yield from map(DOCUMENTS.object, found.documents)


def kinds_of(found: Statistics) -> list[CountedRow]:
    """Return the messages, most frequent first, then by opcode: in no order that depends on how the input is cut."""
    every = max(1, found.total.bytes)
    rows = [CountedRow(kind, kind_name(kind), each, share=each.bytes / every) for kind, each in found.kinds.items()]
    return sorted(rows, key=lambda row: (-row.amount.frames, row.key[1], row.key))


def kind_name(kind: Kind) -> str:
    """Return what people call a kind of message."""
    server, opcode, response = kind
    return f"{opcode_name(opcode, server=server)} {'response' if response else 'request'}"


def opcode_name(opcode: int, *, server: bool = False) -> str:
    """Return the name of a message; of one that is not known with its opcode, since there may be several."""
    name = find(opcode, server=server).name
    return f"{name} 0x{opcode:02x}" if name == UNKNOWN_NAME else name


def _ends(found: Statistics) -> list[CountedRow]:
    times: dict[int, TimedAmount] = {}  # of both directions
    for direction, traffic in found.directions.items():
        if traffic.first_ns is not None and traffic.last_ns is not None:
            times.setdefault(direction.connection, TimedAmount()).at(traffic.first_ns, traffic.last_ns)
    rows = []
    for direction, traffic in found.directions.items():
        client = found.clients.get(direction.connection, _NOBODY)
        seconds = _seconds(times.get(direction.connection, TimedAmount()))
        lasting = seconds if seconds >= _SHORTEST else None
        rows.append(CountedRow(direction, (direction.connection, direction.side), traffic, client, lasting))
    return sorted(rows, key=lambda row: row.name)


def _vbuckets(found: Statistics) -> list[CountedRow]:
    numbers = found.vbuckets.nonzero()[0].tolist()
    amounts = (Amount(int(found.vbuckets[number]), int(found.vbucket_bytes[number])) for number in numbers)
    return [CountedRow(number, number, amount) for number, amount in zip(numbers, amounts, strict=True)]


def _seconds(amount: TimedAmount) -> float:
    return 0.0 if amount.first_ns is None or amount.last_ns is None else (amount.last_ns - amount.first_ns) / _NS


def _total(found: Statistics) -> str:
    seconds = _seconds(found.total)
    text = f"{counted(found.total.frames, 'frame')}, {counted(found.total.bytes, 'byte')}"
    if found.total.first_ns is not None:
        text += f", from {clock_in_use().full(found.total.first_ns)} for {seconds:,.3f} s"
    if seconds >= _SHORTEST:
        rate = found.total.frames / seconds
        text += f": {rate:,.{0 if rate >= 10 else 2}f} frames/s, {bytes_text(found.total.bytes / seconds)}/s"
    return text


def _client(row: CountedRow) -> str:
    return short_name(row.client.name) or agent_name(row.client.agent)


def _rate(value: float | None) -> str:
    return "?" if value is None else rate_text(value)


def _collection(row: HotKey) -> str:
    return "" if row.collection is None else f"0x{row.collection:x} {row.path}".rstrip()


def _at_most(count: int) -> str:
    return f"up to {count:,}" if count else ""


def _vbuckets_title(found: Statistics) -> str:
    busy = int((found.vbuckets > 0).sum())
    return f"vbuckets: {busy:,} with traffic, at most {counted(int(found.vbuckets.max()), 'frame')}"


def _heat_map(found: Statistics) -> list[str]:
    """Return a character for each vbucket, from light to dark by its share of the busiest one."""
    most = int(found.vbuckets.max())
    if not most:
        return []
    rows = []
    for begin in range(0, len(found.vbuckets), _COLUMNS):
        counts = found.vbuckets[begin : begin + _COLUMNS].tolist()
        cells = "".join(_HEAT[-(-count * (len(_HEAT) - 1) // most)] for count in counts)
        if cells.strip():
            rows.append(f"  {begin:>5} |{cells}|")
    return rows


def _throughput(found: Statistics) -> list[str]:
    steps = list(found.timeline.steps(_COLUMNS))
    if len(steps) < 2 or _seconds(found.total) < _SHORTEST:
        return []
    most = max(amount.bytes for _, amount in steps)
    seconds = found.timeline.step_ns / _NS
    bars = spark([amount.bytes for _, amount in steps])
    return [f"  {bars}", f"  a bar is {seconds:g} s, the highest {bytes_text(most / seconds)}/s"]
