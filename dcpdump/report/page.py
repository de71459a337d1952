"""Make the page: its sections in order, under a policy that forbids loading anything else."""

import json
from base64 import b64encode
from collections import Counter
from hashlib import sha256
from importlib.resources import files

from dcpdump import __version__
from dcpdump.check.rule import Severity
from dcpdump.render.diagnosis import holds
from dcpdump.report import details, tables, timeline, troubles, vbuckets
from dcpdump.report.context import Context
from dcpdump.report.draw import TimeAxis
from dcpdump.report.html import Markup, element
from dcpdump.text import counted

#: The largest page: beyond it frames are dropped first, then streams, then maps.
MOST = 5_000_000
_FEW_STREAMS = 200
_JSON_ESCAPES = {ord(char): f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"}
#: Titles of sections that differ from their id.
_NAMES = {"vbuckets": "vBuckets", "flow": "Flow control"}


def choose_frames(context: Context) -> list[int]:
    """Return the frames that the page mentions, the most important first."""
    violations = _first_of_rules(context, Severity.VIOLATION, 10)
    suspicious = _first_of_rules(context, Severity.SUSPICIOUS, 3)
    slowest = [
        number
        for answers in context.gathered.latencies.slowest.values()
        for answer in answers[: timeline.SLOWEST]
        for number in (answer.asked, answer.frame)
    ]
    troubles = [frame for trouble in context.found.troubles for frame in trouble.frames]
    order = [*violations, *details.frames_of(context), *troubles, *suspicious, *slowest]
    return list(dict.fromkeys(order))


def _first_of_rules(context: Context, severity: Severity, most: int) -> list[int]:
    """Return the frames of findings of a severity, the first few of each rule."""
    met: Counter[str] = Counter()
    out = []
    for finding, _ in context.evidence.findings:
        if finding.severity is severity and met[finding.rule.code] < most:
            met[finding.rule.code] += 1
            out.append(finding.frame)
    return out


def page(context: Context) -> str:
    """Return the page, small enough for a browser."""
    made = _page(context, tables.MOST_STREAMS, vbuckets.MOST)
    for rows, maps in ((tables.MOST_STREAMS, vbuckets.MOST), (_FEW_STREAMS, vbuckets.MOST), (_FEW_STREAMS, 1)):
        if len(made) > MOST:
            context.records.clear()
            made = _page(context, rows, maps)
    return made


def _page(context: Context, most_streams: int, most_maps: int) -> str:
    style, script = (files("dcpdump.report").joinpath(name).read_text("utf-8") for name in ("page.css", "page.js"))
    maps, known = vbuckets.vbuckets(context, most_maps)
    sections = {
        "verdict": troubles.verdict(context),
        "timeline": timeline.timeline(context),
        "vbuckets": maps,
        "flow": timeline.flow(context),
        "latency": timeline.latency(context),
        "messages": tables.messages(context),
        "dialogues": details.dialogues(context),
        "findings": tables.findings(context),
        "streams": tables.streams(context, most_streams),
        "losses": tables.losses(context),
        "frames": details.frames(context),
    }
    there = {name: made for name, made in sections.items() if made is not None}
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=_policy(style, script)),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="referrer", content="no-referrer"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", f"{context.title} · dcpdump"),
        element("style", Markup(style)),
    )
    body = element(
        "body",
        _header(context),
        _navigation(list(there)),
        element("main", list(there.values())),
        element("footer", f"dcpdump {__version__}"),
        element("script", _data(context, known), type="application/json", id="data"),
        element("script", Markup(script)),
    )
    return f"<!DOCTYPE html>\n{element('html', head, body, lang='en')}\n"


def _policy(style: str, script: str) -> str:
    """Return the content security policy: only the page's own content, and this one script."""
    return (
        "default-src 'none'; img-src data:; "
        f"style-src '{_hash(style)}'; script-src '{_hash(script)}'; base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"


def _header(context: Context) -> Markup:
    """Return the head of the page: which capture, when, how much."""
    facts = element("p", [element("span", words) for words in holds(context.evidence)], class_="facts")
    return element("header", element("h1", context.title), facts, _data_note(context))


def _data_note(context: Context) -> Markup | None:
    """Return a note on whose data the page contains."""
    holding = sum(1 for record in context.records.values() if record.frame.message.document)
    text = f"Holds keys and up to 64 bytes of values of {counted(holding, 'document')}; --redact hides them."
    if context.redacted:
        text = "Keys, values and names are hashed."
    return element("p", text, class_="note") if holding or context.redacted else None


def _navigation(names: list[str]) -> Markup:
    links = [element("a", _NAMES.get(name, name.capitalize()), href=f"#{name}") for name in names]
    buttons = [
        element("button", "+", type="button", data_do="in", aria_label="Zoom in"),
        element("button", "−", type="button", data_do="out", aria_label="Zoom out"),
        element("button", "whole time", type="button", data_do="whole"),
        element("button", "◐", type="button", data_do="theme", aria_label="Light or dark"),
    ]
    return element(
        "nav", element("div", links, class_="links"), element("div", buttons, class_="tools"), aria_label="Sections"
    )


def _data(context: Context, maps: list[dict[str, object]]) -> Markup:
    """Return the data for the script."""
    times, traffic, levels = context.times or TimeAxis(0, 0), context.gathered.traffic, context.gathered.levels
    numbers = [each.number for each in context.lanes] if context.times else []
    lanes = {f"timeline-{number}": traffic.bytes_of(number).tolist() for number in numbers}
    lanes |= {f"flow-{number}": levels.line(number).tolist() for number in numbers if number in levels.rows}
    ahead = [(since / 1e6, offset / 1e6) for since, offset in times.offsets()]
    data = {"first": times.first_ns / 1e6, "last": times.last_ns / 1e6, "step": traffic.axis.step_ns / 1e6}
    return in_script({**data, "ahead": ahead, "lanes": lanes, "maps": maps})


def in_script(data: object) -> Markup:
    """Return data as JSON for a script element, which it cannot end."""
    return Markup(json.dumps(data, separators=(",", ":")).translate(_JSON_ESCAPES))
