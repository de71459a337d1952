"""Tables fit the terminal; in a pipe nothing is cut."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from dcpdump.render.lines import LineKind
from dcpdump.render.text_columns import Table

ABANDONED = "StateChanged; abandoned: not asked for again in 120 s"
TABLE = Table(
    ("conn", "client", "vb", "asked", "bytes", "verdict"),
    [
        (
            "0",
            "kafka-7f",
            "417",
            "12:07:11.006",
            "188",
            "ended (StateChanged; abandoned: not asked for again in 120 s)",
        ),
        ("0", "kafka-7f", "12", "12:07:11.008", "", "open and flowing"),
    ],
    right=("vb", "bytes"),
    least=("bytes", "asked"),
    kinds=(LineKind.PROBLEM, LineKind.PLAIN),
)


def texts(width: int | None) -> list[str]:
    return [line.text for line in TABLE.lines(width)]


def test_where_there_is_room_it_is_as_wide_as_its_cells() -> None:
    assert (
        texts(None)
        == texts(200)
        == [
            "conn  client     vb  asked         bytes  verdict",
            "0     kafka-7f  417  12:07:11.006    188  ended (StateChanged; abandoned: not asked for again in 120 s)",
            "0     kafka-7f   12  12:07:11.008         open and flowing",
        ]
    )


def test_what_all_rows_have_becomes_a_heading_and_the_last_column_continues_below_itself() -> None:
    assert texts(80) == [
        "all: client kafka-7f",
        "conn   vb  asked         bytes  verdict",
        "0     417  12:07:11.006    188  ended (StateChanged; abandoned: not asked for",
        "                                again in 120 s)",
        "0      12  12:07:11.008         open and flowing",
    ]


def test_columns_that_are_needed_least_go_first_and_it_is_said() -> None:
    assert texts(50) == [
        "all: client kafka-7f",
        "conn   vb  bytes  verdict",
        "0     417    188  ended (StateChanged; abandoned:",
        "                  not asked for again in 120 s)",
        "0      12         open and flowing",
        "not shown here: asked (too narrow; '| cat' shows",
        "  all)",
    ]


def test_columns_stand_below_one_another_where_characters_are_wide() -> None:
    rows = [("配信", "5", "値段は五千円です、値段は五千円です。"), ("kafka", "417", "open")]
    table = Table(("client", "vb", "verdict"), rows, right=("vb",))
    assert [line.text for line in table.lines()] == [
        "client   vb  verdict",
        "配信      5  値段は五千円です、値段は五千円です。",
        "kafka   417  open",
    ]
    assert [line.text for line in table.lines(45)] == [
        "client   vb  verdict",
        "配信      5  値段は五千円です、値段は五千円で",
        "             す。",
        "kafka   417  open",
    ]


def test_one_wide_column_does_not_take_the_others_along() -> None:
    rows = [("0", 60 * "n", "417", "188", "open and flowing"), ("1", "kafka", "12", "", "open and flowing")]
    table = Table(("conn", "client", "vb", "bytes", "verdict"), rows, right=("vb", "bytes"), least=("bytes",))
    assert [line.text for line in table.lines(50)] == [
        "conn   vb  bytes  verdict",
        "0     417    188  open and flowing",
        "1      12         open and flowing",
        "not shown here: client (too narrow; '| cat' shows",
        "  all)",
    ]


def test_a_row_keeps_its_kind_on_all_its_lines() -> None:
    kinds = [line.kind for line in TABLE.lines(80)]
    assert kinds == [LineKind.COLUMNS, LineKind.COLUMNS, LineKind.PROBLEM, LineKind.PROBLEM, LineKind.PLAIN]


def shown(words: list[str], columns: int, *, errors: bool = False, **environment: str) -> list[str]:
    """Return what a command shows on a terminal that is so wide, by lines. ``errors``: and what it says there."""
    ours, theirs = pty.openpty()
    environment = {"DCPDUMP_PAGER": "", **environment, "COLUMNS": str(columns), "NO_COLOR": "1", "TERM": "xterm"}
    command = [sys.executable, "-m", "dcpdump", *words]
    stderr = theirs if errors else subprocess.PIPE
    with subprocess.Popen(command, stdout=theirs, stderr=stderr, env={**os.environ, **environment}):
        os.close(theirs)
        text = b""
        try:
            while piece := os.read(ours, 65_536):
                text += piece
        except OSError:  # the end of a terminal
            pass
        os.close(ours)
    return text.decode().replace("\r\n", "\n").splitlines()


@pytest.mark.parametrize("columns", [60, 80, 120])
@pytest.mark.parametrize("command", ["streams", "conns", "flow", "rollbacks", "check", "key '*'"])
def test_no_line_of_a_command_is_wider_than_the_terminal(command: str, columns: int) -> None:
    name = "stopped" if command != "rollbacks" else "rollback-loop"
    lines = shown([*command.replace("'", "").split(), f"samples/{name}.pcap", "-q"], columns)
    assert lines
    assert [line for line in lines if len(line) > columns] == []


def test_a_connection_is_a_card_on_a_terminal() -> None:
    card = shown(["conns", "samples/stopped.pcap", "-q"], 80)
    assert card[0].startswith("connection 0  kafka-7f · kafka-connector · bucket shop")
    assert "  ends      10.0.5.9:50317 → 10.0.5.1:11210, the server is producer" in card


def test_a_pager_shows_what_goes_to_a_terminal(tmp_path: Path) -> None:
    out = tmp_path / "paged"
    words = ["streams", "samples/stopped.pcap", "-q"]
    assert shown(words, 80, DCPDUMP_PAGER=f"cat > {out}") == []
    assert "abandoned" in out.read_text()
    assert shown(["--no-pager", *words], 80, DCPDUMP_PAGER=f"cat > {tmp_path / 'none'}") != []
    assert not (tmp_path / "none").exists()


def test_without_the_pager_that_was_asked_for_nothing_is_lost() -> None:
    words = ["streams", "samples/stopped.pcap", "-q"]
    note, *lines = shown(words, 200, errors=True, DCPDUMP_PAGER="nosuch -R")
    assert note == "dcpdump: note: there is no pager nosuch -R: --no-pager, PAGER"
    assert lines == shown(["--no-pager", *words], 200)
    assert shown(words, 200, errors=True, DCPDUMP_PAGER="X=1 nosuch")[-2:] == [
        "dcpdump: error: the pager could not be started (X=1 nosuch)",
        "hint: --no-pager",
    ]


def test_a_pager_that_is_left_early_ends_the_command_without_a_word() -> None:
    assert shown(["read", "samples/rollback-loop.pcap", "-q"], 80, DCPDUMP_PAGER="head -1")[1:] == []


def test_a_cell_of_space_alone_that_is_wider_than_the_terminal_is_an_empty_line() -> None:
    assert [line.text for line in Table(("a",), [(60 * " ",), ("b",)]).lines(40)] == ["a", "", "b"]


def test_a_first_column_that_leaves_no_room_continues_below_itself() -> None:
    table = Table(("key", "vb", "bytes"), [(40 * "k", "5", "324"), ("k2", "12", "60")], right=("vb", "bytes"))
    assert [line.text for line in table.lines(30)] == [
        "key               vb  bytes",
        "kkkkkkkkkkkkkkkk   5    324",
        "kkkkkkkkkkkkkkkk",
        "kkkkkkkk",
        "k2                12     60",
    ]
