"""Borders of panes are dragged with the mouse, and stay where they were dragged to as long as the layout does."""

from textual.widget import Widget

from tests.support.browsing import SAMPLES, Shown, browse

CAPTURE = SAMPLES / "client-rollback.pcap"


async def drag(shown: Shown, pane: Widget, start: tuple[int, int], by: tuple[int, int]) -> None:
    """Press the mouse at a place of a pane, move it, and release it."""
    at = pane.region.x + start[0], pane.region.y + start[1]
    to = at[0] + by[0], at[1] + by[1]
    await shown.pilot.mouse_down(offset=at)
    await shown.pilot.hover(offset=to)
    await shown.pilot.mouse_up(offset=to)
    await shown.pilot.pause()


def test_the_border_between_fields_and_bytes_is_dragged() -> None:
    async def do(shown: Shown) -> None:
        main = shown.app.main
        for left_of_the_bytes in (True, False):
            before = main.fields.region.width
            pane, column = (main.hexes, 0) if left_of_the_bytes else (main.fields, before - 1)
            await drag(shown, pane, (column, 2), (-15, 0))
            assert before - main.fields.region.width in (15, 16)
            assert main.hexes.region.x == main.fields.region.right
            assert main.hexes.region.right == 160
        await drag(shown, main.hexes, (0, 2), (3 - main.hexes.region.x, 0))
        assert main.fields.region.width == 20
        await shown.pilot.resize_terminal(100, 30)
        await shown.pilot.pause()
        assert main.fields.region.width == 100

    browse(CAPTURE, do, size=(160, 30))


def test_the_border_above_the_panes_is_dragged_and_one_pane_may_still_be_over_all() -> None:
    async def do(shown: Shown) -> None:
        main = shown.app.main
        before = main.list.size.height
        await drag(shown, main.fields, (5, 0), (0, -4))
        dragged = main.fields.region
        assert main.list.size.height == before - 4
        await shown.press("tab", "z")
        assert main.fields.region.height == 28
        await shown.press("z")
        assert main.fields.region == dragged

    browse(CAPTURE, do, size=(160, 30))


def test_the_border_between_fields_above_and_bytes_below_is_dragged() -> None:
    async def do(shown: Shown) -> None:
        fields, hexes = shown.app.main.fields, shown.app.main.hexes
        before = fields.region.y, fields.region.height - 3, hexes.region.height + 3
        await drag(shown, hexes, (5, 0), (0, -3))
        assert (fields.region.y, fields.region.height, hexes.region.height) == before

    browse(CAPTURE, do, size=(100, 60))


def test_a_click_on_the_density_goes_to_a_time_and_a_double_click_enters_a_row() -> None:
    async def do(shown: Shown) -> None:
        top = shown.screen.splitlines()[0]
        await shown.pilot.click("#top", offset=(top.rindex("▁"), 0))
        await shown.settled()
        assert shown.number == 37
        await shown.pilot.click("#top", offset=(top.index("3 findings"), 0))
        await shown.pilot.pause()
        await shown.pilot.click("#findings", offset=(5, 2), times=2)
        await shown.settled()
        main = shown.app.main
        assert (main.tab, shown.number, main.instead) == ("frames", 19, main.page)

    browse(SAMPLES / "rollback-loop.pcap", do, size=(160, 40))
