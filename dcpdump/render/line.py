"""Write one line a frame, in the notation of the specification's dialogues: ``RX snapshot-marker{start=1, end=8}``.

TX is what the consumer sends, RX what it receives.
"""

from dcpdump.escape import safe
from dcpdump.record import Record
from dcpdump.render.style import Line, LineKind
from dcpdump.spec.field import Bits, EnumValue, Field, Message, Sender
from dcpdump.spec.header import WORD_END
from dcpdump.spec.statuses import STATUS
from dcpdump.wire.frame import FieldValue, Section

#: Where the specification's dialogues use another word than its tables.
_WORDS = {"DCP_STREAM_REQ": "stream-request", "by_seqno": "seqno", "snapshot_type": "flags"}
_NEVER = (1 << 64) - 1
_ZERO_IS_ONE = ("collection_id", "scope_id")  #: what has an id of 0, too
_SHORTER = {"DCP_SNAPSHOT_MARKER": {"start_seqno": "start", "end_seqno": "end"}}


def lines(record: Record, value_bytes: int | None, when: str = "") -> list[Line]:
    """Return the frame as one line; ``value_bytes`` is how much of a value to show, ``when`` its time."""
    parts = [] if record.connection is None else [f"#{record.number}"]
    if when:
        parts.append(when)
    if record.connection is not None:
        parts.append(f"c{record.connection}")
    magic = record.frame.magic
    side = sending_side(record.frame.message, response=magic.response)
    if magic.server:  # whatever it is, a server asks with it
        side = "TX" if magic.response else "RX"
    parts += [side, _message(record)]
    if record.frame.raw.gap_before:
        parts.append(f"[after {record.frame.raw.gap_before:,} bytes lost or skipped]")
    if record.request is not None:
        parts.append(f"[{answers(record.request.frame, record.latency_ns)}]")
    if record.problems:
        parts.append("! " + "; ".join(safe(problem.text) for problem in record.problems))
    return [Line(LineKind.PROBLEM if record.problems else LineKind.FIELD, " ".join(parts))]


def sending_side(message: Message, *, response: bool) -> str:
    """Return TX or RX, which follows from the message: producers and servers have messages of their own."""
    asks = message.sender not in (Sender.PRODUCER, Sender.SERVER)
    return "TX" if asks is not response else "RX"


def dialogue_name(name: str) -> str:
    """Return a message's name as the dialogues have it: DCP_SNAPSHOT_MARKER is snapshot-marker."""
    return _WORDS.get(name) or name.removeprefix("DCP_").lower().replace("_", "-")


def _message(record: Record) -> str:
    frame = record.frame
    name = message_name(frame.message, frame.header.opcode, response=frame.magic.response)
    return f"{name}{{{', '.join(message_words(record))}}}"


def answers(request: int, latency_ns: int | None) -> str:
    """Return which request a frame answers, and after what time, where that is known."""
    after = "" if latency_ns is None else f" after {latency_ns / 1000:,.0f} us"
    return f"answers #{request}{after}"


def message_name(message: Message, opcode: int, *, response: bool) -> str:
    """Return what the dialogues call a message with this opcode, or the response to it."""
    name = dialogue_name(message.name) if message.name != "UNKNOWN" else f"unknown-0x{opcode:02x}"
    return f"{name}-response" if response else name


def message_words(record: Record, *, vbucket: bool = True) -> list[str]:
    """Return what a frame says, as words of the dialogues; ``vbucket``: with its vbucket."""
    frame, words = record.frame, []
    if frame.magic.response and len(frame.raw.data) >= WORD_END:
        status = STATUS.names.get(frame.header.vbucket_or_status)
        words.append(status.lower() if status else f"status=0x{frame.header.vbucket_or_status:04x}")
    if vbucket and record.vbucket is not None and (frame.message.streamed or frame.message.vbucket):
        words.append(f"vb={record.vbucket}")
    if frame.stream_id is not None:
        words.append(f"sid={frame.stream_id}")
    words += [word for field in frame.fields for word in _field(record, field)]
    words += [
        f"{field_name(frame.message.name, each)}=0(not sent)" for each in frame.unsent if each.name in _ZERO_IS_ONE
    ]
    words += _groups(record)
    if record.content.collection is not None:
        path = record.collection_path(record.content.collection)
        words.append(f"collection=0x{record.content.collection:x}" + (f"({path})" if path else ""))
    if record.content.key is not None:
        words.append(f"key={safe(record.content.key)}")
    return words + _value(record)


def _field(record: Record, value: FieldValue) -> list[str]:
    field = value.field
    if value.section not in (Section.EXTRAS, Section.VALUE) or value.group not in ("", "flat"):
        return []
    if not isinstance(field, Field):
        return []
    text = word(record.frame.message.name, field, value.value) if isinstance(value.value, int) else ""
    return [text] if text else []


def word(message: str, field: Field, number: int) -> str:
    """Return a field as ``name=value``; empty where the value is 0 and means no more than that."""
    if not number and not field.seqno and not isinstance(field.names, EnumValue) and field.name not in _ZERO_IS_ONE:
        return ""
    return f"{field_name(message, field)}={_number(field, number)}"


def field_name(message: str, field: Field) -> str:
    """Return what the dialogues call a field of a message."""
    name = _SHORTER.get(message, {}).get(field.name) or _WORDS.get(field.name, field.name)
    return name.replace("_", "-")


def is_decimal(field: Field) -> bool:
    """Return whether all numbers of a field are written in decimal, without words."""
    return field.names is None and not field.identity and field.name not in ("end_seqno", "flags")


def _groups(record: Record) -> list[str]:
    """Return repeated fields as text: ``features=XATTR|JSON``, ``failover-log=0xfeed:90|0xcafe:0``."""
    groups: dict[str, dict[int, list[str]]] = {}
    for value in record.frame.fields:
        if value.group in ("failover_log", "features", "seqnos") and isinstance(value.value, int):
            text = _number(value.field, value.value) if isinstance(value.field, Field) else ""
            groups.setdefault(value.group, {}).setdefault(value.item, []).append(text)
    out = [
        f"{name.replace('_', '-')}={'|'.join(':'.join(item) for item in items.values())}"
        for name, items in groups.items()
    ]
    keys = [safe(item.key) for item in record.content.items]
    return [*out, f"items={len(keys)}", f"keys={'|'.join(keys)}"] if keys else out


def _number(field: Field, number: int) -> str:
    if field.name == "end_seqno" and number == _NEVER:
        return "max"
    words = "|".join(field.names.describe(number)) if field.names else ""
    if isinstance(field.names, EnumValue) and words:
        return words
    text = f"0x{number:x}" if field.identity or isinstance(field.names, Bits) or field.name == "flags" else str(number)
    return f"{text}({words})" if words else text


def _value(record: Record) -> list[str]:
    frame, body = record.frame, record.content.body
    length = frame.value_length
    if frame.masked:
        return [f"value=<secret {length} B>"]
    if not length or isinstance(frame.layout.value, tuple):
        return []
    if body is not None and (not frame.message.document or frame.magic.response):
        return [f"value={safe(body.value)}"]
    return [f"value={length} B"]
