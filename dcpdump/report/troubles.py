"""Make the first section: the troubles, worst first, each with the command and the section that show more."""

from dcpdump.diagnosis.diagnosis import COMMAND, DiagnosisOutcome, behind
from dcpdump.diagnosis.trouble import Command, Trouble
from dcpdump.report.context import Context, section
from dcpdump.report.html import Markup, element
from dcpdump.streams.causes import Situation

_MOST = 20
#: Where the page shows what a situation is about, beside dialogues and findings.
_SECTIONS = {
    Situation[name]: section
    for section, names in (
        ("flow", "BLOCKED EXCEEDED MISCOUNTED"),
        ("losses", "LOST DAMAGED CONFLICT"),
        ("timeline", "ZERO_WINDOW NO_ANSWER NOT_SET_UP CLOSED NAME_TAKEN RECONNECTS NOOP"),
    )
    for name in names.split()
}


def verdict(context: Context) -> Markup:
    """Return the section with what is wrong."""
    found = context.found
    shown = found.troubles[:_MOST]
    rest = len(found.troubles) - len(shown)
    return section(
        "verdict",
        "What to look at",
        None
        if found.outcome is DiagnosisOutcome.WRONG
        else element("p", found.conclusion, class_=f"conclusion {found.outcome.value}"),
        element("ol", [_trouble(context, each) for each in shown], class_="troubles") if shown else None,
        context.more(rest, Command("diagnose", ("--all",))),
        _behind(context),
        _unjudged(context),
        lead=f"{found.looked_at}." if found.outcome is DiagnosisOutcome.WRONG else "",
    )


def _trouble(context: Context, trouble: Trouble) -> Markup:
    return element(
        "li",
        element("span", trouble.situation.label if trouble.wrong else "note", class_="label"),
        element(
            "div",
            element("b", trouble.text),
            " ",
            element("span", "; ".join(filter(None, (trouble.detail, *trouble.follows))), class_="detail"),
            element("code", context.line(trouble.command), class_="command"),
            class_="said",
        ),
        _link(context, trouble),
        class_="wrong" if trouble.wrong else None,
        data_code=trouble.situation.value,
    )


def _link(context: Context, trouble: Trouble) -> Markup | None:
    """Return a link to the evidence on the page."""
    label, target = "streams", "streams"
    if trouble.situation in (Situation.VIOLATION, Situation.RULE):
        label, target = "finding", f"rule-{trouble.cause}"
        if trouble.count == 1 and trouble.frames[0] in context.records:
            label, target = f"frame {trouble.frames[0]:,}", f"frame-{trouble.frames[0]}"
    elif section := _SECTIONS.get(trouble.situation):
        lane = next((number for number in trouble.connections if _pictured(context, section, number)), None)
        if lane is None and section != "losses":
            return None
        label = "window" if section == "flow" else section
        target = section if section == "losses" else f"{section}-{lane}"
    elif stream := next((stream for stream in trouble.streams if stream in context.dialogues), None):
        label, target = "dialogue", f"dialogue-{context.dialogues[stream]}"
    return element("a", f"{label} →", href=f"#{target}", class_="proof")


def _pictured(context: Context, section: str, number: int) -> bool:
    if context.times is None or all(each.number != number for each in context.lanes):
        return False
    return section != "flow" or number in context.gathered.levels.rows


def _behind(context: Context) -> Markup | None:
    """Return the consumers that are behind."""
    rows = [element("li", each.text) for each in behind(context.evidence)[:_MOST]]
    command = element("code", context.line(COMMAND), class_="command")
    return element("div", element("h3", "Lag"), element("ul", rows), command, class_="unjudged") if rows else None


def _unjudged(context: Context) -> Markup | None:
    """Return the questions that the capture cannot answer."""
    rows = [
        element(
            "li", each.text, element("code", context.line(each.command), class_="command") if each.command else None
        )
        for each in context.found.unjudged
    ]
    return element("div", element("h3", "Not judged"), element("ul", rows), class_="unjudged") if rows else None
