"""The page of a report, without a browser: whole, closed to the outside, and equal to what the other commands say."""

import re
from base64 import b64encode
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from dcpdump.capture.file import Capture
from dcpdump.cli.main import outcome
from dcpdump.wire.encode import encode
from tests.support.console import run
from tests.support.conversation import opening
from tests.support.diagnoses import TWO_TROUBLES, objects, written
from tests.support.packets import MILLISECOND, TcpTalk
from tests.support.pages import Node, data_of, page_of, parsed
from tests.support.secret_talk import saved

HERE = Path("samples").resolve()
SAMPLES = sorted(HERE.glob("*.pcap"))
SECTIONS = "verdict timeline vbuckets flow latency messages dialogues findings streams losses frames".split()
LIVE = "RX snapshot-marker{start=0, end=2, flags=0x5}\nRX mutation{seqno:1}\nRX mutation{seqno:2}\n"


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    return {path.stem: page_of(path) for path in SAMPLES}


@pytest.fixture(params=[path.stem for path in SAMPLES])
def sample(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def roots(pages: dict[str, str]) -> dict[str, Node]:
    """Return the roots of the pages, which no test changes."""
    return {name: parsed(page) for name, page in pages.items()}


@cache
def rows_of(command: str) -> list[Any]:
    """Return what a command prints of a sample as objects, which no test changes."""
    return objects(f"dcpdump {command}.pcap")


def first_cells(page: Node, section: str) -> list[str]:
    """Return the first cells of the rows of a section's tables."""
    (found,) = page.all("section", id=section)
    return [row.all("td")[0].text for row in found.all("tr") if row.all("td")]


@pytest.fixture
def page(sample: str, roots: dict[str, Node]) -> Node:
    return roots[sample]


def test_each_id_is_there_once_and_each_link_leads_to_one(page: Node) -> None:
    ids = [node.attributes["id"] for node in page.all() if "id" in node.attributes]
    links = [node.attributes["href"] for node in page.all("a")]
    assert len(ids) == len(set(ids))
    assert {link[:1] for link in links} == {"#"}
    assert {link[1:] for link in links} <= set(ids)


def test_nothing_of_the_page_comes_from_elsewhere(sample: str, pages: dict[str, str], page: Node) -> None:
    for node in page.all():
        assert not [name for name in node.attributes if name == "style" or name.startswith("on")]
        for name in ("src", "href", "action", "data"):
            assert node.attributes.get(name, "#").startswith(("#", "data:image/png;base64,"))
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", pages[sample])


def test_pictures_end_with_the_capture_and_not_with_its_last_frame(tmp_path: Path) -> None:
    """What is silent up to the end is seen to be."""
    talk = TcpTalk()
    talk.send(0, encode("DCP_OPEN", {"flags": 1}, key=b"app")).wait(60_000 * MILLISECOND).write(1)
    path = saved(talk, tmp_path / "silent.pcap")
    data = data_of(parsed(page_of(path)))
    last_ms = (talk.packets[-1].ts_ns or 0) / 1e6
    assert last_ms <= data["last"] < last_ms + data["step"]
    assert "12:01:00" in page_of(path)


def test_the_policy_allows_this_style_and_this_script_alone(page: Node) -> None:
    (policy,) = page.all("meta", http_equiv="Content-Security-Policy")
    (style,) = page.all("style")
    scripts = [node for node in page.all("script") if node.attributes.get("type") != "application/json"]
    assert len(scripts) == 1

    def hashed(node: Node) -> str:
        return b64encode(sha256(node.text.encode()).digest()).decode()

    assert policy.attributes["content"] == (
        f"default-src 'none'; img-src data:; style-src 'sha256-{hashed(style)}'; "
        f"script-src 'sha256-{hashed(scripts[0])}'; base-uri 'none'; form-action 'none'"
    )


def test_sections_come_in_their_order_with_one_heading_each(page: Node) -> None:
    found = [node.attributes["id"] for node in page.all("section")]
    assert found == [name for name in SECTIONS if name in found]
    assert {"verdict", "timeline", "messages", "losses"} <= set(found)
    assert [len(node.all("h2")) for node in page.all("section")] == [1] * len(found)
    assert len(page.all("h1")) == 1
    assert [node.attributes["href"][1:] for node in page.all("nav")[0].all("a")] == found


def test_the_verdict_is_that_of_diagnose(sample: str, page: Node) -> None:
    rows = [row for row in rows_of(f"diagnose {HERE}/{sample}") if row["type"] == "trouble"]
    (section,) = page.all("section", id="verdict")
    items = [node for node in section.all("li") if "data-code" in node.attributes]
    found = [(node.attributes["data-code"], node.all("b")[0].text, node.all("code")[0].text) for node in items]
    assert found == [(row["code"], row["text"], row["command"]) for row in rows]


def test_the_command_that_shows_more_troubles_can_be_pasted(tmp_path: Path) -> None:
    refused = "TX stream-request{{vb={0}, start-seqno=9}}\nRX stream-request-response{{status_code={0}}}\n"
    asked = "".join(map(refused.format, (0x01, 0x02, 0x04, 0x22, 0x24, 0x82, 0x83, 0x88, 0x8C)))
    connect = "CONNECT 10.0.0.{0}:50000 10.0.1.{0}:11210\n"
    talk = "".join(
        connect.format(host) + opening(name=name) + asked for host, name in ((1, "aaa"), (2, "bbb"), (3, "ccc"))
    )
    path = written(talk, tmp_path / "two words.pcap")
    page = parsed(run(f"dcpdump report '{path}' -q --tz +02:00").out)
    codes = [node.text for node in page.all("section", id="verdict")[0].all("code")]
    assert f"dcpdump diagnose '{path}' --all --tz +02:00" in codes


def test_the_sum_of_all_lanes_is_the_bytes_of_stats(sample: str, page: Node) -> None:
    (total,) = (row for row in rows_of(f"stats {HERE}/{sample}") if row["type"] == "total")
    lanes = data_of(page)["lanes"]
    assert sum(sum(lane) for name, lane in lanes.items() if name.startswith("timeline")) == total["bytes"]


def test_the_table_of_streams_has_those_of_streams(sample: str, page: Node) -> None:
    rows = rows_of(f"streams {HERE}/{sample}")
    found = [node.all("td")[-1].text for node in page.all("tbody", id="stream-rows")[0].all("tr")] if rows else []
    assert sorted(found) == sorted(row["verdict"] for row in rows)


def test_streams_stand_in_the_order_of_streams(tmp_path: Path) -> None:
    written(TWO_TROUBLES, tmp_path / "two.pcap")
    printed = run(f"dcpdump streams {tmp_path}/two.pcap -q").out.splitlines()[1:-1]
    (table,) = parsed(page_of(tmp_path / "two.pcap")).all("tbody", id="stream-rows")
    assert [row.all("td")[2].text for row in table.all("tr")] == [row.split()[2] for row in printed] == ["6", "5"]


def test_the_findings_are_those_of_check(sample: str, page: Node) -> None:
    rows = rows_of(f"check {HERE}/{sample}")
    found = [node.attributes["id"] for node in page.all("details") if node.attributes.get("id", "").startswith("rule-")]
    assert sorted(found) == sorted({f"rule-{row['code']}" for row in rows})


def test_every_picture_says_in_words_what_it_shows(page: Node) -> None:
    pictures = page.all("svg", role="img")
    assert len(pictures) >= 2
    for node in pictures:
        assert len(node.attributes["aria-label"]) > 10
    hidden = {id(inner) for node in page.all("svg", aria_hidden="true") for inner in node.all("svg")}
    shown = {id(inner) for node in pictures for inner in node.all("svg")}
    for node in page.all("svg"):
        named = node.attributes.get("aria-hidden") == "true" or node.attributes.get("role") == "img"
        assert named or id(node) in hidden | shown


def test_frames_are_shown_with_all_their_bytes() -> None:
    page = parsed(page_of(Path("samples/order.pcap").resolve()))
    (frame,) = page.all("details", id="frame-16")
    (hexed,) = frame.all("pre")
    digits = "".join(re.findall(r"^[0-9a-f]{6}  ((?:[0-9a-f]{2} ?)+)", hexed.text, re.MULTILINE)).replace(" ", "")
    wanted = objects("dcpdump read samples/order.pcap")[15]
    assert len(digits) == 2 * wanted["length"]
    assert wanted["key_hex"] in digits


def test_credentials_never_reach_the_page(pages: dict[str, str]) -> None:
    for text in pages.values():
        for secret in ("s3cret", "password"):
            assert secret not in text.lower().replace("--show-secrets", "")


def test_without_redact_the_page_says_whose_data_it_holds(tmp_path: Path) -> None:
    twice = "RX mutation{seqno:2, key=customer-4711, value=top-secret-text}\n"
    path = written(opening() + "STREAM vb=5\n" + LIVE + twice, tmp_path / "keys.pcap")
    open_page, hidden = page_of(path), page_of(path, "--redact")
    assert "Holds keys and up to 64 bytes of values of 1 document; --redact hides them." in open_page
    assert "Keys, values and names are hashed." in hidden
    for word in ("customer-4711", "top-secret-text", b"top-sec".hex(" ")):
        assert word in open_page
        assert word not in hidden


def test_redact_level_full_leaves_no_address() -> None:
    page = page_of(Path("samples/stopped.pcap").resolve(), "--redact-level full --title x")
    assert "10.0.0" not in page
    assert "kafka" not in page


EVIL = ("</script><script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "${7*7}{{7*7}}", "&lt;b&gt;")
HIDDEN = ("\u202eevil\u202c\u200b", "nul\\0", "k" * 200, "\u2028\u2029")


@pytest.mark.parametrize("name", [*EVIL, *HIDDEN])
def test_names_from_the_wire_stay_text(name: str, tmp_path: Path) -> None:
    talk = opening(name="NAME") + f"STREAM vb=5\n{LIVE}RX stream-end{{status=2}}\nWAIT 60\nRX noop{{}}\n"
    path = written(talk, tmp_path / "evil.pcap")
    path.write_bytes(path.read_bytes().replace(b"NAME", name.encode()[:4].ljust(4, b"x")))
    text = page_of(path, f"--title {name!r}" if "'" not in name else "")
    page = parsed(text)
    assert len(page.all("script")) == 2
    assert not page.all("img")
    assert text.replace("\n", "").isprintable()


def test_a_page_replaces_nothing_without_force(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    assert outcome(["report", "samples/order.pcap", "-o", str(path), "-q"]) == 0
    assert path.stat().st_mode & 0o777 == 0o600
    printed = run(f"dcpdump report samples/order.pcap -o {path}")
    assert (printed.code, "exists already" in printed.err) == (5, True)
    assert run(f"dcpdump report samples/order.pcap -o {path} --force").code == 0


def test_without_frames_there_is_no_page_and_of_a_damaged_capture_one_that_says_so_and_4(tmp_path: Path) -> None:
    cut = tmp_path / "cut.pcap"
    cut.write_bytes(SAMPLES[0].read_bytes()[:24])
    assert run(f"dcpdump report {cut} -o {tmp_path}/page.html").code == 3
    assert list(tmp_path.iterdir()) == [cut]
    cut.write_bytes(Path("samples/stopped.pcap").read_bytes()[:-20])
    printed = run(f"dcpdump report {cut} -q")
    assert printed.code == 4
    assert "the capture itself is damaged: 1 fault" in parsed(printed.out).text


def test_lost_bytes_end_with_4_and_each_gap_has_a_row() -> None:
    printed = run("dcpdump report samples/damage.pcap -q")
    (section,) = parsed(printed.out).all("section", id="losses")
    assert printed.code == 4
    assert [cell.text for cell in section.all("tbody")[0].all("td")][4:] == ["100", "lost-by-capture"]


def test_the_balance_of_the_page_is_that_of_the_summary(sample: str, page: Node) -> None:
    (section,) = page.all("section", id="losses")
    total, _, parts = section.all("p")[0].text.partition(" bytes of payload = ")
    used = [int(text.replace(",", "")) for text in re.findall(r"([\d,]+) (?:in|of|captured|sent|skipped|too)", parts)]
    assert sum(used[: parts.partition(".")[0].count("+") + 1]) == int(total.replace(",", ""))
    said = run(f"dcpdump check {HERE}/{sample}.pcap").err
    assert f" · payload {total} B = " in said or f" · {total} B of payload, all decoded\n" in said


def test_until_pictures_only_what_came_before() -> None:
    path = Path("samples/stopped.pcap").resolve()
    whole, half = (data_of(parsed(page_of(path, options))) for options in ("", "--until +30s"))
    assert half["last"] < whole["last"]
    assert sum(half["lanes"]["timeline-0"]) < sum(whole["lanes"]["timeline-0"])


def test_since_pictures_flow_control_in_the_time_of_all_other_pictures() -> None:
    lanes = data_of(parsed(page_of(HERE / "slow-consumer.pcap", "--since +20s")))["lanes"]
    assert len(lanes["flow-0"]) == len(lanes["timeline-0"])
    assert set(lanes["flow-0"]) == {1920}  # from before it, up to the end


def test_every_time_of_the_page_is_in_the_zone_that_was_asked_for() -> None:
    path = Path("samples/stopped.pcap").resolve()
    utc, east = (page_of(path, options) for options in ("", "--tz +02:00"))
    times = [re.findall(r"(?<![\d+])1[0-9]:\d\d:\d\d", page) for page in (utc, east)]
    assert times[1] == [f"{int(each[:2]) + 2}{each[2:]}" for each in times[0]]
    assert [re.findall(r"UTC\S* \(", page) for page in (utc, east)] == [["UTC ("], ["UTC+02:00 ("]]
    assert [re.findall(r"UTC\S*(?=\. Each)", page) for page in (utc, east)] == [["UTC"], ["UTC+02:00"]]
    begins = data_of(parsed(utc))["first"]
    assert [data_of(parsed(page))["ahead"] for page in (utc, east)] == [[[begins, 0]], [[begins, 7_200_000]]]


def test_messages_are_named_as_stats_names_them(sample: str, page: Node) -> None:
    rows = [row for row in rows_of(f"stats {HERE}/{sample}") if row["type"] == "message"]
    assert set(first_cells(page, "messages")) == {f"{row['name']} {row['kind']}" for row in rows}


def test_messages_that_are_not_known_are_named_by_their_opcodes(tmp_path: Path) -> None:
    odd = "".join(f"HEX TX 80{code}{'00' * 22}\nHEX RX 81{code}{'00' * 22}\n" for code in ("9c", "9d"))
    path = written(opening() + odd, tmp_path / "odd.pcap")
    page = parsed(page_of(path))
    names = [f"UNKNOWN 0x{code} {kind}" for code in ("9c", "9d") for kind in ("request", "response")]
    for section, wanted in (("messages", names), ("latency", ["UNKNOWN 0x9c", "UNKNOWN 0x9d"])):
        assert sorted(name for name in first_cells(page, section) if "UNKNOWN" in name) == wanted
        assert [name for name in wanted if name not in run(f"dcpdump stats {path} -q").out] == []


def test_no_more_frames_than_wanted_are_shown_and_no_findings_without_the_rules() -> None:
    for options, frames in (("--frames 0 --no-check", 0), ("--frames 3 --no-check", 3)):
        page = parsed(page_of(HERE / "rollback-loop.pcap", options))
        assert (len(page.all("details", class_="frame")), page.all("section", id="findings")) == (frames, [])


def test_ladders_fold_what_repeats(tmp_path: Path) -> None:
    loop = "TX stream-request{vb=9, start-seqno=4, vbucket-uuid=1}\n"
    loop += "RX stream-request-response{rollback, rollback-seqno=0}\n"
    path = written(opening() + (loop + "WAIT 1\n") * 41, tmp_path / "loop.pcap")
    (ladder,) = parsed(page_of(path)).all("ol", class_="ladder")
    assert len(ladder.all("li")) == 12
    assert "… 36 more like these …" in ladder.text


def test_a_capture_without_times_has_a_page_without_pictures(tmp_path: Path) -> None:
    path = saved([each._replace(ts_ns=0) for each in Capture(str(HERE / "order.pcap"))], tmp_path / "instant.pcap")
    page = parsed(page_of(path))
    assert [len(lane) for lane in data_of(page)["lanes"].values()] == [1]
