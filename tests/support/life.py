"""Conversations of ordinary life, each beside a sick twin: what clients and servers do all day, and what is wrong."""

from collections.abc import Sequence

from tests.support.conversation import opening

NODE, OTHER_NODE = "10.1.0.1:11210", "10.1.0.2:11210"
NOOP = "RX noop{}\nTX noop-response{success}\n"
LIVE_FLAGS, DISK_FLAGS = 0x5, 0x6


def connection(name: str = "app", node: str = NODE, port: int = 50_001, host: str = "10.1.0.9", **begun: object) -> str:
    """Return the beginning of a connection of a client to a node."""
    return f"CONNECT {host}:{port} {node}\n{opening(0x25, name=name, **{'collections': True, **begun})}"  # type: ignore[arg-type]


def marker(vb: int, start: int, end: int, flags: int = LIVE_FLAGS) -> str:
    """Return a snapshot marker."""
    return f"RX snapshot-marker{{vb={vb}, start={start}, end={end}, flags={flags}}}\n"


def items(vb: int, seqnos: Sequence[int]) -> str:
    """Return a mutation for each seqno."""
    return "".join(f"RX mutation{{vb={vb}, seqno={seqno}, key=#00{seqno:06x}}}\n" for seqno in seqnos)


def live(vb: int, first: int, last: int) -> str:
    """Return a snapshot from memory, complete."""
    return marker(vb, first, last) + items(vb, range(first, last + 1))


def load(
    vbuckets: int,
    documents: int = 6,
    *,
    each: float = 0.5,
    in_turn: bool = True,
    alive: int = 0,
    stuck: int | None = None,
    stops: bool = False,
) -> str:
    """Return an initial load: each stream has its marker at once, and then its documents in turn.

    ``each``: seconds between documents, or streams; ``in_turn``: a document of each, round after round, else one stream
    after the other; ``alive``: so many streams that are loaded already get changes all the while; ``stuck``: a vbucket
    that is passed over; ``stops``: the producer falls silent in the middle.
    """
    text = connection() + "".join(f"STREAM vb={vb}\n" for vb in range(vbuckets))
    text += "".join(marker(vb, 0, documents, DISK_FLAGS) for vb in range(vbuckets))
    turns = (
        [(vb, (seqno,)) for seqno in range(1, documents + 1) for vb in range(vbuckets)]
        if in_turn
        else [(vb, tuple(range(1, documents + 1))) for vb in range(vbuckets)]
    )
    changed, quiet = dict.fromkeys(range(alive), documents), 0.0
    for at, (vb, seqnos) in enumerate(turns):
        if vb == stuck and seqnos[0] > 1:
            continue
        if stops and at == len(turns) // 2:
            return text + (f"WAIT 19\n{NOOP}" * 4)
        text += items(vb, seqnos[:1] if vb == stuck else seqnos) + f"WAIT {each}\n"
        if alive and not in_turn and vb >= alive:
            lucky = at % alive
            changed[lucky] += 1
            text += live(lucky, changed[lucky], changed[lucky])
        quiet += each
        if quiet > 15:
            text, quiet = text + NOOP, 0.0
    return text + NOOP


def flowing(vb: int, first: int, *, minutes: int = 1) -> str:
    """Return a stream that changes every half minute."""
    return "".join(f"WAIT 29\n{NOOP}{live(vb, first + at, first + at)}" for at in range(2 * minutes))


def rebalance(*, all_nodes: bool = False, asked: bool = True, how: str = "ended") -> str:
    """Return a client whose vbucket moves to another node; the capture is of one node, or of all."""
    moved = "RX stream-end{vb=2, status=2}\n"
    if how == "refused":
        moved = "TX stream-request{vb=2, start=4}\nRX stream-request-response{notmyvbucket}\n"
    begun = "" if how == "refused" else "STREAM vb=2\n" + live(2, 1, 4)
    text = connection() + "STREAM vb=1\n" + live(1, 1, 4) + begun
    there = connection(node=OTHER_NODE, port=50_002) + "STREAM vb=3\n" + live(3, 1, 4) if all_nodes else ""
    again = "ON 1\nSTREAM vb=2, start=4\n" + live(2, 5, 6) if all_nodes and asked else ""
    return text + there + "ON 0\nWAIT 1\n" + moved + again + "ON 0\n" + flowing(1, 5)


def stopped(ends: str = "RST TX\n", *, restarted: bool = False, again: int = 1) -> str:
    """Return a client whose connection ends with streams open, and which may be restarted, so many times."""
    text = ""
    for at in range(again):
        text += (
            connection(port=50_001 + at) + f"STREAM vb=1, start={at}\n" + live(1, at + 1, at + 1) + f"{ends}WAIT 2\n"
        )
    if restarted:
        text += connection(port=50_101) + f"STREAM vb=1, start={again}\n" + live(1, again + 1, again + 1) + "WAIT 30\n"
    return text + NOOP if restarted else text


def slow_consumer(minutes: int = 60, *, stops: bool = False) -> str:
    """Return a consumer that is slower than the disk: its window is always full, and it acknowledges now and then."""
    text = connection(controls="connection_buffer_size=400") + "STREAM vb=1\n" + marker(1, 0, 100_000, DISK_FLAGS)
    seqno, due = 1, 44
    for minute in range(minutes * 2):
        sent = 0
        while due + sent < 400:
            text += f"RX mutation{{vb=1, seqno={seqno}, key=#00{seqno:06x}, value={'x' * 60}}}\n"
            seqno, sent = seqno + 1, sent + 55 + 4 + 60
        text += f"WAIT 20\n{NOOP}WAIT 10\n"
        if stops and minute > minutes:
            return text + f"WAIT 30\n{NOOP}" * 4
        text += f"TX buffer-acknowledgement{{buffer-bytes={due + sent}}}\n"
        due = 0
    return text


def legacy() -> str:
    """Return a client without collections: the disk's last items are not for it, and nothing comes in their place."""
    text = connection("old", collections=False) + "STREAM vb=5\n" + marker(5, 0, 30, 0x2)
    return text + "RX mutation{vb=5, seqno=3}\nRX mutation{vb=5, seqno=20}\n" + f"WAIT 29\n{NOOP}" * 3


def filtered(*, advanced: bool = True) -> str:
    """Return a client of one collection; where its last items are another's, SEQNO_ADVANCED comes in their place."""
    text = connection("index") + 'STREAM vb=5, value={"collections":["8"]}\n' + marker(5, 0, 30, DISK_FLAGS)
    text += "RX mutation{vb=5, seqno=3, key=#0861}\n" + ("RX seqno-advanced{vb=5, seqno=30}\n" if advanced else "")
    return text + f"WAIT 29\n{NOOP}" * 3


def backup(*, ends: bool = True) -> str:
    """Return a backup: streams up to a seqno, closed by the client when all are there."""
    text = connection("cbbackupmgr")
    for vb in range(8):
        text += f"STREAM vb={vb}, end=4\n" + marker(vb, 0, 4, DISK_FLAGS) + items(vb, range(1, 5))
        text += f"RX stream-end{{vb={vb}, status=0}}\n" * (ends or vb < 7)
    return text + (f"WAIT 19\n{NOOP}" * 4 if not ends else "FIN TX\nFIN RX\n")


def rollback(*, again: int = 0) -> str:
    """Return a client that is sent back after a failover, and goes on from there; or asks the same again and again."""
    ask = "TX stream-request{vb=5, start=100, vbucket-uuid=0xa}\n"
    ask += "RX stream-request-response{rollback, rollback-seqno=90}\n"
    text = connection() + (ask + "WAIT 1\n") * (again + 1)
    if again:
        return text + NOOP
    text += "TX stream-request{vb=5, start=90, vbucket-uuid=0xa}\n"
    text += "RX stream-request-response{success, failover-log=0xb:90|0xa:0}\n" + live(5, 91, 95)
    return text + flowing(5, 96)


def vanished(name: str = "app") -> str:
    """Return a client whose host is lost in the middle of a snapshot, and one that opens, so named, some time later."""
    text = connection() + "STREAM vb=1\n" + flowing(1, 1, minutes=9) + marker(1, 19, 50) + items(1, (19, 20))
    text += "WAIT 30\n" + connection(name, port=50_002)
    text += "STREAM vb=1, start=20, snap-start-seqno=19, snap-end-seqno=50\n" + marker(1, 19, 50) + items(1, (21, 50))
    return text + f"WAIT 29\n{NOOP}" * 3


def slow_disk(*, stops: bool = False) -> str:
    """Return streams that are read from a slow disk, a document each 20 s, beside others that change all the while."""
    text = connection() + "".join(f"STREAM vb={vb}\n" for vb in range(6))
    text += "".join(marker(vb, 0, 20, DISK_FLAGS) for vb in range(2))
    for second in range(240):
        if second % 20 == 0:
            text += NOOP + "".join(items(vb, (second // 20 + 1,)) for vb in range(2) if not stops or second < 100)
        text += "".join(live(vb, second + 1, second + 1) for vb in range(2, 6)) + "WAIT 1\n"
    return text


def after_failover(*, adopts: bool = True, further: int = 0) -> str:
    """Return a client that resumes each time its stream ends: with the uuid of the new branch, or with the old one.

    ``further``: how much further it comes each time.
    """
    text, start, granted = connection(), 100, "RX stream-request-response{success, failover-log=0xb:90|0xa:0}\n"
    for at in range(6):
        back = not adopts or not at
        text += f"TX stream-request{{vb=5, start={start}, vbucket-uuid={'0xa' if back else '0xb'}}}\n"
        if back:
            text += "RX stream-request-response{rollback, rollback-seqno=90}\n"
            text += "TX stream-request{vb=5, start=90, vbucket-uuid=0xa}\n"
        text += granted + live(5, 91 if back else start + 1, start + 5) + "WAIT 3\nRX stream-end{vb=5, status=2}\n"
        start += further if not adopts else 5
    return text + f"WAIT 19\n{NOOP}"


#: Ordinary life by name: the conversation, its sick twin, and the code of that one's first trouble.
LIVES: dict[str, tuple[str, str, str]] = {
    "an initial load of 16 vbuckets in turn": (load(16, each=1.5), load(16, 24, each=1.5, stuck=5), "stuck"),
    "an initial load of 64 vbuckets in turn": (load(64), load(64, 12, stuck=20), "stuck"),
    "an initial load, one vbucket after the other": (
        load(64, in_turn=False),
        load(64, in_turn=False, stuck=20) + flowing(3, 7, minutes=3),
        "stuck",
    ),
    "an initial load beside changes": (
        load(96, in_turn=False, alive=40),
        load(96, in_turn=False, alive=40, stops=True),
        "stuck",
    ),
    "a rebalance seen from one node": (rebalance(), rebalance(all_nodes=True, asked=False), "ended"),
    "a rebalance seen from all nodes": (rebalance(all_nodes=True), rebalance(all_nodes=True, asked=False), "ended"),
    "a request to a node that has the vbucket no more": (
        rebalance(how="refused"),
        rebalance(how="refused", all_nodes=True, asked=False),
        "refused",
    ),
    "a client that is stopped": (stopped(), stopped("RST RX\n"), "connection-closed"),
    "a client that closes": (stopped("FIN TX\nFIN RX\n"), stopped("FIN RX\nFIN TX\n"), "connection-closed"),
    "a client that is restarted": (stopped(restarted=True), stopped(restarted=True, again=7), "reconnects"),
    "a client that is stopped once": (stopped(), stopped("RST RX\n", again=8), "reconnects"),
    "a client that vanishes and returns": (vanished(), vanished("other"), "stuck"),
    "changes beside a slow disk": (slow_disk(), slow_disk(stops=True), "stuck"),
    "a slow consumer for an hour": (slow_consumer(), slow_consumer(10, stops=True), "blocked"),
    "a client without collections": (legacy(), filtered(advanced=False), "stuck"),
    "a client of one collection": (filtered(), filtered(advanced=False), "stuck"),
    "a backup": (backup(), backup(ends=False), "stuck"),
    "a rollback after a failover": (rollback(), rollback(again=5), "rollback-loop"),
    "a new uuid after a failover": (after_failover(), after_failover(adopts=False), "rollback-loop"),
    "a new uuid, and further": (after_failover(), after_failover(adopts=False, further=5), "rollback-loop"),
}
