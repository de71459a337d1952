"""Draw the pictures of the README from the samples: what commands print, a screen of ``browse``, a page of ``report``.

    python samples/pictures.py

needs Chromium, for the page. Each picture is made of what a user would see, and shows nothing else.
"""

import asyncio
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

HERE = Path(__file__).parent
#: The commands whose output is drawn, by the name of the picture.
COMMANDS = {
    "diagnose": ("diagnose", "samples/refused.pcap"),
    "read": ("read", "samples/replica.pcap", "--opcode", "mutation", "-c", "1"),
    "explain": (
        *("explain", "80570006 1f000210 0000002a 00001000 1122334455667788 0000000000000004 0000000000000001"),
        *("00000000 00000000 00000000 0000 00", "0868656c6c6f 776f726c64"),
    ),
}
_WIDTH = 120  #: of a terminal, in columns
BROWSED = "samples/client-rollback.pcap"
PAGE = "samples/stopped.pcap"
PAGE_SIZE = (1180, 900)  #: pixels


def printed(name: str) -> str:
    """Return what a command prints in a terminal, as SVG."""
    command = [sys.executable, "-m", "dcpdump", *COMMANDS[name], "-q", "--color", "always"]
    if name == "explain":
        command.remove("-q")  # it has no summary
    env = {**os.environ, "COLUMNS": str(_WIDTH), "DCPDUMP_CONFIG": ""}
    out = subprocess.run(command, check=False, cwd=HERE.parent, env=env, capture_output=True, text=True)
    console = Console(record=True, width=_WIDTH, file=io.StringIO(), legacy_windows=False)
    console.print(Text.from_ansi(out.stdout))
    return _without_fonts(console.export_svg(title=f"dcpdump {name}", theme=MONOKAI, unique_id=name))


def browsed() -> str:
    """Return a screen of ``browse``, as SVG."""
    from dcpdump.cli.browse import Browsing, Copies
    from dcpdump.cli.options import Invocation

    async def drawn() -> str:
        async with app.run_test(size=(_WIDTH, 30)) as pilot:
            while not (app.browser.frames.complete and app.browser.analysis) or not app.browser.drawn:
                await pilot.pause(0.01)
            await pilot.press("j", "enter")
            while app.main.list.undescribed() or app.status.waiting:
                await pilot.pause(0.01)
            await pilot.pause()
            return app.export_screenshot(title="dcpdump browse")

    with Browsing(Copies([BROWSED], [BROWSED], True), Invocation({"captures": (BROWSED,)})) as browsing:
        app = browsing.app("", 64)
        return _without_fonts(asyncio.run(drawn()))


def draw_page(picture: Path) -> None:
    """Write the first screen of a report, as PNG."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        sys.exit("no Chromium here: install it, for instance by apt-get install chromium")
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder, "page.html")
        report = [sys.executable, "-m", "dcpdump", "report", PAGE, "-o", str(page), "-q"]
        subprocess.run(report, check=False, cwd=HERE.parent)  # ends with 1: something is wrong in the sample
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--user-data-dir={folder}"]
        options += [f"--window-size={PAGE_SIZE[0]},{PAGE_SIZE[1]}", f"--screenshot={picture}"]
        subprocess.run([browser, *options, page.as_uri()], check=True, stderr=subprocess.DEVNULL)


def _without_fonts(svg: str) -> str:
    """Leave out fonts that a picture would load from elsewhere: each terminal has one of its own."""
    return re.sub(r"@font-face \{.*?\}\n", "", svg, flags=re.S).replace("Fira Code,", "")


if __name__ == "__main__":
    for each in COMMANDS:
        (HERE / f"{each}.svg").write_text(printed(each), encoding="utf-8")
    (HERE / "browse.svg").write_text(browsed(), encoding="utf-8")
    draw_page(HERE / "report.png")
