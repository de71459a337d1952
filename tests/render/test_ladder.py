"""Ladders count each message once, and what has a row of its own is not among those that are folded."""

from dcpdump.render.ladder import ladder
from tests.support.conversation import opening
from tests.support.ledgers import ledger

END = "RX stream-end{status=0}\n"


def rows(text: str) -> list[str]:
    ((stream,), now_ns) = (found := ledger(opening() + text)).streams, found.last_ns
    return [rung.text for rung in ladder(stream, now_ns)][2:]


def test_a_stream_that_only_ended_has_no_row_of_messages() -> None:
    assert rows("STREAM vb=5\n" + END) == [
        "stream-end{Ok (0)}",
        "nothing more up to the end of the capture, 0 ms later",
    ]


def test_the_end_is_not_among_the_messages_before_it() -> None:
    assert rows("STREAM vb=5\nRX snapshot-marker{start=0, end=1, flags=0x1}\nRX mutation{seqno:1}\n" + END)[:2] == [
        "1 snapshot, 2 messages, seqno 1 to 1",
        "stream-end{Ok (0)}",
    ]


def test_one_message_is_one_message() -> None:
    assert rows("STREAM vb=5\nRX seqno-advanced{seqno:1}\n")[0] == "1 message, seqno 1 to 1"
