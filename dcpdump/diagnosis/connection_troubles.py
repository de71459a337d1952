"""Troubles of connections: flow control that blocks, NOOPs without an answer, bytes that are missing."""

import re
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import reduce
from itertools import pairwise
from operator import attrgetter
from typing import NamedTuple

from dcpdump.diagnosis import words
from dcpdump.diagnosis.trouble import Command, Evidence, Trouble, Unjudged, UnjudgedCode, grouped, on
from dcpdump.spec.statuses import TEMPORARY
from dcpdump.streams.causes import CARVED, Situation
from dcpdump.streams.flow import FlowState, flow_status, leak, stands_still, why_blocked
from dcpdump.streams.frame_event import Missed, between
from dcpdump.streams.opcode_kinds import ADD_STREAM, OPEN, SASL_AUTH, SELECT_BUCKET
from dcpdump.streams.setup import SetupRefusal
from dcpdump.streams.silence import tcp_faults
from dcpdump.streams.state import ConnectionState
from dcpdump.streams.verdict import BLOCKED_NS, IDLE_NS
from dcpdump.streams.window import Intervals
from dcpdump.streams.wording import client, clock, short_name, span, times
from dcpdump.text import counted, measured
from dcpdump.tls.outcome import Failure

#: A connection that was blocked for less of its time was not slowed down by it.
_PERMILLE = 5
_ONLY_SO_FAR = "verdicts reach only as far as what was captured"
_REASONS = {
    "lost-by-capture": "the receiver acknowledged them: the capture lost them, not the network",
    "not-acked": "nothing shows that they arrived",
    "snaplen": "the capture kept only the beginnings of packets",
    "evicted": "too much waited for them",
    "end": "the capture ends before they came",
}


def together(troubles: Iterable[Trouble]) -> Iterator[Trouble]:
    """Yield troubles of connections; where many have the same one, as one trouble."""
    for group in grouped(troubles, lambda trouble: (trouble.situation, trouble.cause, trouble.certain)).values():
        if len(group) <= words.NAMED:
            yield from group
            continue
        worst = min(group, key=lambda trouble: trouble.rank)
        numbers = tuple(sorted({number for trouble in group for number in trouble.connections}))
        listed = tuple(map(str, numbers)) if len(numbers) <= words.LISTED else ()
        yield replace(
            worst,
            text=f"{counted(len(numbers), 'connection')}, such as: {worst.text}",
            command=worst.command._replace(connections=listed),
            count=len(numbers),
            connections=numbers,
            streams=tuple(stream for trouble in group for stream in trouble.streams),
            frames=tuple(frame for trouble in group for frame in trouble.frames)[: words.NAMED],
        )


def flow_troubles(evidence: Evidence) -> Iterator[Trouble]:
    """Yield what flow control did, and what of it does not add up."""
    for each in evidence.connections:
        if not each.has_both_sides:
            continue
        found = _blocked(evidence, each) or _exceeded(evidence, each)
        wrongly = _miscounted(evidence, each)
        if found is not None and wrongly is not None:
            cause, sign = (found, wrongly) if found.wrong or not wrongly.wrong else (wrongly, found)
            yield replace(cause, follows=(sign.text,))
        else:
            yield from filter(None, (found, wrongly))


def _miscounted(evidence: Evidence, each: ConnectionState) -> Trouble | None:
    """Return what is acknowledged too much or too little; None where that adds up."""
    found = leak(each.window)
    if found is None:
        return None
    text = f"{words.who(each, evidence.several)} {found.in_words}"
    where = (each.number,)
    return Trouble(
        Situation.MISCOUNTED, text, on("flow", where), cause="leak", connections=where, certain=found.certain
    )


def _blocked(evidence: Evidence, each: ConnectionState) -> Trouble | None:
    now, window = each.until(evidence.now_ns), each.window
    found = flow_status(each, now)
    still = found.state is FlowState.BLOCKED
    since = found.since_ns if still else None
    lasted = between(since, now) or 0
    total = max(window.blocked_ns(now), lasted)
    time = _watched(each, now)
    if not _slows(total, lasted, time):
        return None
    name = words.who(each, evidence.several)
    mine = ((stream, verdict) for stream, verdict in evidence.judged if stream.connection is each)
    held = tuple(stream for stream, verdict in mine if verdict.degree and not stream.ended)
    certain = stands_still(each, now, IDLE_NS)
    if certain:
        text = f"the producer of {name} is blocked by flow control since {clock(since)}, {span(lasted)} up to the end"
        detail = f"nothing is acknowledged: {why_blocked(window, found)}"
    else:
        text = f"the consumer is the limit of {name}: its window was full for {span(total)}{_share(total, time)}"
        detail = _often(window.blocked) if window.blocked else why_blocked(window, found)
    first = window.blocked.kept[0].start_ns if window.blocked else since
    return Trouble(
        Situation.BLOCKED,
        text,
        on("flow", (each.number,)),
        detail,
        "window-full",
        max(1, len(held)),
        (each.number,),
        held,
        ts_ns=first,
        certain=certain,
    )


def held_up_troubles(evidence: Evidence) -> Iterator[Trouble]:
    """Yield the connections of which one end does not read, or does not answer, so that TCP holds the other up."""
    for each in evidence.connections:
        now = each.until(evidence.now_ns)
        for found in tcp_faults(each, now):
            intervals, lasted = found.intervals, found.lasted_ns or 0
            total, first_ns = intervals.total_ns, intervals.kept[0].start_ns
            time = max(_watched(each, now), between(first_ns, now) or 0)  # it may begin before the first frame
            if not _slows(total, lasted, time):
                continue
            said = found.fault.words(past=found.since_ns is None or found.past)
            when = f"since {clock(found.since_ns)}, {span(lasted)} up to the end"
            if found.since_ns is None:
                when = f"for {span(total)}{_share(total, time)}"
            held = tuple(
                stream
                for stream, verdict in evidence.judged
                if stream.connection is each and verdict.cause.value == found.fault.value
            )
            yield Trouble(
                Situation(found.fault.value),
                f"the {found.end} of {words.who(each, evidence.several)} {said.does} {when}",
                on("flow", (each.number,)),
                f"{said.seen}; {said.so}: {_often(intervals)}",
                found.fault.value,
                max(1, len(held)),
                (each.number,),
                held,
                ts_ns=first_ns,
                certain=found.before.exceeded_by(found.lasted_ns, IDLE_NS),
            )


def _watched(each: ConnectionState, now: int | None) -> int:
    """Return for how long (ns) a connection was watched; 0 where that is not known."""
    return 0 if each.first_ns is None or now is None else max(1, now - each.first_ns)


def _slows(total: int, lasted: int, time: int) -> bool:
    """Return whether a connection was held up for long: up to its end, or altogether."""
    return lasted >= BLOCKED_NS or (total >= BLOCKED_NS and total * 1000 >= _PERMILLE * time)


def _share(total: int, time: int) -> str:
    percent = 100 * total / time if time else 0.0
    return f" ({percent:{'.2g' if percent < 10 else '.0f'}} %)" if time else ""


def _often(intervals: Intervals) -> str:
    """Return how often something was, and when for longest."""
    of = f" of the first {len(intervals.kept):,}" if intervals.further else ""
    longest = intervals.longest
    lasting = span(longest.lasting_ns)
    return f"{counted(len(intervals), 'time')}, the longest{of} from {clock(longest.start_ns)}, {lasting}"


def _exceeded(evidence: Evidence, each: ConnectionState) -> Trouble | None:
    window = each.window
    excesses = window.all_excesses
    if not excesses:
        return None
    messages = sum(excess.messages for excess in excesses)
    return Trouble(
        Situation.EXCEEDED,
        f"the producer of {words.who(each, evidence.several)} sent {counted(messages, 'message')} into a full window",
        on("flow", (each.number,)),
        f"since {clock(excesses[0].start_ns)}; the buffer is {window.size:,} B: the producer ignores flow control, or "
        "acknowledgements were not captured",
        "window-exceeded",
        1,
        (each.number,),
        ts_ns=excesses[0].start_ns,
    )


def noop_troubles(evidence: Evidence, known: frozenset[int]) -> Iterator[Trouble]:
    """Yield NOOPs without an answer. ``known``: connections of which a worse trouble says so."""
    for each in evidence.connections:
        noops, taken = each.noops, each.setup.name_taken
        ends = (each.end.ts_ns, None if taken is None else taken.ts_ns, evidence.now_ns)
        until = min((ts_ns for ts_ns in ends if ts_ns is not None), default=None)
        if each.number in known or noops.open_ns is None or until is None or not each.has_both_sides:
            continue
        waited = until - noops.open_ns
        if waited < IDLE_NS or each.lost_after(noops.open_ns):
            continue
        yield Trouble(
            Situation.NOOP,
            f"a NOOP to {words.who(each, evidence.several)} is not answered since {clock(noops.open_ns)}, "
            f"for {span(waited)}",
            on("read", (each.number,), "--opcode", "noop", "-f", "line"),
            f"{noops.answered:,} of {noops.sent:,} were answered",
            "noop-not-answered",
            1,
            (each.number,),
            frames=() if noops.open_frame is None else (noops.open_frame,),
            ts_ns=noops.open_ns,
        )


def loss_troubles(evidence: Evidence) -> Iterator[Trouble]:
    """Yield what is missing of connections, and of the captures themselves."""
    lossy = [each for each in evidence.connections if each.losses and not each.carved]
    if lossy:
        yield _lost(evidence, lossy)
    if evidence.damage or evidence.drops:
        faults = [f"{each.file}: {each.damage[0]}" for each in evidence.health if each.damage]
        said = [counted(evidence.damage, "fault")] if evidence.damage else []
        said += [f"{counted(evidence.drops, 'packet')} dropped while capturing"] if evidence.drops else []
        yield Trouble(
            Situation.DAMAGED,
            f"the capture itself is damaged: {', '.join(said)}",
            Command("stats"),
            faults[0] if faults else "",
            "capture-damaged",
            max(1, evidence.damage),
        )
    if evidence.counters.conflicts:
        yield Trouble(
            Situation.CONFLICT,
            f"{counted(evidence.counters.conflicts, 'overlap')} of TCP that disagree",
            Command("stats"),
            "one of two versions was taken; files of different networks look like this when they are read together",
            "overlaps",
            evidence.counters.conflicts,
        )


def _lost(evidence: Evidence, lossy: list[ConnectionState]) -> Trouble:
    missed = reduce(Missed.plus, (each.missing for each in lossy))
    worst = sorted(lossy, key=lambda each: -each.missing.lost)
    names, sender = words.named(worst, evidence.several), _sender(lossy[0]) if len(lossy) == 1 else ""
    if missed.gaps:
        amount, verb = measured(missed.lost, missed.unknown), "is" if missed[:3] == (1, 1, 0) else "are"
        text = f"{amount} of {names} {verb} not in the capture ({counted(missed.gaps, 'gap')}{sender})"
        why = "; or ".join(_REASONS[reason] for reason in evidence.tally.lost.by_reason if reason in _REASONS)
        also = f"{Missed(skipped=missed.skipped).words(' more')}, as no frame was found to begin there"
    else:
        text, why, also = missed.words(f" of {names}"), "no frame was found to begin there", ""
    absent = missing_files([each.file for each in evidence.health])
    detail = "; ".join(filter(None, (absent, why, also * bool(missed.skipped), _ONLY_SO_FAR)))
    return Trouble(
        Situation.LOST,
        text,
        on("conns", (each.number for each in worst[: words.LISTED])),
        detail,
        "bytes-lost",
        sum(each.losses for each in lossy),
        tuple(each.number for each in worst),
        frames=tuple(each.lost.frame for each in worst if each.lost.frame)[: words.NAMED],
        ts_ns=min((side.lost_ns for each in lossy for side in each.sides if side.lost_ns is not None), default=None),
    )


def missing_files(names: Sequence[str]) -> str:
    """Return which files of rotated sets may be missing, in words, as their numbers say; empty where all are there.

    A number that counts the files of a set, as dumpcap and tcpdump write it, goes up by one from most to their next.
    """
    sets: dict[tuple[str, ...], list[tuple[tuple[int, ...], str]]] = {}
    for name in names:
        folder, _, last = name.rpartition("/")
        texts = re.split(r"([0-9]+)", last)
        sets.setdefault((folder, *texts[::2]), []).append((tuple(map(int, texts[1::2])), last))
    absent: list[str] = []
    for files in sets.values():
        files.sort()
        for at in range(len(files[0][0])):
            steps = [(two[0][at] - one[0][at], one[1], two[1]) for one, two in pairwise(files)]
            if steps and 2 * sum(step == 1 for step, _, _ in steps) >= len(steps):
                absent += [f"{one} and {two}" for step, one, two in steps if step > 1]
    if not absent:
        return ""
    more = f" (and in {counted(len(absent) - 1, 'other place')})" if len(absent) > 1 else ""
    return f"a file may be missing between {absent[0]}, as their numbers say{more}"


def _sender(connection: ConnectionState) -> str:
    """Say who sent what was lost; nothing where both ends did."""
    if all(side.losses for side in connection.sides):
        return ""
    direction = int(bool(connection.sides[1].losses))
    server = connection.roles.server
    who = (connection.dst if direction else connection.src) if server is None else ""
    return f", of what {who or ('the server' if direction == server else 'the client')} sent"


# -- troubles of setting up ---------------------------------------------------------------------------
# TLS that failed; a login, bucket, DCP_OPEN or ADD_STREAM refused, and not accepted since.
#
# Where bytes were lost after a refusal, a later success may be among them: that is not judged.

#: In the order in which a connection is set up: what follows a refusal is refused because of it.
_CAUSES = {
    SASL_AUTH: "login-refused",
    SELECT_BUCKET: "bucket-refused",
    OPEN: "open-refused",
    ADD_STREAM: "add-stream-refused",
}
#: Steps that a client takes before it says its name.
_NAMELESS = (SASL_AUTH, SELECT_BUCKET)


class _Step(NamedTuple):
    """A step of a client: DCP_OPEN and ADD_STREAM by its name and bucket, before these by its host and agent."""

    client: str
    more: str | None  #: None: not captured
    server: str | None
    opcode: int
    what: int | str | None  #: a vbucket, or a bucket


class Refused(NamedTuple):
    """A step that was refused and, as far as was captured, not accepted on its connection since."""

    connection: ConnectionState
    refusal: SetupRefusal
    accepted_by: int | None  #: the later connection of its host and agent on which it was accepted


class _Case(NamedTuple):
    """What refusals have in common that are one trouble."""

    opcode: int
    status: int
    asked: str
    name: str | None
    host: str
    agent: str | None
    server: str | None
    accepted_by: int | None


def setup_troubles(evidence: Evidence) -> Iterator[Trouble]:
    """Yield what was refused: of one client, for one reason, as one trouble."""
    known = [each for each in _refused(evidence) if each.refusal.losses == each.connection.losses]
    for case, group in grouped(known, _case).items():
        yield _trouble(case, group, len(evidence.connections) > 1)


def tls_troubles(evidence: Evidence) -> Iterator[Trouble]:
    """Yield the connections of TLS that failed: of one client and server, and in one way, as one trouble."""
    through = {(_host(each.client_address), each.server_address): each.number for each in evidence.connections}
    found: dict[tuple[str, str, Failure], list[int]] = {}
    for number, report in evidence.failed:
        if report.failure is not None:
            backward = report.src.endswith(f":{report.port}")
            of, to = (report.dst, report.src) if backward else (report.src, report.dst)
            found.setdefault((_host(of), to, report.failure), []).append(number)
    for (client_host, server, failure), numbers in found.items():
        alert, many = failure.alert, len(numbers) > 1
        which = f"{counted(len(numbers), 'connection')} of TLS" if many else "a connection of TLS"
        yield Trouble(
            Situation.TLS_FAILED,
            f"{which} from {client_host} to {server} failed: {failure.text}",
            on("conns", numbers[: words.FRAMES]),
            failure.advice,
            (alert.name if alert is not None else failure.close).replace("_", "-"),
            len(numbers),
            tuple(numbers),
            certain=alert is not None
            and not failure.established
            and through.get((client_host, server), -1) < numbers[-1],
        )


def _host(address: str | None) -> str:
    """Return an address without its port."""
    return (address or "").rpartition(":")[0]


def setup_unjudged(evidence: Evidence) -> Iterator[Unjudged]:
    """Yield the refusals after which bytes were lost, and maybe a success."""
    unknown = [each for each in _refused(evidence) if each.refusal.losses != each.connection.losses]
    for each, group in grouped(unknown, attrgetter("connection")).items():
        refusals = [refused.refusal for refused in group]
        missing = CARVED if each.carved else "bytes of the connection were lost since"
        yield Unjudged(
            UnjudgedCode.SETUP,
            f"{_who(each, len(evidence.connections) > 1)}: {_what(refusals)} was refused with "
            f"{words.status_name(refusals[0].status)}, and {missing}: it may have been accepted later",
            connections=(each.number,),
            command=_command(refusals[0].opcode, (each.number,)),
        )


def _refused(evidence: Evidence) -> Iterator[Refused]:
    """Yield what was refused, but for what a client that has a name was granted on a later connection."""
    refused = [(each, refusal) for each in evidence.connections for refusal in _first(each)]
    accepted = _accepted(evidence) if refused else {}
    for each, refusal in refused:
        step = _step(each, refusal.opcode, refusal.asked or refusal.vbucket)
        alike = [last for other, last in accepted.get(_group(step), {}).items() if _may_be_same(step, other)]
        frame, by = max(alike, default=(0, None))
        if frame < refusal.frame:
            yield Refused(each, refusal, None)
        elif refusal.opcode in _NAMELESS:
            yield Refused(each, refusal, by)


def _step(connection: ConnectionState, opcode: int, what: int | str | None) -> _Step:
    setup, server = connection.setup, connection.server_address
    if opcode in _NAMELESS:
        return _Step(_host(connection.client_address), connection.identity.agent, server, opcode, what)
    return _Step(setup.name or f"c{connection.number}", setup.bucket, server, opcode, what)


def _may_be_same(step: _Step, other: _Step) -> bool:
    """Return whether two steps may be the same of one client, where not all of each was captured."""
    unknown = (None, "")
    return all(mine == theirs or mine in unknown or theirs in unknown for mine, theirs in zip(step, other, strict=True))


def _group(step: _Step) -> Hashable:
    """Return what steps have in common that may be the same."""
    return step.client, step.opcode, step.what if step.opcode == ADD_STREAM else None


def _accepted(evidence: Evidence) -> dict[Hashable, dict[_Step, tuple[int, int]]]:
    """Return the steps that were accepted, by what those have in common that may be the same: the last frame that
    accepted each, and its connection.
    """
    found: dict[Hashable, dict[_Step, tuple[int, int]]] = {}
    for each in evidence.ledger.connections.values():
        steps: list[tuple[int, int | str | None, int | None]] = [
            (opcode, each.setup.bucket if opcode == SELECT_BUCKET else None, frame)
            for opcode, frame in each.setup.accepted_steps.items()
            if opcode != ADD_STREAM
        ]
        if not each.setup.produces:
            steps += [(ADD_STREAM, stream.vbucket, stream.granted_frame) for stream in each.streams]
        for opcode, what, frame in steps:
            step = _step(each, opcode, what)
            group = found.setdefault(_group(step), {})
            group[step] = max((frame or 0, each.number), group.get(step, (0, 0)))
    return found


def _first(connection: ConnectionState) -> list[SetupRefusal]:
    """Return the refusals of the first step that was refused: the others follow from it."""
    opcodes = {refusal.opcode for refusal in connection.setup.refusals.values()}
    first = next((opcode for opcode in _CAUSES if opcode in opcodes), None)
    return [refusal for refusal in connection.setup.refusals.values() if refusal.opcode == first]


def _case(refused: Refused) -> _Case:
    (connection, refusal, by), server = refused, refused.connection.server_address
    host = _host(connection.client_address or client(connection))
    agent, name = connection.identity.agent, connection.setup.name
    return _Case(refusal.opcode, refusal.status, refusal.asked, name, host, agent, server, by)


def _trouble(case: _Case, group: list[Refused], several: bool) -> Trouble:
    numbers = tuple(sorted({each.connection.number for each in group}))
    refusals = [each.refusal for each in group]
    first, earliest, _ = group[0]
    count = sum(refusal.count for refusal in refusals)
    if len(numbers) > 1:
        who = short_name(case.name) or case.host + (f" ({case.agent})" if case.agent else "")
        often = f", {times(count)} on {counted(len(numbers), 'connection')}"
    else:
        who = _who(first, several)
        often = f", {times(count)}" if count > len(refusals) else ""
    by = f" by {case.server}" if case.server else ""
    said = f"; server: {earliest.said}" if earliest.said else ""
    bucket = f"; its bucket is {first.setup.bucket}" if first.setup.bucket and case.opcode != SELECT_BUCKET else ""
    temporary, accepted = case.status in TEMPORARY, case.accepted_by is not None
    later = ", which a later try may be" if temporary else ""
    since = f"not accepted since{later}" if not accepted else f"accepted since on connection {case.accepted_by}"
    return Trouble(
        Situation.NOT_SET_UP,
        f"{who}: {_what(refusals)} was refused with {words.status_name(case.status)}{often}",
        _command(case.opcode, numbers),
        f"frame {earliest.frame}, at {clock(earliest.ts_ns)}{by}, and {since}{bucket}{said}",
        _CAUSES[case.opcode],
        len(numbers),
        numbers,
        frames=tuple(refusal.frame for refusal in refusals)[: words.FRAMES],
        ts_ns=earliest.ts_ns,
        certain=not (accepted or temporary),
    )


def _who(connection: ConnectionState, several: bool) -> str:
    agent = connection.identity.agent if connection.setup.name is None else None
    return words.who(connection, several) + (f" ({agent})" if agent else "")


def _what(refusals: list[SetupRefusal]) -> str:
    opcode = refusals[0].opcode
    if opcode == ADD_STREAM:
        return f"ADD_STREAM of {words.listed_vbuckets(refusal.vbucket or 0 for refusal in refusals)}"
    if opcode == SELECT_BUCKET:
        return f"the bucket {refusals[0].asked}".rstrip()
    return "the login" if opcode == SASL_AUTH else "DCP_OPEN"


def _command(opcode: int, connections: tuple[int, ...]) -> Command:
    if opcode == ADD_STREAM:
        return on("read", connections, "--opcode", "add_stream", "-f", "line")
    return on("conns", connections)
