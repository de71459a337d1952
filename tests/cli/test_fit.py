"""Tables fit the terminal; in a pipe nothing is cut."""

from pathlib import Path

import pytest

from dcpdump.render.style import LineKind
from dcpdump.render.text_columns import Table
from tests.support.live import on_a_terminal

ABANDONED = "StateChanged; abandoned: not asked for again in 120 s"
TABLE = Table(
    ("conn", "client", "vb", "asked", "bytes", "verdict"),
    [
        ("0", "kafka-7f", "417", "12:07:11.006", "188", f"ended ({ABANDONED})"),
        ("0", "kafka-7f", "12", "12:07:11.008", "", "open and flowing"),
    ],
    right=("vb", "bytes"),
    least=("bytes", "asked"),
    kinds=(LineKind.PROBLEM, LineKind.PLAIN),
)


def texts(width: int | None, table: Table = TABLE) -> list[str]:
    return [line.text for line in table.lines(width)]


def test_where_there_is_room_it_is_as_wide_as_its_cells() -> None:
    wide = [
        "conn  client     vb  asked         bytes  verdict",
        "0     kafka-7f  417  12:07:11.006    188  ended (StateChanged; abandoned: not asked for again in 120 s)",
        "0     kafka-7f   12  12:07:11.008         open and flowing",
    ]
    assert texts(None) == texts(200) == wide


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
    assert texts(None, table) == [
        "client   vb  verdict",
        "配信      5  値段は五千円です、値段は五千円です。",
        "kafka   417  open",
    ]
    assert texts(45, table) == [
        "client   vb  verdict",
        "配信      5  値段は五千円です、値段は五千円で",
        "             す。",
        "kafka   417  open",
    ]


def test_one_wide_column_does_not_take_the_others_along() -> None:
    rows = [("0", 60 * "n", "417", "188", "open and flowing"), ("1", "kafka", "12", "", "open and flowing")]
    table = Table(("conn", "client", "vb", "bytes", "verdict"), rows, right=("vb", "bytes"), least=("bytes",))
    assert texts(50, table) == [
        "conn   vb  bytes  verdict",
        "0     417    188  open and flowing",
        "1      12         open and flowing",
        "not shown here: client (too narrow; '| cat' shows",
        "  all)",
    ]


def test_a_row_keeps_its_kind_on_all_its_lines() -> None:
    kinds = [line.kind for line in TABLE.lines(80)]
    assert kinds == [LineKind.COLUMNS, LineKind.COLUMNS, LineKind.PROBLEM, LineKind.PROBLEM, LineKind.PLAIN]


@pytest.mark.parametrize("command", ["streams", "conns", "flow", "rollbacks", "check", "key *"])
def test_no_line_of_a_command_is_wider_than_the_terminal(command: str) -> None:
    name, columns = ("stopped", 60) if command != "rollbacks" else ("rollback-loop", 80)
    _, lines = on_a_terminal([*command.split(), f"samples/{name}.pcap", "-q"], columns)
    assert (lines != [], [line for line in lines if len(line) > columns]) == (True, [])


def test_a_connection_is_a_card_on_a_terminal() -> None:
    _, card = on_a_terminal(["conns", "samples/stopped.pcap", "-q"])
    assert card[0].startswith("connection 0  kafka-7f · kafka-connector · bucket shop")
    assert "  ends      10.0.5.9:50317 → 10.0.5.1:11210, the server is producer" in card


WORDS = ["streams", "samples/stopped.pcap", "-q"]


def test_a_pager_shows_what_goes_to_a_terminal(tmp_path: Path) -> None:
    out = tmp_path / "paged"
    assert on_a_terminal(WORDS, DCPDUMP_PAGER=f"cat > {out}") == (0, [])
    assert "abandoned" in out.read_text()
    out.unlink()
    assert on_a_terminal(["--no-pager", *WORDS], DCPDUMP_PAGER=f"cat > {out}")[1] != []
    assert not out.exists()


def test_without_the_pager_that_was_asked_for_nothing_is_lost() -> None:
    _, (note, *lines) = on_a_terminal(WORDS, 200, DCPDUMP_PAGER="nosuch -R")
    assert note == "dcpdump: note: there is no pager nosuch -R: --no-pager, PAGER"
    assert lines == on_a_terminal(["--no-pager", *WORDS], 200)[1]
    error = ["dcpdump: error: the pager could not be started (X=1 nosuch)", "hint: --no-pager"]
    assert on_a_terminal(WORDS, 200, DCPDUMP_PAGER="X=1 nosuch")[1][-2:] == error


def test_a_pager_that_is_left_early_ends_the_command_without_a_word() -> None:
    assert on_a_terminal(["read", "samples/rollback-loop.pcap", "-q"], DCPDUMP_PAGER="head -1")[1][1:] == []


def test_a_cell_of_space_alone_that_is_wider_than_the_terminal_is_an_empty_line() -> None:
    assert texts(40, Table(("a",), [(60 * " ",), ("b",)])) == ["a", "", "b"]


def test_a_first_column_that_leaves_no_room_continues_below_itself() -> None:
    table = Table(("key", "vb", "bytes"), [(40 * "k", "5", "324"), ("k2", "12", "60")], right=("vb", "bytes"))
    assert texts(30, table) == [
        "key               vb  bytes",
        "kkkkkkkkkkkkkkkk   5    324",
        "kkkkkkkkkkkkkkkk",
        "kkkkkkkk",
        "k2                12     60",
    ]
