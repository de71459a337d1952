"""Troubles of setting up: TLS that failed; a login, bucket, DCP_OPEN or ADD_STREAM refused, and not accepted since.

Where bytes were lost after a refusal, a later success may be among them: that is not judged.
"""

from collections.abc import Iterator
from typing import NamedTuple

from dcpdump.diagnosis import words
from dcpdump.diagnosis.evidence import Evidence
from dcpdump.diagnosis.trouble import Command, Trouble, Unjudged, UnjudgedCode
from dcpdump.plural import counted
from dcpdump.streams.causes import Situation
from dcpdump.streams.facts import SetupRefusal
from dcpdump.streams.opcode_kinds import ADD_STREAM, OPEN, SASL_AUTH, SELECT_BUCKET
from dcpdump.streams.state import CARVED, ConnectionState
from dcpdump.streams.wording import client, clock, short_name, times
from dcpdump.tls.failure import Failure

_FRAMES = 8
#: In the order in which a connection is set up: what follows a refusal is refused because of it.
_CAUSES = {
    SASL_AUTH: "login-refused",
    SELECT_BUCKET: "bucket-refused",
    OPEN: "open-refused",
    ADD_STREAM: "add-stream-refused",
}

_Place = int | tuple[str | None, str | None, str | None] | None
#: A connection or a client, by its name, bucket and server; an opcode, and a vbucket.
_Granted = tuple[_Place, int, int | None]
Refused = tuple[ConnectionState, SetupRefusal]


class _Case(NamedTuple):
    """What refusals have in common that are one trouble."""

    opcode: int
    status: int
    asked: str
    name: str | None
    host: str
    agent: str | None
    server: str | None


def setup_troubles(evidence: Evidence) -> Iterator[Trouble]:
    """Yield what was refused: of one client, for one reason, as one trouble."""
    several = len(evidence.connections) > 1
    found: dict[_Case, list[Refused]] = {}
    for each, refusal in _refused(evidence):
        if refusal.losses == each.losses:
            found.setdefault(_case(each, refusal), []).append((each, refusal))
    for case, group in found.items():
        yield _trouble(case, group, several)


def tls_troubles(evidence: Evidence) -> Iterator[Trouble]:
    """Yield the connections of TLS that failed: of one client and server, and in one way, as one trouble."""
    through = {(_host(each.client_address), each.server_address): each.number for each in evidence.connections}
    found: dict[tuple[str, str, Failure], list[int]] = {}
    for number, sealing in evidence.failed:
        if sealing.failure is not None:
            backward = sealing.src.endswith(f":{sealing.port}")
            of, to = (sealing.dst, sealing.src) if backward else (sealing.src, sealing.dst)
            found.setdefault((_host(of), to, sealing.failure), []).append(number)
    for (client_host, server, failure), numbers in found.items():
        alert, many = failure.alert, len(numbers) > 1
        which = f"{counted(len(numbers), 'connection')} of TLS" if many else "a connection of TLS"
        yield Trouble(
            Situation.TLS_FAILED,
            f"{which} from {client_host} to {server} failed: {failure.text}",
            Command("conns", ("--connection", ",".join(map(str, numbers[:_FRAMES])))),
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
    several = len(evidence.connections) > 1
    found: dict[int, list[Refused]] = {}
    for each, refusal in _refused(evidence):
        if refusal.losses != each.losses:
            found.setdefault(each.number, []).append((each, refusal))
    for number, group in found.items():
        refusals = [refusal for _, refusal in group]
        missing = CARVED if group[0][0].carved else "bytes of the connection were lost since"
        yield Unjudged(
            UnjudgedCode.SETUP,
            f"{_who(group[0][0], several)}: {_what(refusals)} was refused with "
            f"{words.status_name(refusals[0].status)}, and {missing}: it may have been accepted later",
            connections=(number,),
            command=_command(refusals[0].opcode, (number,)),
        )


def _refused(evidence: Evidence) -> Iterator[Refused]:
    """Yield what was refused and, as far as was captured, not accepted since."""
    accepted: dict[_Granted, int] | None = None
    for each in evidence.connections:
        for refusal in _first(each):
            if accepted is None:
                accepted = _accepted(evidence)
            places = (each.number, (each.name, each.bucket, each.server_address) if each.name else None)
            if all(accepted.get((place, refusal.opcode, refusal.vbucket), 0) <= refusal.frame for place in places):
                yield each, refusal


def _accepted(evidence: Evidence) -> dict[_Granted, int]:
    """Return the frame that accepted each OPEN and each stream last: by connection, and by the name of its client."""
    found: dict[_Granted, int] = {}
    for each in evidence.ledger.connections.values():
        frames: list[tuple[int, int | None, int | None]] = [(OPEN, None, each.accepted_frame)]
        frames += [(ADD_STREAM, stream.vbucket, stream.granted_frame) for stream in each.streams if not each.produces]
        places = (each.number, (each.name, each.bucket, each.server_address) if each.name else None)
        for opcode, vbucket, frame in frames:
            for place in places:
                if frame is not None and place is not None:
                    found[place, opcode, vbucket] = max(frame, found.get((place, opcode, vbucket), 0))
    return found


def _first(connection: ConnectionState) -> list[SetupRefusal]:
    """Return the refusals of the first step that was refused: the others follow from it."""
    opcodes = {refusal.opcode for refusal in connection.refusals.values()}
    first = next((opcode for opcode in _CAUSES if opcode in opcodes), None)
    return [refusal for refusal in connection.refusals.values() if refusal.opcode == first]


def _case(connection: ConnectionState, refusal: SetupRefusal) -> _Case:
    host = (connection.client_address or client(connection)).rpartition(":")[0]
    agent, server = connection.identity.agent, connection.server_address
    return _Case(refusal.opcode, refusal.status, refusal.asked, connection.name, host, agent, server)


def _trouble(case: _Case, group: list[Refused], several: bool) -> Trouble:
    numbers = tuple(sorted({connection.number for connection, _ in group}))
    refusals = [refusal for _, refusal in group]
    first, earliest = group[0]
    count = sum(refusal.count for refusal in refusals)
    if len(numbers) > 1:
        who = short_name(case.name) or case.host + (f" ({case.agent})" if case.agent else "")
        often = f", {times(count)} on {counted(len(numbers), 'connection')}"
    else:
        who = _who(first, several)
        often = f", {times(count)}" if count > len(refusals) else ""
    by = f" by {case.server}" if case.server else ""
    said = f"; server: {earliest.said}" if earliest.said else ""
    bucket = f"; its bucket is {first.bucket}" if first.bucket and case.opcode != SELECT_BUCKET else ""
    return Trouble(
        Situation.NOT_SET_UP,
        f"{who}: {_what(refusals)} was refused with {words.status_name(case.status)}{often}",
        _command(case.opcode, numbers),
        f"frame {earliest.frame}, at {clock(earliest.ts_ns)}{by}, and not accepted since{bucket}{said}",
        _CAUSES[case.opcode],
        len(numbers),
        numbers,
        frames=tuple(refusal.frame for refusal in refusals)[:_FRAMES],
        ts_ns=earliest.ts_ns,
    )


def _who(connection: ConnectionState, several: bool) -> str:
    agent = connection.identity.agent if connection.name is None else None
    return words.who(connection, several) + (f" ({agent})" if agent else "")


def _what(refusals: list[SetupRefusal]) -> str:
    opcode = refusals[0].opcode
    if opcode == ADD_STREAM:
        return f"ADD_STREAM of {words.listed_vbuckets(refusal.vbucket or 0 for refusal in refusals)}"
    if opcode == SELECT_BUCKET:
        return f"the bucket {refusals[0].asked}".rstrip()
    return "the login" if opcode == SASL_AUTH else "DCP_OPEN"


def _command(opcode: int, connections: tuple[int, ...]) -> Command:
    where = ("--connection", ",".join(map(str, connections)))
    if opcode == ADD_STREAM:
        return Command("read", (*where, "--opcode", "add_stream", "-f", "line"))
    return Command("conns", where)
