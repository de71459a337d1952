"""What is on the screen, as text, in three sizes; ``python -m tests.browse.test_screens`` writes it anew: read the
difference before you commit it.
"""

from dataclasses import replace
from pathlib import Path

import pytest
from rich.cells import cell_len

from tests.support.browsing import SAMPLES, Shown, browse
from tests.support.captures import Record, pcap, records_of
from tests.support.console import run
from tests.support.conversation import opening, packets, said
from tests.support.diagnoses import written

SIZES = ((60, 15), (80, 24), (200, 50))
FOLDER = Path(__file__).parent / "screens"


def scenes(size: tuple[int, int]) -> dict[str, str]:
    """Return what is on the screen in five scenes."""
    found: dict[str, str] = {}

    async def see(shown: Shown) -> None:
        found["list"] = shown.screen
        await shown.press("/")
        await shown.type("opcode stream_req")
        await shown.settled()
        await shown.press("j", "m", "tab", "end")
        found["filter"] = shown.screen
        await shown.press("tab")
        found["bytes"] = shown.screen
        await shown.press("2")
        found["streams"] = shown.screen
        await shown.press("d")
        found["dialogue"] = shown.screen

    browse(SAMPLES / "client-rollback.pcap", see, size=size)
    return found


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_the_screen_is_as_it_was(size: tuple[int, int]) -> None:
    for name, text in scenes(size).items():
        assert text == file_of(name, size).read_text("utf-8"), name


def file_of(name: str, size: tuple[int, int]) -> Path:
    return FOLDER / f"{name}-{size[0]}x{size[1]}.txt"


def test_dialogs_are_in_the_middle_of_the_screen() -> None:
    places: list[tuple[int, int, int, int]] = []

    async def see(shown: Shown) -> None:
        for key in ("question_mark", "y"):
            await shown.press(key)
            places.append(shown.app.screen.query_one("#text").region[:])
            await shown.press("escape")

    browse(SAMPLES / "client-rollback.pcap", see, size=(150, 30))
    assert places == [(20, 1, 110, 27), (20, 11, 110, 8)]


BEGUN = "STREAM vb=5\nRX snapshot-marker{start=0, end=9, flags=0x5}\n"
EVIL = (
    b"\x1b[2J\x1b]0;title\x07",
    "漢字かな交じり文".encode() * 20,
    "e\N{COMBINING ACUTE ACCENT}\N{COMBINING DIAERESIS}".encode() * 30,
    "\N{RIGHT-TO-LEFT OVERRIDE}abc\N{ARABIC LETTER ALEF}".encode(),
    b"\xff\xfe\x00\n\r\t",
)


def test_hostile_keys_and_names_disturb_nothing(tmp_path: Path) -> None:
    mutation = "RX mutation{{seqno={0}, key=#{1}, value=#{1}}}\n"
    talk = opening() + BEGUN + "".join(mutation.format(n, key.hex()) for n, key in enumerate(EVIL, 1))
    path = written(talk, tmp_path / "\x1b[31mevil\n.pcap")

    async def see(shown: Shown) -> None:
        width = 140
        for key in ("G", "up", "up", "up", "tab", "tab", "v", "i", "escape", "2", "4", "1"):
            if key == "1":
                width = 60
                await shown.pilot.resize_terminal(width, 15)
            await shown.press(key)
            await shown.settled()
            for strip in shown.app.screen._compositor.render_strips():
                assert (strip.cell_length, cell_len(strip.text), strip.text.isprintable()) == (width, width, True)

    browse(path, see, size=(140, 40))


def test_a_small_terminal_says_what_is_needed_and_comes_back() -> None:
    async def resize(shown: Shown) -> None:
        before = shown.screen
        await shown.pilot.resize_terminal(50, 12)
        await shown.settled()
        assert shown.screen.strip() == "at least 60 × 15 are needed"
        await shown.pilot.resize_terminal(120, 40)
        await shown.settled()
        assert shown.screen == before

    browse(SAMPLES / "replica.pcap", resize)


def test_the_mouse_chooses_rows_bytes_tabs_and_heads() -> None:
    async def click(shown: Shown) -> None:
        main = shown.app.main
        await shown.pilot.click("#list", offset=(10, 4))
        assert shown.number == 5
        await shown.pilot.click("#hexes", offset=(1 + 8 + 3 * 4, 1))
        await shown.pilot.pause()
        assert (main.hexes.byte, main.pane) == (4, main.hexes)
        assert main.fields.selected is not None
        assert main.fields.selected.text.startswith("Extra length")
        await shown.pilot.click("#top", offset=(shown.screen.splitlines()[0].index("2 streams"), 0))
        await shown.pilot.pause()
        assert main.tab == "streams"
        await shown.pilot.click("#streams", offset=(2, 0))
        assert "conn▴" in shown.screen

    browse(SAMPLES / "replica.pcap", click, size=(140, 40))


def test_connections_are_sorted_as_numbers(tmp_path: Path) -> None:
    one = said(opening() + BEGUN + "RX mutation{seqno=1}\n")
    many = [replace(each, connection=number, ends="") for number in range(12) for each in one]
    path = tmp_path / "many.pcap"
    path.write_bytes(pcap(records_of(packets(sorted(many, key=lambda each: each.ts_ns)))))

    async def sort(shown: Shown) -> None:
        await shown.settled()
        await shown.press("4", "o")
        assert [line.split()[0] for line in shown.screen.splitlines()[1:14]] == ["conn▴", *map(str, range(12))]

    browse(path, sort, size=(140, 40))


def test_a_long_name_does_not_take_the_other_columns_of_a_tab_along(tmp_path: Path) -> None:
    path = written(opening(name=100 * "n") + BEGUN + "RX mutation{seqno=1}\n", tmp_path / "long.pcap")

    async def see(shown: Shown) -> None:
        await shown.press("2")
        heads = "conn vb asked from..to last seqno lag snapshots mutations bytes verdict"
        assert shown.screen.splitlines()[1].split() == heads.split()

    browse(path, see, size=(120, 30))


def test_a_row_has_the_sign_of_a_problem_that_only_its_document_shows(tmp_path: Path) -> None:
    talk = opening(collections=True) + BEGUN
    talk += "RX mutation{seqno=1, key=#08617d20212062}\nRX mutation{seqno=2, key=#80}\n"
    path = written(talk, tmp_path / "keys.pcap")

    async def see(shown: Shown) -> None:
        await shown.press("G")
        await shown.settled()
        list_ = shown.app.main.list
        rows = [list_.styled(line) for line in (list_.count - 2, list_.count - 1)]
        assert [(row[1], row[-1]) for row in rows] == [
            ((" ", "bold red"), ("{seqno=1, collection=0x8, key=a} ! b}", "")),
            (("!", "bold red"), ("{seqno=2, key=\\x80} ! the key ends inside its collection id", "bold red")),
        ]

    browse(path, see)


def test_a_large_value_is_decoded_when_that_is_asked_twice(tmp_path: Path) -> None:
    value = b'{"a": "' + b"x" * (1 << 20) + b'"}'
    talk = opening() + BEGUN + f"RX mutation{{seqno=1, datatype=1, value=#{value.hex()}}}\n"
    path = tmp_path / "large.pcap"
    path.write_bytes(pcap([Record(packet.ts_ns or 0, packet.data) for packet in packets(said(talk), 60_000)]))

    async def view(shown: Shown) -> None:
        hexes = shown.app.main.hexes
        await shown.press("G", "v")
        assert hexes.border_subtitle == "1,048,585 bytes of value: v once more decodes them"
        await shown.press("v")
        assert [len(line) for line in hexes.view.lines] == [1, 8 + (1 << 20) + 1, 1]

    browse(path, view)


def test_marked_frames_are_carved_as_carve_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    async def write(shown: Shown) -> None:
        shown.browser.go(17)
        await shown.press("m", "w")
        await shown.type("one.pcapng")
        await shown.until(lambda: shown.note.startswith(" one.pcapng is written"))
        await shown.press("w")
        await shown.type("one.pcap")
        assert "the name ends with none of .pcapng" in shown.note

    browse(SAMPLES / "replica.pcap", write)
    assert run(f"dcpdump carve {SAMPLES}/replica.pcap --frame 17 -w two.pcapng -q").code == 0
    assert Path("one.pcapng").read_bytes() == Path("two.pcapng").read_bytes()


def test_lost_bytes_are_a_row_of_their_own() -> None:
    async def see(shown: Shown) -> None:
        assert [line for line in shown.screen.splitlines() if "196 bytes of c0 lost or skipped" in line]
        await shown.press("p")
        assert shown.number is not None

    browse(SAMPLES / "damage.pcap", see, size=(120, 60))


def test_a_capture_that_shrinks_is_said_and_the_rows_stay(tmp_path: Path) -> None:
    path = tmp_path / "shrinks.pcap"
    path.write_bytes((SAMPLES / "slow-consumer.pcap").read_bytes())

    async def shrink(shown: Shown) -> None:
        before = shown.screen.splitlines()[1:4]
        path.write_bytes(path.read_bytes()[:2000])
        await shown.press("G")
        await shown.settled()
        assert shown.number == 258
        assert " 258 12:12:57" in shown.screen
        await shown.press("g")
        await shown.settled()
        assert shown.screen.splitlines()[1:4] == before

    browse(path, shrink)


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for each in SIZES:
        for scene, shown_text in scenes(each).items():
            file_of(scene, each).write_text(shown_text, "utf-8")
