"""The verdict: the troubles, worst first, each with the command and the place on the page that show more."""

from dcpdump.diagnosis.trouble import Command, Trouble, TroubleCode, TroubleSeverity
from dcpdump.report.context import Context, section
from dcpdump.report.html import Markup, element

_MOST = 20
_PLACES = {
    TroubleCode.BLOCKED: ("flow", "window"),
    TroubleCode.ZERO_WINDOW: ("timeline", "timeline"),
    TroubleCode.NO_ANSWER: ("timeline", "timeline"),
    TroubleCode.EXCEEDED: ("flow", "window"),
    TroubleCode.MISCOUNTED: ("flow", "window"),
    TroubleCode.LOST: ("losses", "losses"),
    TroubleCode.DAMAGED: ("losses", "losses"),
    TroubleCode.NOT_SET_UP: ("timeline", "timeline"),
    TroubleCode.CLOSED: ("timeline", "timeline"),
    TroubleCode.RECONNECTS: ("timeline", "timeline"),
    TroubleCode.NOOP: ("timeline", "timeline"),
}


def verdict(context: Context) -> Markup:
    """Return the section with what is wrong."""
    found = context.found
    shown = found.troubles[:_MOST]
    rest = len(found.troubles) - len(shown)
    return section(
        "verdict",
        "What to look at",
        None if found.troubles else element("p", found.conclusion, class_=f"conclusion {found.outcome.value}"),
        element("ol", [_trouble(context, each) for each in shown], class_="troubles") if shown else None,
        element("p", f"{rest:,} more: ", element("code", context.line(Command("diagnose", ("--all",)))))
        if rest
        else None,
        _unjudged(context),
        lead=f"{found.looked_at}." if found.troubles else "",
    )


def _trouble(context: Context, trouble: Trouble) -> Markup:
    wrong = trouble.code.severity is TroubleSeverity.WRONG
    return element(
        "li",
        element("span", trouble.code.label, class_="label"),
        element(
            "div",
            element("b", trouble.text),
            " ",
            element("span", trouble.detail, class_="detail"),
            element("code", context.line(trouble.command), class_="command"),
            class_="said",
        ),
        _link(context, trouble),
        class_="wrong" if wrong else "suspicious",
        data_code=trouble.code.value,
    )


def _link(context: Context, trouble: Trouble) -> Markup | None:
    """Return where on the page the proof is."""
    stream = next((stream for stream in trouble.streams if stream in context.dialogues), None)
    if trouble.code in (TroubleCode.VIOLATION, TroubleCode.RULE):
        if trouble.count == 1 and trouble.frames[0] in context.records:
            return element("a", f"frame {trouble.frames[0]:,} →", href=f"#frame-{trouble.frames[0]}", class_="proof")
        return element("a", "finding →", href=f"#rule-{trouble.cause}", class_="proof")
    if trouble.code in _PLACES:
        place, label = _PLACES[trouble.code]
        lane = next((number for number in trouble.connections if _pictured(context, place, number)), None)
        target = place if place == "losses" else None if lane is None else f"{place}-{lane}"
        return None if target is None else element("a", f"{label} →", href=f"#{target}", class_="proof")
    if stream is not None:
        return element("a", "dialogue →", href=f"#dialogue-{context.dialogues[stream]}", class_="proof")
    return element("a", "streams →", href="#streams", class_="proof")


def _pictured(context: Context, place: str, number: int) -> bool:
    if context.times is None or all(each.number != number for each in context.lanes):
        return False
    return place != "flow" or number in context.gathered.levels.rows


def _unjudged(context: Context) -> Markup | None:
    """Return what the capture does not show."""
    rows = [
        element(
            "li", each.text, element("code", context.line(each.command), class_="command") if each.command else None
        )
        for each in context.found.unjudged
    ]
    return element("div", element("h3", "Not judged"), element("ul", rows), class_="unjudged") if rows else None
