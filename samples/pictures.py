"""Draw the picture of the README: the first screen of ``dcpdump report`` of a sample, as Chromium shows it.

    python samples/picture.py

needs Chromium. The picture is made of what the page is, so that it shows nothing that a user would not see.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
SAMPLE = "samples/stopped.pcap"
PICTURE = HERE / "report.png"
SIZE = (1180, 900)  #: pixels


def draw(picture: Path) -> None:
    """Write the picture as PNG."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        sys.exit("no Chromium here: install it, for instance by apt-get install chromium")
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder, "page.html")
        report = [sys.executable, "-m", "dcpdump", "report", SAMPLE, "-o", str(page), "-q"]
        subprocess.run(report, check=False, cwd=HERE.parent)  # ends with 1: something is wrong in the sample
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--user-data-dir={folder}"]
        options += [f"--window-size={SIZE[0]},{SIZE[1]}", f"--screenshot={picture}"]
        subprocess.run([browser, *options, page.as_uri()], check=True, stderr=subprocess.DEVNULL)


if __name__ == "__main__":
    draw(PICTURE)
