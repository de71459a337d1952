"""What the screen does not load before it shows frames. Milliseconds differ between machines; the modules do not."""

import subprocess
import sys

import pytest

from dcpdump.processes import can_fork

MODULES = """
import asyncio
import math
import sys

from dcpdump.browse import app
from dcpdump.cli.browse import Browsing
from dcpdump.cli.options import Invocation
from dcpdump.cli.browse import Copies

app._DENSITY_S = math.inf  # of the density


async def shown(app):
    async with app.run_test(size=(120, 40)) as pilot:
        while app.browser.frames.count < 2 or not app.browser.drawn or app.main.list.undescribed():
            await pilot.pause(0.005)
        await pilot.press("j")
        print(app.browser.number, *sorted({name.partition(".")[0] for name in sys.modules}))


path = "samples/replica.pcap"
with Browsing(Copies([path], [path], True), Invocation({"captures": [path]})) as browsing:
    asyncio.run(shown(browsing.app("", 64)))
"""


@pytest.mark.skipif(not can_fork(), reason="without another process that reads, this one does")
def test_the_first_frames_are_shown_without_numpy() -> None:
    done = subprocess.run([sys.executable, "-c", MODULES], capture_output=True, text=True, check=True)
    number, *modules = done.stdout.split()
    assert number == "2"
    assert "textual" in modules
    assert {"numpy", "pyarrow", "scapy", "secrets"} & set(modules) == set()
