"""Reconnects: a consumer whose connections end again and again is named; none that has another reason to connect."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.conversation import opening
from tests.support.diagnoses import rows

SERVER = "10.0.0.1:11210"
STREAM = "STREAM vb=5\nRX snapshot-marker{start=0, end=2, flags=0x5}\nRX mutation{seqno:1}\n"
ENDED = "RX mutation{seqno:2}\nRX stream-end{status=0}\n"


def connections(count: int, *, ends: str = "WAIT 5\nRST TX\nWAIT 1\n", name: str = "app", said: str = STREAM) -> str:
    """Return so many connections of a client, one after another."""
    return "".join(f"CONNECT 10.0.7.30:{40_000 + at} {SERVER}\n{opening(name=name)}{said}{ends}" for at in range(count))


def found(text: str, folder: Path, options: str = "") -> list[tuple[str, ...]]:
    """Return what ``diagnose`` says of connections that end again and again."""
    troubles = rows(text, folder / "c.pcap", "trouble", options)
    return [(each["text"], each["detail"]) for each in troubles if each["code"] == "reconnects"]


def test_consumers_that_take_the_name_of_each_other_are_said_to(tmp_path: Path) -> None:
    text = f"CONNECT 10.0.7.30:40000 {SERVER}\n{opening()}{STREAM}WAIT 1\n"
    for at in range(1, 14):
        client = f"10.0.7.3{at % 2}:{40_000 + at}"
        text += f"CONNECT {client} {SERVER}\n{opening()}ON {at - 1}\nFIN RX\nON {at}\n{STREAM}WAIT 1\n"
    (row,) = rows(text, tmp_path / "c.pcap", "trouble")
    assert (row["code"], row["severity"], row["text"], row["detail"], row["count"]) == (
        "name-taken",
        "wrong",
        f"connections named app close each other: {SERVER} closed 13 of them in 12.2 s, each as the next was opened "
        "with its name",
        "a name may be open once on a server and bucket; two clients have it, or one opens again before it closes "
        "(10.0.7.30, 10.0.7.31)",
        13,
    )


ANOTHER_ID = "".join(
    f"CONNECT 10.0.7.30:{40_000 + at} {SERVER}\n{opening(name='#' + each.encode().hex())}"
    f"STREAM vb=5, start-seqno={at}\nRX snapshot-marker{{start={at}, end={at + 1}, flags=0x5}}\n"
    f"RX mutation{{seqno:{at + 1}}}\nWAIT 5\nRST TX\nWAIT 1\n"
    for at, each in enumerate(f'{{"i":"{0xA100 + at:X}/01","a":"app"}}' for at in range(1, 8))
)
BEGUN, AGAIN = (
    "".join(f"CONNECT 10.0.7.30:{port + at} {SERVER}\n{opening(name=f'app:{at % 8}')}{STREAM}" for at in range(8))
    for port in (40_000, 41_000)
)
AT_ONCE = BEGUN + "WAIT 5\n" + "".join(f"ON {at}\nRST TX\n" for at in range(8)) + AGAIN
LASTED = "a connection lasted 5.01 s (median); 6 reset by the client"
OPEN = "ended one after another in 35.1 s, with streams open that were requested again"
CASES = {
    "again and again": (connections(7), [(f"6 connections of app to {SERVER} {OPEN}",
        f"{LASTED}; vb 5 was requested from seqno 0 each time, though it had come up to 1")]),
    "with another id each time": (ANOTHER_ID, [(f"6 connections of app A101/1 to {SERVER} {OPEN}", LASTED)]),
    "a few": (connections(5), []),
    "drained, each": (connections(8, said=STREAM + ENDED), []),
    "several clients": ("".join(connections(2, name=f"of-{each}") for each in "abcdefgh"), []),
    "all at once": (AT_ONCE, []),
}  # fmt: skip


@pytest.mark.parametrize(("text", "wanted"), CASES.values(), ids=CASES)
def test_a_consumer_that_connects_again_and_again_is_named(text: str, wanted: Any, tmp_path: Path) -> None:
    assert found(text, tmp_path) == wanted


def test_names_of_consumers_that_connect_again_and_again_are_hidden(tmp_path: Path) -> None:
    ((shown, _),) = found(connections(7), tmp_path, "--redact-level full")
    assert shown.startswith("6 connections of ")
    assert not {"app", SERVER, "10.0.7.30"} & set(shown.split())
