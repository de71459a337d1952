"""Dialogues: the ladders of streams in trouble, a few of each kind of trouble."""

from dcpdump.report.context import Context, section
from dcpdump.report.html import Markup, element
from dcpdump.streams.ladder import Rung, ladder
from dcpdump.streams.stream import Stream
from dcpdump.streams.wording import client, clock, place

MOST = 10
_EACH = 2


def choose(context: Context) -> None:
    """Choose the streams whose dialogues are drawn: of each trouble the first ones, then more of the worst."""
    members = [trouble.streams for trouble in context.found.troubles if trouble.streams]
    order = [stream for streams in members for stream in streams[:_EACH]]
    order += [stream for streams in members for stream in streams[_EACH:]]
    for stream in list(dict.fromkeys(order))[:MOST]:
        context.dialogues[stream] = len(context.dialogues) + 1


def frames_of(context: Context) -> list[int]:
    """Return the frames that the dialogues point at."""
    found = [rung.frame for stream in context.dialogues for rung in ladder(stream, context.evidence.now_ns)]
    return [frame for frame in found if frame is not None]


def dialogues(context: Context) -> Markup | None:
    """Return the section; None where no stream is in trouble."""
    if not context.dialogues:
        return None
    return section(
        "dialogues",
        "Dialogues",
        [_dialogue(context, stream, number) for stream, number in context.dialogues.items()],
        lead="As the specification draws them: the side that wants changes at the left.",
    )


def _dialogue(context: Context, stream: Stream, number: int) -> Markup:
    verdict = context.verdicts[stream]
    connection = stream.connection
    ends = element(
        "div",
        element("span", client(connection)),
        element("span", connection.server_address or connection.dst),
        class_="ends",
    )
    rungs = [_rung(context, rung) for rung in ladder(stream, context.evidence.now_ns)]
    said = element("span", verdict.text, class_="detail")
    return element(
        "article",
        element("h3", f"{place(stream)} of c{connection.number} {client(connection)} ", said),
        ends,
        element("ol", rungs, class_="ladder"),
        id=f"dialogue-{number}",
    )


def _rung(context: Context, rung: Rung) -> Markup:
    return element(
        "li",
        element("time", clock(rung.ts_ns) if rung.ts_ns is not None else ""),
        element("span", rung.text, class_="arrow"),
        context.frame(rung.frame) if rung.frame is not None else element("span"),
        class_=rung.arrow.value,
    )
