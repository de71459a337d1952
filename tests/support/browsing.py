"""Browse captures without a terminal: keys go in, and what is on the screen is text."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from textual.pilot import Pilot

from dcpdump.browse.app import BrowseApp
from dcpdump.browse.browser import Browser
from dcpdump.cli.browse import Browsing, Copies, Hiding
from dcpdump.cli.options import Invocation

SAMPLES = Path(__file__).parent.parent.parent / "samples"
#: Turns after which something that should happen has not.
_PATIENCE = 2000


class Shown:
    """A screen that is open."""

    def __init__(self, app: BrowseApp, pilot: Pilot[int]) -> None:
        self.app, self.pilot = app, pilot

    @property
    def browser(self) -> Browser:
        """What is listed, and where the cursor is."""
        return self.app.browser

    @property
    def number(self) -> int | None:
        """The frame under the cursor."""
        return self.app.browser.number

    @property
    def numbers(self) -> list[int]:
        """The frames that are listed."""
        return list(self.app.main.list.listed.numbers)

    async def press(self, *keys: str) -> None:
        """Press keys, and wait until they were taken."""
        await self.pilot.press(*keys)
        await self.pilot.pause(0)

    async def type(self, text: str) -> None:
        """Type a text into the line that asks, and end it with Enter."""
        self.app.main.bar.value = text
        await self.press("enter")

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait for something."""
        for _ in range(_PATIENCE):
            if condition():
                return
            await self.pilot.pause(0.005)
        raise AssertionError("it did not happen")

    async def settled(self) -> None:
        """Wait until everything is read, analysed and decoded."""
        await self.until(lambda: self.browser.frames.complete)
        await self.until(lambda: self.browser.analysis is not None)
        await self.until(lambda: self.browser.drawn and not self.browser.searching)
        await self.until(lambda: not self.app.main.list.undescribed())
        await self.until(lambda: not self.app.status.waiting)
        await self.pilot.pause()

    @property
    def note(self) -> str:
        """What the screen says."""
        return "".join(text for line in range(self.app.main.note.count) for text, _ in self.app.main.note.styled(line))

    @property
    def screen(self) -> str:
        """All lines of the screen."""
        strips = self.app.screen._compositor.render_strips()
        return "\n".join(strip.text.rstrip() for strip in strips) + "\n"


Doing = Callable[[Shown], Awaitable[None]]


def browse(
    path: str | Path,
    doing: Doing,
    *,
    size: tuple[int, int] = (120, 40),
    words: Sequence[str] = (),
    hidden: Hiding | None = None,
) -> BrowseApp:
    """Open a capture, do something, and leave."""
    name = str(path)
    asked = Invocation({"captures": (name,)})

    async def run(app: BrowseApp) -> None:
        async with app.run_test(size=size) as pilot:
            shown = Shown(app, pilot)
            await shown.settled()
            await doing(shown)

    with Browsing(Copies([name], [name], True), asked, hidden or Hiding()) as browsing:
        app = browsing.app(" ".join(words), 64)
        asyncio.run(run(app))
        assert app.error is None
    return app
