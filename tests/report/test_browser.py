"""The page in a browser: closed to the outside, read off, zoomed, sorted, printed, and whole without a script."""

import json
import os
import runpy
import shutil
import struct
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.conversation import opening
from tests.support.diagnoses import written
from tests.support.pages import page_of

SAMPLES = Path(__file__).parents[2] / "samples"

webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed: nobody opens the page here")
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(
        not (shutil.which("chromium") and shutil.which("chromedriver")),
        reason="chromium and chromedriver are not installed: nobody opens the page here",
    ),
]
LIVE = "RX snapshot-marker{start=0, end=2, flags=0x5}\nRX mutation{seqno:1}\nRX mutation{seqno:2}\n"
EVIL = "</script><script>alert(1)</script>"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for word in ("--headless=new", "--no-sandbox", "--disable-gpu"):
        options.add_argument(word)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.chrome.service.Service(shutil.which("chromedriver")))
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a capture with names of which each is wider than a window."""
    folder = tmp_path_factory.mktemp("long")
    ends = "[2001:db8:85a3::8a2e:370:7330]:50123 [2001:db8:85a3::8a2e:370:aaaa]:11210"
    text = f"CONNECT {ends}\n{opening(name=190 * 'n')}"
    text += f"STREAM vb=5\n{LIVE}RX mutation{{seqno:1, key={200 * 'k'}}}\nRX stream-end{{status=4}}\n"
    text += f"STREAM vb=6\n{LIVE}RX stream-end{{status=2}}\nWAIT 60\nTX noop\n"  # which another node may have now
    page = folder / "page.html"
    page.write_text(page_of(written(text, folder / f"{100 * 'c'}.pcap")), "utf-8")
    return page


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a capture with many vbuckets, a loop, and flow control."""
    folder = tmp_path_factory.mktemp("story")
    text = opening(name=EVIL[:12], controls="connection_buffer_size=9000")
    text += "".join(f"STREAM vb={vbucket}\n{LIVE}WAIT 0.5\n" for vbucket in range(40))
    loop = "TX stream-request{vb=99, start-seqno=4, vbucket-uuid=1, snap-start-seqno=4, snap-end-seqno=4}\n"
    loop += "RX stream-request-response{rollback, rollback-seqno=0}\nWAIT 1\n"
    text += loop * 5 + "RX stream-end{vb=7, status=4}\nTX buffer-acknowledgement{buffer-bytes=2000}\n"
    text += "WAIT 60\nRX noop{}\nTX noop-response{success}\n"
    page = folder / "page.html"
    page.write_text(page_of(written(text, folder / "story.pcap"), "--title 'a story'"), "utf-8")
    return page


def opened(
    browser: Any, page: Path, width: int = 1280, theme: str = "light", *, script: bool = True, height: int = 900
) -> None:
    """Open a page in a window of a width, and forget what was logged before."""
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": not script})
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    features = [{"name": "prefers-color-scheme", "value": theme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    for kind in ("browser", "performance"):
        browser.get_log(kind)
    browser.get("about:blank")
    browser.get(page.as_uri())


@pytest.fixture
def shown(browser: Any, story: Path) -> Any:
    """Return the browser, with the story in it."""
    opened(browser, story)
    return browser


def pointed(browser: Any, selector: str, across: float = 0.5, down: float = 0.5, kind: str = "mouseMoved") -> None:
    """Move the pointer to a place of an element."""
    box = browser.execute_script(
        "const e = document.querySelector(arguments[0]); e.scrollIntoView({block: 'center', behavior: 'instant'});"
        "const b = e.getBoundingClientRect(); return [b.x, b.y, b.width, b.height]",
        selector,
    )
    place = {"x": box[0] + across * box[2], "y": box[1] + down * box[3]}
    pressed = {} if kind == "mouseMoved" else {"button": "left", "clickCount": 1}
    browser.execute_cdp_cmd("Input.dispatchMouseEvent", {"type": kind, **place, **pressed})


def tip(browser: Any) -> str:
    return str(browser.execute_script("return document.querySelector('.tip').textContent"))


def test_it_asks_for_nothing_and_complains_of_nothing(shown: Any, story: Path) -> None:
    messages = [json.loads(row["message"])["message"] for row in shown.get_log("performance")]
    asked = [row["params"]["request"]["url"] for row in messages if row["method"] == "Network.requestWillBeSent"]
    assert {url for url in asked if not url.startswith("data:")} <= {story.as_uri(), "about:blank"}
    assert shown.get_log("browser") == []


def test_a_script_from_elsewhere_is_refused(browser: Any, tmp_path: Path, story: Path) -> None:
    evil = tmp_path / "evil.html"
    script = "<script>document.title='taken'</script></body>"
    evil.write_text(story.read_text("utf-8").replace("</body>", script), "utf-8")
    opened(browser, evil)
    assert browser.title == "a story · dcpdump"
    assert "Content Security Policy" in " ".join(row["message"] for row in browser.get_log("browser"))


@pytest.mark.parametrize("width", [390, 800, 1280])
def test_nothing_scrolls_sideways(width: int, browser: Any, story: Path, long: Path) -> None:
    for page in (story, long):
        opened(browser, page, width)
        browser.execute_script("for (const each of document.querySelectorAll('details')) each.open = true")
        assert browser.execute_script("return document.documentElement.scrollWidth") <= width


def test_without_a_script_all_texts_and_pictures_are_there(shown: Any, story: Path) -> None:
    with_script = shown.execute_script("return document.querySelector('main').textContent.length")
    opened(shown, story, script=False)
    root = shown.execute_cdp_cmd("DOM.getDocument", {"depth": 1})["root"]["nodeId"]
    html = shown.execute_cdp_cmd("DOM.getOuterHTML", {"nodeId": root})["outerHTML"]
    assert html.count("<section") == story.read_text("utf-8").count("<section")
    assert html.count("<path") == story.read_text("utf-8").count("<path")
    shown.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
    assert with_script > 1000


def test_pointing_at_a_map_names_the_vbucket_and_its_silence(shown: Any) -> None:
    selector = "svg[data-map=silence]"
    pointed(shown, selector, 0.9, 0.01)
    shown.execute_async_script("setTimeout(arguments[0], 200)")
    pointed(shown, selector, 0.91, 0.01)
    assert tip(shown).startswith("vb 0 · 12:0")
    assert "silent for" in tip(shown)
    pointed(shown, selector, 0.9, 0.999)
    assert tip(shown).startswith("vb 99 · ")


def test_pointing_at_a_lane_reads_it_off(shown: Any) -> None:
    pointed(shown, "#timeline-0 .plot", 0.01)
    assert "B/s" in tip(shown)
    pointed(shown, "#flow-0 .plot", 0.9)
    assert "B outstanding" in tip(shown)


def boxes(browser: Any) -> set[str]:
    found = browser.execute_script(
        "return [...document.querySelectorAll('svg[data-zoom]')]"
        ".map(e => e.getAttribute('viewBox').split(' ').filter((_, i) => i % 2 == 0).join(' '))"
    )
    return set(found)


def test_dragging_zooms_every_picture_and_a_double_click_returns(shown: Any) -> None:
    assert boxes(shown) == {"0 1000"}
    for kind, across in (("mouseMoved", 0.45), ("mousePressed", 0.5), ("mouseMoved", 0.6), ("mouseReleased", 0.75)):
        pointed(shown, "#timeline-0 .plot", across, 0.5, kind)
    (box,) = boxes(shown)
    begin, wide = map(float, box.split())
    assert (round(begin, -1), round(wide, -1)) == (500, 250)
    shown.execute_script("document.querySelector('#timeline-0 .plot').dispatchEvent(new MouseEvent('dblclick'))")
    assert boxes(shown) == {"0 1000"}


def test_buttons_and_keys_zoom_too(shown: Any) -> None:
    shown.execute_script("document.querySelector('[data-do=in]').click()")
    assert boxes(shown) == {"250 500"}
    plot = "document.querySelector('#timeline-0 .plot')"
    shown.execute_script(f"{plot}.dispatchEvent(new KeyboardEvent('keydown', {{key: 'ArrowRight'}}))")
    assert boxes(shown) == {"375 500"}
    shown.execute_script("document.querySelector('[data-do=whole]').click()")
    assert boxes(shown) == {"0 1000"}


def test_the_filter_counts_what_it_leaves(shown: Any) -> None:
    said = shown.execute_script(
        "const i = document.querySelector('[data-filter]'); i.value = 'abandoned'; i.dispatchEvent(new Event('input'));"
        "return document.querySelector('[data-count]').textContent"
    )
    assert said == "1 of 41 streams"


def test_a_head_sorts_its_column_as_numbers(shown: Any) -> None:
    column = (
        "const heads = [...document.querySelectorAll('.sortable th')];"
        "const at = heads.findIndex(e => e.textContent === 'vb'); if (arguments[0]) heads[at].firstChild.click();"
        "const rows = [...document.querySelectorAll('#stream-rows tr')];"
        "return [heads[at].getAttribute('aria-sort'), ...rows.map(e => Number(e.cells[at].textContent))]"
    )
    up = shown.execute_script(column, True)
    assert (up[0], up[1:]) == ("ascending", [*range(40), 99])
    assert shown.execute_script(column, True)[1:] == [99, *reversed(range(40))]


def test_a_hash_opens_its_frame_and_a_field_lights_its_bytes(shown: Any) -> None:
    number = shown.execute_script("return document.querySelector('.ladder a').getAttribute('href')")
    shown.execute_script("location.hash = arguments[0]", number)
    shown.execute_async_script("setTimeout(arguments[0], 100)")
    assert shown.execute_script("return document.querySelector(arguments[0]).open", number)
    lit = (
        "const f = document.querySelector(arguments[0]), over = new PointerEvent('pointerover', {bubbles: true});"
        "f.querySelector(arguments[1]).dispatchEvent(over);"
        "return [...f.querySelectorAll('.lit')].map(e => e.tagName)"
    )
    for selector in ("tr[data-field='1']", "pre [data-field='1']"):
        assert shown.execute_script(lit, number, selector) == ["TR", "SPAN", "SPAN"]


def test_the_theme_follows_the_system_until_the_button_says_otherwise(browser: Any, story: Path) -> None:
    background = "return getComputedStyle(document.body).backgroundColor"
    opened(browser, story, theme="dark")
    dark = browser.execute_script(background)
    opened(browser, story, theme="light")
    light = browser.execute_script(background)
    assert dark != light
    browser.execute_script("document.querySelector('[data-do=theme]').click()")
    assert browser.execute_script(background) == dark


def test_on_paper_it_is_light_and_short(browser: Any, story: Path) -> None:
    opened(browser, story, theme="dark")
    paper = {"paperWidth": 8.27, "paperHeight": 11.69, "printBackground": True}
    printed = browser.execute_cdp_cmd("Page.printToPDF", paper)
    pages = b64decode(printed["data"]).count(b"/Type /Page\n")
    assert 1 <= pages <= 30


@pytest.mark.parametrize("width", [900, 1280])
def test_arrows_of_a_dialogue_are_not_covered_and_end_below_the_names_of_both_sides(
    width: int, browser: Any, story: Path
) -> None:
    opened(browser, story, width)
    covered, apart = browser.execute_script(
        "const box = e => e.getBoundingClientRect(), all = s => [...document.querySelectorAll(s)];"
        "const bands = all('.ladder li.band .arrow').filter(e => e.parentNode.previousElementSibling);"
        "const above = e => box(e.parentNode.previousElementSibling.querySelector('.arrow')).bottom;"
        "const lines = e => box(e.parentNode.querySelector('.ladder .arrow'));"
        "return [bands.map(e => box(e).top - above(e)),"
        " all('.ends').map(e => [box(e).left - lines(e).left, box(e).right - lines(e).right])]"
    )
    assert covered
    assert [gap for gap in covered if gap < 4] == []  # an arrow's head is four pixels high below its line
    assert {round(each) for ends in apart for each in ends} == {0}


def test_with_the_style_removed_it_still_reads_in_order(shown: Any) -> None:
    shown.execute_script("document.querySelector('style').remove()")
    text = shown.execute_script("return document.querySelector('main').innerText")
    places = [text.index(word) for word in ("What to look at", "What happened when", "vBuckets over time", "Dialogues")]
    assert places == sorted(places)


def test_the_page_in_the_readme_is_drawn_by_its_script(
    browser: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The script's Chromium stands aside: what it is to draw is drawn by the one that is open."""
    script, page = runpy.run_path(str(SAMPLES / "pictures.py")), tmp_path / "page.html"
    width, height = script["PAGE_SIZE"]
    (tmp_path / "chromium").write_text(f"#!/bin/sh\nfor last; do :; done\ncp ${{last#file://}} {page}\n")
    (tmp_path / "chromium").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    script["draw_page"](tmp_path / "anew.png")
    opened(browser, page, width, height=height)
    anew = b64decode(browser.execute_cdp_cmd("Page.captureScreenshot", {})["data"])
    for drawn in (anew, (SAMPLES / "report.png").read_bytes()):
        assert (drawn[:8], drawn[16:24]) == (b"\x89PNG\r\n\x1a\n", struct.pack(">II", width, height))
        assert len(drawn) > width * height // 20  # an empty page has a twentieth of that
