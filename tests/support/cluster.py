"""Simulate clusters for tests: nodes, clients with the habits of real ones, and all that they send, by a seed.

What is sent is kept as events, which ``tests/support/accounts.py`` adds up without any help of the program.
"""

import heapq
import json
from base64 import b64encode
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count, groupby
from random import Random
from typing import Any, NamedTuple

from dcpdump.net.packet import Packet
from dcpdump.wire.encode import encode
from tests.support.conversation import MAX, Said, packets
from tests.support.packets import FIN, NOON, RST

HOP_NS = 200_000  #: that a proxy takes
MS = 1_000_000
OK, NOT_MINE, EXISTS, ROLLBACK = 0, 7, 2, 0x23
MARKER, MUTATION, DELETION, EXPIRATION, EVENT = 0x56, 0x57, 0x58, 0x59, 0x5F
PREPARE, COMMIT, ABORT, ADVANCED, END = 0x60, 0x62, 0x63, 0x64, 0x55
_HIDDEN = (PREPARE, ABORT)
NOOP_ANSWER = encode(0x5C, response=True, opaque=0xFFFF0000)
HABITS = ["proxy", "java", "kafka", "gocbcore", "goxdcr", "dcpdrain", "cbbackupmgr"]


@dataclass(eq=False)
class Wire:
    """A TCP connection. ``owner``: whose it is, and which leg of it."""

    number: int
    client: str
    server: str
    owner: "tuple[Client, int]"
    feeder: int
    name: str
    ended: bool = False


class Event(NamedTuple):
    """What one end sends on a wire. ``facts``: numbers, by kind."""

    ts_ns: int
    wire: Wire
    direction: int
    kind: str
    data: bytes
    vb: int = -1
    sid: int = 0
    opcode: int = 0
    seqno: int | None = None
    key: bytes = b""
    facts: tuple[Any, ...] = ()


class Item(NamedTuple):
    seqno: int
    opcode: int
    key: bytes
    collection: int = 0
    prepared: int = 0


@dataclass(eq=False)
class Vbucket:
    number: int
    node: str
    log: list[tuple[int, int]]  #: newest first
    items: list[Item] = field(default_factory=list)
    high: int = 0
    idle: bool = False


@dataclass(eq=False)
class Want:
    """A vbucket that a client wants, and where it is in it."""

    vb: Vbucket
    sid: int = 0
    end: int = MAX
    start: int = 0
    snap: tuple[int, int] = (0, 0)
    uuid: int = 0
    state: str = "idle"
    since: int = 0  #: nothing is done before
    line: "Line | None" = None  #: where it was asked for last


@dataclass(eq=False)
class Feed:
    """A stream, as its producer sees it."""

    want: Want
    opaque: int
    start: int
    cursor: int
    first: bool = True
    recent: bool = True  #: the next memory snapshot is the first
    stalled: bool = False
    marker: tuple[int, int] = (0, 0)
    queue: deque[tuple[int, Item | tuple[int, int, int] | int]] = field(default_factory=deque)


class Line:
    """A client's connection to one node; a proxy has two, with the same messages. From the producer on."""

    def __init__(self, client: "Client", node: str, hops: list[tuple[Wire, int]]) -> None:
        self.client, self.node, self.hops = client, node, hops
        self.feeds: dict[tuple[int, int], Feed] = {}
        self.ready = self.dead = False
        self.size = self.outstanding = 0
        self.received: deque[tuple[int, int]] = deque()
        self.slow_from = 0
        self.opaques = count(1)
        self.noop_ns = 0

    def acked(self, size: int) -> None:
        self.outstanding = max(0, self.outstanding - size)

    def say(self, kind: str, data: bytes, *, down: bool, **facts: Any) -> None:
        """Send a frame to the consumer, or from it."""
        for place, (wire, feeder) in enumerate(self.hops if down else self.hops[::-1]):
            self.client.cluster.put(wire, feeder if down else 1 - feeder, kind, data, place * HOP_NS, **facts)


class Cluster:
    """Nodes, vbuckets, clients, and a clock."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = Random(seed)
        self.now = NOON
        self.events: list[Event] = []
        self._due: list[tuple[int, int, Iterator[float]]] = []
        self._serial = count()
        self.wires = count()
        self.nodes = [f"10.0.0.{number}" for number in range(1, 2 + rng.randint(1, 2))]
        self.buckets: dict[str, list[Vbucket]] = {}
        for bucket in ("travel", "beer")[: rng.randint(1, 2)]:
            self.buckets[bucket] = [Vbucket(vb, rng.choice(self.nodes), [(rng.getrandbits(48), 0)]) for vb in range(3)]
        habits = [*rng.sample(HABITS, rng.randint(1, 3)), rng.choice(HABITS[1:])]
        self.clients = [Client(self, number, habit) for number, habit in enumerate(habits)]
        for vbuckets in self.buckets.values():
            for vb in vbuckets:
                self.grow(vb, rng.randint(0, 30))
                self.spawn(self._mutate(vb))
        self.spawn(self._trouble())
        self.lasts = rng.choice((4, 8, 25, 40)) * 1000 * MS
        while self._due and self._due[0][0] < NOON + self.lasts:
            at, _, actor = heapq.heappop(self._due)
            self.now = max(self.now + 1000, at)
            delay = next(actor, None)
            if delay is not None:
                self.spawn(actor, delay)
        self.events.sort(key=lambda event: event.ts_ns)

    def spawn(self, actor: Iterator[float], delay: float = 0) -> None:
        """Start an actor, after so many seconds."""
        heapq.heappush(self._due, (self.now + int(delay * 1e9), next(self._serial), actor))

    def put(self, wire: Wire, direction: int, kind: str, data: bytes, later: int = 0, **facts: Any) -> None:
        """Record what is sent on a wire."""
        if not wire.ended or kind in ("fin", "rst"):
            self.events.append(Event(self.now + later, wire, direction, kind, data, **facts))

    def packets(self) -> list[Packet]:
        """Return all packets: what is sent at once shares segments, and frames begin and end anywhere in them."""
        rng, out = Random(len(self.events)), []
        for (wire, direction, ts_ns), events in groupby(self.events, lambda each: each[1:3] + each[:1]):
            for flags, some in groupby(events, lambda each: {"fin": FIN, "rst": RST}.get(each.kind, 0)):
                data, at = b"".join(each.data for each in some), 0
                while at < len(data) or flags:
                    size = rng.choice((40, 300, 1448, 9000))
                    ends = f"{wire.client} {wire.server}"
                    out.append(Said(wire.number, direction, ts_ns, data[at : at + size], flags, ends))
                    flags, at = 0, at + size
        return packets(out)

    def grow(self, vb: Vbucket, changes: int) -> None:
        """Change documents of a vbucket."""
        rng = self.rng
        for _ in range(changes):
            key, collection = b"key-%d" % rng.randint(0, 9), rng.choice((0, 0, 8, 9))
            kind = rng.choices((MUTATION, DELETION, EXPIRATION, PREPARE, EVENT), (70, 10, 4, 10, 2))[0]
            vb.high += 1
            vb.items.append(Item(vb.high, kind, b"c%d" % vb.high if kind == EVENT else key, collection))
            if kind == PREPARE:
                vb.high += 1
                done = rng.choice((COMMIT, COMMIT, ABORT))
                vb.items.append(Item(vb.high, done, key, collection, vb.high - 1))

    def _mutate(self, vb: Vbucket) -> Iterator[float]:
        while not vb.idle:
            yield self.rng.expovariate(1.5)
            self.grow(vb, self.rng.choice((1, 1, 3, 12)))
            vb.idle = self.now > NOON + 3000 * MS and self.rng.random() < 0.08

    def _trouble(self) -> Iterator[float]:
        """Move and fail over vbuckets, restart nodes, break connections."""
        rng = self.rng
        every = [vb for vbuckets in self.buckets.values() for vb in vbuckets]
        while True:
            yield rng.expovariate(0.7)
            lines = [line for client in self.clients for line in client.lines.values() if line.ready and not line.dead]
            what = rng.choice(("move", "move", "failover", "restart", "break", "close", "stall", "quit", "none"))
            if what in ("move", "failover"):
                vb = rng.choice(every)
                lost = rng.randint(0, 8) if what == "failover" else 0
                vb.node = rng.choice(self.nodes)
                if lost:
                    vb.high = max(0, vb.high - lost)
                    vb.items = [item for item in vb.items if item.seqno <= vb.high]
                if lost or rng.random() < 0.5:
                    vb.log.insert(0, (rng.getrandbits(48), vb.high))
                for line in lines:
                    line.client.ends(line, vb, 2)
            elif what == "restart":
                node, way = rng.choice(self.nodes), rng.choice(("fin", "rst"))
                for line in lines:
                    if line.node == node:
                        self.spawn(line.client.loses(line, way, 1))
            elif lines and what != "none":
                line = rng.choice(lines)
                if what == "break":
                    self.spawn(line.client.loses(line, rng.choice(("fin", "rst")), 0))
                elif what == "quit":
                    line.client.quits = True
                    self.spawn(line.client.loses(line, "fin", 0))
                elif line.feeds:
                    feed = rng.choice(list(line.feeds.values()))
                    if what == "stall":
                        feed.stalled = True
                    elif line.client.habit not in ("proxy",):
                        self.spawn(line.client.closes(line, feed))


class Client:
    """A consumer, with the habits of a real one."""

    def __init__(self, cluster: Cluster, number: int, habit: str) -> None:
        rng = cluster.rng
        self.cluster, self.number, self.habit, self.rng = cluster, number, habit, rng
        self.bucket = rng.choice(list(cluster.buckets))
        self.id = f"{rng.getrandbits(64):016X}"
        self.host = rng.choice(cluster.nodes) if habit == "proxy" else rng.choice(("10.0.0.9", "10.0.0.8"))
        self.sync = habit == "proxy"
        self.collections = habit != "dcpdrain"
        self.sids = (7, 9) if habit == "java" and rng.random() < 0.3 else (0,)
        self.filter = {7: (8,), 9: (9,)}
        self.size = rng.choice((0, 400, 3000, 20_000)) if habit != "goxdcr" else 3000
        self.agent, self.family = self._agent(), f"{habit}-{number}"
        self.quits = False
        self.ports = count(40_000 + 1000 * number)
        self.lines: dict[str, Line] = {}
        wanted = rng.sample(cluster.buckets[self.bucket], rng.randint(1, 3))
        ends = [rng.randint(1, 40) if habit == "cbbackupmgr" else MAX for _ in wanted]
        self.wants = [Want(vb, sid, end) for vb, end in zip(wanted, ends, strict=True) for sid in self.sids]
        cluster.spawn(self._live(), rng.random())

    def _agent(self) -> str:
        product = {"java": "java-dcp-client/0.47", "kafka": "kafka-connector/4.2", "proxy": "proxy", "goxdcr": "Goxdcr"}
        name = product.get(self.habit, "gocbcore/v10.5")
        return name if self.habit in ("proxy", "goxdcr", "dcpdrain") else json.dumps({"a": name, "i": self.id})

    def _live(self) -> Iterator[float]:
        """Request the streams that are wanted and missing."""
        rng, cluster = self.rng, self.cluster
        while not self.quits:
            yield rng.uniform(0.02, 0.1)
            for want in self.wants:
                if want.state != "idle" or cluster.now < want.since or self.quits:
                    continue
                node = want.vb.node if rng.random() < 0.9 else rng.choice(cluster.nodes)
                if self.habit == "proxy" and node == self.host:
                    continue
                line = self.lines.get(node)
                if line is None or line.dead:
                    cluster.spawn(self._connect(node, line))
                    yield 0.05
                elif line.ready:
                    want.state, want.line = "asked", line
                    cluster.spawn(self._ask(line, want))

    def _connect(self, node: str, before: Line | None) -> Iterator[float]:
        rng, cluster = self.rng, self.cluster
        again = before is not None and rng.random() < 0.4
        port = before.hops[0][0].client.rpartition(":")[2] if before is not None and again else next(self.ports)
        drawn = b64encode(rng.randbytes(16)).decode()
        own = {
            "java": self.agent if self.number % 2 else f"app-{rng.getrandbits(64):016x}",
            "kafka": f"sink-{self.id}-{rng.getrandbits(48):012x}",
            "goxdcr": f"xdcr:dcp_{self.id * 2}/{self.bucket}/B2_{node}:11210_{rng.randrange(2)}:{drawn}",
        }
        name = own.get(self.habit, f"{self.family}-{self.bucket}")
        if self.habit == "proxy":
            name = f"replication:ns_1@{node}->ns_1@{self.host}:{self.bucket}"
        kv = 11209 if self.habit == "proxy" else 11210
        wires = [Wire(next(cluster.wires), f"{self.host}:{port}", f"{node}:{kv}", (self, 0), 1, name)]
        if self.habit == "proxy":
            here = f"{self.host}:{next(self.ports)}", f"{self.host}:{kv}"
            wires.append(Wire(next(cluster.wires), *here, (self, 1), 0, name))
        line = self.lines[node] = Line(self, node, [(wire, wire.feeder) for wire in wires])
        for wire in wires:
            yield from self._greet(wire)
        yield from self._control(line)
        line.ready, line.noop_ns = True, cluster.now
        cluster.spawn(self._produce(line), 0.002)
        cluster.spawn(self._consume(line), 0.003)

    def _greet(self, wire: Wire) -> Iterator[float]:
        """Set a connection up: pipelined, or one request after the other."""
        features = [6, 0x0A, 0x0B, *([0x12] if self.collections else [])]
        flags = (1 if wire.feeder else 0) | 4
        steps: list[tuple[str, int, dict[str, Any], str, bytes]] = [
            ("hello", 0x1F, {"features": features}, self.agent, b""),
            ("auth", 0x21, {}, "PLAIN", b"\0u\0p"),
            ("bucket", 0x89, {}, self.bucket, b""),
            ("open", 0x50, {"flags": flags}, wire.name, b""),
        ]
        together = 3 if self.habit in ("gocbcore", "cbbackupmgr") else 1
        for at in range(0, len(steps), together):
            some = list(enumerate(steps[at : at + together], at + 1))
            for opaque, (kind, opcode, values, key, value) in some:
                frame = encode(opcode, values, key=key.encode(), value=value, opaque=opaque)
                self.cluster.put(wire, 0, kind, frame, key=key.encode(), facts=(flags,))
            yield 0.001
            for opaque, (kind, opcode, values, _, _) in some:
                answered = values if kind == "hello" else {}
                self.cluster.put(wire, 1, f"{kind}-answer", encode(opcode, answered, response=True, opaque=opaque))
            yield 0.001

    def _control(self, line: Line) -> Iterator[float]:
        wanted = {"enable_noop": "true", "set_noop_interval": "20"}
        if self.size:
            wanted["connection_buffer_size"] = str(self.size)
        if self.habit in ("java", "kafka", "proxy"):
            wanted["send_stream_end_on_client_close_stream"] = "true"
        if self.sync:
            wanted |= {"enable_sync_writes": "true", "consumer_name": f"ns_1@{self.host}"}
        if self.sids != (0,):
            wanted["enable_stream_id"] = "true"
        for key, value in wanted.items():
            opaque = 0 if self.habit == "java" else next(line.opaques)
            facts = {"key": key.encode(), "facts": (value,)}
            frame = encode(0x5E, key=key.encode(), value=value.encode(), opaque=opaque)
            line.say("control", frame, down=False, **facts)
            if self.habit != "java":
                yield 0.001
            line.say("control-answer", encode(0x5E, response=True, opaque=opaque), down=True, **facts)
        yield 0.001
        line.size = self.size

    def _ask(self, line: Line, want: Want) -> Iterator[float]:
        """Request a stream, and have it granted, rolled back or refused."""
        cluster, rng, vb = self.cluster, self.rng, want.vb
        opaque = {"dcpdrain": 0xDDDDDDDD, "java": vb.number | want.sid << 16}.get(self.habit, next(line.opaques) + 99)
        where = {"vb": vb.number, "sid": want.sid}
        if self.habit == "proxy":
            frame = encode(0x51, {"flags": 0}, vbucket=vb.number, opaque=opaque)
            cluster.put(line.hops[1][0], 0, "other", frame)
            yield 0.001
        start, (low, high), uuid = want.start, want.snap, want.uuid
        numbers = {"start_seqno": start, "end_seqno": want.end, "vbucket_uuid": uuid}
        numbers |= {"snap_start_seqno": low, "snap_end_seqno": high}
        json_of = {"sid": want.sid, "collections": [f"{each:x}" for each in self.filter[want.sid]]} if want.sid else {}
        value = json.dumps(json_of).encode() if json_of else b""
        frame = encode(0x53, numbers, value=value, vbucket=vb.number, opaque=opaque)
        line.say("request", frame, down=False, **where, facts=(start, want.end, uuid, low, high))
        yield 0.001 if self.habit == "dcpdrain" else rng.choice((0.001, 0.001, 0.02))
        if line.dead:
            return
        if rng.random() < 0.01 and self.habit != "dcpdrain":
            return  # it is never answered
        status, values = self._granted(line, want)
        answer = encode(0x53, values, response=True, status=status, vbucket=0, opaque=opaque)
        line.say("answer", answer, down=True, **where, facts=(status, values.get("rollback_seqno")))
        if self.habit == "proxy":
            accepted = encode(0x51, {"stream_opaque": opaque}, response=True, opaque=opaque)
            cluster.put(line.hops[1][0], 1, "other", accepted, 2 * MS)
        if status == OK:
            want.state, want.uuid = "open", vb.log[0][0]
            line.feeds[vb.number, want.sid] = Feed(want, opaque, start, start)
            return
        if status == ROLLBACK:
            back = values["rollback_seqno"]
            want.start, want.snap, want.uuid = back, (back, back), want.uuid if back else 0
        want.state = "over" if rng.random() < 0.05 else "idle"
        want.since = cluster.now + int(rng.choice((5, 100, 1500)) * MS)

    def _granted(self, line: Line, want: Want) -> tuple[int, dict[str, Any]]:
        vb = want.vb
        log = {"failover_log": [{"vbucket_uuid": uuid, "seqno": seqno} for uuid, seqno in vb.log]}
        if vb.node != line.node:
            return NOT_MINE, {}
        if want.start == 0:
            return OK, log
        at = max((at for at, (uuid, _) in enumerate(vb.log) if uuid == want.uuid), default=None)
        if at is None:
            return ROLLBACK, {"rollback_seqno": 0}
        low, high = want.snap
        low, high = (want.start, high) if want.start == high else (low, want.start if want.start == low else high)
        upper = vb.log[at - 1][1] if at else vb.high
        return (OK, log) if high <= upper else (ROLLBACK, {"rollback_seqno": min(low, upper)})

    # -- what the producer does -----------------------------------------------------------------------------

    def _produce(self, line: Line) -> Iterator[float]:
        rng, cluster = self.rng, self.cluster
        while not line.dead:
            yield rng.choice((0.002, 0.05, 0.3))
            for feed in rng.sample(list(line.feeds.values()), len(line.feeds)):
                for _ in range(rng.randint(1, 20)):
                    if line.dead or (line.size and line.outstanding >= line.size) or not self._send(line, feed):
                        break
            if not line.dead and cluster.now - line.noop_ns > 5000 * MS:
                line.noop_ns = cluster.now
                line.say("noop", encode(0x5C, opaque=0xFFFF0000), down=True)
                cluster.spawn(self._later(line.say, "noop-answer", NOOP_ANSWER, down=False), 0.002)

    def _send(self, line: Line, feed: Feed) -> bool:
        """Send the next message of a stream, if there is one."""
        if not feed.queue:
            self._snapshot(feed)
        if not feed.queue or (feed.stalled and feed.queue[0][0] != END):
            return False
        opcode, what = feed.queue.popleft()
        want, key, seqno, layout = feed.want, b"", None, None
        values, facts = dict[str, Any](), tuple[Any, ...]()
        if opcode == MARKER:
            assert isinstance(what, tuple)
            facts = tuple(what)
            values = dict(zip(("start_seqno", "end_seqno", "snapshot_type"), facts, strict=False))
            feed.marker = facts[0], facts[1]
        elif opcode == END:
            values, facts = {"status": what}, (what,)
        elif isinstance(what, Item):
            seqno = what.seqno
            values, key, layout = _document(opcode, what, self.collections)
            want.start, want.snap = seqno, feed.marker
        vb, sid = want.vb.number, want.sid
        value = b"x" * (self.rng.randint(0, 200) if opcode in (MUTATION, PREPARE) else 0)
        given: dict[str, Any] = {"vbucket": vb, "opaque": feed.opaque, "stream_id": sid or None}
        frame = encode(opcode, values, key=key, layout=layout, value=value, **given)
        line.say("message", frame, down=True, vb=vb, sid=sid, opcode=opcode, seqno=seqno, key=key, facts=facts)
        size = len(frame) + 2 * (opcode == PREPARE)
        line.outstanding += size
        line.received.append((self.cluster.now, size))
        if opcode == END:
            del line.feeds[vb, sid]
            want.state = "over" if what == 0 or self.rng.random() < (0.5 if what == 1 else 0.05) else "idle"
            want.since = self.cluster.now + self.rng.choice((5, 60, 1500)) * MS
        return opcode != END

    def _snapshot(self, feed: Feed) -> None:
        """Begin the next snapshot of a stream, or its end."""
        want, vb = feed.want, feed.want.vb
        top = min(vb.high, want.end)
        disk = feed.first and top - feed.cursor > 6
        if not disk:
            top = min(top, feed.cursor + self.rng.randint(1, 12))
        if feed.cursor >= want.end:
            feed.queue.append((END, 0))
        if feed.cursor >= top:
            return
        raw = [item for item in vb.items if feed.cursor < item.seqno <= top]
        if disk and not self.sync:
            latest = {(item.collection, item.key, item.opcode in _HIDDEN): item for item in raw}
            raw = [item for item in raw if latest[item.collection, item.key, item.opcode in _HIDDEN] is item]
        shown = [item for item in raw if self._sees(item, want)]
        before, feed.cursor = feed.cursor, top
        if not shown and not self.collections:
            return
        last = top if self.collections else shown[-1].seqno
        first = min(feed.start, before + 1) if feed.first else before + 1
        flags = 6 if disk else 5 if feed.recent else 1
        feed.recent, feed.first = feed.recent and disk, False
        feed.queue.append((MARKER, (first, last, flags)))
        for item in shown:
            opcode = item.opcode if self.sync or item.opcode != COMMIT else MUTATION
            feed.queue.append((DELETION if opcode == EXPIRATION else opcode, item))
        if last != (shown[-1].seqno if shown else 0):
            feed.queue.append((ADVANCED, Item(last, ADVANCED, b"")))

    def _sees(self, item: Item, want: Want) -> bool:
        if item.opcode in _HIDDEN and not self.sync:
            return False
        if not self.collections:
            return item.collection == 0 and item.opcode != EVENT
        return not want.sid or item.collection in self.filter[want.sid]

    # -- what the consumer does -----------------------------------------------------------------------------

    def _consume(self, line: Line) -> Iterator[float]:
        rng, cluster = self.rng, self.cluster
        unacked, share = 0, rng.choice((0.1, 0.2, 0.5))
        while not line.dead and line.size:
            yield rng.choice((0.002, 0.1, 0.4))
            if not line.slow_from and rng.random() < 0.003:
                line.slow_from = cluster.now
            while line.received and line.received[0][0] < cluster.now - MS and not line.slow_from:
                unacked += line.received.popleft()[1]
            if unacked >= share * line.size and not line.dead:
                line.say("ack", encode(0x5D, {"buffer_bytes": unacked}), down=False, facts=(unacked,))
                cluster.spawn(self._later(line.acked, unacked), 0.001)
                unacked = 0

    def _later(self, act: Callable[..., None], *given: Any, **named: Any) -> Iterator[float]:
        act(*given, **named)
        yield from ()

    def ends(self, line: Line, vb: Vbucket, status: int) -> None:
        """Have the producer end all streams of a vbucket."""
        for feed in line.feeds.values():
            if feed.want.vb is vb and not (feed.queue and feed.queue[0][0] == END):
                feed.queue.clear()
                feed.queue.append((END, status))

    def closes(self, line: Line, feed: Feed) -> Iterator[float]:
        """Have the client close a stream."""
        want, cluster = feed.want, self.cluster
        where = {"vb": want.vb.number, "sid": want.sid}
        opaque = feed.opaque if self.habit in ("java", "dcpdrain") else next(line.opaques) + 5000
        sid = want.sid or None
        line.say("close", encode(0x52, vbucket=want.vb.number, opaque=opaque, stream_id=sid), down=False, **where)
        yield 0.001
        if line.dead:
            return
        if line.feeds.get((want.vb.number, want.sid)) is not feed:
            line.say("other", encode(0x52, response=True, status=1, opaque=opaque), down=True)
            return
        line.say("close-answer", encode(0x52, response=True, opaque=opaque), down=True, **where)
        if self.habit in ("java", "kafka", "proxy"):
            feed.queue.clear()
            feed.queue.append((END, 1))
            return
        del line.feeds[want.vb.number, want.sid]
        want.state, want.since = self.rng.choice(("over", "idle")), cluster.now + 10 * MS

    def loses(self, line: Line, way: str, by: int) -> Iterator[float]:
        """End a connection: by its client (0) or its server (1)."""
        if line.dead:
            return
        line.dead = True
        for want in self.wants:
            if (want.state == "asked" and want.line is line) or (want.vb.number, want.sid) in line.feeds:
                want.state, want.since = "idle", self.cluster.now + self.rng.choice((5, 200, 1500)) * MS
        yield 0.002
        for place, (wire, _) in enumerate(line.hops):
            who = by if place == 0 else 0
            self.cluster.put(wire, who, way, b"")
            if way == "fin":
                self.cluster.put(wire, 1 - who, way, b"", MS)
            wire.ended = True


def _document(opcode: int, item: Item, collections: bool) -> tuple[dict[str, Any], bytes, str | None]:
    """Return the fields, the key and the layout of a message with a seqno."""
    key = bytes((item.collection,)) * collections + item.key
    if opcode == ADVANCED:
        return {"by_seqno": item.seqno}, b"", None
    if opcode == EVENT:
        return {"by_seqno": item.seqno, "event": 0, "version": 0, "collection_id": item.collection}, item.key, "0"
    if opcode in (COMMIT, ABORT):
        name = "commit_seqno" if opcode == COMMIT else "abort_seqno"
        return {"prepared_seqno": item.prepared, name: item.seqno}, key, None
    extra = {"durability_level": 1} if opcode == PREPARE else {}
    return {"by_seqno": item.seqno, "rev_seqno": 1, **extra}, key, "1"
