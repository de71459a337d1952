"""Make the first section: the troubles, worst first, each with the command and the section that show more."""

from collections.abc import Sequence

from dcpdump.diagnosis.diagnosis import COMMAND, DiagnosisOutcome, behind
from dcpdump.diagnosis.trouble import Command, Trouble
from dcpdump.report.context import Context, section
from dcpdump.report.html import Child, Markup, element
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
        _list("Lag", [(each.text, None) for each in behind(context.evidence)[:_MOST]], _command(context, COMMAND)),
        _list("Not judged", [(each.text, _command(context, each.command)) for each in found.unjudged]),
        lead=f"{found.looked_at}." if found.outcome is DiagnosisOutcome.WRONG else "",
    )


def _trouble(context: Context, trouble: Trouble) -> Markup:
    return element(
        "li",
        element("span", trouble.label, class_="label"),
        element(
            "div",
            element("b", trouble.text),
            " ",
            element("span", "; ".join(filter(None, (trouble.detail, *trouble.follows))), class_="detail"),
            _command(context, trouble.command),
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
        rows = context.gathered.levels.rows if section == "flow" else trouble.connections
        pictured = {each.number for each in context.lanes if each.number in rows and context.times is not None}
        lane = next((number for number in trouble.connections if number in pictured), None)
        if lane is None and section != "losses":
            return None
        label = "window" if section == "flow" else section
        target = section if section == "losses" else f"{section}-{lane}"
    elif stream := next((stream for stream in trouble.streams if stream in context.dialogues), None):
        label, target = "dialogue", f"dialogue-{context.dialogues[stream]}"
    return element("a", f"{label} →", href=f"#{target}", class_="proof")


def _command(context: Context, command: Command | None) -> Markup | None:
    return None if command is None else element("code", context.line(command), class_="command")


def _list(title: str, rows: Sequence[Sequence[Child]], *after: Child) -> Markup | None:
    """Return a list below its title; None without rows."""
    items = element("ul", [element("li", row) for row in rows])
    return element("div", element("h3", title), items, after, class_="unjudged") if rows else None
