"""Clauses: each reads one option's text and gives a test of one Record. A leading ``!`` excludes."""

import re
from collections.abc import Callable
from fnmatch import translate

from dcpdump.filter.error import FilterError
from dcpdump.filter.names import named_opcodes, named_statuses
from dcpdump.filter.ranges import Ranges, parse_ranges, words
from dcpdump.record import Record, seqno_range, seqnos

Clause = Callable[[Record], bool]


def by_opcode(text: str) -> Clause:
    """``mutation,deletion`` · ``DCP_MUTATION`` · ``0x57`` · ``!noop``."""
    wanted, excluded = named_opcodes(text)

    def accepts(record: Record) -> bool:
        key = (record.frame.magic.server, record.frame.header.opcode)
        return key not in excluded and (not wanted or key in wanted)

    return accepts


def by_vbucket(text: str) -> Clause:
    """Requests by their vbucket; responses by that of their request, where it was seen."""
    ranges = parse_ranges("--vbucket", text, 0xFFFF)
    return lambda record: record.vbucket is not None and record.vbucket in ranges


def by_seqno(text: str) -> Clause:
    """A frame that carries a seqno in the range; a marker or stream request whose range overlaps it."""
    ranges = parse_ranges("--seqno", text)

    def accepts(record: Record) -> bool:
        span = seqno_range(record.frame)
        if span is not None:
            return ranges.overlaps(*span)
        carried = list(seqnos(record.frame))
        return bool(carried) and any(number in ranges for number in carried)

    return accepts


def by_kind(text: str) -> Clause:
    """``request`` or ``response``."""
    return lambda record: record.frame.magic.kind == text


def by_status(text: str) -> Clause:
    """``rollback`` · ``0x23`` · ``!success``: responses only."""
    wanted, excluded = named_statuses(text)

    def accepts(record: Record) -> bool:
        status = record.frame.header.word
        return record.frame.magic.response and status not in excluded and (not wanted or status in wanted)

    return accepts


def by_key(text: str) -> Clause:
    """A glob (``user::*``) or ``/regular expression/`` over the key without its collection prefix."""
    negated = text.startswith("!")
    pattern = text[1:] if negated else text
    try:
        if len(pattern) > 1 and pattern.startswith("/") and pattern.endswith("/"):
            search = re.compile(pattern[1:-1].encode()).search
        else:
            search = re.compile(translate(pattern).encode()).match
    except re.error as error:
        raise FilterError(f"--key: {pattern!r} is no regular expression: {error}") from error

    def accepts(record: Record) -> bool:
        keys = [item.key for item in record.meaning.items]
        if record.meaning.key is not None:
            keys.append(record.meaning.key)
        return bool(keys) and any(search(key) is not None for key in keys) is not negated

    return accepts


def by_collection(text: str) -> Clause:
    """Documents of these collection ids, and the system events that name them."""
    ranges = parse_ranges("--collection", text, 0xFFFFFFFF)

    def accepts(record: Record) -> bool:
        ids = [item.collection for item in record.meaning.items]
        ids += [record.meaning.collection, record.frame.get("collection_id")]
        return any(number is not None and number in ranges for number in ids)

    return accepts


def by_opaque(text: str) -> Clause:
    """The four bytes of the opaque, read in the order of the wire."""
    ranges = parse_ranges("--opaque", text, 0xFFFFFFFF)
    return lambda record: record.frame.header.opaque in ranges


def by_stream_id(text: str) -> Clause:
    """Frames that carry the stream id, and the stream requests that ask for it."""
    ranges = parse_ranges("--stream-id", text, 0xFFFF)

    def accepts(record: Record) -> bool:
        sid = record.frame.stream_id
        if sid is None and isinstance(record.meaning.document, dict):
            asked = record.meaning.document.get("sid")
            sid = asked if isinstance(asked, int) else None
        return sid is not None and sid in ranges

    return accepts


def by_connection(text: str) -> Clause:
    """Connections by their number."""
    ranges = parse_ranges("--connection", text)
    return lambda record: record.connection is not None and record.connection in ranges


def by_host(text: str) -> Clause:
    """Frames from or to these addresses."""
    hosts_given = words("--host", text)
    wanted = {word.strip("[]") for word, negated in hosts_given if not negated}
    excluded = {word.strip("[]") for word, negated in hosts_given if negated}

    def accepts(record: Record) -> bool:
        hosts = {end.rpartition(":")[0].strip("[]") for end in (record.src, record.dst)}
        return not hosts & excluded and (not wanted or bool(hosts & wanted))

    return accepts


def by_port(text: str) -> Clause:
    """Frames from or to these TCP ports."""
    ranges = parse_ranges("--port", text, 0xFFFF)

    def accepts(record: Record) -> bool:
        ports = [int(end.rpartition(":")[2]) for end in (record.src, record.dst) if end]
        if ranges.excluded and any(port not in Ranges((), ranges.excluded) for port in ports):
            return False
        return any(port in ranges for port in ports)

    return accepts


def with_problems(record: Record) -> bool:
    """Only frames with problems."""
    return bool(record.problems)
