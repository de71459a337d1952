"""Phases: each message leads where the tables say, and the tables are what ``spec streams`` prints."""

from collections.abc import Callable
from enum import Enum

import pytest

from dcpdump.streams.ledger import Ledger
from dcpdump.streams.phases import (
    MACHINES,
    Closing,
    ClosingEvent,
    Durable,
    DurableEvent,
    FlowEvent,
    FlowPhase,
    Phase,
    PhaseEvent,
    SetupEvent,
    SetupPhase,
    Takeover,
    TakeoverEvent,
)
from tests.support.check_cases import CACHE, MEMORY, OSO_BEGINS, STATE, STREAM, cached
from tests.support.console import run
from tests.support.conversation import HELLO, LOGIN, opening
from tests.support.ledgers import damaged, ledger, only

REQUEST, BACK = "TX stream-request{vb=5%s}\n", "RX stream-request-response{rollback, rollback-seqno=0}\n"
GRANTED = "RX stream-request-response{success, failover-log=0xfeed:0}\n"
ONE, OSO_ENDS, CACHED_END = "RX mutation{seqno=1}\n", "RX oso-snapshot{flags=2}\n", "RX cache-transfer-end\n"
HANDING = opening() + "STREAM vb=5, flags=0x1\n" + MEMORY
DURABLE = opening(0x125, controls="enable_sync_writes=true, consumer_name=n") + "STREAM vb=5\n" + MEMORY
PREPARE = "RX prepare{seqno=1, key=k, cas=1, lvl=1}\n"
SASL, REFUSED = LOGIN.split("TX select")[0].strip() + "\n", "RX sasl-auth-response{autherror}\n"
BUCKET, OPEN = "TX select" + LOGIN.split("TX select")[1], "TX open{flags=0x5, key=app}\n"
OPENED = OPEN + "RX open-response{success}\n"
SIZE, ACK = "CONTROL connection_buffer_size=500\n", "TX buffer-acknowledgement{buffer-bytes=60}\n"
WINDOW = opening() + "STREAM vb=5\n" + MEMORY
LARGE = "RX mutation{seqno=1, key=k, value=" + "v" * 500 + "}\n"

#: How a conversation comes to each phase,
BEGINS: dict[Enum, str] = {
    Phase.REQUESTED: opening() + REQUEST % "",
    Phase.REFUSED: opening() + REQUEST % "" + BACK,
    Phase.CACHE_TRANSFER: opening() + CACHE,
    Phase.OPEN: opening() + STREAM,
    Phase.SNAPSHOT: opening() + STREAM + MEMORY,
    Phase.OUT_OF_ORDER: opening() + STREAM + OSO_BEGINS,
    Phase.HANDED_OVER: HANDING + STATE % 1,
    Closing.NOT_CLOSED: opening() + STREAM + MEMORY,
    Closing.CLOSE_ASKED: opening() + STREAM + MEMORY + "TX close-stream{vb=5}\n",
    Closing.CLOSED: opening() + STREAM + MEMORY + "TX close-stream{vb=5}\nRX close-stream-response{success}\n",
    Closing.ENDED: opening() + STREAM + MEMORY + "RX stream-end{status=0}\n",
    Takeover.SENDING: HANDING,
    Takeover.PENDING: HANDING + STATE % 3,
    Takeover.ACTIVE: HANDING + STATE % 3 + STATE % 1,
    Takeover.OTHER_STATE: HANDING + STATE % 4,
    Durable.NONE: DURABLE,
    Durable.PREPARED: DURABLE + PREPARE,
    SetupPhase.CONNECTED: HELLO % ("", ""),
    SetupPhase.LOGIN_REFUSED: HELLO % ("", "") + SASL.splitlines()[0] + "\n" + REFUSED,
    SetupPhase.AUTHENTICATED: HELLO % ("", "") + SASL,
    SetupPhase.BUCKET_SELECTED: HELLO % ("", "") + SASL + BUCKET,
    SetupPhase.OPENING: HELLO % ("", "") + SASL + BUCKET + OPEN,
    SetupPhase.OPEN: HELLO % ("", "") + SASL + BUCKET + OPENED,
    FlowPhase.OFF: WINDOW,
    FlowPhase.ROOM: WINDOW + SIZE,
    FlowPhase.FULL: WINDOW + SIZE + LARGE,
    FlowPhase.EXCEEDED: WINDOW + SIZE + LARGE + ONE * 40,
}
#: what a message looks like,
SAYS: dict[Enum, str] = {
    PhaseEvent.REQUEST: REQUEST % "",
    PhaseEvent.GRANT: GRANTED,
    PhaseEvent.REFUSAL: BACK,
    PhaseEvent.CACHED: cached(3),
    PhaseEvent.CACHED_END: CACHED_END,
    PhaseEvent.MARKER: MEMORY,
    PhaseEvent.ITEM: ONE,
    PhaseEvent.OSO_START: OSO_BEGINS,
    PhaseEvent.OSO_END: OSO_ENDS,
    PhaseEvent.SET_ACTIVE: STATE % 1,
    ClosingEvent.MESSAGE: ONE,
    ClosingEvent.CLOSE: "TX close-stream{vb=5}\n",
    ClosingEvent.CLOSED: "RX close-stream-response{success}\n",
    ClosingEvent.REFUSED: "RX close-stream-response{keyenoent}\n",
    ClosingEvent.END: "RX stream-end{status=0}\n",
    ClosingEvent.END_CLOSED: "RX stream-end{status=1}\n",
    TakeoverEvent.SET_PENDING: STATE % 3,
    TakeoverEvent.SET_ACTIVE: STATE % 1,
    TakeoverEvent.END_OK: "RX stream-end{status=0}\n",
    DurableEvent.PREPARE: PREPARE,
    DurableEvent.COMMIT: "RX commit{prepared-seqno=1, commit-seqno=2, key=k}\n",
    DurableEvent.ABORT: "RX abort{prepared-seqno=1, abort-seqno=2, key=k}\n",
    SetupEvent.HELLO: HELLO % ("", ""),
    SetupEvent.LOGIN: SASL.splitlines()[0] + "\n",
    SetupEvent.ACCEPTED: SASL,
    SetupEvent.REFUSED: SASL.splitlines()[0] + "\n" + REFUSED,
    SetupEvent.COMMAND: "TX get-all-vb-seqnos\n",
    SetupEvent.BUCKET: BUCKET,
    SetupEvent.OPEN: OPEN,
    SetupEvent.OPENED: "RX open-response{success}\n",
    SetupEvent.DCP: "CONTROL enable_noop=true\n",
    FlowEvent.SIZE: SIZE.replace("500", "100000"),
    FlowEvent.SIZE_0: SIZE.replace("500", "0"),
    FlowEvent.SEND: ONE,
    FlowEvent.FILL: LARGE,
    FlowEvent.ACK: ACK.replace("60", "5000"),
}
#: where one of a phase looks otherwise,
OTHERWISE = {
    PhaseEvent.GRANT_OF_CACHE: (opening() + REQUEST % ", flags=0x100", GRANTED),
}
#: and which phase the state has then.
REACHED: dict[type[Enum], Callable[[Ledger], Enum]] = {
    Phase: lambda kept: only(kept).phase,
    Closing: lambda kept: only(kept).closing_phase,
    Takeover: lambda kept: only(kept).takeover_phase,
    Durable: lambda kept: only(kept).prepares.phase(b"k"),
    SetupPhase: lambda kept: kept.connections[0].setup.phase,
    FlowPhase: lambda kept: kept.connections[0].window.phase,
}
ROWS = [
    pytest.param(phase, event, to, id=f"{phase.name} {event.name}")
    for table in MACHINES.values()
    for phase, events in table.items()
    for event, to in events.items()
    if phase is not Phase.UNKNOWN and event is not PhaseEvent.LOSS
]


@pytest.mark.parametrize(("phase", "event", "to"), ROWS)
def test_each_message_leads_where_the_table_says(phase: Enum, event: Enum, to: Enum) -> None:
    before, message = OTHERWISE[event] if event in OTHERWISE else (BEGINS[phase], SAYS[event])
    reached = REACHED[type(phase)]
    assert (reached(ledger(before)), reached(ledger(before + message))) == (phase, to)


@pytest.mark.parametrize(
    ("said", "phase"),
    [
        (STREAM + ONE, Phase.OPEN),
        (STREAM + OSO_ENDS, Phase.OPEN),
        (STREAM + OSO_BEGINS + MEMORY, Phase.OUT_OF_ORDER),
        (CACHE + cached(3) + MEMORY, Phase.SNAPSHOT),
        (BEGINS[Phase.HANDED_OVER].removeprefix(opening()) + MEMORY, Phase.HANDED_OVER),
    ],
)
def test_what_should_not_come_begins_what_it_says_but_for_a_marker_out_of_order(said: str, phase: Phase) -> None:
    assert only(ledger(opening() + said)).phase is phase


@pytest.mark.parametrize(
    ("said", "phase"),
    [
        (f"-{ONE}RX mutation{{seqno=2}}\n", Phase.UNKNOWN),
        (f"-{ONE}{MEMORY}", Phase.SNAPSHOT),
        (f"-{ONE}{OSO_BEGINS}", Phase.OUT_OF_ORDER),
        (f"-{ONE}{OSO_ENDS}", Phase.UNKNOWN),
        (f"-{ONE}{STATE % 1}", Phase.HANDED_OVER),
    ],
)
def test_after_lost_bytes_it_is_unknown_up_to_a_message_that_says_it(said: str, phase: Phase) -> None:
    assert only(damaged(opening() + STREAM + MEMORY.replace("start=1", "start=0") + said)).phase is phase


def test_the_tables_are_printed() -> None:
    printed = run("dcpdump spec streams").out
    blocks = printed.split("\n\n")
    for subject, table in MACHINES.items():
        at = blocks.index(f"-- {subject} --") + 1
        names = [each.partition(":")[0].upper().replace(" ", "_") for each in blocks[at : at + len(table)]]
        assert names == [phase.name for phase in table]
    assert (
        "Out of order: in an out-of-order snapshot (OSO)\n"
        "  message with a seqno  → the same\n"
        "  OSO_SNAPSHOT end      → open\n"
        "  bytes lost            → unknown\n"
    ) in printed
