"""Make the clauses: each function parses the text of one option, and returns a test of a Record."""

import re
from collections.abc import Callable
from fnmatch import translate
from functools import cache
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from operator import ge, gt, le, lt

from dcpdump.errors import FilterError
from dcpdump.escape import bytes_of
from dcpdump.filter.choices import (
    BETWEEN,
    Ranges,
    collection_choice,
    named_opcodes,
    named_statuses,
    parse_ranges,
    words,
)
from dcpdump.record import Record, seqno_range, seqnos

Clause = Callable[[Record], bool]
_KINDS = {"request", "response"}
_COMPARISONS: dict[str, Callable[[int, int], bool]] = {">": gt, ">=": ge, "<": lt, "<=": le}
_UNITS_NS = {"us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}


def by_opcode(text: str) -> Clause:
    """Accept messages by name or opcode: ``mutation,deletion`` · ``DCP_MUTATION`` · ``0x57`` · ``!noop``."""
    wanted, excluded = named_opcodes(text)

    def accepts(record: Record) -> bool:
        key = (record.frame.magic.server, record.frame.header.opcode)
        return key not in excluded and (not wanted or key in wanted)

    return accepts


def by_vbucket(text: str) -> Clause:
    """Accept requests by their vbucket; responses by that of their request, where it was captured."""
    ranges = parse_ranges("--vbucket", text, 0xFFFF)
    return lambda record: record.vbucket is not None and record.vbucket in ranges


def by_latency(text: str) -> Clause:
    """Accept responses by the time since their request: ``>5ms`` · ``<=250us``; of several, all must hold."""
    bounds = [_bound(word) for word in text.split(BETWEEN)]

    def accepts(record: Record) -> bool:
        latency = record.latency_ns
        return latency is not None and all(holds(latency * unit, limit) for holds, limit, unit in bounds)

    return accepts


def _bound(text: str) -> tuple[Callable[[int, int], bool], int, int]:
    """Return a comparison and a limit, as an integer in fractions of a ns."""
    found = re.fullmatch(r"\s*(>=|<=|>|<)\s*(\d{1,18})(?:\.(\d{1,12}))?\s*(us|ms|s)\s*", text)
    if found is None:
        raise FilterError(
            f"--latency: {text!r} is not a bound of a time, such as >5ms",
            hint="--latency '>5ms', with >, >=, < or <=, and us, ms or s; in quotes, else the shell writes a file",
        )
    sign, whole, part, unit = found.groups(default="")
    return _COMPARISONS[sign], int(whole + part) * _UNITS_NS[unit], 10 ** len(part)


def by_seqno(text: str) -> Clause:
    """Accept a frame that carries a seqno in the range; a marker or stream request whose range overlaps it."""
    ranges = parse_ranges("--seqno", text)

    def accepts(record: Record) -> bool:
        span = seqno_range(record.frame)
        if span is not None:
            return ranges.overlaps(*span)
        carried = list(seqnos(record.frame))
        return bool(carried) and any(number in ranges for number in carried)

    return accepts


def by_kind(text: str) -> Clause:
    """Accept ``request`` or ``response``."""
    kinds = parse_kinds(text)
    return lambda record: record.frame.magic.kind in kinds


def parse_kinds(text: str) -> set[str]:
    """Return the kinds that ``--kind`` chooses."""
    given = words("--kind", text)
    for word, _ in given:
        if word not in _KINDS:
            raise FilterError(f"--kind: {word!r} is not a kind", hint="--kind request, or --kind response")
    wanted = {word for word, negated in given if not negated} or _KINDS
    return wanted - {word for word, negated in given if negated}


def by_status(text: str) -> Clause:
    """Accept responses by status: ``rollback`` · ``0x23`` · ``!success``."""
    wanted, excluded = named_statuses(text)

    def accepts(record: Record) -> bool:
        status = record.frame.header.vbucket_or_status
        return record.frame.magic.response and status not in excluded and (not wanted or status in wanted)

    return accepts


def by_key(text: str, *, asked: str = "--key") -> Clause:
    """Accept keys by a glob (``user::*``) or ``/regular expression/``, without collection ids; several: any of them."""
    patterns = text.split(BETWEEN)
    wanted = [_search_of(pattern, asked) for pattern in patterns if not pattern.startswith("!")]
    excluded = [_search_of(pattern[1:], asked) for pattern in patterns if pattern.startswith("!")]

    def matches(key: bytes) -> bool:
        return not wanted or any(search(key) is not None for search in wanted)

    def accepts(record: Record) -> bool:
        keys = [item.key for item in record.content.items]
        if record.content.key is not None:
            keys.append(record.content.key)
        if any(search(key) is not None for search in excluded for key in keys):
            return False
        return any(map(matches, keys))

    return accepts


def _search_of(pattern: str, asked: str) -> Callable[[bytes], re.Match[bytes] | None]:
    try:
        if len(pattern) > 1 and pattern.startswith("/") and pattern.endswith("/"):
            return re.compile(bytes_of(pattern[1:-1])).search
        return re.compile(bytes_of(translate(pattern))).match
    except (re.error, RecursionError, OverflowError) as error:
        raise FilterError(f"{asked}: {pattern!r} is not a regular expression: {error}") from error


def by_collection(text: str) -> Clause:
    """Accept documents of these collections, by id or name, and the system events that name them."""
    chosen = collection_choice(text)

    def accepts(record: Record) -> bool:
        ids = [item.collection for item in record.content.items]
        ids += [record.content.collection, record.frame.get("collection_id")]
        return any(number is not None and chosen.accepts(number, record.collection_path(number)) for number in ids)

    return accepts


def by_opaque(text: str) -> Clause:
    """Accept frames by opaque: four bytes, big-endian."""
    ranges = parse_ranges("--opaque", text, 0xFFFFFFFF)
    return lambda record: record.frame.header.opaque in ranges


def by_stream_id(text: str) -> Clause:
    """Accept frames that carry the stream id, and the stream requests that ask for it."""
    ranges = parse_ranges("--stream-id", text, 0xFFFF)
    return lambda record: record.stream_id is not None and record.stream_id in ranges


def by_connection(text: str) -> Clause:
    """Accept connections by their number."""
    ranges = parse_ranges("--connection", text)
    return lambda record: record.connection is not None and record.connection in ranges


def by_frame(text: str) -> Clause:
    """Accept frames by their number in the output: ``7`` · ``100-200,512``."""
    ranges = parse_ranges("--frame", text)
    return lambda record: record.number in ranges


def by_host(text: str) -> Clause:
    """Accept frames from or to these addresses, or those of a network: ``10.0.0.2`` · ``10.0.0.0/24`` · ``!::1``."""
    hosts = [(_network(word), negated) for word, negated in words("--host", text)]
    wanted = [network for network, negated in hosts if not negated]
    excluded = [network for network, negated in hosts if negated]

    @cache
    def belongs(host: str) -> tuple[bool, bool]:
        address = ip_address(host)
        return any(address in each for each in wanted), any(address in each for each in excluded)

    def accepts(record: Record) -> bool:
        ends = [belongs(end.rpartition(":")[0].strip("[]")) for end in (record.src, record.dst) if end]
        if any(unwanted for _, unwanted in ends):
            return False
        return not wanted or any(chosen for chosen, _ in ends)

    return accepts


def _network(word: str) -> IPv4Network | IPv6Network:
    try:
        return ip_network(word.strip("[]"), strict=False)
    except ValueError as error:
        host, colon, port = word.rpartition(":")
        hint = (
            f"--host {host} --port {port}" if colon and port.isdecimal() else "--host 10.0.0.2, or --host 10.0.0.0/24"
        )
        raise FilterError(f"--host: {word!r} is not an IP address", hint=hint) from error


def by_port(text: str) -> Clause:
    """Accept frames from or to these TCP ports."""
    ranges = parse_ranges("--port", text, 0xFFFF)

    def accepts(record: Record) -> bool:
        ports = [int(end.rpartition(":")[2]) for end in (record.src, record.dst) if end]
        if ranges.excluded and any(port not in Ranges((), ranges.excluded) for port in ports):
            return False
        return any(port in ranges for port in ports)

    return accepts


def with_problems(record: Record) -> bool:
    """Accept only frames with problems."""
    return bool(record.problems)
