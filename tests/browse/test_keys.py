"""Each key of the table does what its help says: the table drives the test."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from dcpdump.browse.keys import KEYS, all_keys, help_lines
from dcpdump.browse.rows import TimeColumn
from tests.support.browsing import Shown, browse
from tests.support.conversation import opening
from tests.support.diagnoses import written

#: Frames 1 to 10 open the connection; the numbers behind the lines are those of the frames.
TALK = (
    opening()
    + """
TX stream-request{vb=5, start-seqno=0}
RX stream-request-response{success, failover-log=0xfeed:0}
TX stream-request{vb=6, start-seqno=9}
RX stream-request-response{rollback, rollback_seqno=4}
RX snapshot-marker{vb=5, start=0, end=2, flags=0x5}
RX mutation{seqno=1, key=apple, datatype=1, value={"n":[1,2]}}
RX mutation{seqno=2, key=pear, datatype=1, value={"n":[1,2]}}
WAIT 30
RX snapshot-marker{start=3, end=4, flags=0x5}
RX mutation{seqno=3, key=apple, datatype=1, value=no}
RX stream-end{vb=5, status=2}
"""
)
REQUEST, GRANTED, REFUSED, MARKER, APPLE, PEAR, MARKER_2, WRONG, END = 11, 12, 14, 15, 16, 17, 18, 19, 20
Case = Callable[[Shown, str], Awaitable[None]]
CASES: dict[str, Case] = {}


@pytest.fixture(scope="module")
def talk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(TALK, tmp_path_factory.mktemp("browse") / "talk.pcap")


def case(action: str) -> Callable[[Case], Case]:
    """Take a function as the case of an action of the table."""

    def keep(function: Case) -> Case:
        CASES[action] = function
        return function

    return keep


#: Cases that are moves: the frame to begin with (0, but not in the first: where the row before ended), what is pressed
#: (K: the key; =text: that text is typed, _ for a blank), the frame that the cursor is on then, and what is on the
#: screen.
MOVES: dict[str, list[tuple[int, str, int, str]]] = {
    "pane('move', -1)": [(7, "K", 6, "")],
    "pane('move', 1)": [(1, "K K", 3, "")],
    "pane('page', -1)": [(END, "K", 6, "")],
    "pane('page', 1)": [(1, "K", 15, "")],
    "pane('edge', -1)": [(9, "K", 1, "")],
    "pane('edge', 1)": [(1, "K", END, "")],
    "ask_position": [
        *((1, "K =12", 12, ""), (0, "K =#14", 14, ""), (0, "K =+20s", MARKER_2, ""), (0, "K =50%", 11, "")),
        *((0, "K =12:00:00", 1, ""), (0, "K =99", 1, " there is no frame 99: they are 1 to 20")),
    ],
    "do('pages', 'enter')": [
        *((1, "3 K", WRONG, "1 frames"), (0, "", WRONG, f" ! {WRONG:4} 12:00:30")),
        *((1, "4 K", 1, " filter: --connection 0"), (0, "", 1, " 20 of 20 frames")),
    ],
    "do('browser', 'step', 1)": [(1, ": =12 alt+left", 1, ""), (0, "K", GRANTED, "")],
    "do('browser', 'answer')": [
        (REQUEST, "K", GRANTED, ""),
        (0, "K", REQUEST, ""),
        (APPLE, "K", APPLE, " neither a response nor a request whose response was captured"),
    ],
    "do('browser', 'next_of_stream', 1)": [(GRANTED, "K", MARKER, "")],
    "do('browser', 'next_of_stream', -1)": [(MARKER, "K", GRANTED, "")],
    "do('browser', 'next_snapshot', 1)": [
        (APPLE, "K", MARKER_2, ""),
        (0, "K", MARKER_2, " no other snapshot of this stream"),
    ],
    "do('browser', 'next_snapshot', -1)": [(WRONG, "K K", MARKER, ""), (PEAR, "K", MARKER, "")],
    "do('browser', 'search_rows', 1)": [
        *((1, "K", REFUSED, ""), (0, "K", WRONG, "")),  # which only its value says
        (0, "K", WRONG, " no other problem is known"),
        (1, "/ =opcode_mutation K", WRONG, " 3 of 20 frames"),
    ],
    "do('browser', 'search_rows', -1)": [(END, "K", WRONG, ""), (0, "K", REFUSED, "")],
    "do('browser', 'only', ('connection', 'vbucket'))": [
        *((PEAR, "K", PEAR, "--connection 0 --vbucket 5"), (0, "", PEAR, " 8 of 20 frames"))
    ],
    "do('browser', 'only', ('connection',))": [(1, "K", 1, " filter: --connection 0"), (0, "", 1, " 20 of 20 frames")],
    "search": [(1, "K =PEAR", PEAR, " 20 frames")],
    "do('browser', 'find', 1)": [
        *((1, r"\ =apple K", WRONG, ""), (0, "K", WRONG, " 'apple' is not in the rows below"))
    ],
    "do('browser', 'find', -1)": [(1, r"\ =apple . K", APPLE, "")],
    "do('pages', 'open', 'frames')": [(1, "2 K", 1, " c0▸ hello ")],
    "do('pages', 'open', 'streams')": [
        *((PEAR, "K", PEAR, "stream-request{start=0, end=max"), (0, "", PEAR, " 5  12:00:00.011  0..max"))
    ],
    "do('pages', 'open', 'findings')": [(1, "K", 1, "severity")],
    "do('pages', 'open', 'connections')": [(1, "K", 1, "10.0.0.1:50000 → 10.0.0.2:11210")],
    "follow": [(1, "K", END, "following")],
    "do('marks', 'mark')": [(1, "K down down K", 3, "● 2 marked"), (0, "", 3, "●     3 12:00:00")],
    "do('marks', 'unmark')": [(1, "m down m K", 2, "● 1 marked")],
    "do('marks', 'mark_range')": [(2, "m down down K", 4, "● 3 marked"), (0, "", 4, "●     3 12:00:00")],
    "do('marks', 'next')": [(1, "down m down down m K", 2, ""), (0, "K", 4, "")],
    "leave": [(1, "m K", 1, "1 marked frame not written"), (0, "escape down", 2, "")],
    "about": [
        (1, "K", 1, "20 frames · 1 connection · all of it is read"),
        (0, "", 1, "nothing of the files is damaged"),
        (0, "", 1, "2025-11-20T12:00:00.001000Z to 2025-11-20T12:00:30.020000Z (30 s)"),
    ],
    "suspend_process": [(1, "K", 1, "")],  # without a terminal there is no background
}  # fmt: skip


async def move(shown: Shown, key: str, action: str) -> None:
    """Press what a row says, and compare where the cursor is."""
    for start, keys, number, text in MOVES[action]:
        if start:
            await from_the_beginning(shown)
        if start > 1:
            await at(shown, start)
        for each in keys.split():
            await (
                shown.type(each[1:].replace("_", " ")) if each[0] == "=" else shown.press(key if each == "K" else each)
            )
        assert (keys, shown.number, text in shown.screen) == (keys, number, True)


def test_each_key_has_a_case() -> None:
    assert {*CASES, *MOVES} == {key.action for key in all_keys()}
    assert not CASES.keys() & MOVES.keys()


def test_no_key_is_bound_twice() -> None:
    keys = [name for key in all_keys() for name in key.key.split(",")]
    assert sorted(set(keys)) == sorted(keys)


@pytest.mark.parametrize("group", KEYS)
def test_each_key_does_what_its_help_says(
    group: str, talk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    async def all_of(shown: Shown) -> None:
        for key in KEYS[group]:
            for name in key.key.split(","):
                try:
                    if key.action in CASES:
                        await from_the_beginning(shown)
                        await CASES[key.action](shown, name)
                    else:
                        await move(shown, name, key.action)
                except AssertionError as error:
                    help_ = f"{key.key_display} ({name}): {key.description}"
                    raise AssertionError(f"{help_}: {error}\n{shown.screen}") from error

    browse(talk, all_of, size=(140, 30))


async def from_the_beginning(shown: Shown) -> None:
    """Bring everything back to how the screen opens."""
    while len(shown.app.screen_stack) > 1:
        await shown.press("escape")
    main = shown.app.main
    main.close_bar()
    main.show_instead(None)
    main.say("")
    main.list.marks.clear()
    main.list.marked, main.list.follows, main.list.times = None, False, TimeColumn.CLOCK
    main.show_tab("frames")
    shown.browser.apply("")
    shown.browser.go(1)
    shown.browser.sought = ""
    await shown.settled()


async def at(shown: Shown, number: int) -> None:
    """Put the cursor on a frame."""
    shown.app.main.list.go(number)
    await shown.settled()
    assert shown.number == number


# -- move ---------------------------------------------------------------------------------------------------


@case("pane('aside', -1)")
@case("pane('aside', 1)")
async def _(shown: Shown, key: str) -> None:
    hexes, fields = shown.app.main.hexes, shown.app.main.fields
    shown.app.main.focus_pane(hexes)
    await shown.press(*(("home", key, key) if key in ("right", "l") else ("home", *3 * ["right"], key)))
    assert hexes.byte == 2
    assert fields.selected is not None
    assert fields.selected.text.startswith("Key length")


@case("do('screen', 'turn', 1)")
@case("do('screen', 'turn', -1)")
async def _(shown: Shown, key: str) -> None:
    main, seen = shown.app.main, []
    for _ in range(3):
        await shown.press(key)
        seen.append(main.pane)
    assert seen == [main.fields, main.hexes, main.list] if key == "tab" else [main.hexes, main.fields, main.list]


@case("step_back")
async def _(shown: Shown, key: str) -> None:
    await at(shown, 4)
    shown.browser.apply("opcode mutation")
    shown.browser.go(GRANTED)
    assert (shown.browser.filter, shown.number) == ("", GRANTED)
    await shown.press(key)
    assert shown.browser.filter == "opcode mutation"
    await shown.press(key)
    assert (shown.browser.filter, shown.number) == ("", 4)


# -- choose -------------------------------------------------------------------------------------------------


@case("filter")
async def _(shown: Shown, key: str) -> None:
    await shown.press(key, *"opc", "tab", *"mutati", "tab", "enter")
    await shown.settled()
    assert shown.note == ""
    await shown.press(key)
    await shown.type("opcode mutaton")
    assert shown.note == " unknown opcode 'mutaton' for --opcode (did you mean mutation (0x57) or tap_mutation (0x41)?)"
    await shown.type("opcode noop")
    await shown.settled()
    assert " no frame matches; Esc steps back" in shown.screen
    await shown.press(key)
    await shown.type("opcode mutation seqno 2-")
    assert shown.numbers == [PEAR, WRONG]
    await shown.press(key, "up")
    assert shown.app.main.bar.value == "opcode mutation seqno 2-"


async def select(shown: Shown, label: str) -> None:
    """Select a field by its name."""
    fields = shown.app.main.fields
    fields.put(next(line for line in range(fields.count) if fields.styled(line)[0][0].strip().startswith(label)))
    await shown.pilot.pause()


@case("do('browser', 'filter_field', '')")
async def _(shown: Shown, key: str) -> None:
    await at(shown, REFUSED)
    for label, text in (("Status", "--status 0x23"), ("Opaque", "--opaque 0x1006"), ("Magic", "--kind response")):
        shown.browser.apply("")
        await at(shown, REFUSED)
        await select(shown, label)
        await shown.press(key)
        assert shown.browser.filter == text
        assert REFUSED in shown.numbers
    shown.browser.apply("")
    await at(shown, APPLE)
    await select(shown, "Key  ")
    await shown.press(key)
    assert (shown.browser.filter, shown.numbers) == ("--key apple", [APPLE, WRONG])
    await select(shown, "Total body")
    await shown.press(key)
    assert shown.note == " no option of read chooses by this field"


@case("do('browser', 'filter_field', '!')")
async def _(shown: Shown, key: str) -> None:
    await select(shown, "Magic")
    await shown.press(key)
    assert shown.browser.filter == "--kind '!request'"
    assert len(shown.numbers) == 7


# -- show ---------------------------------------------------------------------------------------------------


@case("do('pages', 'sort')")
async def _(shown: Shown, key: str) -> None:
    await shown.press("2", key, key, key)
    table = shown.app.main.tables["streams"]
    vbuckets = [table.styled(line)[0][0].split()[2] for line in range(table.count)]
    assert vbuckets == ["5", "6"]


@case("do('pages', 'explain')")
async def _(shown: Shown, key: str) -> None:
    await at(shown, GRANTED)
    await shown.press(key)
    assert "DCP_STREAM_REQ (opcode 0x53)" in shown.screen
    assert "000000  81" not in shown.screen
    await shown.press("escape")
    assert "000000  81" in shown.screen
    await shown.press("3", key)
    assert (shown.app.main.tab, shown.number) == ("frames", WRONG)
    assert "Reported when" in shown.screen
    assert f"#{WRONG} DCP_MUTATION command" in shown.screen
    await shown.press(key)
    assert "Reported when" not in shown.screen
    await shown.press(key)
    assert "Reported when" in shown.screen


@case("do('pages', 'dialogue')")
async def _(shown: Shown, key: str) -> None:
    await at(shown, PEAR)
    await shown.press(key)
    assert "dialogue of vb 5 of c0" in shown.screen
    await shown.press("home")
    assert shown.number == REQUEST
    await shown.press("down", "down", "enter")
    assert "snapshot-marker, 2 messages follow" in shown.screen
    await shown.press("down")
    assert shown.number == MARKER
    await shown.press(key)
    assert shown.app.main.instead is None


@case("do('screen', 'zoom')")
async def _(shown: Shown, key: str) -> None:
    await shown.press(key)
    assert shown.app.main.list.height > 20
    await shown.press(key)
    assert shown.app.main.list.height < 20


@case("do('screen', 'next_times')")
async def _(shown: Shown, key: str) -> None:
    await at(shown, MARKER_2)
    seen = []
    for _ in range(4):
        await shown.press(key)
        row = next(line for line in shown.screen.splitlines() if f" {MARKER_2} " in line)
        seen.append((shown.app.main.list.times, row.split()[1]))
    assert seen == [
        (TimeColumn.START, "+30.017000"),
        (TimeColumn.ABOVE, "+30.001000"),
        (TimeColumn.MARKED, "-"),
        (TimeColumn.CLOCK, "12:00:30.018000"),
    ]


@case("do('browser', 'next_view')")
async def _(shown: Shown, key: str) -> None:
    await at(shown, PEAR)
    await shown.press(key)
    assert list(shown.app.main.hexes.view.lines) == ["{", '  "n": [', "    1,", "    2", "  ]", "}"]
    await shown.press(key)
    assert shown.app.main.hexes.view.data[:2] == b"\x80\x57"


# -- take along ---------------------------------------------------------------------------------------------


@case("do('marks', 'ask')")
async def _(shown: Shown, key: str) -> None:
    await shown.press("m", "down", "m", key)
    assert shown.app.main.bar.value == "piece.pcapng"
    await shown.type("two.line")
    await shown.until(lambda: shown.note.startswith(" two.line is written"))
    lines = Path("two.line").read_text().splitlines()
    assert [line.split()[3:5] for line in lines] == [["TX", lines[0].split()[4]], ["RX", lines[1].split()[4]]]
    assert not shown.app.marks.unwritten


@case("copy")
async def _(shown: Shown, key: str) -> None:
    copied = {}
    for what in "fbtlca":
        await at(shown, APPLE)
        await shown.press(key, what)
        copied[what] = shown.app.clipboard
    assert copied["f"] == "Magic        (0)    : 0x80"
    assert bytes.fromhex(copied["b"])[:2] == b"\x80\x57"
    assert copied["t"].startswith("#16  2025")
    assert copied["l"].endswith("{vb=5, seqno=1, key=apple, value=11 B}")
    assert copied["c"].endswith("talk.pcap --frame 16")
    assert copied["a"].endswith("talk.pcap")


# -- leave --------------------------------------------------------------------------------------------------


@case("help")
async def _(shown: Shown, key: str) -> None:
    await shown.press(key)
    assert [line for line in help_lines()[:10] if not all(text in shown.screen for text, _ in line)] == []
    await shown.press(key)
    assert len(shown.app.screen_stack) == 1


def test_leaving_without_marks_asks_nothing(talk: Path) -> None:
    async def leave(shown: Shown) -> None:
        await shown.press("q")

    assert browse(talk, leave).return_value == 0
